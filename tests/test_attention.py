"""The torch references that a kernel is held to: against float64 and torch's own attention, also where it is hard."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.cases import poisoned
from nanoserve.attention import blockwise_attention, fold, gathered_attention

BOTH = pytest.mark.parametrize("attention", [gathered_attention, blockwise_attention])


def exact(q, k_pool, v_pool, tables, lengths, scale=None):
    """A softmax in float64 over each sequence's tokens, found one by one."""
    out = torch.zeros(q.shape, dtype=torch.float64)
    size, group = k_pool.shape[1], q.shape[1] // k_pool.shape[2]
    for row, length in enumerate(lengths.tolist()):
        for head in range(q.shape[1] if length else 0):
            slots = [(int(tables[row, p // size]), p % size, head // group) for p in range(length)]
            keys, values = (torch.stack([pool[slot] for slot in slots]).double() for pool in (k_pool, v_pool))
            scores = keys @ q[row, head].double() * (q.shape[2] ** -0.5 if scale is None else scale)
            out[row, head] = scores.softmax(0) @ values
    return out


def whole_block(scores, values, known=None):
    """Take in one block, behind those that are `known`."""
    heads, _, width = values.shape
    known = known or (torch.full((heads,), -1e30), torch.zeros(heads), torch.zeros(heads, width))
    return fold(scores, values, *known)


@BOTH
@settings(max_examples=60, deadline=None)
@given(
    kv_heads=st.integers(1, 3),
    group=st.sampled_from([1, 2, 3, 7]),
    dim=st.sampled_from([1, 8, 64, 80]),
    block_size=st.sampled_from([1, 3, 16, 24]),
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_any_shape_equals_float64_with_nan_in_every_stale_slot(
    attention, kv_heads, group, dim, block_size, lengths, seed
):
    inputs = poisoned(kv_heads * group, kv_heads, dim, block_size, lengths, seed=seed)
    torch.testing.assert_close(attention(*inputs).double(), exact(*inputs), rtol=1e-5, atol=1e-5)


@BOTH
def test_one_sequence_equals_torchs_attention_over_the_same_tokens(attention):
    q, k_pool, v_pool, tables, lengths = poisoned(9, 3, 64, 16, [100])
    keys, values = (pool[tables[0, :7]].flatten(0, 1)[:100].transpose(0, 1)[None] for pool in (k_pool, v_pool))
    expected = F.scaled_dot_product_attention(q[:, :, None], keys, values, enable_gqa=True)[:, :, 0]
    torch.testing.assert_close(attention(q, k_pool, v_pool, tables, lengths), expected, rtol=1e-5, atol=1e-6)


@BOTH
def test_a_sequence_of_no_tokens_gives_zeros(attention):
    inputs = poisoned(4, 2, 8, 16, [0, 5, 0])
    out = attention(*inputs)
    assert not out[[0, 2]].any()
    assert out[1].all()


@BOTH
def test_a_scale_of_the_callers_takes_the_place_of_the_root(attention):
    inputs = poisoned(4, 2, 64, 16, [20])
    torch.testing.assert_close(attention(*inputs, 0.5).double(), exact(*inputs, 0.5), rtol=1e-5, atol=1e-5)


@BOTH
@pytest.mark.parametrize("step", [-40, 40])
def test_scores_that_fall_or_rise_by_40_a_block_stay_right(attention, step):
    q, k_pool, v_pool, tables, lengths = poisoned(4, 2, 64, 16, [80])
    q[:] = 1.0
    for place in range(5):
        k_pool[tables[0, place]] += place * step / 64**0.5
    inputs = q, k_pool, v_pool, tables, lengths
    # Scores of some hundreds round to 3e-5 in fp32, and so do the weights that are made of them.
    torch.testing.assert_close(attention(*inputs).double(), exact(*inputs), rtol=1e-4, atol=1e-4)


@BOTH
@pytest.mark.parametrize("level", [-1000.0, 1000.0])
def test_scores_far_from_0_neither_vanish_nor_overflow(attention, level):
    q, k_pool, v_pool, tables, lengths = poisoned(2, 1, 4, 4, [11])
    q[:] = 1.0
    k_pool += level / 2  # four of them, scaled by a half
    inputs = q, k_pool, v_pool, tables, lengths
    torch.testing.assert_close(attention(*inputs).double(), exact(*inputs), rtol=1e-3, atol=1e-3)


def test_half_precision_goes_in_and_comes_out_and_is_summed_in_fp32():
    inputs = poisoned(9, 3, 64, 16, [70, 0, 16], dtype=torch.float16)
    out = blockwise_attention(*inputs)
    assert out.dtype == torch.float16
    torch.testing.assert_close(out.double(), exact(*inputs), rtol=0, atol=2e-3)


def test_two_folds_are_one_softmax_over_both_blocks():
    torch.manual_seed(0)
    scores, values = 5 * torch.randn(3, 10), torch.randn(3, 10, 4)
    _, total, mixed = whole_block(scores[:, 7:], values[:, 7:], whole_block(scores[:, :7], values[:, :7]))
    expected = (scores.double().softmax(-1)[:, None] @ values.double())[:, 0]
    torch.testing.assert_close((mixed / total[:, None]).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("masked_first", [True, False])
def test_a_block_of_minus_infinity_changes_nothing_and_is_no_nan(masked_first):
    masked = torch.full((1, 2), -torch.inf), torch.full((1, 2, 1), 9.0)
    low = torch.tensor([[-300.0, -301.0]]), torch.tensor([[[1.0], [2.0]]])
    first, second = (masked, low) if masked_first else (low, masked)
    for came, alone in zip(whole_block(*second, whole_block(*first)), whole_block(*low), strict=True):
        torch.testing.assert_close(came, alone, rtol=0, atol=0)


def test_a_masked_token_has_no_share():
    scores, values = torch.tensor([[1.0, -torch.inf, 0.0]]), torch.tensor([[[1.0], [9.0], [2.0]]])
    for came, without in zip(
        whole_block(scores, values), whole_block(scores[:, [0, 2]], values[:, [0, 2]]), strict=True
    ):
        torch.testing.assert_close(came, without, rtol=0, atol=0)
