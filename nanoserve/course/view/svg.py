"""One pool state as one SVG: a pure function, so that widgets, notebooks and figures show the same picture."""

from nanoserve.course.view.blocks import draw_blocks
from nanoserve.course.view.grid import Grid
from nanoserve.course.view.panel import draw_panel
from nanoserve.course.view.shapes import WIDTH, document, group, rect, text
from nanoserve.course.view.state import PoolEvent, PoolState, describe, plural
from nanoserve.course.view.theme import hue_of

_MARGIN = 22
_GRID_WIDTH = 628
_PANEL_X = _MARGIN + _GRID_WIDTH + 30
_COUNTER = 66  # width of one of the numbers at the top
_LOG_LINES = 3
_MOST_MARKS = 80  # events in the strip; a longer history shows those around the present one


def draw_pool(state: PoolState, theme: str = "auto") -> str:
    """Draw a state. The same state gives the same bytes.

    Args:
        state: what to draw.
        theme: as `document` takes it.

    Returns:
        An SVG document, as high as the pool needs.

    Raises:
        ValueError: no such theme.
    """
    grid = Grid.of(state, _MARGIN, 88, _GRID_WIDTH)
    hidden = state.num_blocks - grid.drawn
    strip_y = max(grid.bottom + (34 if hidden else 22), 300)
    log_y = strip_y + 38
    height = log_y + (_LOG_LINES - 1) * 19 + _MARGIN
    parts = [*_header(state), *draw_blocks(state, grid)]
    if hidden:
        words = f"… and {plural(hidden, 'more block')}, counted but not drawn"
        parts.append(text(_MARGIN, grid.bottom + 18, words, 11, "mute", room=_GRID_WIDTH))
    parts += [_strip(state, strip_y), _log(state, log_y)]
    parts += draw_panel(state, _PANEL_X, 100, WIDTH - _MARGIN - _PANEL_X, height - 100 - _MARGIN + 5)
    return document(parts, height, _title(state), theme, describe(state))


def _title(state: PoolState) -> str:
    return f"Pool of {plural(state.num_blocks, 'block')} × {plural(state.block_size, state.place)}"  # noqa: RUF001


def _header(state: PoolState) -> list[str]:
    counters = {"free": state.num_free, "used": state.num_used, "peak": state.peak}
    broken = {"faults": len(state.faults), "lost": state.num_lost}
    counters = {name: count for name, count in broken.items() if count} | counters
    left = _PANEL_X + 60 - _COUNTER * len(counters)
    room = left - _MARGIN - 20
    caption = _present(state)
    parts = [
        text(_MARGIN, 38, _title(state), 18, "ink", room=room, bold=True, least=12),
        group("caption", [text(_MARGIN, 62, caption, 13, "mute", room=room)], caption),
    ]
    for name, count in counters.items():
        look = "fault" if name in broken else "ink"
        parts.append(text(left, 38, f"{count:,}", 18, look, room=_COUNTER - 8, bold=True, least=8))
        parts.append(text(left, 62, name, 12, "mute", room=_COUNTER - 8))
        left += _COUNTER
    places = plural(state.num_used * state.block_size, state.place)
    tokens = "not known" if state.num_tokens is None else f"{state.num_tokens:,} of {places}"
    parts.append(text(left, 38, tokens, 15, "ink", room=WIDTH - _MARGIN - left, bold=True, least=8))
    parts.append(text(left, 62, "tokens in the used blocks", 12, "mute", room=WIDTH - _MARGIN - left))
    return parts


def _present(state: PoolState) -> str:
    if not state.events:
        return "no events yet"
    said = state.events[state.step - 1].text if state.step else "before the first event"
    return f"step {state.step:,} of {len(state.events):,} · {said}"


def _strip(state: PoolState, y: float) -> str:
    """One mark an event, in its owner's colour: full for taking, pale for an append, hollow for giving back."""
    first = max(0, min(state.step - _MOST_MARKS // 2, len(state.events) - _MOST_MARKS))
    shown = state.events[first : first + _MOST_MARKS]
    width = min(_GRID_WIDTH / max(len(shown), 1), 34)
    gap = min(5, width * 0.2)
    marks = []
    for place, event in enumerate(shown):
        look = _mark(event) if first + place < state.step else "rest"
        left = _MARGIN + place * width
        marks.append(group("mark", [rect(left + 1, y, width - gap - 2, 10, look, 3)], event.text))
        if first + place == state.step - 1:
            marks.append(rect(left - 1.5, y - 3, width - gap + 3, 16, "here", 5))
    return group("strip", marks or [rect(_MARGIN, y + 4.5, _GRID_WIDTH, 1, "rule")])


def _mark(event: PoolEvent) -> str:
    if event.kind in ("error", "fault"):
        return {"error": "told", "fault": "bad"}[event.kind]
    if not event.label:
        return "chip"
    return {"take": "done", "append": "slot", "free": "gone"}[event.kind] + str(hue_of(event.label))


def _log(state: PoolState, y: float) -> str:
    """The newest events so far, the present one first."""
    lines = []
    width = len(f"{state.step:,}")
    for line in range(min(_LOG_LINES, state.step)):
        event = state.events[state.step - 1 - line]
        look = "fault" if event.kind == "fault" else "mute" if line else "ink"
        words = f"{state.step - line:>{width},} {event.text}"
        drawn = text(_MARGIN, y + 19 * line, words, 12, look, room=_GRID_WIDTH, mono=True)
        lines.append(group("line", [drawn], event.text))
    return group("log", lines)
