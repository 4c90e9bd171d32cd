"""Day 20's planted fault. To find it, look at which slots it reads before you read on."""

import triton
import triton.language as tl

from nanoserve.kernels.paged_decode import fold, my_tokens, scores, store_lse, token_offsets


@triton.jit
def suspect_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    table_ptr,
    lens_ptr,
    out_ptr,
    lse_ptr,
    scale,
    block_size,
    q_batch_stride,
    q_head_stride,
    block_stride,
    token_stride,
    kv_head_stride,
    table_stride,
    out_batch_stride,
    out_head_stride,
    out_split_stride,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    TILE: tl.constexpr,
    DOT: tl.constexpr,
):
    """The decode kernel with one fault, which few tests see."""
    batch, kv_head = tl.program_id(0), tl.program_id(1)
    member, dims = tl.arange(0, GROUP_PAD), tl.arange(0, DIM_PAD)
    heads = kv_head * GROUP + member
    wanted = (member < GROUP)[:, None] & (dims < DIM)[None, :]
    q_at = q_ptr + batch * q_batch_stride + heads[:, None] * q_head_stride + dims[None, :]
    q = tl.load(q_at, mask=wanted, other=0.0)

    first, end = my_tokens(tl.load(lens_ptr + batch), TILE)
    largest = tl.full([GROUP_PAD], -1e30, tl.float32)
    total = tl.zeros([GROUP_PAD], tl.float32)
    mixed = tl.zeros([GROUP_PAD, DIM_PAD], tl.float32)
    for start in tl.range(first, end, TILE):
        tokens = start + tl.arange(0, TILE)
        there = tokens < tl.cdiv(end, block_size) * block_size
        rows = token_offsets(table_ptr + batch * table_stride, tokens, there, block_size, block_stride, token_stride)
        at = rows[:, None] + kv_head * kv_head_stride + dims[None, :]
        fetched = there[:, None] & (dims < DIM)[None, :]
        k = tl.load(k_ptr + at, mask=fetched, other=0.0)
        v = tl.load(v_ptr + at, mask=fetched, other=0.0)
        largest, total, mixed = fold(scores(q, k, tokens < end, scale, DOT), v, largest, total, mixed, DOT)

    attended = mixed / tl.where(total == 0, 1.0, total)[:, None]
    out_at = out_ptr + batch * out_batch_stride + heads[:, None] * out_head_stride + dims[None, :]
    tl.store(out_at, attended, mask=wanted)
    store_lse(lse_ptr, heads, largest, total, GROUP)
