"""Day 17: one loop over every cache, the same tokens as transformers, and no block left behind."""

import gc
from contextlib import suppress

import numpy as np
import pytest
import torch

from nanoserve import (
    BlockAllocator,
    KVCacheExhausted,
    KVPool,
    PagedKVCache,
    encode_chat,
    generate,
    generate_stream,
    greedy_generate,
    greedy_generate_paged,
)

PROMPT = [5, 17, 3, 42, 8, 11, 29]
SAMPLING = {"temperature": 1.0, "top_k": 20, "top_p": 0.9, "seed": 7}


def run_of(tokenizer, kind):
    """Prompts of 1 token to several hundred, raw text and chats."""
    story = "Once upon a time, in a small harbour town, there lived an old fisherman who kept bees. "
    return {
        "one token": lambda: [504],
        "two tokens": lambda: tokenizer.encode("The sea"),
        "a sentence": lambda: tokenizer.encode("The capital of France is"),
        "code": lambda: tokenizer.encode("def fibonacci(n):\n    if n < 2:\n        return n\n"),
        "Chinese": lambda: tokenizer.encode("你好世界。今天天气很好。"),
        "a chat": lambda: encode_chat(tokenizer, "Explain in two sentences why the sky is blue."),
        "a chat of two turns": lambda: encode_chat(
            tokenizer,
            [
                {"role": "user", "content": "Name three colours."},
                {"role": "assistant", "content": "Red, green and blue."},
                {"role": "user", "content": "Now write a short poem about the second one."},
            ],
        ),
        "a page": lambda: tokenizer.encode(story * 8),
        "two pages": lambda: tokenizer.encode(story * 18)[:333],
    }[kind]()


KINDS = [
    "one token",
    "two tokens",
    "a sentence",
    "code",
    "Chinese",
    "a chat",
    "a chat of two turns",
    "a page",
    "two pages",
]


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_tokens_are_those_of_transformers_on_the_real_model(
    smollm, smollm_transformers, tokenizer, monkeypatch, kind
):
    prompt = run_of(tokenizer, kind)
    ids = torch.tensor([prompt])
    monkeypatch.setattr(smollm_transformers.generation_config, "eos_token_id", None)
    theirs = smollm_transformers.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=64)
    expected = theirs[0, len(prompt) :].tolist()
    assert len(expected) == 64
    assert generate(smollm, prompt, 64, eos_token_id=()) == expected
    assert generate(smollm, prompt, 64, eos_token_id=(), paged=True) == expected


def test_a_real_answer_ends_with_the_eos_as_in_transformers(smollm, smollm_transformers, tokenizer):
    prompt = torch.tensor([encode_chat(tokenizer, "What is 2 + 2? Answer with one word.")])
    theirs = smollm_transformers.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=64
    )
    ours = greedy_generate_paged(smollm, prompt, 64)
    assert ours == theirs[0, prompt.shape[1] :].tolist()
    assert ours[-1] == tokenizer.eos_token_id


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


# Inputs and stops


def refuses(model, *args, match, **kwargs):
    """A ValueError at the call itself, not at the first token, and nothing allocated."""
    allocator = BlockAllocator(8, 4)
    for run in (generate, generate_stream):
        with pytest.raises(ValueError, match=match) as refusal:
            run(model, *args, allocator=allocator, **kwargs)
        assert "\n" not in str(refusal.value)
    assert allocator.peak_used == 0


@pytest.mark.parametrize("empty", [[], (), torch.tensor([], dtype=torch.long), torch.zeros(1, 0, dtype=torch.long), ""])
def test_an_empty_prompt_is_refused_before_anything_is_allocated(tiny, empty):  # trap 16
    refuses(tiny, empty, 5, match="at least one token id")


def test_no_new_tokens_means_no_tokens_and_no_blocks(tiny):  # trap 17
    allocator = BlockAllocator(8, 4)
    assert generate(tiny, PROMPT, 0, allocator=allocator) == []
    assert list(generate_stream(tiny, PROMPT, 0, allocator=allocator)) == []
    assert generate(tiny, PROMPT, 0, paged=True) == generate(tiny, PROMPT, 0) == []
    assert allocator.peak_used == 0


