"""A decode step with a learner's own `my_tokens` and `combine_kernel`, in the process that tries kernels."""

from collections.abc import Mapping
from random import Random
from typing import Any

import torch

from nanoserve.course.kernels.launch import try_launch
from nanoserve.course.kernels.reference import KernelReference

_DECODE = KernelReference("nanoserve.kernels.paged_decode", "paged_decode_kernel")


def split_attention(
    my_tokens: object,
    combine_kernel: object,
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    splits: int,
    tile: int = 16,
) -> torch.Tensor:
    """As `nanoserve.paged_attention`, with `splits` programs to a sequence that fetch `tile` tokens at a time.

    Args:
        my_tokens, combine_kernel: what stands in for the engine's own.

    Raises:
        Exception: what one of the kernels raised.
    """
    batch, num_heads, dim = q.shape
    num_kv_heads, group = k_pool.shape[2], num_heads // k_pool.shape[2]
    dim_pad = 1 << (dim - 1).bit_length()
    sizes = {"GROUP": group, "GROUP_PAD": 1 << (group - 1).bit_length(), "DIM": dim, "DIM_PAD": dim_pad}
    parts, lse = torch.empty(batch, num_heads, splits, dim), torch.empty(batch, num_heads, splits)
    strides = *q.stride()[:2], *k_pool.stride()[:3], block_tables.stride(0), *parts.stride()[:3]
    decode = (q, k_pool, v_pool, block_tables, seq_lens, parts, lse, dim**-0.5, k_pool.shape[1], *strides)
    done = _launched(
        _DECODE, (batch, num_kv_heads, splits), decode, sizes | {"TILE": tile, "DOT": False}, {"my_tokens": my_tokens}
    )
    out = torch.empty_like(q)
    combine = (done["out"], done["lse"], out, splits, *out.stride()[:2])
    pads = {"SPLITS_PAD": 1 << (splits - 1).bit_length(), "DIM": dim, "DIM_PAD": dim_pad}
    return _launched(combine_kernel, (batch, num_heads), combine, pads, {})["out"]


def ragged_step(lengths: list[int], block_size: int = 4, num_kv_heads: int = 2, group: int = 3, dim: int = 16) -> tuple:
    """What `paged_attention` takes, for sequences in scattered blocks, with NaN in every slot that is nobody's.

    Args:
        lengths: tokens of each sequence; 0 is an idle row.
    """
    draw = torch.Generator().manual_seed(21)
    need = [-(-length // block_size) for length in lengths]
    ids = Random(21).sample(range(sum(need) + 2), sum(need) + 2)
    tables = torch.zeros(len(lengths), max(need), dtype=torch.int32)
    pools = [torch.full((len(ids), block_size, num_kv_heads, dim), torch.nan) for _ in range(2)]
    for row, length in enumerate(lengths):
        own = [ids.pop() for _ in range(need[row])]
        tables[row, : need[row]] = torch.tensor(own)
        for position in range(length):
            for pool in pools:
                pool[own[position // block_size], position % block_size] = torch.randn(
                    num_kv_heads, dim, generator=draw
                )
    q = 3 * torch.randn(len(lengths), num_kv_heads * group, dim, generator=draw)
    return q, *pools, tables, torch.tensor(lengths, dtype=torch.int32)


def _launched(
    kernel: object, grid: tuple[int, ...], args: tuple, constants: Mapping[str, Any], others: Mapping[str, object]
) -> Mapping[str, torch.Tensor]:
    run = try_launch(kernel, grid, args, constants, others=others, seconds=20, keeps=False)
    if run.error is not None:
        raise run.error
    return run.tensors
