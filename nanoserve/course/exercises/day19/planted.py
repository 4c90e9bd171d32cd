"""Day 19's planted fault. To find it, look at the number in the error before you read on."""

import triton
import triton.language as tl


@triton.jit
def suspect_kernel(
    pool_ptr,
    table_ptr,
    out_ptr,
    num_tokens,
    block_size,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    TILE: tl.constexpr,
):
    """A gather with one fault, right for every pool that fits on a laptop."""
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    held = tokens < num_tokens
    block_ids = tl.load(table_ptr + tokens // block_size, mask=held, other=0)
    slots = block_ids * block_size + tokens % block_size
    mask = held[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)
