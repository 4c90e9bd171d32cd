"""Day 17: one loop over every cache gives the same tokens, in the blocks that it was given."""

import pytest
import torch

from nanoserve import (
    BlockAllocator,
    KVCacheExhausted,
    KVPool,
    PagedKVCache,
    generate,
    generate_stream,
    greedy_generate,
    greedy_generate_paged,
)
from tests.conftest import PROMPT

SAMPLING = {"temperature": 1.0, "top_k": 20, "top_p": 0.9, "seed": 7}


@pytest.mark.parametrize("block_size", [1, 3, 16, 64])
def test_paged_runs_give_the_tokens_of_contiguous_ones(tiny, block_size):
    for length in (1, 2, 15, 16, 17, 100):
        prompt = [(7 * i) % 61 for i in range(length)]
        expected = greedy_generate(tiny, prompt, 40)
        assert len(expected) == 40
        assert greedy_generate_paged(tiny, prompt, 40, block_size) == expected


def test_a_seed_draws_the_same_tokens_whichever_cache_and_block_size(tiny):  # trap 24
    expected = generate(tiny, PROMPT, 40, **SAMPLING)
    for block_size in (1, 3, 16, 64):
        assert generate(tiny, PROMPT, 40, **SAMPLING, paged=True, block_size=block_size) == expected
    assert generate(tiny, PROMPT, 40, **SAMPLING, allocator=BlockAllocator(20, 5)) == expected
    assert generate(tiny, PROMPT, 40, **(SAMPLING | {"seed": 8})) != expected


def test_a_seeded_run_is_alone_with_its_generator(tiny):  # trap 24
    expected = generate(tiny, PROMPT, 20, **SAMPLING)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    streams = [generate_stream(tiny, PROMPT, 20, **SAMPLING) for _ in range(2)]
    assert [list(pair) for pair in zip(*streams, strict=True)] == [[token, token] for token in expected]
    assert torch.equal(torch.get_rng_state(), state)


def test_without_a_seed_the_global_generator_draws(tiny):
    unseeded = SAMPLING | {"seed": None}
    torch.manual_seed(3)
    first = generate(tiny, PROMPT, 20, **unseeded)
    assert generate(tiny, PROMPT, 20, **unseeded) != first
    torch.manual_seed(3)
    assert generate(tiny, PROMPT, 20, **unseeded) == first


def test_temperature_0_and_top_k_1_are_greedy_whatever_else_is_asked(tiny):  # trap 21
    expected = greedy_generate(tiny, PROMPT, 20)
    assert generate(tiny, PROMPT, 20, temperature=0, top_k=7, top_p=0.3, seed=1) == expected
    assert generate(tiny, PROMPT, 20, temperature=2.0, top_k=1) == expected


def test_a_run_of_its_own_takes_exactly_the_blocks_it_fills(tiny, monkeypatch):
    pools = []
    make = KVPool.for_model
    monkeypatch.setattr(KVPool, "for_model", lambda *args: pools.append(make(*args)) or pools[-1])
    for num_new, num_blocks in ((1, 2), (2, 3), (5, 3), (6, 4)):  # the last token's keys and values are never stored
        generate(tiny, PROMPT + PROMPT[:1], num_new, paged=True, block_size=4)
        allocator = pools[-1].allocator
        assert (allocator.num_blocks, allocator.peak_used, allocator.num_free) == (num_blocks, num_blocks, num_blocks)


class Minimal:
    """The least that a shared allocator has to be, as a learner might have written it."""

    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.free = set(range(num_blocks))

    @property
    def num_free(self):
        return len(self.free)

    def allocate_for(self, num_tokens):
        return [self.free.pop() for _ in range(-(-num_tokens // self.block_size))]

    def free_all(self, block_ids):
        self.free |= set(block_ids)


def test_a_learners_own_allocator_carries_a_run(tiny):
    mine = Minimal(20, 3)
    stream = generate_stream(tiny, PROMPT, 30, allocator=mine)
    tokens = [next(stream), next(stream)]
    assert mine.num_free == 20 - 3
    assert tokens + list(stream) == greedy_generate(tiny, PROMPT, 30)
    assert mine.num_free == 20


def test_a_pool_for_one_serves_two_in_turn_and_the_second_lies_in_the_blocks_of_the_first(tiny):
    pool = KVPool.for_model(tiny, num_blocks=4, block_size=4)
    first = generate_stream(tiny, PROMPT, 10, allocator=pool)
    for _ in range(9):
        next(first)
    blocks_of_first = set(range(4)) if pool.allocator.num_free == 0 else None
    with pytest.raises(KVCacheExhausted):
        greedy_generate_paged(tiny, PROMPT, 10, allocator=pool)
    next(first)  # the last one
    bytes_of_first = pool.k.clone()

    prompt = PROMPT[::-1]
    assert greedy_generate_paged(tiny, prompt, 10, allocator=pool) == greedy_generate(tiny, prompt, 10)
    changed = {b for b in range(4) if not torch.equal(pool.k[:, b], bytes_of_first[:, b])}
    assert changed == blocks_of_first
    alone = PagedKVCache(KVPool.for_model(tiny, 4, 4))
    tiny(torch.tensor([prompt]), alone)
    order = [3, 2, 1, 0]  # last in, first out
    for entry, block in enumerate(alone.table.block_ids):
        filled = min(4, len(prompt) - 4 * entry)
        assert torch.equal(pool.k[:, order[entry], :filled], alone.pool.k[:, block, :filled])


def test_runs_that_share_a_pool_take_turns_without_mixing(tiny):
    pool = KVPool.for_model(tiny, num_blocks=30, block_size=3)
    prompts = [PROMPT, PROMPT[::-1], PROMPT[2:]]
    streams = [generate_stream(tiny, prompt, 15, allocator=pool) for prompt in prompts]
    together = [list(tokens) for tokens in zip(*(zip(*streams, strict=True)), strict=True)]
    assert together == [greedy_generate(tiny, prompt, 15) for prompt in prompts]
    assert pool.allocator.num_free == 30


def test_a_pool_that_runs_out_in_the_middle_raises_and_gets_all_back(tiny):
    allocator = BlockAllocator(3, 4)
    stream = generate_stream(tiny, PROMPT, 30, allocator=allocator)
    tokens = [next(stream) for _ in range(6)]  # 7 of the prompt and 5 of these fill 12 slots
    with pytest.raises(KVCacheExhausted):
        next(stream)
    assert allocator.num_free == 3
    assert tokens == greedy_generate_paged(tiny, PROMPT, 6, allocator=allocator)


def test_inference_mode_does_not_leak_to_the_reader_between_tokens(tiny):
    weight = torch.ones(2, requires_grad=True)
    for _ in generate_stream(tiny, PROMPT, 4, paged=True):
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
        (weight * 2).sum().backward()
    assert weight.grad.tolist() == [8, 8]


def test_a_pool_used_by_a_run_is_still_an_ordinary_tensor(tiny):
    pool = KVPool.for_model(tiny, 12, 4)
    generate(tiny, PROMPT, 4, allocator=pool)
    pool.k.zero_()
    assert not pool.k.is_inference()
