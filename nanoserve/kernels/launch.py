"""Days 20 and 21: `paged_attention`, which chooses how the kernel is launched and refuses what it could not do."""

import functools

import torch
import triton

from nanoserve.kernels.combine import combine_kernel
from nanoserve.kernels.paged_decode import paged_decode_kernel

# In the interpreter a turn of the loop costs milliseconds whatever its size, so its tiles are long.
INTERPRETED = not isinstance(paged_decode_kernel, triton.runtime.JITFunction)
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def paged_attention(
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float | None = None,
    num_splits: int | None = None,
) -> torch.Tensor:
    """Attention of one decode step: each sequence's one query over its own tokens, read in the blocks where they lie.

    Args:
        q: (batch, num_heads, head_dim); consecutive groups of query heads share a KV head. Any strides.
        k_pool, v_pool: (num_blocks, block_size, num_kv_heads, head_dim), one layer of a `KVPool`.
        block_tables: (batch, blocks), int32 or int64, the block ids of each sequence; what stands behind the last block
            that a sequence needs is not read.
        seq_lens: (batch,), int32 or int64, tokens that each sequence holds; 0 gives zeros.
        scale: of the scores; 1 / sqrt(head_dim) by default.
        num_splits: programs that share a sequence; chosen by `splits_for` by default.

    Returns:
        (batch, num_heads, head_dim), in q's dtype. Sums are kept in fp32.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit one another, or that this device cannot run; in the
            interpreter also lengths and block ids that are not there. On a GPU these are trusted.
    """
    _require_fit(q, k_pool, v_pool, block_tables, seq_lens)
    _require_device(q)
    batch, num_heads, dim = q.shape
    block_size, num_kv_heads = k_pool.shape[1:3]
    group = num_heads // num_kv_heads
    if q.stride(2) != 1:
        q = q.contiguous()
    if block_tables.stride(1) != 1:  # a slice of wider tables is read where it is
        block_tables = block_tables.contiguous()
    seq_lens = seq_lens.contiguous()
    scale = dim**-0.5 if scale is None else scale
    dot = q.dtype != torch.float32 and not INTERPRETED and _capability(q.device) >= (8, 0)
    shape = tile_shape(group, dim, dot, longest=block_tables.shape[1] * block_size if INTERPRETED else None)
    if num_splits is None:
        longest = block_tables.shape[1] * block_size  # a bound that is known here: `seq_lens` stays on the device
        num_splits = 1 if INTERPRETED else splits_for(batch * num_kv_heads, longest, _multiprocessors(q.device))
    elif num_splits < 1:
        raise ValueError(f"num_splits must be at least 1, got {num_splits}")

    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    if batch == 0:
        return out
    lse = torch.empty(batch, num_heads, num_splits, dtype=torch.float32, device=q.device)
    parts = out.unsqueeze(2)  # (batch, num_heads, splits, head_dim)
    if num_splits > 1:
        parts = torch.empty(batch, num_heads, num_splits, dim, dtype=torch.float32, device=q.device)
    paged_decode_kernel[(batch, num_kv_heads, num_splits)](
        q,
        k_pool,
        v_pool,
        block_tables,
        seq_lens,
        parts,
        lse,
        scale,
        block_size,
        *q.stride()[:2],
        *k_pool.stride()[:3],
        block_tables.stride(0),
        *parts.stride()[:3],
        **shape,
    )
    if num_splits > 1:
        sizes = {"SPLITS_PAD": triton.next_power_of_2(num_splits), "DIM": dim, "DIM_PAD": shape["DIM_PAD"]}
        combine_kernel[(batch, num_heads)](parts, lse, out, num_splits, *out.stride()[:2], **sizes)
    return out


