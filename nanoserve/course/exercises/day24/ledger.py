"""Slots of the learner's that keep the books and hold no tensors, and what the verdict tells of them."""

from collections.abc import Mapping
from numbers import Integral

import torch

from nanoserve.allocator import BlockAllocator
from nanoserve.block_table import BlockTable
from nanoserve.course.probe import Probe, kind, show
from nanoserve.course.view.state import plural
from nanoserve.slots import Slots

BLOCK_SIZE = 4


class Ledger:
    """The learner's slots, with sequences in some of them.

    Args:
        probe: whose subject they are.
        lengths: tokens of the sequence in each slot that holds one.
        num_free: blocks that are free beside theirs.
        num_slots: as many as there are sequences if None.
        block_size: tokens of a block.
        max_len: tokens of the longest sequence, far away unless it matters.
    """

    def __init__(
        self,
        probe: Probe,
        lengths: Mapping[int, int],
        num_free: int,
        num_slots: int | None = None,
        block_size: int = BLOCK_SIZE,
        max_len: int = 1000,
    ) -> None:
        self.probe = probe
        held = sum(-(-length // block_size) for length in lengths.values())
        allocator = BlockAllocator(held + num_free, block_size)
        num_slots = len(lengths) if num_slots is None else num_slots
        self.slots = probe.subject(num_slots, max_len, torch.device("cpu"), allocator)
        for slot, length in lengths.items():
            seat(self.slots, slot, length)
        end = f"; max_len is {max_len}" if max_len < 1000 else ""
        probe.calls[:] = [
            f"{plural(num_slots, 'slot')} over blocks of {block_size}, {num_free} of them free{end}",
            *(f"slot {slot} holds {plural(length, 'token')}" for slot, length in lengths.items()),
        ]

    def due(self) -> object:
        """The learner's count, a whole number unless it is None."""
        came = self.probe.record("slots._blocks_due()", self.slots._blocks_due)
        if came is not None and not isinstance(came, Integral):
            self.probe.fail("an int", f"{kind(came)}: {show(came)}", "due-is-no-int")
        return came

    def reserve(self) -> object:
        """The learner's answer."""
        return self.probe.record("slots.reserve_step()", self.slots.reserve_step)

    def blocks(self) -> list[int]:
        """How many blocks each sequence has."""
        tables = self.slots.tables.values()
        line = "[len(table.block_ids) for table in slots.tables.values()]"
        return self.probe.record(line, lambda: [len(table.block_ids) for table in tables])

    def free(self) -> int:
        """How many blocks are free."""
        return self.probe.record("slots.allocator.num_free", lambda: self.slots.allocator.num_free)


def seat(slots: Slots, slot: int, num_tokens: int) -> None:
    """Let a sequence of so many tokens be in a slot."""
    slots.tables[slot] = BlockTable(slots.allocator)
    slots._grow(slot, num_tokens)
    slots.lengths[slot] = num_tokens
