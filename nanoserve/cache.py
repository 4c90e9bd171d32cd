"""Days 13 and 16: one sequence's keys and values, in one growing tensor or in the blocks of a pool."""

from importlib.util import find_spec

import torch

from nanoserve.block_table import BlockTable
from nanoserve.cache_contract import KVCache
from nanoserve.pool import KVPool


class NaiveKVCache(KVCache):
    """Keys and values in one contiguous tensor a layer, grown by concatenation."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # layer -> its keys, its values

    @property
    def seq_len(self) -> int:
        """Tokens held."""
        return max((keys.shape[2] for keys, _ in self._held.values()), default=0)

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store this step's keys and values of one layer, and return all that the layer holds, oldest first.

        Args:
            layer: index of the layer, from 0.
            k, v: (1, num_kv_heads, T, head_dim), of this step's T tokens.

        Returns:
            Keys and values, (1, num_kv_heads, tokens held, head_dim) each.
        """
        keys, values = self._held.get(layer, (None, None))
        self.require_shape(k, v, None if keys is None else (keys.shape[1], keys.shape[3]))
        if keys is not None:
            k, v = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
        self._held[layer] = k, v
        return k, v

    def free(self) -> None:
        """Give the memory back and be empty."""
        self._held = {}


def write_by_slot(memory: torch.Tensor, slots: torch.Tensor, new: torch.Tensor) -> None:
    """Put the keys, or the values, of a step's tokens into their slots.

    Args:
        memory: (num_blocks, block_size, num_kv_heads, head_dim), one layer of a pool's `k` or `v`; changed in place.
        slots: (T,), the flat slot `block_id * block_size + offset` of each token, in any order and all different.
        new: (1, num_kv_heads, T, head_dim).
    """
    flat = memory.view(-1, *memory.shape[2:])  # (num_blocks * block_size, num_kv_heads, head_dim)
    flat.index_copy_(0, slots, new[0].transpose(0, 1))  # (T, num_kv_heads, head_dim) goes in


def gather_by_table(memory: torch.Tensor, block_ids: torch.Tensor, num_tokens: int) -> torch.Tensor:
    """Copy a sequence out of its scattered blocks, oldest token first.

    Args:
        memory: (num_blocks, block_size, num_kv_heads, head_dim), one layer of a pool's `k` or `v`.
        block_ids: (blocks of the sequence,), its block table.
        num_tokens: tokens that the sequence holds; what lies behind them in its last block is not its own.

    Returns:
        (1, num_kv_heads, num_tokens, head_dim), memory of its own that no later write changes.
    """
    pages = memory.view(len(memory), -1).index_select(0, block_ids)  # whole blocks: one long copy each
    held = pages.view(-1, *memory.shape[2:])[:num_tokens]  # (num_tokens, num_kv_heads, head_dim)
    return held.transpose(0, 1).unsqueeze(0)


class PagedKVCache(KVCache):
    """One sequence's view of a pool that several may share: writes by slot, reads through its block table.

    Attributes:
        kernel: whether a decode step reads the blocks where they lie, with the Triton kernel, or a copy of them. None
            for the kernel on a GPU and the copy elsewhere; True runs it on a CPU too, in Triton's interpreter.
    """

    kernel: bool | None = None

    def __init__(self, pool: KVPool) -> None:
        self.pool = pool
        self.table = BlockTable(pool.allocator)  # one for all layers: a block id names a place in each
        self._layer_len = [0] * len(pool.k)  # tokens that each layer holds
        self._step: tuple[int, int] | None = None  # the positions that the index tensors are of

    @property
    def seq_len(self) -> int:
        """Tokens held."""
        return self.table.num_tokens

    def store(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Write this step's keys and values of one layer, (1, num_kv_heads, T, head_dim), into their slots.

        A growth that the pool cannot hold raises `KVCacheExhausted` and changes nothing.
        """
        self.require_shape(k, v, tuple(self.pool.k.shape[3:]), self.pool.k)
        start = self._layer_len[layer]
        end = start + k.shape[2]
        if end > self.seq_len:  # the step's first layer takes the blocks for all of them
            self.table.append(end - self.seq_len)
        if self._step != (start, end):  # and makes the index tensors for all of them
            device = self.pool.k.device
            self._slots = torch.tensor([self.table.slot(p) for p in range(start, end)], dtype=torch.long, device=device)
            self._blocks = torch.tensor(self.table.block_ids, dtype=torch.long, device=device)
            self._len = torch.tensor([end], device=device)
            self._step = (start, end)
        write_by_slot(self.pool.k[layer], self._slots, k)
        write_by_slot(self.pool.v[layer], self._slots, v)
        self._layer_len[layer] = end

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store this step's keys and values of one layer, and return all that it holds: see `KVCache.append`."""
        self.store(layer, k, v)
        keys, values = (
            gather_by_table(memory[layer], self._blocks, self._layer_len[layer])
            for memory in (self.pool.k, self.pool.v)
        )
        return keys, values

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """As `KVCache.attend`; with the kernel, the query of a single new token reads the blocks where they lie."""
        self.require_query(q, k)  # before anything is stored
        kernel = q.is_cuda and find_spec("triton") is not None if self.kernel is None else self.kernel
        if not kernel or q.shape[2] > 1:
            return super().attend(layer, q, k, v)
        from nanoserve.kernels import paged_attention  # here, for a machine without Triton runs all the rest

        self.store(layer, k, v)
        keys, values = self.pool.k[layer], self.pool.v[layer]
        return paged_attention(q[:, :, 0], keys, values, self._blocks.unsqueeze(0), self._len).unsqueeze(2)

    def free(self) -> None:
        """Give the blocks back and be empty; doing it again does nothing."""
        self.table.free()
        self._layer_len = [0] * len(self._layer_len)
        self._step = None
