"""Which program of a kernel touched which element: the tensors as rows of cells, each in its program's colour."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import TYPE_CHECKING

from nanoserve.course.view.accesses_state import (
    Program,
    Touched,
    describe_accesses,
    programs_of,
    short_name,
    touched,
)
from nanoserve.course.view.shapes import WIDTH, document, group, hatch, rect, text
from nanoserve.course.view.text import text_width
from nanoserve.course.view.theme import OWNERS

if TYPE_CHECKING:
    from nanoserve.course.kernels.launch import Run

_MARGIN = 22
_ROOM = WIDTH - 2 * _MARGIN
_CELL, _NARROWEST, _HIGH = 30, 12, 24
_LINE = 44  # from one line of cells to the next, with the numbers above them
_GAP = 16  # between the rows of a matrix
_MOST_LINES, _MOST_OUTSIDE = 8, 8


def draw_accesses(run: "Run", program: Program | None = None, theme: str = "auto") -> str:
    """Draw what a launch touched. The same input gives the same bytes.

    Args:
        run: a launch over tensors of some dozens of elements.
        program: the one to bring out; all of them if None.
        theme: as `draw_pool` takes it.

    Raises:
        ValueError: no such theme.
    """
    told = describe_accesses(run, program)
    look = "fault" if program is None and (run.error or run.races) else "mute"
    parts = [
        text(_MARGIN, 38, run.call, 18, "ink", room=_ROOM, bold=True),
        text(_MARGIN, 62, told.replace("`", ""), 13, look, room=_ROOM),
    ]
    hues = {one: place % len(OWNERS) for place, one in enumerate(programs_of(run))}
    y = 96.0
    for name, one in touched(run).items():
        behind = _MARGIN + text_width(name, 13, bold=True) + 10
        parts.append(text(_MARGIN, y, name, 13, "ink", room=_ROOM, bold=True))
        parts.append(text(behind, y, _heading(one), 12, "mute", room=WIDTH - _MARGIN - behind))
        drawn, y = _tensor(name, one, program, hues, y + 30)
        parts += drawn
    return document(parts, y - 12, f"{run.call}: {told}", theme)


@dataclass(frozen=True)
class _Cell:
    """One element: its number, and who touched it; `outside` the tensor it stands alone."""

    element: int
    programs: Sequence[Program]
    outside: bool = False


def _tensor(
    name: str, one: Touched, program: Program | None, hues: Mapping[Program, int], y: float
) -> tuple[list[str], float]:
    """The cells of a tensor from a first line at `y` on, and where the next thing may begin."""
    columns = one.shape[-1] if one.shape else 1
    wide = max(_NARROWEST, min(_CELL, _ROOM / columns))
    if len(one.shape) < 2:
        wide = _CELL
    parts: list[str] = []
    x, top, line = float(_MARGIN), y, 1
    for label, cells in _rows(one):
        width = len(cells) * wide
        if x > _MARGIN and x + width > _MARGIN + _ROOM:
            x, top, line = float(_MARGIN), top + _LINE, line + 1
        if line > _MOST_LINES:
            parts.append(text(_MARGIN, top, "… and more, not drawn", 11, "mute", room=_ROOM))
            break
        if label:
            parts.append(text(x, top - 5, label, 10, "mute", room=max(width, 60)))
        far = cells[0].outside and not -99 < cells[0].element < 1000
        if far:
            parts.append(text(x, top - 5, str(cells[0].element), 10, "fault", room=200))
        for place, cell in enumerate(cells):
            left = x + place * wide
            if not (label or far):
                look = "fault" if cell.outside else "mute"
                parts.append(text(left + wide / 2, top - 5, str(cell.element), 10, look, room=wide, anchor="middle"))
            parts.append(_drawn(name, one, cell, program, hues, left, top, wide))
        x += width + _GAP
    return parts, top + _LINE + 18


def _rows(one: Touched) -> Iterator[tuple[str, list[_Cell]]]:
    """The tensor's rows, each with its label; of a vector, as much as fits in a line at a time."""
    columns = one.shape[-1] if len(one.shape) > 1 else int(_ROOM // _CELL)
    most = int(_ROOM // _NARROWEST)
    for first in range(0, prod(one.shape), columns):
        elements = range(first, min(first + min(columns, most), prod(one.shape)))
        label = _index(first // columns, one.shape[:-1]) if len(one.shape) > 1 else ""
        yield label, [_Cell(element, one.main.get(element, ())) for element in elements]
    outside = [_Cell(element, programs, True) for element, programs in islice(one.outside.items(), _MOST_OUTSIDE)]
    if outside:
        yield "", outside


def _drawn(
    name: str,
    one: Touched,
    cell: _Cell,
    program: Program | None,
    hues: Mapping[Program, int],
    x: float,
    y: float,
    wide: float,
) -> str:
    box = (x + 1, y, wide - 2, _HIGH)
    who = " and ".join(short_name(each) for each in cell.programs)
    if cell.outside:
        told = f"program {who} goes to element {cell.element}, outside {name}"
        return group("cell", [rect(*box, "band", 3), _words(box, cell.programs, "fault")], told)
    if not cell.programs:
        shape = [rect(*box, "free", 3), hatch(*box)] if one.writes else [rect(*box, "chip", 3)]
        return group("cell", shape, f"{name}[{cell.element}]: nobody")
    shown = program if program in cell.programs else cell.programs[0]
    look, words = f"slot{hues[shown]}", "ink"
    if program is not None:
        look, words = (f"done{hues[shown]}", f"on{hues[shown]}") if program == shown else (f"void{hues[shown]}", "mute")
    parts = [rect(*box, look, 3), _words(box, cell.programs, words)]
    if one.writes and len(cell.programs) > 1:
        parts.append(rect(*box, "broken", 3))
    return group("cell", parts, f"{name}[{cell.element}]: program {who}")


def _words(box: tuple[float, float, float, float], programs: Sequence[Program], look: str) -> str:
    """The programs' numbers, or how many there are where they do not fit."""
    x, y, width, height = box
    words = "+".join(map(short_name, programs)) if len(programs) < 3 else f"{len(programs)}×"  # noqa: RUF001
    size = 11 if width > 20 else 9
    return text(x + width / 2, y + height / 2 + 4, words, size, look, room=width, anchor="middle", bold=True)


def _heading(one: Touched) -> str:
    done = [word for word, what in (("read", one.reads), ("written", one.writes)) if what]
    shape = f"{' × '.join(map(str, one.shape))} · " if len(one.shape) > 1 else ""  # noqa: RUF001
    return f"{shape}{' and '.join(done) or 'not touched'}, by program"


def _index(row: int, shape: Sequence[int]) -> str:
    """The place of a row in all dimensions but the last."""
    places = []
    for size in reversed(shape):
        row, place = divmod(row, size)
        places.append(place)
    return f"[{', '.join(map(str, reversed(places)))}]"
