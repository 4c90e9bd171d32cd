"""Day 21: puts together what several programs found over their shares of one sequence (split-KV, Flash-Decoding)."""

import triton
import triton.language as tl


@triton.jit
def combine_kernel(
    parts_ptr,
    lse_ptr,
    out_ptr,
    splits,
    out_batch_stride,
    out_head_stride,
    SPLITS_PAD: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
):
    """One program: one query head of one sequence. The grid is (batch, num_heads).

    A share's log-sum-exp is the log of its softmax's denominator, so exp(lse) is what it weighs in the whole.

    Args:
        parts_ptr: (batch, num_heads, splits, DIM) in fp32, contiguous; the attention over each share.
        lse_ptr: (batch, num_heads, splits) in fp32, contiguous; -inf for a share without a token.
        out_ptr: (batch, num_heads, DIM).
        SPLITS_PAD, DIM_PAD: powers of two.
    """
    batch, head = tl.program_id(0), tl.program_id(1)
    share = tl.arange(0, SPLITS_PAD)
    dims = tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * splits + share
    lse = tl.load(lse_ptr + row, mask=share < splits, other=float("-inf"))
    largest = tl.maximum(tl.max(lse, axis=0), -1e30)  # -inf - -inf would be NaN
    weights = tl.exp(lse - largest)
    wanted = (share < splits)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_batch_stride + head * out_head_stride + dims, mixed, mask=dims < DIM)
