"""How slots and their pool stand, to be compared with how they stood, and methods that fail in between."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

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
        "block_tables of idle slots, but for scratch": _pointed_to(slots),
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
def failing(target: object, method: str, error: BaseException) -> Iterator[list[str]]:
    """Inside the block, the second call of a method of `target` raises; yields the calls that did."""
    asked, failed = [], []

    def ask(name: str, call: Callable, *args: object, **kwargs: object) -> object:
        asked.append(name)
        if len(asked) == 2:
            failed.append(name)
            raise error
        return call(*args, **kwargs)

    kind = type(target)
    hook(target, (method,), ask)
    try:
        yield failed
    finally:
        target.__class__ = kind


def _pointed_to(slots: object) -> dict[int, list[int]]:
    """The blocks to which the row of an idle slot leads, beside the scratch block: there must be none."""
    rows = {slot: slots.block_tables[slot].unique().tolist() for slot in slots.free_slots()}
    led = {slot: [block for block in row if block != slots.scratch] for slot, row in rows.items()}
    return {slot: blocks for slot, blocks in led.items() if blocks}
