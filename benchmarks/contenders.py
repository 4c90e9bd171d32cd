"""Four ways to do the attention of one decode step, over the same keys and values, for a benchmark to compare."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from nanoserve.kernels import paged_attention


@dataclass(frozen=True)
class Point:
    """One size of the problem: `batch` sequences of `context` tokens each."""

    num_heads: int
    num_kv_heads: int
    dim: int
    batch: int
    context: int
    block_size: int

    def kv_bytes(self, itemsize: int) -> int:
        """Bytes of keys and values that one layer's attention reads."""
        return 2 * self.batch * self.context * self.num_kv_heads * self.dim * itemsize


class Step:
    """One decode step's attention through `layers` layers, each with keys and values of its own.

    Several layers, as in a model: one layer's keys and values may fit the GPU's L2 cache and would be read from there.

    Args:
        point: the sizes.
        memory: four flat tensors of at least `layers * kv_bytes / 2` bytes each, random: two pools and their contiguous
            counterparts.
        layers: how many.
    """

    def __init__(self, point: Point, memory: tuple[torch.Tensor, ...], layers: int) -> None:
        self.point, self.layers = point, layers
        device, dtype = memory[0].device, memory[0].dtype
        blocks = point.batch * -(-point.context // point.block_size)
        pool = (layers, blocks, point.block_size, point.num_kv_heads, point.dim)
        row = (layers, point.batch, point.num_kv_heads, point.context, point.dim)
        sizes = [torch.Size(pool).numel()] * 2 + [torch.Size(row).numel()] * 2
        self.k_pool, self.v_pool, self.keys, self.values = (
            flat[:size].view(shape) for flat, size, shape in zip(memory, sizes, (pool, pool, row, row), strict=True)
        )
        self.q = torch.randn(point.batch, point.num_heads, point.dim, dtype=dtype, device=device)
        self.tables = torch.randperm(blocks, device=device).view(point.batch, -1)  # scattered all over the pool
        self.lengths = torch.full((point.batch,), point.context, device=device)

    def kernel(self) -> torch.Tensor:
        """The engine's kernel, in the blocks where they lie."""
        for k, v in zip(self.k_pool, self.v_pool, strict=True):
            out = paged_attention(self.q, k, v, self.tables, self.lengths)
        return out

    def sdpa(self) -> torch.Tensor:
        """torch's attention over a contiguous cache, which holds other numbers."""
        for k, v in zip(self.keys, self.values, strict=True):
            out = F.scaled_dot_product_attention(self.q.unsqueeze(2), k, v, enable_gqa=True)
        return out.squeeze(2)

    def gather(self) -> torch.Tensor:
        """Whole blocks copied together, then torch's attention."""
        for k_pool, v_pool in zip(self.k_pool, self.v_pool, strict=True):
            k, v = (self._gathered(pool) for pool in (k_pool, v_pool))
            out = F.scaled_dot_product_attention(self.q.unsqueeze(2), k, v, enable_gqa=True)
        return out.squeeze(2)

    def _gathered(self, pool: torch.Tensor) -> torch.Tensor:
        point = self.point
        pages = pool.view(len(pool), -1).index_select(0, self.tables.flatten())
        rows = pages.view(point.batch, -1, point.num_kv_heads, point.dim)[:, : point.context]
        return rows.transpose(1, 2)

    def flex(self) -> Callable[[], torch.Tensor]:
        """FlexAttention over the pages, compiled: the mask's blocks are the pages, under their physical numbers."""
        point, blocks = self.point, len(self.k_pool[0])
        logical = torch.full((point.batch, blocks), -1, device=self.tables.device)
        places = torch.arange(self.tables.shape[1], device=logical.device).expand_as(self.tables)
        logical.scatter_(1, self.tables, places)
        lengths, size = self.lengths, point.block_size

        def held(b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
            place = logical[b, kv // size]
            return (place >= 0) & (place * size + kv % size < lengths[b])

        mask = create_block_mask(held, point.batch, None, 1, blocks * size, logical.device, BLOCK_SIZE=(128, size))
        compiled = torch.compile(flex_attention, fullgraph=True)

        def run() -> torch.Tensor:
            for k_pool, v_pool in zip(self.k_pool, self.v_pool, strict=True):
                k, v = (pool.flatten(0, 1).transpose(0, 1).unsqueeze(0) for pool in (k_pool, v_pool))
                out = compiled(self.q.unsqueeze(2), k, v, block_mask=mask, enable_gqa=True)
            return out.squeeze(2)

        return run
