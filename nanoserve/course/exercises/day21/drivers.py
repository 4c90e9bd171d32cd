"""A kernel of Day 21's own that calls what the learner writes by its name."""

import triton
import triton.language as tl

from nanoserve.kernels.paged_decode import my_tokens


@triton.jit
def shares_kernel(lens_ptr, shares_ptr, tiles_ptr, TILE: tl.constexpr):
    """Write down each program's share, and walk over it as the decode kernel does.

    Args:
        lens_ptr: (batch,), tokens of each sequence. The grid is (batch, num_kv_heads, splits), as the decode kernel's.
        shares_ptr: (batch, num_kv_heads, splits, 2), the first token of a share and the end of it.
        tiles_ptr: (batch, num_kv_heads, splits), how many tiles the walk took.
    """
    row = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    at = row * tl.num_programs(2) + tl.program_id(2)
    first, end = my_tokens(tl.load(lens_ptr + tl.program_id(0)), TILE)
    tl.store(shares_ptr + 2 * at, first)
    tl.store(shares_ptr + 2 * at + 1, end)
    tiles = 0
    for _ in tl.range(first, end, TILE):
        tiles += 1
    tl.store(tiles_ptr + at, tiles)