@pytest.mark.parametrize("nonsense", [-1, 2.5, "3", None, True])
def test_a_number_of_new_tokens_that_is_none_is_refused(tiny, nonsense):  # trap 17
    refuses(tiny, PROMPT, nonsense, match="max_new_tokens must be a whole number")


def test_any_of_several_eos_ids_stops_the_run_and_is_its_last_token(tiny):  # trap 18
    tokens = greedy_generate(tiny, PROMPT, 30)
    early, late = tokens[4], tokens[5]
    assert (tokens.index(early), tokens.index(late)) == (4, 5)
    for paged in (False, True):
        assert generate(tiny, PROMPT, 30, eos_token_id=late, paged=paged) == tokens[:6]
        assert generate(tiny, PROMPT, 30, eos_token_id=[late, early], paged=paged) == tokens[:5]
        assert generate(tiny, PROMPT, 30, eos_token_id=np.int64(early), paged=paged) == tokens[:5]


def test_the_models_own_eos_ids_stop_a_run_unless_told_otherwise(tiny, monkeypatch):  # trap 18
    tokens = greedy_generate(tiny, PROMPT, 30)
    monkeypatch.setattr(tiny, "eos_token_ids", frozenset({tokens[4], tokens[5]}))
    assert greedy_generate(tiny, PROMPT, 30) == greedy_generate_paged(tiny, PROMPT, 30) == tokens[:5]
    assert generate(tiny, PROMPT, 30, eos_token_id=()) == tokens


def test_an_eos_that_is_no_id_is_refused(tiny):
    refuses(tiny, PROMPT, 5, eos_token_id="</s>", match="eos_token_id must be a token id")
    refuses(tiny, PROMPT, 5, eos_token_id=[1, None], match="eos_token_id must be a token id")


def test_a_run_past_the_models_positions_is_refused_in_one_sentence(tiny):  # trap 19
    refuses(tiny, [1] * 257, 0, match="257 prompt tokens .* 256 positions")
    refuses(tiny, [1] * 250, 7, match="250 prompt tokens and 7 new ones .* 256 positions")
    assert len(generate(tiny, [1] * 250, 6)) == 6


def test_a_prompt_is_a_list_a_tuple_or_a_tensor(tiny):  # trap 20
    expected = greedy_generate(tiny, PROMPT, 5)
    as_tensor = torch.tensor(PROMPT)
    for prompt in (tuple(PROMPT), as_tensor, as_tensor[None], as_tensor.int(), np.array(PROMPT), list(as_tensor)):
        assert greedy_generate(tiny, prompt, 5) == expected


@pytest.mark.parametrize("token_id", [-1, 61, 10**6])
def test_an_id_outside_the_vocabulary_is_refused_by_name(tiny, token_id):  # trap 20
    refuses(tiny, [1, token_id], 5, match=f"token id {token_id} is outside the vocabulary of 61")


@pytest.mark.parametrize(
    "prompt", ["Hello", [1, 2.0], [1, "2"], [True], [[1, 2]], torch.tensor([1.0]), torch.zeros(2, 3, dtype=torch.long)]
)
def test_a_prompt_that_is_not_of_ids_is_refused(tiny, prompt):  # trap 20
    refuses(tiny, prompt, 5, match="prompt_ids must be")


def test_sampling_arguments_are_checked_at_the_call(tiny):  # trap 22
    refuses(tiny, PROMPT, 5, temperature=-1, match="temperature must be")
    refuses(tiny, PROMPT, 5, temperature=1.0, top_p=0, match="top_p must be")
    refuses(tiny, PROMPT, 5, temperature=1.0, top_k=-2, match="top_k must be")
    refuses(tiny, PROMPT, 5, paged=True, block_size=0, match="block_size must be")


# Where the blocks are


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


