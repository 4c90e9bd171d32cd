"""Day 16: the memory behind the block ids, which all sequences share."""

from typing import TYPE_CHECKING

import torch

from nanoserve.allocator import BlockAllocator

if TYPE_CHECKING:
    from nanoserve.model import Llama


def kv_sizes(model: "Llama") -> tuple[int, int, int, torch.dtype, torch.device]:
    """What decides whether a memory fits: layers, KV heads, head_dim, and the keys' and values' dtype and device."""
    config = model.config
    return config.num_hidden_layers, config.num_key_value_heads, config.head_dim, model.dtype, model.device


class KVPool:
    """The memory behind the block ids: one id names a place in every layer.

    Args:
        num_layers: layers of the model.
        num_blocks, block_size: blocks in the pool, and tokens in a block.
        num_kv_heads, head_dim: KV heads of a layer, and their width.
        dtype, device: of the stored keys and values.
        allocator: who hands the blocks out; a new `BlockAllocator` unless one is given.

    Attributes:
        k, v: (num_layers, num_blocks, block_size, num_kv_heads, head_dim). A slot holds noise until it is written.

    Raises:
        ValueError: a size is below 1, or the allocator's sizes are not the pool's.
    """

    def __init__(
        self,
        num_layers: int,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
        allocator: BlockAllocator | None = None,
    ) -> None:
        for name, size in (("num_layers", num_layers), ("num_kv_heads", num_kv_heads), ("head_dim", head_dim)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        self.allocator = BlockAllocator(num_blocks, block_size) if allocator is None else allocator
        if (self.allocator.num_blocks, self.allocator.block_size) != (num_blocks, block_size):
            raise ValueError(
                f"the pool has {num_blocks} blocks of {block_size}, but its allocator hands out "
                f"{self.allocator.num_blocks} of {self.allocator.block_size}"
            )
        shape = (num_layers, num_blocks, block_size, num_kv_heads, head_dim)
        self.k = torch.empty(shape, dtype=dtype, device=device)
        self.v = torch.empty(shape, dtype=dtype, device=device)

    @classmethod
    def for_model(
        cls, model: "Llama", num_blocks: int, block_size: int = 16, allocator: BlockAllocator | None = None
    ) -> "KVPool":
        """A pool that fits the model's layers and heads, in its dtype and on its device."""
        config = model.config
        sizes = config.num_hidden_layers, num_blocks, block_size, config.num_key_value_heads, config.head_dim
        return cls(*sizes, dtype=model.dtype, device=model.device, allocator=allocator)

    def require_fit(self, model: "Llama") -> None:
        """Raise a ValueError that names both sides, unless the pool can hold the keys and values of this model."""
        num_layers, _, _, num_kv_heads, head_dim = self.k.shape
        ours, theirs = (num_layers, num_kv_heads, head_dim, self.k.dtype, self.k.device), kv_sizes(model)
        if ours != theirs:
            words = "(layers {}, KV heads {}, head_dim {}, {}, {})".format
            raise ValueError(
                f"the pool {words(*ours)} does not fit the model {words(*theirs)}: "
                f"make one that does with KVPool.for_model(model, ...)"
            )