def tile_shape(group: int, dim: int, dot: bool, longest: int | None = None) -> dict[str, int | bool]:
    """The kernel's constants, for so many query heads a KV head and such a head dimension.

    A tile of keys is 8 KB in fp16 with `tl.dot`, so that several programs with several tiles each fit a multiprocessor;
    a dot has at least 16 rows. Without it each thread holds GROUP x TILE x DIM / 128 products in registers: 32.

    Args:
        longest: tokens that the tables have room for, where the tile may be as long as that: in the interpreter.
    """
    group_pad, dim_pad = triton.next_power_of_2(group), triton.next_power_of_2(dim)
    if dot:
        group_pad, dim_pad = max(16, group_pad), max(16, dim_pad)
        tile = max(16, 4096 // dim_pad)
    else:
        tile = min(64, max(1, 4096 // (group_pad * dim_pad)))
    if longest is not None:
        tile = min(512, triton.next_power_of_2(max(1, longest)))
    return {"GROUP": group, "GROUP_PAD": group_pad, "DIM": dim, "DIM_PAD": dim_pad, "TILE": tile, "DOT": dot}


def splits_for(programs: int, longest: int, multiprocessors: int) -> int:
    """How many programs share a sequence: enough that each multiprocessor gets four, none with less than 256 tokens.

    Args:
        programs: sequences times KV heads, what there is without splitting.
        longest: tokens of the longest sequence, or a bound.
        multiprocessors: of the GPU.
    """
    wanted = -(-4 * multiprocessors // max(1, programs))
    return max(1, min(wanted, longest // 256, 128))


def _require_fit(
    q: torch.Tensor, k_pool: torch.Tensor, v_pool: torch.Tensor, block_tables: torch.Tensor, seq_lens: torch.Tensor
) -> None:
    if q.ndim != 3 or k_pool.ndim != 4 or v_pool.shape != k_pool.shape or k_pool.shape[3] != q.shape[2]:
        raise ValueError(
            f"q must be (batch, num_heads, head_dim), and both pools (num_blocks, block_size, num_kv_heads, head_dim), "
            f"got {tuple(q.shape)}, {tuple(k_pool.shape)} and {tuple(v_pool.shape)}"
        )
    if 0 in (*k_pool.shape[1:], q.shape[1]) or q.shape[1] % k_pool.shape[2]:
        raise ValueError(
            f"{q.shape[1]} query heads of {q.shape[2]} cannot share {k_pool.shape[2]} KV heads evenly, "
            f"in blocks of {k_pool.shape[1]}"
        )
    if block_tables.ndim != 2 or (len(block_tables),) != seq_lens.shape or len(q) != len(block_tables):
        raise ValueError(
            f"for a batch of {len(q)}, block_tables must be ({len(q)}, blocks) and seq_lens ({len(q)},), "
            f"got {tuple(block_tables.shape)} and {tuple(seq_lens.shape)}"
        )
    if q.dtype not in DTYPES or {k_pool.dtype, v_pool.dtype} != {q.dtype}:
        raise ValueError(
            f"q and the pools must share fp16, bf16 or fp32, got {q.dtype}, {k_pool.dtype}, {v_pool.dtype}"
        )
    if not {block_tables.dtype, seq_lens.dtype} <= {torch.int32, torch.int64}:
        raise ValueError(
            f"block_tables and seq_lens must be int32 or int64, got {block_tables.dtype}, {seq_lens.dtype}"
        )
    if len({tensor.device for tensor in (q, k_pool, v_pool, block_tables, seq_lens)}) > 1:
        raise ValueError("q, the pools, block_tables and seq_lens must lie on one device")
    if k_pool.stride() != v_pool.stride() or k_pool.stride(3) != 1:
        raise ValueError("k_pool and v_pool must have the same strides, with head_dim innermost")
    if INTERPRETED:
        _require_places(k_pool, block_tables, seq_lens)


def _require_places(k_pool: torch.Tensor, block_tables: torch.Tensor, seq_lens: torch.Tensor) -> None:
    """What only the interpreter can afford to look at: on a GPU these numbers would have to come to the host."""
    num_blocks, block_size = k_pool.shape[:2]
    room = block_tables.shape[1] * block_size
    for row, length in enumerate(seq_lens.tolist()):
        if not 0 <= length <= room:
            raise ValueError(f"sequence {row} has {length} tokens, and its row of block_tables has room for {room}")
        for block_id in block_tables[row, : -(-length // block_size)].tolist():
            if not 0 <= block_id < num_blocks:
                raise ValueError(f"sequence {row} has block {block_id} in its table, of a pool of {num_blocks} blocks")


def _require_device(q: torch.Tensor) -> None:
    if q.device.type == "cpu" and not INTERPRETED:
        raise ValueError("on a CPU, Triton runs in its interpreter: set TRITON_INTERPRET=1 before Triton is imported")
    if q.device.type == "cuda" and q.dtype == torch.bfloat16 and not INTERPRETED and _capability(q.device) < (8, 0):
        name = torch.cuda.get_device_name(q.device)
        raise ValueError(f"bf16 needs compute capability 8.0, and {name} has less: use torch.float16")


@functools.cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


@functools.cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count