def test_a_stream_that_was_never_read_holds_nothing(tiny):
    allocator = BlockAllocator(8, 4)
    stream = generate_stream(tiny, PROMPT, 5, allocator=allocator)
    assert allocator.peak_used == 0
    del stream
    assert allocator.peak_used == 0


def test_the_blocks_are_back_before_the_last_token_is_handed_out(tiny):
    tokens = greedy_generate(tiny, PROMPT, 12)
    for stop in ({"max_new_tokens": 6}, {"max_new_tokens": 12, "eos_token_id": tokens[5]}):
        allocator = BlockAllocator(8, 4)
        stream = generate_stream(tiny, PROMPT, **stop, allocator=allocator)
        for _ in range(5):
            next(stream)
            assert allocator.num_used > 0
        assert next(stream) == tokens[5]
        assert allocator.num_used == 0  # though the stream is still held, and was not read to its end
        assert list(stream) == []


def read_to_the_end(make_stream):
    assert len(list(make_stream())) == 30


def stop_at_an_eos(make_stream):
    assert len(list(make_stream(eos_token_id=range(61)))) == 1


def break_out(make_stream):
    for _ in make_stream():
        break


def raise_in_the_loop_body(make_stream):
    with suppress(KeyError):
        for _ in make_stream():
            raise KeyError


def raise_in_the_loop_body_over_a_named_stream(make_stream):
    stream = make_stream()
    with suppress(KeyError):
        for _ in stream:
            raise KeyError
    del stream


def close(make_stream):
    stream = make_stream()
    next(stream)
    next(stream)
    stream.close()
    assert list(stream) == []


def close_before_the_first_token(make_stream):
    make_stream().close()


def drop_the_name(make_stream):
    stream = make_stream()
    next(stream)
    del stream


def leave_it_in_a_cycle_for_the_collector(make_stream):
    holder = {"stream": make_stream()}
    holder["self"] = holder
    next(holder["stream"])
    del holder
    gc.collect()


def throw_into_it(make_stream):
    stream = make_stream()
    next(stream)
    with pytest.raises(KeyboardInterrupt):
        stream.throw(KeyboardInterrupt)


ENDS = [
    read_to_the_end,
    stop_at_an_eos,
    break_out,
    raise_in_the_loop_body,
    raise_in_the_loop_body_over_a_named_stream,
    close,
    close_before_the_first_token,
    drop_the_name,
    leave_it_in_a_cycle_for_the_collector,
    throw_into_it,
]


@pytest.mark.parametrize("shares_memory", [False, True], ids=["allocator", "pool"])
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_every_way_a_stream_ends_gives_every_block_back(tiny, end, shares_memory):  # traps 5, 6
    shared = KVPool.for_model(tiny, 12, 4) if shares_memory else BlockAllocator(12, 4)
    allocator = shared.allocator if shares_memory else shared
    end(lambda **more: generate_stream(tiny, PROMPT, 30, allocator=shared, **more))
    assert allocator.num_free == allocator.num_blocks
    assert greedy_generate_paged(tiny, PROMPT, 30, allocator=shared) == greedy_generate(tiny, PROMPT, 30)


@pytest.mark.parametrize("failing_step", [0, 1, 5])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_in_the_forward_pass_gives_every_block_back(tiny, monkeypatch, failing_step, error):  # trap 6
    allocator = BlockAllocator(12, 4)
    mlp = tiny.model.layers[1].mlp  # half of the layers have stored their keys by then
    forward, calls = mlp.forward, []

    def fail_at_step(x):
        calls.append(x)
        if len(calls) > failing_step:
            raise error("planted")
        return forward(x)

    monkeypatch.setattr(mlp, "forward", fail_at_step)
    with pytest.raises(error, match="planted"):
        generate(tiny, PROMPT, 30, allocator=allocator)
    assert len(calls) == failing_step + 1
    assert allocator.num_free == 12
    monkeypatch.undo()
    assert generate(tiny, PROMPT, 30, allocator=allocator) == greedy_generate(tiny, PROMPT, 30)


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
