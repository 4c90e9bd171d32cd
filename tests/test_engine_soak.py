"""Days 22 to 24: whatever happens to an engine, and in whatever order, no block, slot, token or request is lost."""

from functools import cache

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from nanoserve import Engine, KVCacheExhausted, KVPool, PagedSlotKVCache, SlotKVCache, generate
from nanoserve.model import Attention
from tests.test_prefill import prompt_of

NUM_BLOCKS, BLOCK_SIZE, NUM_SLOTS = 8, 3, 3  # beside scratch
MAX_LEN = NUM_BLOCKS * BLOCK_SIZE
SAMPLING = ({}, {"temperature": 1.0, "seed": 1}, {"temperature": 0.8, "top_k": 5, "seed": 2})


class DeviceLostError(Exception):
    pass


class Soak(RuleBasedStateMachine):
    """An engine over a small pool, which others use too, with a model that fails now and then."""

    model = None  # the test sets these two
    texts = None

    def __init__(self):
        super().__init__()
        self.slots = self.make_slots()
        self.engine = Engine(self.model, self.slots)
        self.requests = []  # (request, what it says alone)
        self.streams = []  # (stream, what it has said, what it says alone)
        self.others = []
        self.calls_left = None  # of the model's layers, until it raises

        def attention(layer, *args):
            if self.calls_left is not None:
                self.calls_left -= 1
                if self.calls_left < 0:
                    raise DeviceLostError
            return self.forward(layer, *args)

        Attention.forward = attention

    forward = staticmethod(Attention.forward)

    @staticmethod
    def make_slots():
        return PagedSlotKVCache(KVPool.for_model(Soak.model, NUM_BLOCKS + 1, BLOCK_SIZE), NUM_SLOTS)

    @rule(
        several=st.lists(
            st.tuples(st.integers(1, 12), st.integers(0, 12), st.sampled_from(range(len(SAMPLING))), st.booleans()),
            min_size=1,
            max_size=4,
        )
    )
    def submit(self, several):
        for length, count, sampling, streamed in several:
            expected = self.texts(length, count, sampling)
            request = self.engine.submit(prompt_of(length, sampling), count, **SAMPLING[sampling])
            if streamed:
                self.streams.append((self.engine.stream(request), [], expected, request))
            self.requests.append((request, expected))

    @rule(length=st.integers(1, 24))
    def submit_what_never_fits(self, length):
        with pytest.raises(ValueError, match=f"can have room for {MAX_LEN}"):
            self.engine.submit(prompt_of(length), MAX_LEN - length + 2)

    @precondition(lambda self: self.engine.scheduler.requests)
    @rule(data=st.data())
    def submit_an_id_that_is_taken(self, data):
        taken = data.draw(st.sampled_from(sorted(self.engine.scheduler.requests)))
        with pytest.raises(ValueError, match="is taken"):
            self.engine.submit([1], 1, request_id=taken)

    def stepped(self, step):
        """Whether the step went well; what it may raise is a model that fails, and others who hold the pool."""
        try:
            step()
        except KVCacheExhausted:
            assert self.others
            assert not self.engine.scheduler.running
        except DeviceLostError:
            assert self.calls_left < 0
        else:
            return True
        finally:
            self.calls_left = None
        return False

    @rule(times=st.integers(1, 5))
    def step(self, times):
        for _ in range(times):
            self.stepped(self.engine.step)

    @rule(layers=st.integers(0, 3))
    def step_with_a_model_that_fails(self, layers):
        self.calls_left = layers
        self.stepped(self.engine.step)

    @precondition(lambda self: self.streams)
    @rule(data=st.data(), layers=st.none() | st.integers(0, 3))
    def read_a_stream(self, data, layers):
        at = data.draw(st.integers(0, len(self.streams) - 1))
        stream, said, expected, request = self.streams[at]
        self.calls_left = layers
        if self.stepped(lambda: said.extend([token] if (token := next(stream, None)) is not None else [])):
            assert said == expected[: len(said)]
        elif request.state != "aborted":  # the prefill ended it, before the decode step for the others failed
            assert (request.state, request.tokens) == ("finished", expected)

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def leave_a_stream(self, data):
        stream, said, _, request = self.streams.pop(data.draw(st.integers(0, len(self.streams) - 1)))
        stream.close()
        assert not said or not request.is_here

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def abort(self, data):
        request, _ = data.draw(st.sampled_from(self.requests))
        was_here = request.is_here
        assert self.engine.abort(request.id) == was_here
        assert not request.is_here

    @precondition(lambda self: self.slots.allocator.num_free)
    @rule(data=st.data())
    def others_take_blocks(self, data):
        number = data.draw(st.integers(1, min(3, self.slots.allocator.num_free)))
        self.others += self.slots.allocator.allocate_for(number * self.slots.allocator.block_size)

    @rule()
    def others_give_back(self):
        self.slots.allocator.free_all(self.others)
        self.others = []

    @invariant()
    def each_block_is_free_or_has_one_owner(self):
        allocator, tables = self.slots.allocator, self.slots.tables
        owned = [block for table in tables.values() for block in table.block_ids] + self.others
        if isinstance(self.slots, PagedSlotKVCache):
            owned.append(self.slots.scratch)
        assert sorted(owned + allocator._free) == list(range(allocator.num_blocks))
        assert allocator.num_used == len(owned)

    @invariant()
    def each_slot_is_free_or_has_one_owner(self):
        scheduler = self.engine.scheduler
        assert sorted([*self.slots.tables, *self.slots.free_slots()]) == list(range(NUM_SLOTS))
        assert set(self.slots.tables) == set(scheduler.running)
        for slot in self.slots.free_slots():
            assert self.slots.lengths[slot] == self.slots.offsets[slot] == 0
        for slot, request in scheduler.running.items():
            assert (request.slot, request.state) == (slot, "running")
            assert self.slots.lengths[slot] == len(request.token_ids) - 1
        assert all((request.slot, request.state) == (None, "waiting") for request in scheduler.waiting)

    @invariant()
    def each_request_is_in_one_place_in_the_order_of_arrival(self):
        scheduler = self.engine.scheduler
        order = [*scheduler.running.values(), *scheduler.waiting]
        assert [request.id for request in order] == list(scheduler.requests)
        assert order == [request for request, _ in self.requests if request.is_here]

    @invariant()
    def nobody_says_anything_else_than_alone(self):
        for request, expected in self.requests:
            assert request.tokens == expected[: len(request.tokens)]
            assert request.state != "finished" or request.tokens == expected

    def teardown(self):
        try:
            self.others_give_back()
            self.engine.run()
            for request, expected in self.requests:
                assert request.state == "aborted" or request.tokens == expected
            assert self.engine.stats.tokens == sum(len(request.tokens) for request, _ in self.requests)
            self.slots.free()
            assert self.slots.allocator.num_used == 0
        finally:
            Attention.forward = self.forward


class SoakOfRows(Soak):
    """The same over contiguous rows."""

    @staticmethod
    def make_slots():
        return SlotKVCache(Soak.model, NUM_SLOTS, MAX_LEN)


@pytest.mark.parametrize("machine", [Soak, SoakOfRows])
def test_nothing_is_lost_whatever_happens(tiny, machine):
    Soak.model = tiny

    @cache
    def text(length, count, sampling):
        return generate(tiny, prompt_of(length, sampling), count, **SAMPLING[sampling])

    Soak.texts = staticmethod(text)
    run_state_machine_as_test(machine, settings=settings(max_examples=150, stateful_step_count=40))
