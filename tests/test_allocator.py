"""Day 14: the allocator, against a model that is nothing but a list and a set."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nanoserve import BlockAllocator, KVCacheExhausted

BLOCK_IDS = st.integers(-1, 9) | st.sampled_from([0.0, 1.0, False, True])  # the last four equal a block's id


def counts(allocator):
    return allocator.num_free, allocator.num_used, allocator.peak_used


def test_the_trace_of_the_course():
    allocator = BlockAllocator(6, 16)
    a = allocator.allocate_for(40)
    assert a == [0, 1, 2]
    assert allocator.allocate_for(20) == [3, 4]
    assert allocator.allocate_for(16) == [5]
    with pytest.raises(KVCacheExhausted):
        allocator.allocate()
    allocator.free_all(a)
    assert allocator.allocate_for(30) == [2, 1]
    assert counts(allocator) == (1, 5, 6)


def test_a_fresh_pool_hands_out_0_1_2():
    allocator = BlockAllocator(5, 4)
    assert [allocator.allocate() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_freed_block_is_the_next_one_out():
    allocator = BlockAllocator(8, 4)
    blocks = [allocator.allocate() for _ in range(8)]
    for block in (3, 6):
        allocator.free(block)
    assert [allocator.allocate(), allocator.allocate()] == [6, 3]
    allocator.free_all(blocks)
    assert [allocator.allocate() for _ in range(8)] == blocks[::-1]


def test_a_block_freed_twice_is_an_error_that_names_it_and_changes_nothing():  # trap 1
    allocator = BlockAllocator(4, 16)
    mine, theirs = allocator.allocate_for(32), allocator.allocate_for(16)
    allocator.free_all(theirs)
    before = counts(allocator)
    with pytest.raises(ValueError, match="block 2 "):
        allocator.free(theirs[0])
    with pytest.raises(ValueError, match="block 2 "):
        allocator.free_all([*mine, *theirs])
    assert counts(allocator) == before


def test_no_id_is_out_twice_after_the_user_caught_a_double_free_and_went_on():  # trap 2
    allocator = BlockAllocator(3, 16)
    first = allocator.allocate()
    allocator.free(first)
    with pytest.raises(ValueError, match="block 0 "):
        allocator.free(first)
    with pytest.raises(ValueError, match="block 0 "):
        allocator.free_all([first, first])
    assert sorted(allocator.allocate() for _ in range(3)) == [0, 1, 2]
    with pytest.raises(KVCacheExhausted):
        allocator.allocate()


@pytest.mark.parametrize("block_id", [-1, 3, 4, 10**9])
def test_a_block_that_was_never_out_cannot_come_back(block_id):
    allocator = BlockAllocator(4, 16)
    allocator.allocate_for(48)
    with pytest.raises(ValueError, match=f"block {block_id} "):
        allocator.free(block_id)
    assert counts(allocator) == (1, 3, 3)


@pytest.mark.parametrize("not_an_id", [0.0, 1.0, False, True, "0", None, [0]])
def test_what_is_no_int_is_no_block_though_it_equal_one_that_is_out(not_an_id):
    allocator = BlockAllocator(4, 16)
    allocator.allocate_for(48)
    for free in (allocator.free, lambda block_id: allocator.free_all([2, block_id])):
        with pytest.raises(ValueError, match=re.escape(f"block {not_an_id} ")):
            free(not_an_id)
    assert counts(allocator) == (1, 3, 3)
    assert allocator.allocate() == 3


def test_a_list_with_a_duplicate_goes_back_not_at_all():
    allocator = BlockAllocator(4, 16)
    blocks = allocator.allocate_for(48)
    with pytest.raises(ValueError, match="block 1 "):
        allocator.free_all([*blocks, 1])
    assert counts(allocator) == (1, 3, 3)
    allocator.free_all(iter(blocks))
    assert counts(allocator) == (4, 0, 3)


@pytest.mark.parametrize("block_size", [1, 3, 4, 16])
def test_tokens_take_exactly_the_blocks_that_hold_them(block_size):  # trap 3
    for num_tokens in {0, 1, block_size - 1, block_size, block_size + 1, 2 * block_size}:
        needed = len({p // block_size for p in range(num_tokens)})
        if needed:
            one_short = BlockAllocator(needed, block_size)
            one_short.allocate()
            with pytest.raises(KVCacheExhausted):
                one_short.allocate_for(num_tokens)
        exact = BlockAllocator(max(1, needed), block_size)
        assert len(exact.allocate_for(num_tokens)) == exact.num_used == needed


def test_an_exhausted_pool_says_what_was_asked_for_and_what_is_free():
    allocator = BlockAllocator(6, 16)
    allocator.allocate_for(60)
    with pytest.raises(KVCacheExhausted) as error:
        allocator.allocate_for(40)
    assert str(error.value) == "tokens: 40; blocks of 16 needed: 3; free: 2 of 6"
    assert allocator.allocate_for(32) == [4, 5]
    with pytest.raises(KVCacheExhausted, match="6"):
        allocator.allocate()


def test_the_peak_stays_when_blocks_go_back():
    allocator = BlockAllocator(6, 16)
    allocator.free_all(allocator.allocate_for(80))
    allocator.allocate()
    assert counts(allocator) == (5, 1, 5)


@pytest.mark.parametrize("nonsense", [0, -1, 2.0, "4", None])
def test_a_size_that_is_no_size_is_an_error_that_shows_it(nonsense):
    with pytest.raises(ValueError, match="num_blocks must be an int"):
        BlockAllocator(nonsense, 16)
    with pytest.raises(ValueError, match="block_size must be an int"):
        BlockAllocator(4, nonsense)
    with pytest.raises(ValueError, match="got -1"):
        BlockAllocator(4, 16).allocate_for(-1)


@given(st.integers(1, 40), st.integers(1, 20), st.integers(0, 900))
def test_a_request_is_served_whole_or_not_at_all(num_blocks, block_size, num_tokens):
    allocator = BlockAllocator(num_blocks, block_size)
    if num_tokens <= num_blocks * block_size:
        blocks = allocator.allocate_for(num_tokens)
        assert (len(blocks) - 1) * block_size < max(1, num_tokens) <= max(1, len(blocks) * block_size)
    else:
        with pytest.raises(KVCacheExhausted):
            allocator.allocate_for(num_tokens)
        assert counts(allocator) == (num_blocks, 0, 0)


class AllocatorMachine(RuleBasedStateMachine):
    @initialize(num_blocks=st.integers(1, 9), block_size=st.integers(1, 5))
    def build(self, num_blocks, block_size):
        self.allocator = BlockAllocator(num_blocks, block_size)
        self.stack = list(range(num_blocks))[::-1]
        self.out = set()
        self.peak = 0

    def take(self, count):
        taken = [self.stack.pop() for _ in range(count)]
        self.out |= set(taken)
        self.peak = max(self.peak, len(self.out))
        return taken

    @rule()
    def allocate(self):
        if self.stack:
            assert [self.allocator.allocate()] == self.take(1)
        else:
            with pytest.raises(KVCacheExhausted):
                self.allocator.allocate()

    @rule(num_tokens=st.integers(0, 50))
    def allocate_for(self, num_tokens):
        needed = len({p // self.allocator.block_size for p in range(num_tokens)})
        if needed <= len(self.stack):
            assert self.allocator.allocate_for(num_tokens) == self.take(needed)
        else:
            with pytest.raises(KVCacheExhausted):
                self.allocator.allocate_for(num_tokens)

    @rule(block_id=BLOCK_IDS)
    def free(self, block_id):
        if type(block_id) is int and block_id in self.out:
            self.allocator.free(block_id)
            self.out.remove(block_id)
            self.stack.append(block_id)
        else:
            with pytest.raises(ValueError, match=f"block {block_id} "):
                self.allocator.free(block_id)

    @rule(data=st.data())
    def free_all(self, data):
        any_block = st.sampled_from(sorted(self.out) or [0]) | BLOCK_IDS
        block_ids = data.draw(st.lists(any_block, max_size=5))
        ints = all(type(block_id) is int for block_id in block_ids)
        if ints and len(set(block_ids)) == len(block_ids) and set(block_ids) <= self.out:
            self.allocator.free_all(block_ids)
            self.out -= set(block_ids)
            self.stack += block_ids
        else:
            with pytest.raises(ValueError, match="block"):
                self.allocator.free_all(block_ids)

    @invariant()
    def counts_agree(self):
        if hasattr(self, "allocator"):
            assert counts(self.allocator) == (len(self.stack), len(self.out), self.peak)
            assert self.allocator.num_free + self.allocator.num_used == self.allocator.num_blocks


class TestAnySequenceOfCalls(AllocatorMachine.TestCase):
    settings = settings(max_examples=100, stateful_step_count=40)
