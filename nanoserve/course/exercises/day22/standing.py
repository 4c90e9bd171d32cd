"""How slots and their pool stand, to be compared with how they stood, and an allocator that fails in between."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from nanoserve.allocator import BlockAllocator
from nanoserve.course.probe import Probe
from nanoserve.course.view.hooks import hook


def standing(slots: object) -> dict[str, object]:
    """Everything that an admission changes, by the words of a verdict."""
    return {
        "free_slots()": slots.free_slots(),
        "lengths": list(slots.lengths),
        "offsets": list(slots.offsets),
        "blocks free": slots.allocator.num_free,
        "tables": {slot: list(table.block_ids) for slot, table in slots.tables.items()},
    }


def as_it_was(
    probe: Probe,
    slots: object,
    before: dict[str, object],
    slip: str,
    slips: Mapping[str, dict[str, object]] | None = None,
) -> None:
    """One case: the slots stand as before; what differs is told.

    Args:
        slips: for each more precise reason, the entries by which it gives itself away.
    """
    probe.cases += 1
    now = standing(slots)
    changed = [name for name in before if now[name] != before[name]]
    if changed:
        likely = (name for name, entries in (slips or {}).items() if entries.items() <= now.items())
        expected, came = ("; ".join(f"{name}: {state[name]}" for name in changed) for state in (before, now))
        probe.fail(expected, came, next(likely, slip))


@contextmanager
def failing(allocator: BlockAllocator, error: BaseException) -> Iterator[list[str]]:
    """Inside the block, the second call that takes blocks raises; yields the calls that did."""
    asked, failed = [], []

    def ask(name: str, method: object, *args: object) -> object:
        asked.append(name)
        if len(asked) == 2:
            failed.append(name)
            raise error
        return method(*args)

    kind = type(allocator)
    hook(allocator, ("allocate_for",), ask)
    try:
        yield failed
    finally:
        allocator.__class__ = kind
