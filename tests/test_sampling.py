"""Day 17: one token out of one row of logits, held to transformers' warpers."""

import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from nanoserve import sample
from nanoserve.sampling import warp

# Whole and half numbers make ties, at the k-th place and at the edge of the nucleus too.
TIED = st.lists(st.integers(-6, 6).map(lambda n: n / 2), min_size=1, max_size=30)
FREE = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=30)
TEMPERATURES = st.floats(0.05, 5)
TOP_K = st.none() | st.integers(1, 40)
TOP_P = st.none() | st.floats(0.01, 1.0) | st.sampled_from([1e-9, 0.25, 0.5, 0.75])


def warped_by_transformers(logits, temperature, top_k, top_p):
    scores = logits[None]
    warpers = [TemperatureLogitsWarper(temperature)]
    warpers += [TopKLogitsWarper(top_k)] if top_k else []
    warpers += [TopPLogitsWarper(top_p)] if top_p is not None and top_p < 1 else []
    for warper in warpers:
        scores = warper(None, scores)
    return scores[0]


@settings(max_examples=400)
@given(logits=TIED | FREE, temperature=TEMPERATURES, top_k=TOP_K, top_p=TOP_P)
def test_the_kept_set_and_its_scores_are_those_of_transformers(logits, temperature, top_k, top_p):  # trap 23
    logits = torch.tensor(logits, dtype=torch.float32)
    expected = warped_by_transformers(logits, temperature, top_k, top_p)
    assert torch.equal(warp(logits, temperature, top_k, top_p), expected)


def test_the_kept_set_of_a_whole_vocabulary_is_that_of_transformers():  # trap 23
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        logits = torch.randn(49152, generator=generator) * 4
        logits = logits.bfloat16().float()  # a half-precision model's rows are full of ties
        for settings_ in [(0.8, 50, 0.95), (1.0, None, 0.9), (1.3, 40, None)]:
            assert torch.equal(warp(logits, *settings_), warped_by_transformers(logits, *settings_))


@given(logits=TIED | FREE, top_k=TOP_K, top_p=TOP_P)
def test_temperature_0_is_the_argmax_and_so_is_top_k_1(logits, top_k, top_p):  # trap 21
    logits = torch.tensor(logits)
    best = int(logits.argmax())
    assert sample(logits, 0.0, top_k, top_p) == best
    assert sample(logits, 1.7, 1, top_p) == best
    assert sample(logits, 1e-30) == best


@settings(max_examples=50)
@given(logits=TIED, temperature=TEMPERATURES, top_k=TOP_K, top_p=TOP_P, seed=st.integers(0, 2**32))
def test_what_is_drawn_was_kept(logits, temperature, top_k, top_p, seed):
    logits = torch.tensor(logits)
    kept = warped_by_transformers(logits, temperature, top_k, top_p).isfinite()
    generator = torch.Generator().manual_seed(seed)
    assert all(kept[sample(logits, temperature, top_k, top_p, generator)] for _ in range(5))


def test_draws_follow_the_probabilities():
    logits = torch.tensor([0.5, 0.3, 0.2]).log()
    generator = torch.Generator().manual_seed(0)
    draws = torch.tensor([sample(logits, 1.0, generator=generator) for _ in range(4000)]).bincount() / 4000
    torch.testing.assert_close(draws, torch.tensor([0.5, 0.3, 0.2]), atol=0.03, rtol=0)
    cooler = torch.tensor([sample(logits, 0.5, generator=generator) for _ in range(4000)]).bincount() / 4000
    torch.testing.assert_close(cooler, torch.tensor([25, 9, 4]) / 38, atol=0.03, rtol=0)


def test_a_top_k_above_the_vocabulary_and_one_of_0_keep_it_all():  # trap 22
    logits = torch.tensor([1.0, 2.0, 3.0])
    for top_k in (0, None, 3, 4, 10**9):
        assert torch.equal(warp(logits, 1.0, top_k), logits)
        assert sample(logits, 1.0, top_k) in (0, 1, 2)


@pytest.mark.parametrize("temperature", [-1, -0.1, math.nan, math.inf])
def test_a_temperature_outside_its_range_is_an_error_that_says_it(temperature):  # trap 22
    with pytest.raises(ValueError, match=f"temperature must be a finite number of 0 .* or more, got {temperature}"):
        sample(torch.zeros(4), temperature)


@pytest.mark.parametrize("top_p", [0, -0.5, 1.0001, math.nan])
def test_a_top_p_outside_its_range_is_an_error_that_says_it(top_p):  # trap 22
    with pytest.raises(ValueError, match=f"top_p must be above 0 and at most 1, got {top_p}"):
        sample(torch.zeros(4), 1.0, top_p=top_p)


@pytest.mark.parametrize("top_k", [-1, 2.5, 2.0, math.nan, True, False])
def test_a_top_k_outside_its_range_is_an_error_that_says_it(top_k):  # trap 22
    with pytest.raises(ValueError, match=f"top_k must be a whole number .*, got {top_k}"):
        sample(torch.zeros(4), 1.0, top_k=top_k)


@pytest.mark.parametrize("shape", [(1, 4), (2, 4), (1, 1, 4), ()])
def test_logits_that_are_not_one_row_are_refused_with_the_shape_that_came(shape):
    for temperature in (0.0, 1.0):
        with pytest.raises(ValueError, match=re.escape(f"one row, (vocab_size,), got {shape}")):
            sample(torch.zeros(shape), temperature)


def test_a_seed_draws_the_same_from_logits_of_any_dtype():
    logits = torch.randn(100, generator=torch.Generator().manual_seed(1)).bfloat16()
    one, other = (torch.Generator().manual_seed(3) for _ in range(2))
    assert [sample(logits, 0.9, generator=one) for _ in range(20)] == [
        sample(logits.double(), 0.9, generator=other) for _ in range(20)
    ]
    assert logits.isfinite().all()  # the caller's row is left as it was
