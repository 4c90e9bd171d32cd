"""What a state says about itself, against counting by hand."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nanoserve.course.view.state import HeldBlock, PoolSequence, PoolState, describe


@st.composite
def pool_states(draw):
    """Pools sound and broken: blocks held twice, free twice, lost, filled or not known to be."""
    num_blocks, block_size = draw(st.integers(1, 70)), draw(st.integers(1, 33))
    block = st.builds(
        HeldBlock,
        st.integers(0, num_blocks - 1),
        st.none() | st.integers(0, block_size),
        st.lists(st.text(max_size=20), max_size=block_size).map(tuple),
    )
    labels = draw(
        st.lists(st.sampled_from("ABCDEFGHIJKLM") | st.text("xyz-WM10", min_size=1), unique=True, max_size=12)
    )
    sequences = [PoolSequence(label, tuple(draw(st.lists(block, min_size=1, max_size=4)))) for label in labels]
    free = draw(st.none() | st.lists(st.integers(0, num_blocks - 1), max_size=num_blocks).map(tuple))
    return PoolState(num_blocks, block_size, tuple(sequences), free, peak=draw(st.integers(0, num_blocks)))


def test_tokens_fill_a_sequence_from_its_first_block_on():
    sequence = PoolSequence.of("A", [5, 0, 2], 9, 4, ["a", "b", "c", "d", "e"])
    assert [block.filled for block in sequence.blocks] == [4, 4, 1]
    assert [block.texts for block in sequence.blocks] == [("a", "b", "c", "d"), ("e",), ()]
    assert sequence.num_tokens == 9


@given(pool_states())
def test_counters_equal_a_recount(state):
    held = [block for sequence in state.sequences for block in sequence.blocks]
    used = {block.block_id for block in held}
    free = set(range(state.num_blocks)) if state.free is None else set(state.free)
    assert state.num_used == len(used)
    assert state.num_free == len(free - used)
    assert state.num_lost == list(state.faults.values()).count("lost")
    known = all(block.filled is not None for block in held)
    assert state.num_tokens == (sum(block.filled for block in held) if known else None)


@given(pool_states(), st.sets(st.integers(-9, -1)))
def test_used_free_and_lost_blocks_are_the_whole_pool(state, strangers):
    if state.free is not None:
        state = replace(state, free=(*state.free, *strangers))
    counts = (state.num_used, state.num_free, state.num_lost)
    assert min(counts) >= 0
    assert sum(counts) == state.num_blocks


@given(pool_states())
def test_a_block_is_sound_when_it_is_in_exactly_one_place(state):
    places = [block_id for sequence in state.sequences for block_id in sequence.block_ids] + list(state.free or ())
    for block_id in range(state.num_blocks):
        times = places.count(block_id)
        sound = times == 1 or (times == 0 and state.free is None)
        assert (block_id in state.faults) == (not sound)


def test_each_fault_has_its_own_words():
    a, b = PoolSequence.of("A", [0, 1], 2, 1), PoolSequence.of("B", [1, 2], 2, 1)
    state = PoolState(5, 1, (a, b), free=(2, 3, 3))
    assert state.faults == {1: "handed out twice", 2: "in use, yet free", 3: "free twice", 4: "lost"}
    assert replace(state, freed_twice=(3,)).faults[3] == "freed twice"
    assert replace(state, free=(5, -1)).faults[5] == "not in the pool"


def test_what_is_not_known_is_not_called_a_fault():
    assert PoolState(5, 1, (PoolSequence.of("A", [0], 1, 1),), free=None).faults == {}


def test_the_description_says_who_holds_what_and_what_is_next():
    state = PoolState(6, 16, (PoolSequence.of("A", [0, 1, 2], 40, 16),), (3, 4, 5), 3)
    assert describe(state) == (
        "Pool of 6 blocks of 16 slots: 3 free, 3 used, peak 3. A holds blocks 0 1 2 with 40 tokens. Next out: 3 4 5."
    )


def test_the_description_of_a_large_or_broken_pool_stays_short():
    state = PoolState(100, 16, free=tuple(range(1, 98)))
    assert describe(state) == (
        "Pool of 100 blocks of 16 slots: 97 free, 0 used, 3 lost, peak 0. "
        "Next out: 1 2 3 4 5 6 7 8 9 10 11 12 …. Blocks 0 98 99 are lost."
    )
    many = [
        PoolSequence.of(letter, range(20 * place, 20 * place + 20), 320, 16)
        for place, letter in enumerate("ABCDEFGHIJ")
    ]
    told = describe(PoolState(200, 16, tuple(many)))
    assert "H holds blocks 140 141 142 143 144 145 146 147 148 149 150 151 and 8 more with 320 tokens." in told
    assert told.endswith("2 more sequences hold 40 blocks.")
