"""Day 20's small kernels that call a learner's function, so that it can be tried alone."""

import triton
import triton.language as tl

from nanoserve.kernels.paged_decode import fold, scores, token_offsets


@triton.jit
def token_offsets_driver(
    table_ptr, out_ptr, first, num_tokens, block_size, block_stride, token_stride, TILE: tl.constexpr
):
    """The offsets of TILE tokens from `first` on, a row from each program; -1 for those that are not held."""
    row = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(2) + tl.program_id(2)
    tokens = first + tl.arange(0, TILE)
    held = tokens < num_tokens
    offsets = token_offsets(table_ptr, tokens, held, block_size, block_stride, token_stride)
    tl.store(out_ptr + row * TILE + tl.arange(0, TILE), tl.where(held, offsets, -1))


@triton.jit
def scores_driver(
    q_ptr,
    k_ptr,
    out_ptr,
    num_tokens,
    scale,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    TILE: tl.constexpr,
    DOT: tl.constexpr,
):
    """The scores of GROUP queries over TILE keys, of which the first `num_tokens` are held."""
    heads, dims, tokens = tl.arange(0, GROUP), tl.arange(0, DIM), tl.arange(0, TILE)
    q = tl.load(q_ptr + heads[:, None] * DIM + dims[None, :])
    k = tl.load(k_ptr + tokens[:, None] * DIM + dims[None, :])
    s = scores(q, k, tokens < num_tokens, scale, DOT)
    tl.store(out_ptr + heads[:, None] * TILE + tokens[None, :], s)


@triton.jit
def fold_driver(
    s_ptr,
    v_ptr,
    largest_ptr,
    total_ptr,
    mixed_ptr,
    num_tokens,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    TILE: tl.constexpr,
    DOT: tl.constexpr,
):
    """Takes `num_tokens` scores and values in, tile by tile, and leaves the three in place of those that were there."""
    heads, dims = tl.arange(0, GROUP), tl.arange(0, DIM)
    places = heads[:, None] * DIM + dims[None, :]
    largest, total, mixed = tl.load(largest_ptr + heads), tl.load(total_ptr + heads), tl.load(mixed_ptr + places)
    for start in range(0, num_tokens, TILE):
        tokens = start + tl.arange(0, TILE)
        s = tl.load(s_ptr + heads[:, None] * num_tokens + tokens[None, :])
        v = tl.load(v_ptr + tokens[:, None] * DIM + dims[None, :])
        largest, total, mixed = fold(s, v, largest, total, mixed, DOT)
    tl.store(largest_ptr + heads, largest)
    tl.store(total_ptr + heads, total)
    tl.store(mixed_ptr + places, mixed)
