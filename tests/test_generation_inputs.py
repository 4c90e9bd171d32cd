"""Day 17: what the loop takes, what it refuses at the door, and what stops it."""

import numpy as np
import pytest
import torch

from nanoserve import (
    BlockAllocator,
    KVPool,
    cache_for,
    generate,
    generate_stream,
    greedy_generate,
    greedy_generate_paged,
)
from tests.conftest import PROMPT


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
    with pytest.raises(ValueError, match="block_size must be"):
        generate_stream(tiny, PROMPT, 5, paged=True, block_size=0)


@pytest.mark.parametrize(
    "argument",
    [
        {"eos_token_id": 2.5},
        {"eos_token_id": True},
        {"eos_token_id": [2, None]},
        {"seed": 1.5},
        {"seed": "a"},
        {"seed": 2**64},
        {"temperature": None},
        {"temperature": "1"},
        {"top_k": True},
        {"top_p": "0.9"},
        {"allocator": 4},
        {"allocator": "pool"},
        {"prompt_ids": None},
        {"prompt_ids": 5},
        {"prompt_ids": {5, 3}},
        {"prompt_ids": b"hi"},
        {"prompt_ids": (i for i in (1, 2))},
    ],
    ids=lambda argument: "-".join(f"{name} {type(value).__name__}" for name, value in argument.items()),
)
def test_an_argument_of_the_wrong_kind_is_told_by_its_name(tiny, argument):
    with pytest.raises(ValueError, match=next(iter(argument))):
        generate_stream(tiny, **{"prompt_ids": [1, 2], "max_new_tokens": 3} | argument)


@pytest.mark.parametrize("seed", [-(2**63), 2**63, 2**64 - 1])
def test_every_seed_that_torch_takes_is_taken(tiny, seed):
    assert len(generate(tiny, PROMPT, 3, temperature=1.0, seed=seed)) == 3


def test_an_allocator_brings_its_own_block_size(tiny):
    pool = KVPool.for_model(tiny, 4, 4)
    assert generate(tiny, [1, 2], 3, block_size=0, paged=True, allocator=pool) == generate(tiny, [1, 2], 3)


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ({"num_layers": 3}, "layers 3, KV heads 1, head_dim 16, torch.float32, cpu"),
        ({"num_kv_heads": 4}, "layers 2, KV heads 4, head_dim 16, torch.float32, cpu"),
        ({"head_dim": 8}, "layers 2, KV heads 1, head_dim 8, torch.float32, cpu"),
        ({"dtype": torch.bfloat16}, "layers 2, KV heads 1, head_dim 16, torch.bfloat16, cpu"),
        ({"device": "meta"}, "layers 2, KV heads 1, head_dim 16, torch.float32, meta"),
    ],
    ids=str,
)
def test_a_pool_of_another_model_is_refused_at_the_call_and_both_are_named(tiny, sizes, named):
    config = tiny.config
    fitting = {
        "num_layers": config.num_hidden_layers,
        "num_kv_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
    }
    pool = KVPool(num_blocks=4, block_size=4, **fitting | sizes)
    for run in (generate, generate_stream, lambda *args, allocator: cache_for(tiny, 5, allocator=allocator)):
        with pytest.raises(ValueError, match=named) as refusal:
            run(tiny, PROMPT, 5, allocator=pool)
        assert "the model (layers 2, KV heads 1, head_dim 16, torch.float32, cpu)" in str(refusal.value)
    assert pool.allocator.peak_used == 0
