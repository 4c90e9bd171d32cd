"""Day 15: one sequence's map from token positions to the blocks that hold them."""

from nanoserve.allocator import BlockAllocator


class BlockTable:
    """Maps a sequence's positions 0, 1, 2 … to blocks, and takes a block only when a position has none yet.

    Entry i of `block_ids` holds positions `i * block_size` to `(i + 1) * block_size - 1`, like a page table of an
    operating system. The blocks may lie anywhere in the pool.

    Args:
        allocator: where blocks come from and go back to; several tables may share it.
    """

    def __init__(self, allocator: BlockAllocator) -> None:
        self.allocator = allocator
        self.block_ids: list[int] = []
        self.num_tokens = 0

    def append(self, num_tokens: int = 1) -> None:
        """Grow the sequence by `num_tokens` positions, all or nothing.

        Raises:
            KVCacheExhausted: the pool cannot hold the new positions; the table is as it was.
            ValueError: `num_tokens` is negative.
        """
        if num_tokens < 0:
            raise ValueError(f"num_tokens must be 0 or more, got {num_tokens}")
        room = len(self.block_ids) * self.allocator.block_size - self.num_tokens
        self.block_ids += self.allocator.allocate_for(max(0, num_tokens - room))
        self.num_tokens += num_tokens

    def position(self, p: int) -> tuple[int, int]:
        """The block that holds position `p`, and the offset of `p` within it.

        Raises:
            IndexError: `p` is outside the sequence.
        """
        if not 0 <= p < self.num_tokens:
            raise IndexError(f"position {p} is outside a sequence of length {self.num_tokens}")
        entry, offset = divmod(p, self.allocator.block_size)
        return self.block_ids[entry], offset

    def slot(self, p: int) -> int:
        """The flat slot of position `p`: `block_id * block_size + offset`.

        Raises:
            IndexError: `p` is outside the sequence.
        """
        block_id, offset = self.position(p)
        return block_id * self.allocator.block_size + offset

    def free(self) -> None:
        """Give every block back and be empty; doing it again does nothing."""
        self.allocator.free_all(self.block_ids)
        self.block_ids = []
        self.num_tokens = 0
