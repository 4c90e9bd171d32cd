"""Days 13 and 16: one sequence's keys and values, in one growing tensor or in the blocks of a pool."""

from importlib.util import find_spec

import torch
import torch.nn.functional as F

from nanoserve.block_table import BlockTable
from nanoserve.pool import KVPool


class KVCache:
    """What a decode loop and a model may ask of a cache, whatever memory lies under it.

    A step stores the keys and values of the same T new tokens in every layer.
    """

    @property
    def seq_len(self) -> int:
        """Tokens held."""
        raise NotImplementedError

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store this step's keys and values of one layer.

        Args:
            layer: index of the layer, from 0.
            k, v: (1, num_kv_heads, T, head_dim), the keys already rotated.

        Returns:
            All keys and all values that the layer holds, oldest first, (1, num_kv_heads, tokens held, head_dim) each.

        Raises:
            ValueError: the shapes do not fit the cache.
        """
        raise NotImplementedError

    def free(self) -> None:
        """Give the memory back and be empty; doing it again does nothing."""
        raise NotImplementedError

    def positions(self, num_tokens: int) -> torch.Tensor:
        """Where the next `num_tokens` tokens stand in the sequence, (num_tokens,), for the model's RoPE."""
        return torch.arange(self.seq_len, self.seq_len + num_tokens)

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store this step's keys and values, then let its queries attend to all that the layer holds.

        Args:
            layer: index of the layer, from 0.
            q: (1, num_heads, T, head_dim); consecutive groups of query heads share a KV head.
            k, v: (1, num_kv_heads, T, head_dim).

        Returns:
            (1, num_heads, T, head_dim).
        """
        keys, values = self.append(layer, k, v)
        num_new, num_held = q.shape[2], keys.shape[2]
        mask = None
        if 1 < num_new < num_held:
            # `is_causal` aligns the triangle with the first key, but a chunk's last query must see the last key.
            mask = torch.ones(num_new, num_held, dtype=torch.bool, device=q.device).tril(num_held - num_new)
        return F.scaled_dot_product_attention(
            q, keys, values, attn_mask=mask, is_causal=1 < num_new == num_held, enable_gqa=True
        )

    @staticmethod
    def require_shape(k: torch.Tensor, v: torch.Tensor, heads: tuple[int, ...] | None = None) -> None:
        """Raise a ValueError unless both are (1, num_kv_heads, T, head_dim).

        Args:
            k, v: what `append` was given.
            heads: the (num_kv_heads, head_dim) that they must have, where these are known.
        """
        if k.ndim != 4 or k.shape[0] != 1 or v.shape != k.shape:
            raise ValueError(
                f"a cache holds one sequence: k and v must both be (1, num_kv_heads, T, head_dim), "
                f"got {tuple(k.shape)} and {tuple(v.shape)}"
            )
        if heads is not None and (k.shape[1], k.shape[3]) != heads:
            raise ValueError(f"this cache holds {heads[0]} KV heads of {heads[1]}, got {k.shape[1]} of {k.shape[3]}")


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
        self.require_shape(k, v, tuple(self.pool.k.shape[3:]))
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
