"""Day 18: attention of one decode step in plain torch, the references that a kernel is held to.

Both take what `nanoserve.kernels.paged_attention` takes, and give what it gives.
"""

import torch


def gathered_attention(
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Copy each sequence out of its blocks, then one softmax over all of its tokens.

    Arguments and result are those of `blockwise_attention`.
    """
    out = torch.zeros_like(q)
    for row, (table, num_tokens) in enumerate(zip(block_tables, seq_lens.tolist(), strict=True)):
        if num_tokens == 0:
            continue
        block_ids = table[: -(-num_tokens // k_pool.shape[1])]
        keys, values = (pool[block_ids].flatten(0, 1)[:num_tokens] for pool in (k_pool, v_pool))
        heads = q[row].unflatten(0, (keys.shape[1], -1))  # (num_kv_heads, group, head_dim)
        scores = torch.einsum("hgd,thd->hgt", heads, keys) * (q.shape[2] ** -0.5 if scale is None else scale)
        out[row] = torch.einsum("hgt,thd->hgd", scores.softmax(-1), values).flatten(0, 1)
    return out


def fold(
    scores: torch.Tensor,
    values: torch.Tensor,
    largest: torch.Tensor,
    total: torch.Tensor,
    mixed: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Take one block into the online softmax (Milakov and Gimelshein, 2018), and return the three that it keeps.

    Args:
        scores: (num_heads, tokens of the block); -inf for a token that does not count.
        values: (num_heads, tokens of the block, head_dim).
        largest: (num_heads,), the largest score so far, -1e30 at first: -inf - -inf would be NaN.
        total: (num_heads,), the sum of exp(score - largest) so far, 0 at first.
        mixed: (num_heads, head_dim), the sum of the values, each by that weight, 0 at first.
    """
    new_largest = torch.maximum(largest, scores.amax(-1))
    shrink = (largest - new_largest).exp()  # what was summed under the old maximum
    weights = (scores - new_largest[:, None]).exp()
    new_mixed = mixed * shrink[:, None] + (weights[:, :, None] * values).sum(1)
    return new_largest, total * shrink + weights.sum(-1), new_mixed


def blockwise_attention(
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """One query of each sequence attends to all of its tokens, block by block where they lie.

    Args:
        q: (batch, num_heads, head_dim); consecutive groups of query heads share a KV head.
        k_pool, v_pool: (num_blocks, block_size, num_kv_heads, head_dim), one layer of a `KVPool`.
        block_tables: (batch, blocks), the block ids of each sequence; entries behind its last block are not read.
        seq_lens: (batch,), tokens that each sequence holds; 0 gives zeros.
        scale: of the scores; 1 / sqrt(head_dim) by default.

    Returns:
        (batch, num_heads, head_dim).
    """
    block_size, num_kv_heads = k_pool.shape[1:3]
    group = q.shape[1] // num_kv_heads
    scale = q.shape[2] ** -0.5 if scale is None else scale
    out = torch.zeros_like(q)
    for row, (table, num_tokens) in enumerate(zip(block_tables.tolist(), seq_lens.tolist(), strict=True)):
        largest, total = torch.full((q.shape[1],), -1e30, device=q.device), torch.zeros(q.shape[1], device=q.device)
        mixed = torch.zeros(q.shape[1:], device=q.device)
        for start in range(0, num_tokens, block_size):
            block_id, held = table[start // block_size], min(block_size, num_tokens - start)
            keys, values = (
                pool[block_id, :held].transpose(0, 1).repeat_interleave(group, 0) for pool in (k_pool, v_pool)
            )  # (num_heads, held, head_dim)
            scores = (keys @ q[row][:, :, None]).squeeze(-1) * scale
            largest, total, mixed = fold(scores, values, largest, total, mixed)
        if num_tokens:
            out[row] = mixed / total[:, None]
    return out
