"""Inputs of one decode step's attention, made to show what a wrong kernel reads."""

import torch

Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
NOWHERE = 2**30  # a block id that no pool has


def poisoned(
    num_heads: int,
    num_kv_heads: int,
    dim: int,
    block_size: int,
    lengths: list[int],
    *,
    dtype: torch.dtype = torch.float32,
    index: torch.dtype = torch.int64,
    device: str = "cpu",
    seed: int = 0,
    logits: float = 1.0,
) -> Inputs:
    """What `paged_attention` takes, over scattered blocks, with NaN in every slot that no sequence owns.

    A table's entries behind a sequence's last block name no block at all.

    Args:
        lengths: tokens of each sequence; 0 is an idle slot.
        logits: what the queries are multiplied with.

    Returns:
        q, k_pool, v_pool, block_tables, seq_lens.
    """
    draw = torch.Generator().manual_seed(seed)
    blocks = [-(-length // block_size) for length in lengths]
    num_blocks = sum(blocks) + 2  # two stay nobody's
    ids = torch.randperm(num_blocks, generator=draw).tolist()
    tables = torch.full((len(lengths), max(blocks) + 1), NOWHERE, dtype=index)
    k, v = (torch.full((num_blocks, block_size, num_kv_heads, dim), float("nan"), dtype=dtype) for _ in range(2))
    for row, (length, count) in enumerate(zip(lengths, blocks, strict=True)):
        own = [ids.pop() for _ in range(count)]
        tables[row, :count] = torch.tensor(own, dtype=index)
        for pool in (k, v):
            flat = torch.full((count * block_size, num_kv_heads, dim), float("nan"), dtype=dtype)
            flat[:length] = torch.randn(length, num_kv_heads, dim, generator=draw).to(dtype)
            pool[own] = flat.view(count, block_size, num_kv_heads, dim)
    q = (torch.randn(len(lengths), num_heads, dim, generator=draw) * logits).to(dtype)
    q, k, v, tables, seq_lens = (t.to(device) for t in (q, k, v, tables, torch.tensor(lengths, dtype=index)))
    return q, k, v, tables, seq_lens
