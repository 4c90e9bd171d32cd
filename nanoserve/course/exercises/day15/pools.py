"""The pools under the tables that the stages look at."""

from collections.abc import Sequence

from nanoserve.allocator import BlockAllocator, KVCacheExhausted
from nanoserve.course.probe import Traced

SCATTERED = (5, 7, 2, 0, 6, 1, 4, 3)


class Pool(BlockAllocator):
    """The engine's allocator, whose blocks come out in a given order; its repr says in which."""

    def __init__(self, block_size: int, order: Sequence[int] = SCATTERED) -> None:
        super().__init__(len(order), block_size)
        for _ in order:
            self.allocate()
        self.free_all(reversed(order))

    def __repr__(self) -> str:
        return f"a pool with blocks of {self.block_size}, next out {list(reversed(self._free))}"


class OtherPool:
    """An allocator with the public methods of the engine's, and nothing else of it."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        self.ready = list(range(num_blocks))

    num_free = property(lambda self: len(self.ready))
    num_used = property(lambda self: self.num_blocks - len(self.ready))

    def __repr__(self) -> str:
        return f"another make of pool with {self.num_blocks} blocks of {self.block_size}"

    def allocate(self) -> int:
        return self.allocate_for(1)[0]

    def allocate_for(self, num_tokens: int) -> list[int]:
        needed = -(-num_tokens // self.block_size)
        if needed > len(self.ready):
            raise KVCacheExhausted(f"needed: {needed}; free: {self.ready}")
        return [self.ready.pop(0) for _ in range(needed)]

    def free(self, block_id: int) -> None:
        self.free_all([block_id])

    def free_all(self, block_ids: Sequence[int]) -> None:
        for block_id in list(block_ids):
            self.ready.insert(0, block_id)


def ids_of(table: Traced) -> object:
    """The table's block ids; a tuple or an array of them is as good as a list."""
    ids = table.block_ids
    return ids if ids is None or isinstance(ids, str) else list(ids)
