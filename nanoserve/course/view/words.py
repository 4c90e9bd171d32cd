"""The sentences of the log that need some thought."""

from collections.abc import Collection, Sequence

from nanoserve.course.view.state import EventKind, HeldBlock, PoolState, name_blocks, plural, tell_faults
from nanoserve.course.view.text import show_token


def growth(
    label: str,
    before: list[HeldBlock],
    now: list[HeldBlock],
    num_tokens: int,
    block_size: int,
    texts: Sequence[str],
    place: str = "slot",
) -> tuple[EventKind, str, str]:
    """What an append to a block table did, as an event: a single token's text and slot, and the blocks taken for it.

    It is a fault when the table then counts more tokens than its blocks can hold.

    Args:
        label: whose table it is.
        before, now: its blocks around the append.
        num_tokens: what the table counts now.
        block_size: slots in a block.
        texts: the tokens' texts, as far as they are known.
        place: as in `PoolState`.
    """
    had, has = (sum(block.filled or 0 for block in blocks) for blocks in (before, now))
    words = f"{label} appends {plural(num_tokens - had, 'token')}"
    if num_tokens - had == 1 == has - had:
        entry, offset = divmod(has - 1, block_size)
        token = f" “{show_token(texts[has - 1])}”" if has <= len(texts) else ""
        words = f"{label} appends{token} in {place} {now[entry].block_id * block_size + offset}"
    grown = [block.block_id for block in now[len(before) :]]
    if grown:
        words += f", grows into {name_blocks(grown)}"
    if has < num_tokens:
        return "fault", label, f"{words}; {plural(num_tokens - has, 'token')} of {label} without a {place}"
    return "take" if grown else "append", label, words


def breakage(before: PoolState, now: PoolState, touched: Collection[int], told: Collection[int]) -> str:
    """The faults that an event brought or ran into, to be put behind its sentence; empty when all is well.

    Args:
        before, now: the pool around the event.
        touched: the event's own blocks, whose faults are told again.
        told: blocks that the sentence has already spoken of.
    """
    news = {
        block_id: fault
        for block_id, fault in now.faults.items()
        if (before.faults.get(block_id) != fault or block_id in touched) and block_id not in told
    }
    return "".join(f"; {sentence}" for sentence in tell_faults(news))
