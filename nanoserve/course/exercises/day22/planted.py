"""Day 22's planted fault. To find it, look at the pictures before you read on."""

import torch

from nanoserve.paged_slots import PagedSlotKVCache
from nanoserve.pool import KVPool


class SuspectSlots(PagedSlotKVCache):
    """As `PagedSlotKVCache`, with one fault, of a kind that a fresh pool never shows."""

    def __init__(self, pool: KVPool, num_slots: int) -> None:
        super().__init__(pool, num_slots)
        self.block_tables = torch.zeros_like(self.block_tables)

    def release(self, slot: int) -> None:
        """Give a sequence's blocks back; its slot is idle."""
        super().release(slot)
        self.block_tables[slot] = 0
