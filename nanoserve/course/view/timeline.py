"""Who ran in which slot, who waited, and who held which block, step by step, recorded from any engine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nanoserve.course.view.free_order import free_order
from nanoserve.course.view.hooks import hook
from nanoserve.course.view.ledger import letters
from nanoserve.course.view.state import SCRATCH, HeldBlock, PoolEvent, PoolSequence, PoolState, plural


@dataclass(frozen=True)
class Step:
    """One decode step.

    Attributes:
        running: slot -> label of the request in it.
        waiting: labels of those that wait, the next in line first.
        pool: who holds which block, with the token that this step stores.
    """

    running: Mapping[int, str]
    waiting: tuple[str, ...]
    pool: PoolState


class Timeline:
    """The decode steps of one engine from now on; name it at the end of a cell to see them.

    A request's label is its id, or a letter where the id is a number. A step counts once it is through: one whose
    forward pass raised leaves no mark.

    Args:
        engine: has `slots` and a `scheduler` with `running` and `waiting`, which may be replaced later.

    Attributes:
        steps: the decode steps so far.
        num_slots: rows of the picture.
    """

    def __init__(self, engine: Any) -> None:
        self.num_slots = engine.slots.num_slots
        self.steps: list[Step] = []
        self._engine, self._begun = engine, None
        hook(engine.slots, ("positions", "advance"), self._around)

    def pool(self, step: int) -> PoolState:
        """The pool in a step, counted from 1, among the events of all steps."""
        return replace(self.steps[step - 1].pool, events=self._events(), step=step)

    def _ipython_display_(self) -> None:
        from nanoserve.course.view.timeline_panel import show

        show({"": self}, with_pool=True)

    def _around(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if name == "positions":  # the model asks once, when a step begins
            self._begun = self._seen()
        elif self._begun is not None:
            self.steps.append(self._begun)
            self._begun = None
        return method(*args, **kwargs)

    def _seen(self) -> Step:
        scheduler, slots = self._engine.scheduler, self._engine.slots
        running = {slot: _label(request) for slot, request in scheduler.running.items()}
        allocator = slots.allocator
        scratch = getattr(slots, "scratch", None)
        held = [] if scratch is None else [PoolSequence(SCRATCH, (HeldBlock(scratch, 0),))]
        held += [
            PoolSequence.of(running.get(slot, "?"), table.block_ids, slots.lengths[slot] + 1, allocator.block_size)
            for slot, table in slots.tables.items()
        ]
        return Step(
            running,
            tuple(map(_label, scheduler.waiting)),
            PoolState(
                allocator.num_blocks,
                allocator.block_size,
                tuple(held),
                free_order(allocator),
                allocator.peak_used,
                focus=held[-1].label if held else "",
                place="place",  # a slot is a row of the batch here
            ),
        )

    def _events(self) -> tuple[PoolEvent, ...]:
        """A sentence for each step: who is new in a slot, and whom the step before had still seen in one."""
        events, before = [], set()
        for step in self.steps:
            now = set(step.running.values())
            new, gone = sorted(now - before), sorted(before - now)
            words = f"{len(now)} of {plural(self.num_slots, 'slot')} {'decodes' if len(now) == 1 else 'decode'}"
            words += f"; {' '.join(gone)} left" if gone else ""
            words += f"; {' '.join(new)} came in" if new else ""
            events.append(PoolEvent("take" if new else "append", new[0] if new else "", words))
            before = now
        return tuple(events)


def _label(request: Any) -> str:
    return letters(request.id) if isinstance(request.id, int) else str(request.id)
