"""Day 19's kernels: a copy, a sum, and a gather through the block table."""

import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Copy x to y. Each program copies BLOCK elements; the last one, as many as are left.

    Args:
        x_ptr, y_ptr: (n,).
        n: how many elements there are.
        BLOCK: elements of a program, a power of two.
    """
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    tl.store(y_ptr + at, x, mask=mask)


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    """Sum each row of x in fp32. One program sums one row, BLOCK elements at a time.

    Args:
        x_ptr: (rows, columns), fp32 or fp16; each row begins row_stride elements behind the one before.
        out_ptr: (rows,), fp32.
        columns: elements of a row.
        row_stride: elements from the beginning of a row to that of the next.
        BLOCK: elements that are loaded at once, a power of two.
    """
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + lanes
        total += tl.load(x_ptr + row * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(total))


@triton.jit
def gather_kernel(
    pool_ptr,
    table_ptr,
    out_ptr,
    num_tokens,
    block_size,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    TILE: tl.constexpr,
):
    """Fetch a sequence's rows out of its blocks, into one piece. Each program fetches TILE tokens.

    Args:
        pool_ptr: (num_blocks, block_size, DIM), perhaps more than 2**31 numbers.
        table_ptr: the sequence's block ids, int32: position p lies in block table[p // block_size].
        out_ptr: (num_tokens, DIM).
        num_tokens: how many tokens the sequence has; the last program may have fewer than TILE.
        block_size: tokens of a block.
        DIM: numbers in a row.
        DIM_PAD, TILE: powers of two; DIM_PAD is DIM or the next one above it.
    """
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    block_ids = tl.load(table_ptr + tokens // block_size, mask=tokens < num_tokens, other=0).to(tl.int64)
    slots = block_ids * block_size + tokens % block_size
    mask = (tokens < num_tokens)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)
