"""Day 22: prompts of different lengths, prefilled together, are what they are alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nanoserve import NaiveKVCache, PrefillCache, left_pad, padded_causal_mask
from tests.conftest import LLAMA3_ROPE


def prompt_of(length, seed=0):
    return torch.randint(61, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def prefilled(model, prompts):
    """Logits of every column, and the cache."""
    input_ids, pad_lens = left_pad(prompts)
    cache = PrefillCache(pad_lens)
    return model(input_ids, cache, logits_to_keep=0), cache


def test_prompts_end_together_and_pads_stand_before_them():
    input_ids, pad_lens = left_pad([[5, 6, 7], [8], [9, 4]])
    assert pad_lens == [0, 2, 1]
    assert input_ids.shape == (3, 3)
    assert [row[pads:] for row, pads in zip(input_ids.tolist(), pad_lens, strict=True)] == [[5, 6, 7], [8], [9, 4]]


def test_a_column_sees_the_real_ones_up_to_itself_and_a_pad_only_itself():
    mask = padded_causal_mask([0, 2], 3, torch.device("cpu"))
    assert mask.shape == (2, 1, 3, 3)
    assert mask[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert mask[1, 0].int().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


@settings(max_examples=40)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6))
@pytest.mark.parametrize("rope", [None, LLAMA3_ROPE])
def test_a_row_of_a_ragged_batch_equals_the_row_alone(random_pair, rope, lengths):  # traps 25, 26
    model, _ = random_pair(**({"rope_parameters": rope} if rope else {}))
    prompts = [prompt_of(length, seed) for seed, length in enumerate(lengths)]
    logits, cache = prefilled(model, prompts)
    assert logits.isfinite().all()
    assert all(part.isfinite().all() for layer in cache.layers for part in layer)
    for row, prompt in enumerate(prompts):
        alone = model(torch.tensor([prompt]), NaiveKVCache(), logits_to_keep=0)[0]
        torch.testing.assert_close(logits[row, -len(prompt) :], alone, atol=2e-4, rtol=1e-4)


def test_what_stands_in_the_pads_changes_nothing(tiny, monkeypatch):
    prompts = [prompt_of(9), prompt_of(2), prompt_of(5)]
    expected, _ = prefilled(tiny, prompts)
    monkeypatch.setattr("nanoserve.prefill.PAD", 60)
    changed, _ = prefilled(tiny, prompts)
    for row, prompt in enumerate(prompts):
        assert torch.equal(changed[row, -len(prompt) :], expected[row, -len(prompt) :])
    assert not torch.equal(changed, expected)


def test_a_prefill_is_as_long_as_its_longest_prompt_until_it_is_freed(tiny):
    _, cache = prefilled(tiny, [prompt_of(3), prompt_of(8)])
    assert cache.seq_len == 8
    cache.free()
    assert (cache.seq_len, cache.layers) == (0, [])
