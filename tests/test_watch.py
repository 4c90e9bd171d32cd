"""`watch` tells the truth about any allocator: the course's own, a learner's in another style, and broken ones."""

from collections import deque
from copy import deepcopy
from heapq import heapify, heappop, heappush

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoserve import BlockAllocator, BlockTable, KVCacheExhausted
from nanoserve.course.view.watch import watch


class Queue:
    """First in, first out, and ids that are NumPy's."""

    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.waiting = deque(np.arange(num_blocks))
        self.out = set()

    def allocate(self):
        if not self.waiting:
            raise KVCacheExhausted("none left")
        self.out.add(block := self.waiting.popleft())
        return block

    def allocate_for(self, num_tokens):
        needed = -(-num_tokens // self.block_size)
        if needed > len(self.waiting):
            raise KVCacheExhausted("too few left")
        return np.array([self.allocate() for _ in range(needed)], dtype=int)

    def free(self, block_id):
        if block_id not in self.out:
            raise ValueError(f"{block_id} is not out")
        self.out.remove(block_id)
        self.waiting.append(block_id)

    def free_all(self, block_ids):
        block_ids = list(block_ids)
        if len(set(block_ids)) < len(block_ids) or not self.out.issuperset(block_ids):
            raise ValueError(f"not all of {block_ids} are out, once each")
        while block_ids:
            self.free(block_ids.pop())


class Lowest(Queue):
    """The lowest id first, and no `__dict__`."""

    __slots__ = ("block_size", "heap", "num_blocks", "out")

    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.heap = list(range(num_blocks))
        heapify(self.heap)

    @property
    def waiting(self):
        return self

    @waiting.setter
    def waiting(self, value):
        pass

    def __len__(self):
        return len(self.heap)

    def popleft(self):
        return heappop(self.heap)

    def append(self, block_id):
        heappush(self.heap, block_id)


class Slotted:
    """Allocates and frees one block at a time, within `__slots__`."""

    __slots__ = ("block_size", "ids", "num_blocks")

    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.ids = tuple(range(num_blocks))

    def allocate(self):
        first, *rest = self.ids  # an empty pool is a ValueError here: a learner's error may be of any kind
        self.ids = tuple(rest)
        return first

    def free(self, block_id):
        self.ids = (block_id, *self.ids)


class Careless(BlockAllocator):
    """Takes back whatever it is given."""

    def free(self, block_id):
        self._free.append(block_id)
        self._allocated.discard(block_id)

    def free_all(self, block_ids):
        for block_id in block_ids:
            self.free(block_id)


class Peeking(BlockAllocator):
    """Looks at the top of the stack and leaves it there."""

    def allocate(self):
        self._allocated.add(self._free[-1])
        return self._free[-1]


class Forgetful(BlockAllocator):
    """Takes blocks back and puts them nowhere."""

    def free(self, block_id):
        self._allocated.remove(block_id)


class Halfway(BlockAllocator):
    """Allocates until it cannot go on, and keeps what it took."""

    def allocate_for(self, num_tokens):
        return [self.allocate() for _ in range(-(-num_tokens // self.block_size))]


STYLES = [BlockAllocator, Queue, Lowest]


def texts(view):
    return [event.text for event in view.events]


def held(state):
    return {sequence.label: list(sequence.block_ids) for sequence in state.sequences}


def the_trace(allocator):
    """A, B and C fill six blocks, the next one finds none, A goes, D comes."""
    first = allocator.allocate_for(40)
    allocator.allocate_for(20)
    allocator.allocate_for(16)
    with pytest.raises(KVCacheExhausted):
        allocator.allocate_for(16)
    allocator.free_all(first)
    return allocator.allocate_for(30)


def test_the_trace_of_the_course_comes_out():
    allocator = BlockAllocator(6, 16)
    view = watch(allocator)
    assert the_trace(allocator) == [2, 1]
    raised = texts(view)[3]
    assert raised.startswith("allocate_for(16) raised KVCacheExhausted: ")
    assert texts(view) == [
        "A takes 40 tokens: blocks 0 1 2",
        "B takes 20 tokens: blocks 3 4",
        "C takes 16 tokens: block 5",
        raised,
        "A frees blocks 0 1 2; block 2 is next out",
        "D takes 30 tokens: blocks 2 1",
    ]
    assert held(view.state()) == {"B": [3, 4], "C": [5], "D": [2, 1]}
    assert [view.state(step).free for step in range(7)] == [
        (0, 1, 2, 3, 4, 5), (3, 4, 5), (5,), (), (), (2, 1, 0), (0,)
    ]  # fmt: skip
    assert [block.filled for block in view.state(1).sequences[0].blocks] == [16, 16, 8]
    assert view.state().peak == 6
    assert not view.state().faults


OPERATIONS = st.one_of(
    st.tuples(st.just("allocate"), st.none()),
    st.tuples(st.just("allocate_for"), st.integers(-2, 30)),
    st.tuples(st.just("free"), st.integers(-1, 8)),
    st.tuples(st.just("free_all"), st.lists(st.integers(0, 7), max_size=4)),
    st.tuples(st.just("free_owner"), st.integers(0, 5)),
)


@pytest.mark.parametrize("make", STYLES)
@given(st.integers(1, 8), st.integers(1, 5), st.lists(OPERATIONS, max_size=25))
def test_what_is_recorded_is_what_happened(make, num_blocks, block_size, operations):
    """A twin that nobody watches gives the same answers, and the state is what the answers say."""
    watched, twin = make(num_blocks, block_size), make(num_blocks, block_size)
    view = watch(watched)
    owners: list[list[int]] = []
    most = 0
    for name, argument in operations:
        if name == "free_owner":
            if not owners:
                continue
            name, argument = "free_all", owners[argument % len(owners)]
        answers = []
        for allocator in (watched, twin):
            arguments = () if argument is None else (list(argument) if isinstance(argument, list) else argument,)
            try:
                answers.append(getattr(allocator, name)(*arguments))
            except Exception as error:
                answers.append((type(error), str(error)))
        assert np.array_equal(*answers)
        failed = isinstance(answers[0], tuple)
        if not failed and name in ("allocate", "allocate_for"):
            owners.append([int(block_id) for block_id in np.atleast_1d(answers[0])])
        elif not failed:
            gone = argument if isinstance(argument, list) else [argument]
            owners = [[block_id for block_id in owner if block_id not in gone] for owner in owners]
        owners = [owner for owner in owners if owner]
        most = max(most, sum(map(len, owners)))
        state = view.state()
        assert [list(sequence.block_ids) for sequence in state.sequences] == owners
        assert (view.events[-1].kind == "error") == failed
        assert state.faults == {}
        assert state.peak == most
    coming = []
    for _ in range(view.state().num_free):
        coming.append(int(twin.allocate()))
    assert view.state().free == tuple(coming)


@pytest.mark.parametrize("make", [*STYLES, Slotted])
def test_a_watched_allocator_is_still_of_its_class(make):
    allocator, other = make(4, 2), make(4, 2)
    view = watch(allocator)
    assert isinstance(allocator, make)
    assert type(allocator).__name__ == make.__name__
    other.allocate()
    deepcopy(allocator).allocate()
    assert view.events == []
    allocator.allocate()
    assert len(view.events) == 1


def test_an_allocator_with_only_one_method_is_watched():
    class OnlyAllocate:
        num_blocks, block_size = 2, 16

        def __init__(self):
            self.ids = [1, 0]

        def allocate(self):
            return self.ids.pop()

    allocator = OnlyAllocate()
    view = watch(allocator)
    allocator.allocate()
    assert held(view.state()) == {"A": [0]}
    assert view.state().free == (1,)
    assert view.state().num_tokens is None


def test_an_error_is_an_event_and_reaches_the_caller():
    class Own(Exception):
        pass

    class Broken(BlockAllocator):
        def allocate_for(self, num_tokens):
            raise Own("my own words")

        def free(self, block_id):
            raise NotImplementedError

    allocator = Broken(2, 2)
    view = watch(allocator)
    with pytest.raises(Own, match="my own words"):
        allocator.allocate_for(num_tokens=3)
    with pytest.raises(NotImplementedError):
        allocator.free(1)
    allocator.allocate()
    assert texts(view) == [
        "allocate_for(num_tokens=3) raised Own: my own words",
        "free(1) raised NotImplementedError",
        "A takes block 0",
    ]


def test_a_failed_call_uses_no_letter_and_a_letter_never_comes_again():
    allocator = BlockAllocator(2, 4)
    view = watch(allocator)
    allocator.free_all(allocator.allocate_for(8))
    with pytest.raises(KVCacheExhausted):
        allocator.allocate_for(9)
    allocator.allocate_for(0)
    allocator.allocate()
    assert held(view.state()) == {"B": [1]}


def test_after_z_comes_aa():
    allocator = BlockAllocator(28, 1)
    view = watch(allocator)
    for _ in range(28):
        allocator.allocate()
    assert list(held(view.state()))[-3:] == ["Z", "AA", "AB"]


def test_a_sequence_can_be_named():
    allocator = BlockAllocator(6, 4)
    view = watch(allocator)
    with view.sequence("B"):
        allocator.allocate_for(5)
        allocator.allocate_for(2)
    allocator.allocate()
    allocator.allocate()
    assert held(view.state()) == {"B": [0, 1, 2], "A": [3], "C": [4]}
    assert view.state().sequences[0].num_tokens == 7


def test_blocks_go_back_from_whoever_holds_them():
    allocator = BlockAllocator(6, 4)
    view = watch(allocator)
    first, second = allocator.allocate_for(8), allocator.allocate_for(8)
    allocator.free_all([first[1], second[0]])
    assert held(view.state()) == {"A": [0], "B": [3]}
    assert texts(view)[-1] == "A and B free blocks 1 2; block 2 is next out"


def test_an_iterator_and_a_list_that_is_emptied_are_read_in_time():
    allocator = Queue(6, 4)
    view = watch(allocator)
    allocator.free_all(iter(allocator.allocate_for(8)))
    allocator.free_all(block_ids=list(allocator.allocate_for(8)))
    assert not view.state().sequences
    assert not view.state().faults


def test_a_followed_table_tells_slots_blocks_and_texts():
    allocator = BlockAllocator(4, 4)
    view = watch(allocator)
    table = BlockTable(allocator)
    view.follow("A", table, ["Paged", " attention", " keeps", " keys", " and"])
    table.append(3)
    table.append()
    table.append()
    assert texts(view) == [
        "A appends 3 tokens, grows into block 0",
        "A appends “·keys” in slot 3",
        "A appends “·and” in slot 4, grows into block 1",
    ]
    assert [event.kind for event in view.events] == ["take", "append", "take"]
    assert [block.texts for block in view.state().sequences[0].blocks] == [
        ("Paged", " attention", " keeps", " keys"),
        (" and",),
    ]
    table.free()
    assert texts(view)[-1] == "A frees blocks 0 1; block 1 is next out"
    assert not view.state().sequences
    assert all(view.state(step).room_for_text for step in range(5))


def test_texts_may_grow_along_with_a_table():
    allocator = BlockAllocator(4, 4)
    view = watch(allocator)
    table, tokens = BlockTable(allocator), []
    view.follow("A", table, tokens)
    for token in ("one", " two"):
        tokens.append(token)
        table.append()
    assert view.state(1).sequences[0].blocks[0].texts == ("one",)
    assert view.state(2).sequences[0].blocks[0].texts == ("one", " two")


def test_an_append_that_finds_no_room_is_an_event_and_changes_nothing():
    allocator = BlockAllocator(2, 4)
    view = watch(allocator)
    table = BlockTable(allocator)
    view.follow("A", table)
    table.append(7)
    with pytest.raises(KVCacheExhausted):
        table.append(2)
    assert texts(view)[-1].startswith("A.append(2) raised KVCacheExhausted: ")
    assert view.state().sequences == view.state(1).sequences


def test_a_table_that_holds_tokens_already_keeps_its_own():
    allocator = BlockAllocator(6, 4)
    view = watch(allocator)
    table = BlockTable(allocator)
    table.append(6)
    view.follow("Q", table)
    assert held(view.state()) == {"Q": [0, 1]}
    assert view.state().num_tokens == 6


def test_a_block_that_a_table_forgets_is_lost():
    class Leaky(BlockTable):
        def append(self, num_tokens=1):
            super().append(num_tokens)
            self.block_ids = self.block_ids[:1]

    allocator = BlockAllocator(4, 4)
    view = watch(allocator)
    table = Leaky(allocator)
    view.follow("A", table)
    table.append(5)
    assert view.state().faults == {1: "lost"}


def test_a_block_handed_out_while_it_is_owned():
    allocator = Peeking(4, 4)
    view = watch(allocator)
    allocator.allocate()
    allocator.allocate()
    assert view.state().faults[0] == "handed out twice"
    assert view.events[1].kind == "fault"
    assert "block 0 is handed out twice" in texts(view)[1]


def test_a_double_free_that_nobody_minds():
    allocator = Careless(4, 4)
    view = watch(allocator)
    block = allocator.allocate()
    allocator.free(block)
    assert not view.state().faults
    allocator.free(block)
    assert view.state().faults == {0: "freed twice"}
    assert view.events[-1].kind == "fault"
    assert texts(view)[-1] == "free(0) raised nothing, but nobody held block 0"
    first, second = allocator.allocate(), allocator.allocate()
    assert first == second == 0
    assert view.state().faults == {0: "handed out twice"}


def test_a_double_free_within_one_list():
    allocator = Careless(4, 4)
    view = watch(allocator)
    allocator.allocate_for(8)
    allocator.free_all([0, 0])
    assert view.state().faults[0] == "freed twice"


def test_a_block_that_never_comes_back_is_lost():
    allocator = Forgetful(4, 4)
    view = watch(allocator)
    allocator.free_all(allocator.allocate_for(8))
    assert view.state().faults == {0: "lost", 1: "lost"}
    assert texts(view)[-1].endswith("blocks 0 1 are lost")


def test_an_exhausted_request_that_kept_what_it_took():
    allocator = Halfway(2, 4)
    view = watch(allocator)
    with pytest.raises(KVCacheExhausted):
        allocator.allocate_for(12)
    assert view.state().faults == {0: "lost", 1: "lost"}
    assert view.events[-1].kind == "fault"
    assert texts(view)[-1].startswith("allocate_for(12) raised KVCacheExhausted; blocks 0 1 are lost: ")


@pytest.mark.parametrize(("answer", "words"), [(None, "None"), ("0", "'0'"), (1.0, "1.0"), ([None], "[None]")])
def test_an_answer_that_names_no_block_is_told(answer, words):
    class Odd(BlockAllocator):
        def allocate_for(self, num_tokens):
            return answer

    allocator = Odd(2, 4)
    view = watch(allocator)
    assert allocator.allocate_for(3) is answer
    assert texts(view) == [f"allocate_for(3) returned {words}, not a list of block ids"]
    assert view.events[0].kind == "fault"


def test_a_block_that_the_pool_does_not_have_is_told():
    class Beyond(BlockAllocator):
        def allocate(self):
            return self.num_blocks

    allocator = Beyond(2, 4)
    view = watch(allocator)
    allocator.allocate()
    assert texts(view)[0].startswith("A takes block 2; block 2 is not in the pool")
    assert view.events[0].kind == "fault"


def test_a_pool_that_counts_from_one_is_told():
    allocator = BlockAllocator(3, 4)
    allocator._free = [3, 2, 1]
    assert watch(allocator).state().faults == {0: "lost", 3: "not in the pool"}


def test_an_allocator_that_keeps_its_blocks_on_the_class_is_not_drained():
    class Shared:
        num_blocks, block_size = 3, 4
        ids = [2, 1, 0]  # noqa: RUF012

        def allocate(self):
            return self.ids.pop()

    allocator = Shared()
    view = watch(allocator)
    assert allocator.allocate() == 0
    assert Shared.ids == [2, 1]
    assert view.state().free is None
    assert view.state().num_free == 2


def test_a_learners_print_is_heard_once(capsys):
    class Chatty(BlockAllocator):
        def allocate(self):
            print("taking one")
            return super().allocate()

    allocator = Chatty(4, 4)
    watch(allocator)
    allocator.allocate()
    assert capsys.readouterr().out == "taking one\n"


def test_a_table_that_is_not_written_yet_does_not_stumble():
    class Unwritten:
        block_ids, num_tokens = None, None

        def append(self, num_tokens=1):
            pass

    view = watch(BlockAllocator(4, 4))
    table = Unwritten()
    view.follow("A", table)
    table.append(3)
    assert texts(view) == ["A appends 0 tokens"]


def test_an_order_that_cannot_be_found_out_is_unknown():
    class Uncopied(Slotted):
        def __deepcopy__(self, memo):
            raise TypeError("one of a kind")

    view = watch(Uncopied(3, 4))
    view.allocator.allocate()
    view.allocator.free(0)
    view.allocator.free(0)
    assert view.state().free is None
    assert view.state().faults == {0: "freed twice"}


def test_blocks_that_were_out_before_belong_to_someone():
    allocator = BlockAllocator(4, 4)
    allocator.allocate_for(8)
    view = watch(allocator)
    assert held(view.state()) == {"?": [0, 1]}
    assert not view.state().faults
    allocator.free_all([0, 1])
    assert not view.state().sequences


def test_a_pool_and_a_cache_are_watched_by_what_they_hold():
    class Holder:
        def __init__(self, **parts):
            self.__dict__.update(parts)

    allocator = BlockAllocator(4, 4)
    view = watch(Holder(allocator=allocator))
    assert view.allocator is allocator
    cache = Holder(table=BlockTable(allocator))
    view.follow("A", cache)
    cache.table.append(5)
    assert view.state().num_tokens == 5


def test_what_cannot_be_watched_is_told_why():
    with pytest.raises(TypeError, match=r"watch\(BlockAllocator\(6, 16\)\)"):
        watch(BlockAllocator)
    with pytest.raises(TypeError, match="a list cannot be watched: it has no num_blocks and no block_size"):
        watch([])


def test_two_watches_of_one_allocator_both_see_it():
    allocator = BlockAllocator(4, 4)
    views = watch(allocator), watch(allocator)
    allocator.allocate_for(5)
    assert texts(views[0]) == texts(views[1]) == ["A takes 5 tokens: blocks 0 1"]


def test_a_picture_is_saved_as_the_path_says(tmp_path):
    allocator = BlockAllocator(4, 4)
    view = watch(allocator)
    allocator.allocate_for(5)
    view.save(tmp_path / "pool.svg", theme="dark")
    view.save(tmp_path / "pool.png", step=0, scale=1)
    assert "step 1 of 1" in (tmp_path / "pool.svg").read_text()
    assert (tmp_path / "pool.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"pool\.jpg"):
        view.save(tmp_path / "pool.jpg")
    with pytest.raises(IndexError):
        view.save(tmp_path / "pool.svg", step=2)
