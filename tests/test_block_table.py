"""Day 15: the block table, alone and beside others over one pool."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nanoserve import BlockAllocator, BlockTable, KVCacheExhausted


def slots(table):
    return [table.slot(p) for p in range(table.num_tokens)]


def test_position_17_followed_to_its_slot():
    allocator = BlockAllocator(8, 16)
    other = allocator.allocate_for(3 * 16)
    table = BlockTable(allocator)
    table.append(16)
    allocator.free_all(other)
    table.append(4)
    assert table.block_ids == [3, 2]
    assert table.position(17) == (2, 1)
    assert table.slot(17) == 2 * 16 + 1


@pytest.mark.parametrize("num_free", [0, 1])
def test_a_block_is_due_when_a_position_has_none_and_not_before(num_free):  # trap 3
    allocator = BlockAllocator(1 + num_free, 4)
    table = BlockTable(allocator)
    for _ in range(4):
        table.append()
    assert table.block_ids == [0]
    if num_free:
        table.append()
        assert table.block_ids == [0, 1]
    else:
        with pytest.raises(KVCacheExhausted):
            table.append()
        assert (table.block_ids, table.num_tokens) == ([0], 4)


@pytest.mark.parametrize("block_size", [1, 3, 4, 16])
def test_any_length_holds_the_exact_ceiling_of_blocks(block_size):  # trap 3
    for num_tokens in {0, 1, block_size - 1, block_size, block_size + 1, 2 * block_size}:
        table = BlockTable(BlockAllocator(8, block_size))
        table.append(num_tokens)
        assert len(table.block_ids) == len({p // block_size for p in range(num_tokens)})


def test_exhaustion_in_the_middle_of_a_growth_takes_nothing():  # trap 4
    allocator = BlockAllocator(3, 4)
    table = BlockTable(allocator)
    table.append(6)
    before = slots(table)
    with pytest.raises(KVCacheExhausted):
        table.append(7)
    assert (table.num_tokens, slots(table), allocator.num_free) == (6, before, 1)
    table.append(6)
    assert slots(table) == [*before, *range(6, 12)]


def test_freeing_twice_gives_nothing_back_twice():
    allocator = BlockAllocator(4, 4)
    table, other = BlockTable(allocator), BlockTable(allocator)
    table.append(9)
    table.free()
    other.append(9)
    table.free()
    assert (table.num_tokens, table.block_ids, allocator.num_free) == (0, [], 1)


@pytest.mark.parametrize("p", [-1, 5, 7, 8, 100])
def test_a_position_outside_the_sequence_is_an_index_error(p):
    table = BlockTable(BlockAllocator(4, 4))
    table.append(5)
    for read in (table.position, table.slot):
        with pytest.raises(IndexError, match=f"position {p} is outside a sequence of length 5"):
            read(p)


def test_a_sequence_does_not_shrink():
    table = BlockTable(BlockAllocator(4, 4))
    table.append(5)
    with pytest.raises(ValueError, match="got -1"):
        table.append(-1)
    assert table.num_tokens == 5


@given(st.integers(1, 7), st.lists(st.integers(0, 9), max_size=8))
def test_growing_by_steps_and_growing_at_once_land_on_the_same_slots(block_size, steps):
    total = sum(steps)
    stepwise, whole, by_ones = (BlockTable(BlockAllocator(total + 1, block_size)) for _ in range(3))
    for step in steps:
        stepwise.append(step)
    whole.append(total)
    for _ in range(total):
        by_ones.append()
    assert slots(stepwise) == slots(whole) == slots(by_ones) == list(range(total))


class TablesMachine(RuleBasedStateMachine):
    """Three tables over one pool, against dictionaries that are filled position by position."""

    @initialize(num_blocks=st.integers(1, 9), block_size=st.integers(1, 5))
    def build(self, num_blocks, block_size):
        self.allocator = BlockAllocator(num_blocks, block_size)
        self.tables = [BlockTable(self.allocator) for _ in range(3)]
        self.stack = list(range(num_blocks))[::-1]
        self.blocks = [[], [], []]
        self.lengths = [0, 0, 0]

    @rule(which=st.integers(0, 2), num_tokens=st.integers(0, 12))
    def append(self, which, num_tokens):
        size, blocks, length = self.allocator.block_size, self.blocks[which], self.lengths[which]
        homeless = {p // size for p in range(length, length + num_tokens)} - set(range(len(blocks)))
        if len(homeless) <= len(self.stack):
            self.tables[which].append(num_tokens)
            blocks += [self.stack.pop() for _ in homeless]
            self.lengths[which] += num_tokens
        else:
            with pytest.raises(KVCacheExhausted):
                self.tables[which].append(num_tokens)

    @rule(which=st.integers(0, 2))
    def free(self, which):
        self.tables[which].free()
        self.stack += self.blocks[which]
        self.blocks[which], self.lengths[which] = [], 0

    @invariant()
    def every_position_has_a_slot_of_its_own(self):
        if not hasattr(self, "tables"):
            return
        size = self.allocator.block_size
        for table, blocks, length in zip(self.tables, self.blocks, self.lengths, strict=True):
            assert (table.block_ids, table.num_tokens) == (blocks, length)
            assert slots(table) == [blocks[p // size] * size + p % size for p in range(length)]
        together = [slot for table in self.tables for slot in slots(table)]
        assert len(set(together)) == len(together)
        assert self.allocator.num_free == len(self.stack)


class TestAnySequenceOfCalls(TablesMachine.TestCase):
    settings = settings(max_examples=100, stateful_step_count=40)


def test_a_block_freed_through_another_sequences_table_is_an_error_and_changes_nothing():  # trap 1
    allocator = BlockAllocator(num_blocks=6, block_size=4)
    mine, copied = BlockTable(allocator), BlockTable(allocator)
    mine.append(8)
    copied.block_ids, copied.num_tokens = list(mine.block_ids), 8  # the fault: two tables own the same blocks
    copied.free()
    again = BlockTable(allocator)
    again.append(2)
    with pytest.raises(ValueError, match="block 0 is not allocated"):
        mine.free()
    assert (allocator.num_free, allocator.num_used) == (5, 1)
