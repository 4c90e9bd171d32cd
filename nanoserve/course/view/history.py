"""A pool's history: every event, and the pool as it was after it."""

from collections import deque
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from nanoserve.course.view.free_order import free_order
from nanoserve.course.view.ledger import Ledger
from nanoserve.course.view.png import to_png
from nanoserve.course.view.state import PoolEvent, PoolState
from nanoserve.course.view.svg import draw_pool
from nanoserve.course.view.words import breakage


class History:
    """Events and states of one allocator's pool, for a panel to show and for a file to keep.

    Args:
        allocator: whose pool it is.
        place: as in `PoolState`.
    """

    def __init__(self, allocator: Any, place: str) -> None:
        free = free_order(allocator)
        self.allocator, self.place = allocator, place
        self.ledger = Ledger(allocator.num_blocks, allocator.block_size, free)
        self.tables: dict[str, Any] = {}  # label -> its block table, where there is one
        self.events: list[PoolEvent] = []
        self.has_text = False
        self._states = [self.ledger.state(free)]
        self._views: deque[Any] = deque(maxlen=4)  # a cell that is run again leaves its old view behind

    def record(
        self,
        kind: str,
        label: str,
        text: str,
        block_ids: Collection[int] = (),
        *,
        freed_twice: Collection[int] = (),
        tells_next: bool = False,
        reason: str = "",
    ) -> None:
        """Keep the pool's state as it is after an event, and say in the event what it broke.

        Args:
            kind, label, text: the event, as in `PoolEvent`.
            block_ids: blocks it was about, whose faults are told again.
            freed_twice: blocks that it took back from nobody, as its text says.
            tells_next: the text goes on with the block that comes out next.
            reason: what an error said, at any length; it goes to the end, for the end of a long line is cut off.
        """
        free = free_order(self.allocator)
        known = self._states[-1]
        state = self.ledger.state(free, label or known.focus, freed_twice)
        if tells_next and free:
            text += f"; block {free[0]} is next out"
        if broken := breakage(known, state, block_ids, freed_twice):
            kind, text = "fault", text + broken
        self.events.append(PoolEvent(kind, label, " ".join(f"{text}{reason and ': '}{reason}".split())))
        self._states.append(state)
        for view in tuple(self._views):
            view.refresh()

    def state(self, step: int | None = None) -> PoolState:
        """The pool after `step` events; now, if no step is given."""
        step = len(self.events) if step is None else range(len(self._states))[step]
        return replace(
            self._states[step], events=tuple(self.events), step=step, place=self.place, room_for_text=self.has_text
        )

    def block_ids(self, label: str) -> list[int]:
        """The blocks that a sequence holds now, in table order."""
        return [block.block_id for block in self.ledger.of(label)]

    def save(self, path: str | Path, step: int | None = None, theme: str = "light", scale: float = 2) -> None:
        """Write the picture as SVG or PNG, whichever the path ends in.

        Raises:
            ValueError: the path ends in something else, or there is no such theme.
        """
        path = Path(path)
        if path.suffix not in (".svg", ".png"):
            raise ValueError(f"save to a path that ends in .svg or .png, not {path.name!r}")
        svg = draw_pool(self.state(step), theme)
        path.write_bytes(svg.encode() if path.suffix == ".svg" else to_png(svg, scale))

    def show_in(self, view: Any) -> None:
        """Call `view.refresh()` after each event from now on."""
        self._views.append(view)

    def _ipython_display_(self) -> None:
        from nanoserve.course.view.widget import show

        show(self)
