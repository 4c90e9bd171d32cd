"""Day 14: the pool's bookkeeping. Block ids go out and come back; no tensor is in sight."""

from collections.abc import Iterable


class KVCacheExhausted(RuntimeError):
    """The pool has fewer free blocks than a request needs; nothing was taken."""


class BlockAllocator:
    """Hands out block ids and takes them back; every block is either on the free stack or in the allocated set.

    A block is room for the keys and values of `block_size` tokens. The free list is a stack, so that a block just
    freed, and still warm in the caches, is the next one out. The idea of handing out KV memory in fixed blocks is
    PagedAttention's (Kwon et al., SOSP 2023). Ctrl-C in the middle of an `allocate_for` or a `free_all` can leave
    blocks out that nobody holds: after an interrupt, start with a new allocator.

    Args:
        num_blocks: blocks in the pool.
        block_size: tokens in a block.

    Raises:
        ValueError: a size is not an int of at least 1.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        for name, size in (("num_blocks", num_blocks), ("block_size", block_size)):
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{name} must be an int of at least 1, got {size!r}")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._free = list(reversed(range(num_blocks)))  # the top of the stack is the last item: 0 goes out first
        self._allocated: set[int] = set()
        self.peak_used = 0

    @property
    def num_free(self) -> int:
        """Blocks on the free stack."""
        return len(self._free)

    @property
    def num_used(self) -> int:
        """Blocks in the allocated set."""
        return len(self._allocated)

    def allocate(self) -> int:
        """Take one block and return its id.

        Raises:
            KVCacheExhausted: no block is free.
        """
        if not self._free:
            raise KVCacheExhausted(f"blocks needed: 1; free: 0 of {self.num_blocks}")
        block_id = self._free.pop()
        self._allocated.add(block_id)
        self.peak_used = max(self.peak_used, self.num_used)
        return block_id

    def free(self, block_id: int) -> None:
        """Give one block back; it is the next one out.

        Raises:
            ValueError: the block is not out, because it was freed already or never allocated.
        """
        self._require_allocated([block_id])
        self._allocated.remove(block_id)
        self._free.append(block_id)

    def _require_allocated(self, block_ids: list[int]) -> None:
        """Raise a ValueError that names the block, unless every id in the list is out and stands there once."""
        seen = set()
        for block_id in block_ids:
            if type(block_id) is not int or block_id not in self._allocated:  # 0.0 and False equal 0
                raise ValueError(f"block {block_id} is not allocated: it was freed already, or never handed out")
            if block_id in seen:
                raise ValueError(f"block {block_id} stands twice in {block_ids}: a block goes back once")
            seen.add(block_id)

    def allocate_for(self, num_tokens: int) -> list[int]:
        """Take the `ceil(num_tokens / block_size)` blocks that hold `num_tokens` tokens, or none at all.

        Raises:
            KVCacheExhausted: fewer blocks are free than are needed; none was taken.
            ValueError: `num_tokens` is negative.
        """
        if num_tokens < 0:
            raise ValueError(f"num_tokens must be 0 or more, got {num_tokens}")
        needed = -(-num_tokens // self.block_size)  # a ceiling in whole numbers
        if needed > self.num_free:
            raise KVCacheExhausted(
                f"tokens: {num_tokens}; blocks of {self.block_size} needed: {needed}; "
                f"free: {self.num_free} of {self.num_blocks}"
            )
        return [self.allocate() for _ in range(needed)]

    def free_all(self, block_ids: Iterable[int]) -> None:
        """Give a whole sequence's blocks back, or none: the list is checked before anything moves.

        Raises:
            ValueError: an id is not out, or stands twice in the list; every block stays where it was.
        """
        block_ids = list(block_ids)
        self._require_allocated(block_ids)
        for block_id in block_ids:
            self.free(block_id)
