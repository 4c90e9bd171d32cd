"""Day 20: attention of one decode step, over the blocks where they lie.

A program serves one sequence and one KV head: it walks over that sequence's tokens once, a tile at a time, and lets all
query heads of the group use each key and value that it has fetched. Reading the keys and values is nearly all of the
work, so each is read once.

The online softmax is Milakov and Gimelshein's (2018) and FlashAttention's; the walk through a block table is
PagedAttention's (Kwon et al., 2023).
"""

import triton
import triton.language as tl


@triton.jit
def token_offsets(table_ptr, tokens, held, block_size, block_stride, token_stride):
    """Where the tokens' rows begin in a pool, counted in elements, as int64: a pool may have more than 2**31.

    Args:
        table_ptr: the sequence's block table.
        tokens: (TILE,), positions in the sequence.
        held: (TILE,), which of them the sequence holds; nothing is looked up for the others.
        block_size: tokens in a block.
        block_stride, token_stride: elements from a block to the next, and from a token of a block to the next.
    """
    block_ids = tl.load(table_ptr + tokens // block_size, mask=held, other=0).to(tl.int64)
    return block_ids * block_stride + (tokens % block_size) * token_stride


@triton.jit
def scores(q, k, held, scale, DOT: tl.constexpr):
    """How much each query attends to each token, (GROUP, TILE) in fp32; -inf for a token that is not held.

    GROUP and DIM are here as the tiles have them, padded to powers of two; zeros in q and k add nothing.

    Args:
        q: (GROUP, DIM), fp32 or halves.
        k: (TILE, DIM), in the same type.
        held: (TILE,).
        scale: of the products, 1 / sqrt(head_dim).
        DOT: multiply with `tl.dot`, which needs tensor cores to be worth it, and of halves gives fp32; otherwise
            multiply and sum in fp32.
    """
    if DOT:
        products = tl.dot(q, tl.trans(k))
    else:
        products = tl.sum(q.to(tl.float32)[:, None, :] * k.to(tl.float32)[None, :, :], axis=2)
    return tl.where(held[None, :], products * scale, float("-inf"))


@triton.jit
def fold(s, v, largest, total, mixed, DOT: tl.constexpr):
    """Take one tile into the online softmax, and return the three that it keeps: largest, total and mixed, in fp32.

    GROUP and DIM are here as the tiles have them, padded to powers of two.

    Args:
        s: (GROUP, TILE), the tile's scores.
        v: (TILE, DIM), its values, fp32 or halves (fp16 or bf16).
        largest: (GROUP,), the largest score so far. It begins at -1e30: from -inf, -inf - -inf would be NaN.
        total: (GROUP,), the sum of exp(score - largest) so far.
        mixed: (GROUP, DIM), the sum of the values, each by that weight.
        DOT: sum the values with `tl.dot`, whose operands have one type and whose sums are in fp32.
    """
    new_largest = tl.maximum(largest, tl.max(s, axis=1))
    shrink = tl.exp(largest - new_largest)  # what was summed under the old maximum
    weights = tl.exp(s - new_largest[:, None])
    if DOT:
        product = tl.dot(weights.to(v.dtype), v)
    else:
        # In the other order the compiler would make a dot of it, and round fp32 to tf32.
        product = tl.sum(v.to(tl.float32)[None, :, :] * weights[:, :, None], axis=1)
    return new_largest, total * shrink + tl.sum(weights, axis=1), mixed * shrink[:, None] + product


@triton.jit
def my_tokens(seq_len, TILE: tl.constexpr):
    """The first of this program's tokens, and the end of them: its share of the sequence, in whole tiles.

    The programs along the grid's third axis share a sequence. With one of them, it is the whole sequence.
    """
    tiles = tl.cdiv(seq_len, TILE)
    share = tl.cdiv(tiles, tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    return first, tl.minimum(first + share, seq_len)


@triton.jit
def store_lse(lse_ptr, heads, largest, total, GROUP: tl.constexpr):
    """Write the log-sum-exp of this program's heads, -inf without a token: that is what puts shares together.

    Args:
        lse_ptr: (batch, num_heads, splits), contiguous.
        heads: (GROUP_PAD,), the query heads, and behind the first GROUP of them no heads of this program.
        largest, total: (GROUP_PAD,), what `fold` has kept.
    """
    batch, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = batch * tl.num_programs(1) * GROUP + heads
    lse = tl.where(total == 0, float("-inf"), largest + tl.log(tl.where(total == 0, 1.0, total)))
    tl.store(lse_ptr + row * tl.num_programs(2) + split, lse, mask=heads < (kv_head + 1) * GROUP)


@triton.jit
def paged_decode_kernel(
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
    """One program: the query heads of one KV head, over one sequence's tokens or a share of them.

    The grid is (batch, num_kv_heads, splits). Of each head it writes the attention over its tokens, zeros when it has
    none, and their log-sum-exp.

    Args:
        q_ptr: (batch, num_kv_heads * GROUP, DIM), fp32 or halves, as are the pools.
        k_ptr, v_ptr: (num_blocks, block_size, num_kv_heads, DIM).
        table_ptr: (batch, blocks), block ids; behind a sequence's last block anything may stand.
        lens_ptr: (batch,), tokens of each sequence.
        out_ptr: (batch, num_kv_heads * GROUP, splits, DIM).
        lse_ptr: (batch, num_kv_heads * GROUP, splits), contiguous.
        scale: of the scores, 1 / sqrt(head_dim).
        block_size: tokens in a block.
        q_batch_stride to out_split_stride: elements from a sequence, head, block, token, row of the table or split to
            the next. `block_stride`, `token_stride` and `kv_head_stride` hold for both pools; a last axis has stride 1.
        GROUP, DIM: query heads of a KV head, and the width of a head; GROUP_PAD and DIM_PAD are powers of two.
        TILE: tokens that are fetched at a time, whatever the block size.
        DOT: for `scores` and `fold`.
    """
    batch, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    member = tl.arange(0, GROUP_PAD)
    heads = kv_head * GROUP + member
    dims = tl.arange(0, DIM_PAD)
    wanted = (member < GROUP)[:, None] & (dims < DIM)[None, :]
    q_at = q_ptr + batch * q_batch_stride + heads[:, None] * q_head_stride + dims[None, :]
    q = tl.load(q_at, mask=wanted, other=0.0)

    first, end = my_tokens(tl.load(lens_ptr + batch), TILE)
    largest = tl.full([GROUP_PAD], -1e30, tl.float32)
    total = tl.zeros([GROUP_PAD], tl.float32)
    mixed = tl.zeros([GROUP_PAD, DIM_PAD], tl.float32)
    for start in tl.range(first, end, TILE):
        tokens = start + tl.arange(0, TILE)
        held = tokens < end
        rows = token_offsets(table_ptr + batch * table_stride, tokens, held, block_size, block_stride, token_stride)
        at = rows[:, None] + kv_head * kv_head_stride + dims[None, :]
        fetched = held[:, None] & (dims < DIM)[None, :]  # a stale slot may hold NaN, and 0 * NaN is NaN: other=0.0
        k = tl.load(k_ptr + at, mask=fetched, other=0.0)
        v = tl.load(v_ptr + at, mask=fetched, other=0.0)
        largest, total, mixed = fold(scores(q, k, held, scale, DOT), v, largest, total, mixed, DOT)

    attended = mixed / tl.where(total == 0, 1.0, total)[:, None]  # without a token: zeros
    out_at = out_ptr + batch * out_batch_stride + heads[:, None] * out_head_stride + split * out_split_stride
    tl.store(out_at + dims[None, :], attended, mask=wanted)
    store_lse(lse_ptr, heads, largest, total, GROUP)
