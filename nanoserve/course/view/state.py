"""What a KV pool looks like at one moment: who holds which block, what is filled, what comes out next."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

EventKind = Literal["take", "append", "free", "error", "fault"]

SCRATCH = "scratch"  # the label of a block that is out, and that no sequence ever gets
_MOST_NAMED = 12  # blocks that a description names, of one owner or of the free ones
_MOST_TOLD = 8  # owners that it names


@dataclass(frozen=True)
class HeldBlock:
    """One entry of a sequence's block table.

    Args:
        block_id: the block's place in the pool.
        filled: slots that hold a token, counted from the first; None when only the block is known to be taken.
        texts: the filled slots' own texts, as far as they are known.
    """

    block_id: int
    filled: int | None = None
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class PoolSequence:
    """One owner of blocks, with its blocks in table order."""

    label: str
    blocks: tuple[HeldBlock, ...] = ()

    @classmethod
    def of(
        cls, label: str, block_ids: Iterable[int], num_tokens: int, block_size: int, texts: Sequence[str] = ()
    ) -> "PoolSequence":
        """A sequence whose tokens fill its blocks from the first slot of the first one on.

        Args:
            label: the owner's letter, or a short name.
            block_ids: the block table.
            num_tokens: tokens stored; what the blocks cannot hold is left out.
            block_size: slots in a block.
            texts: text of position 0, 1, 2 …; there may be fewer, or more, than tokens.
        """
        blocks = []
        for entry, block_id in enumerate(block_ids):
            start = entry * block_size
            filled = min(max(num_tokens - start, 0), block_size)
            blocks.append(HeldBlock(block_id, filled, tuple(texts[start : start + filled])))
        return cls(label, tuple(blocks))

    @property
    def block_ids(self) -> tuple[int, ...]:
        """The block table."""
        return tuple(block.block_id for block in self.blocks)

    @property
    def num_tokens(self) -> int | None:
        """Tokens stored, or None when that is not known of every block."""
        filled = [block.filled for block in self.blocks]
        return None if None in filled else sum(filled)


@dataclass(frozen=True)
class PoolEvent:
    """One thing that happened: its kind, whose it was (empty for nobody's), and the sentence that tells it."""

    kind: EventKind
    label: str
    text: str


@dataclass(frozen=True)
class PoolState:
    """A pool at one moment, and its place in a history.

    Args:
        num_blocks: blocks in the pool.
        block_size: slots in a block.
        sequences: the owners that hold blocks now.
        free: the free blocks in the order in which they will come out, or None when that is not known.
        peak: the most blocks that were in use at once.
        freed_twice: blocks that were just given back by nobody who held them, without an error.
        focus: label of the sequence whose block table is shown; the first one's when empty.
        place: what a token's place in a block is called, where a slot is something else.
        room_for_text: draw slots wide enough for texts, even while there are none yet.
        events: the whole history.
        step: how many of `events` have happened.
    """

    num_blocks: int
    block_size: int
    sequences: tuple[PoolSequence, ...] = ()
    free: tuple[int, ...] | None = None
    peak: int = 0
    freed_twice: tuple[int, ...] = ()
    focus: str = ""
    place: str = "slot"
    room_for_text: bool = False
    events: tuple[PoolEvent, ...] = ()
    step: int = 0

    @property
    def holders(self) -> dict[int, list[tuple[str, HeldBlock]]]:
        """Block id -> the (label, entry) pairs that claim it; a sound pool has one each."""
        holders: dict[int, list[tuple[str, HeldBlock]]] = {}
        for sequence in self.sequences:
            for block in sequence.blocks:
                holders.setdefault(block.block_id, []).append((sequence.label, block))
        return holders

    @property
    def num_used(self) -> int:
        """Blocks of the pool that someone holds."""
        return sum(0 <= block_id < self.num_blocks for block_id in self.holders)

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds and that will come out; where the order is unknown, all that nobody holds."""
        if self.free is None:
            return self.num_blocks - self.num_used
        return sum(0 <= block_id < self.num_blocks for block_id in set(self.free) - self.holders.keys())

    @property
    def num_lost(self) -> int:
        """Blocks that nobody holds and that will not come out: what is neither used nor free."""
        return self.num_blocks - self.num_used - self.num_free

    @property
    def num_tokens(self) -> int | None:
        """Tokens stored in the pool, or None when that is not known of every sequence."""
        tokens = [sequence.num_tokens for sequence in self.sequences]
        return None if None in tokens else sum(tokens)

    @property
    def in_focus(self) -> PoolSequence | None:
        """The sequence whose block table is shown."""
        named = [sequence for sequence in self.sequences if sequence.label == self.focus]
        return next(iter(named or self.sequences), None)

    @property
    def faults(self) -> dict[int, str]:
        """Block id -> what is wrong with it, in three words; empty for a sound pool."""
        holders, free = self.holders, Counter(self.free or ())
        faults = {}
        for block_id in range(self.num_blocks):
            coming_out = free[block_id]
            if len(holders.get(block_id, ())) > 1:
                faults[block_id] = "handed out twice"
            elif block_id in self.freed_twice:
                faults[block_id] = "freed twice"
            elif coming_out > 1:
                faults[block_id] = "free twice"
            elif block_id in holders and coming_out:
                faults[block_id] = "in use, yet free"
            elif self.free is not None and block_id not in holders and not coming_out:
                faults[block_id] = "lost"
        strangers = sorted(block_id for block_id in {*holders, *free} if not 0 <= block_id < self.num_blocks)
        return faults | dict.fromkeys(strangers, "not in the pool")


def describe(state: PoolState) -> str:
    """The state in plain words, for a screen reader and wherever a picture cannot be shown."""
    lost = f", {state.num_lost:,} lost" if state.num_lost else ""
    words = [
        f"Pool of {plural(state.num_blocks, 'block')} of {plural(state.block_size, state.place)}: "
        f"{state.num_free:,} free, {state.num_used:,} used{lost}, peak {state.peak:,}."
    ]
    for sequence in state.sequences[:_MOST_TOLD]:
        tokens = "" if sequence.num_tokens is None else f" with {plural(sequence.num_tokens, 'token')}"
        held, more = sequence.block_ids, len(sequence.blocks) - _MOST_NAMED
        more = f" and {more:,} more" if more > 0 else ""
        words.append(f"{sequence.label} holds {name_blocks(held[:_MOST_NAMED])}{more}{tokens}.")
    if rest := state.sequences[_MOST_TOLD:]:
        words.append(f"{plural(len(rest), 'more sequence')} hold {plural(sum(len(s.blocks) for s in rest), 'block')}.")
    if state.free:
        more = " …" if len(state.free) > _MOST_NAMED else ""
        words.append(f"Next out: {' '.join(map(str, state.free[:_MOST_NAMED]))}{more}.")
    return " ".join([*words, *(f"{told.capitalize()}." for told in tell_faults(state.faults))])


def tell_faults(faults: dict[int, str]) -> list[str]:
    """`block 3 is lost`, `blocks 1 2 are handed out twice`: one sentence a kind, from block id -> fault."""
    blocks: dict[str, list[int]] = {}
    for block_id, fault in faults.items():
        blocks.setdefault(fault, []).append(block_id)
    return [f"{name_blocks(ids)} {'is' if len(ids) == 1 else 'are'} {fault}" for fault, ids in blocks.items()]


def plural(count: int, noun: str) -> str:
    """`1 block`, `2 blocks`, `1,024 blocks`. Counts have commas; ids and positions, which are names, have none."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def name_blocks(block_ids: Sequence[int]) -> str:
    """`block 3`, `blocks 3 4`, `no block`."""
    if not block_ids:
        return "no block"
    return f"block{'' if len(block_ids) == 1 else 's'} {' '.join(map(str, block_ids))}"
