"""The books of a pool as an onlooker keeps them: who was given which block, and who gave it back."""

from collections.abc import Iterable
from itertools import count

from nanoserve.course.view.state import SCRATCH, HeldBlock, PoolSequence, PoolState


class Ledger:
    """Who holds what, from what an allocator's calls gave and took.

    Args:
        num_blocks: blocks in the pool.
        block_size: slots in a block.
        free: the blocks that are free at the start, or None when that is not known. If they are a sound pool's, the
            rest was out before anyone looked, and "?" holds it.
    """

    def __init__(self, num_blocks: int, block_size: int, free: tuple[int, ...] | None) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._held: dict[str, list[HeldBlock]] = {}
        self._letters = (letters(number) for number in count())
        self._used_labels: set[str] = set()
        # A block that was out before anyone looked may be given back once without having been seen to go out.
        self._strangers = set(range(num_blocks)) if free is None else set()
        self.peak = 0
        if free is not None and len(set(free) & set(range(num_blocks))) == len(free):
            self.put("?", [HeldBlock(block_id) for block_id in range(num_blocks) if block_id not in free])

    def claim(self, label: str) -> str:
        """Take note of a label that someone else chose, so that no sequence gets it by itself."""
        self._used_labels.add(label)
        return label

    def next_label(self) -> str:
        """The first letter that was never anyone's."""
        return self.claim(next(label for label in self._letters if label not in self._used_labels))

    def of(self, label: str) -> list[HeldBlock]:
        """What a sequence holds, in the order in which it came."""
        return list(self._held.get(label, ()))

    def take(self, label: str, block_ids: list[int], num_tokens: int | None) -> None:
        """Give blocks to a sequence, filled from the first one on if the number of tokens is known."""
        if num_tokens is None:
            blocks = [HeldBlock(block_id, 0 if label == SCRATCH else None) for block_id in block_ids]
        else:
            blocks = list(PoolSequence.of(label, block_ids, num_tokens, self.block_size).blocks)
        self.put(label, self.of(label) + blocks)

    def put(self, label: str, blocks: Iterable[HeldBlock]) -> None:
        """Set what a sequence holds."""
        self._held[label] = list(blocks)
        if not self._held[label]:
            del self._held[label]
        out = {block.block_id for blocks in self._held.values() for block in blocks}
        self._strangers -= out
        self.peak = max(self.peak, len(out & set(range(self.num_blocks))))

    def give(self, block_ids: list[int], owner: str | None = None) -> tuple[list[str], list[int]]:
        """Take blocks back, from `owner` where it holds them.

        Returns:
            The labels of those who held them, each once, and the blocks that nobody held.
        """
        givers: list[str] = []
        nobodys: list[int] = []
        for block_id in block_ids:
            holders = [label for label, blocks in self._held.items() if any(b.block_id == block_id for b in blocks)]
            if holders:
                label = owner if owner in holders else holders[0]
                blocks = self.of(label)
                del blocks[[block.block_id for block in blocks].index(block_id)]
                self.put(label, blocks)
                givers.append(label)
            elif block_id in self._strangers:
                self._strangers.discard(block_id)
            else:
                nobodys.append(block_id)
        return list(dict.fromkeys(givers)), nobodys

    def state(self, free: tuple[int, ...] | None, focus: str = "", freed_twice: Iterable[int] = ()) -> PoolState:
        """The pool as it is now."""
        sequences = tuple(PoolSequence(label, tuple(blocks)) for label, blocks in self._held.items())
        return PoolState(
            self.num_blocks, self.block_size, sequences, free, self.peak, freed_twice=tuple(freed_twice), focus=focus
        )


def letters(number: int) -> str:
    """A, B … Z, AA, AB … for 0, 1 …"""
    return (letters(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)
