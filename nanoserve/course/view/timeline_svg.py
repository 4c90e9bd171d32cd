"""Timelines as one SVG: a row a slot, a bar a request, and under the slots the line of those that wait."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nanoserve.course.view.shapes import WIDTH, document, group, rect, text
from nanoserve.course.view.state import plural
from nanoserve.course.view.text import text_width
from nanoserve.course.view.theme import hue_of
from nanoserve.course.view.timeline import Step, Timeline

_MARGIN, _LEFT = 22, 96
_ROOM = WIDTH - _MARGIN - _LEFT
_ROW, _BAR = 30, 25  # a slot's row, and the bar in it
_END = 5  # the red end of a bar that was preempted
_LEAST = 7  # the smallest letter in a bar
_PLACE = 15  # a place in the line
_MOST_PLACES = 8
_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


@dataclass(frozen=True)
class Bar:
    """One request in one row, from step `start` up to, and without, step `end`, both counted from 0."""

    row: int
    label: str
    start: int
    end: int
    preempted: bool = False


def slot_bars(steps: Sequence[Step]) -> list[Bar]:
    """A bar for each stay in a slot. Who waits in the step after its bar has ended was preempted."""
    waiting = [*(step.waiting for step in steps), ()]
    stays = _stays([step.running for step in steps])
    return [Bar(row, label, start, end, label in waiting[end]) for row, label, start, end in stays]


def waiting_bars(steps: Sequence[Step]) -> list[Bar]:
    """A bar for each stay at a place of the line."""
    return [Bar(*stay) for stay in _stays([dict(enumerate(step.waiting)) for step in steps])]


def draw_timelines(timelines: Mapping[str, Timeline], at: int | None = None, theme: str = "auto") -> str:
    """Draw timelines under one another on one scale of steps. The same steps give the same bytes.

    Args:
        timelines: a caption for each; an empty one for a timeline alone.
        at: the step that is looked at, from 1: what comes later is pale. The last one if None.
        theme: as `document` takes it.
    """
    longest = max((len(timeline.steps) for timeline in timelines.values()), default=0)
    parts, y = [], 14.0
    for caption, timeline in timelines.items():
        drawn, y = _one(caption, timeline, y, longest, longest if at is None else at)
        parts += drawn
    return document(parts, y + 6, "Timeline", theme, words(timelines))


def words(timelines: Mapping[str, Timeline]) -> str:
    """What the picture shows, in words."""
    return "\n".join(f"{caption}{': ' if caption else ''}{_told(timeline)}" for caption, timeline in timelines.items())


def _told(timeline: Timeline) -> str:
    steps, filled = len(timeline.steps), sum(len(step.running) for step in timeline.steps)
    if not steps:
        return "no decode step yet"
    rows = steps * timeline.num_slots
    preempted = sum(bar.preempted for bar in slot_bars(timeline.steps))
    told = f"{plural(steps, 'step')} of {plural(timeline.num_slots, 'slot')}: "
    told += f"{filled:,} of {rows:,} rows gave a token, {filled / rows:.0%}"
    return told + (f"; {plural(preempted, 'preemption')}" if preempted else "")


def _one(caption: str, timeline: Timeline, y: float, longest: int, at: int) -> tuple[list[str], float]:
    """The parts of one timeline that begins at `y`, and where it ends."""
    steps, unit = timeline.steps, _ROOM / max(longest, 1)
    parts = [text(_MARGIN, y + 20, caption or "Timeline", 17, "ink", room=300, bold=True)]
    parts += [text(_MARGIN, y + 41, _told(timeline), 13, "mute", room=WIDTH - 2 * _MARGIN)]
    top = y + 54
    for slot in range(timeline.num_slots):
        row_y = top + slot * _ROW
        parts.append(text(_MARGIN, row_y + 17, f"slot {slot}", 12, "mute", room=_LEFT - _MARGIN - 8))
        parts.append(rect(_LEFT, row_y + 0.5, max(len(steps), 1) * unit, _BAR - 1, "free", 3))
    line_y = top + timeline.num_slots * _ROW + 4
    places = min(max((len(step.waiting) for step in steps), default=0), _MOST_PLACES)
    bottom = line_y + places * _PLACE + (5 if places else 0)
    if 0 < at <= len(steps):  # behind the bars, so that it crosses out no letter
        parts.append(rect(_LEFT + (at - 1) * unit, top - 4, unit, bottom - top + 6, "here", 3))
    parts += [_slot_bar(bar, top, unit, at) for bar in slot_bars(steps)]
    if places:
        parts.append(text(_MARGIN, line_y + 11, "waiting", 12, "mute", room=_LEFT - _MARGIN - 8))
    parts += [_place_bar(bar, line_y, unit, at) for bar in waiting_bars(steps) if bar.row < _MOST_PLACES]
    parts += _axis(len(steps), unit, bottom)
    return parts, bottom + 26


def _slot_bar(bar: Bar, top: float, unit: float, at: int) -> str:
    hue, y = hue_of(bar.label), top + bar.row * _ROW
    left, width = _LEFT + bar.start * unit, (bar.end - bar.start) * unit
    done = min(max(at - bar.start, 0), bar.end - bar.start) * unit
    parts = [rect(left + 0.75, y + 0.75, width - 1.5, _BAR - 1.5, f"open{hue}", 3)]
    if done:
        parts.append(rect(left + 0.75, y + 0.75, done - 1.5, _BAR - 1.5, f"done{hue}", 3))
    end = min(_END, width / 4) if bar.preempted and at >= bar.end else 0
    if end:
        parts.append(rect(left + width - end, y - 2, end, _BAR + 4, "bad", 1))
    room = (done or width) - end - 2
    size = min(13, 13 * room / text_width(bar.label, 13, bold=True))
    if size >= _LEAST:  # a label cut short would be somebody else's
        look, middle = f"on{hue}" if done else "ink", left + (room + 2) / 2
        baseline = y + _BAR / 2 + 0.38 * size
        parts.append(text(middle, baseline, bar.label, size, look, room=room + 1, anchor="middle", bold=True))
    then = ", then it is preempted" if bar.preempted else ""
    return group("bar", parts, f"{bar.label} in slot {bar.row}, steps {bar.start + 1} to {bar.end}{then}")


def _place_bar(bar: Bar, top: float, unit: float, at: int) -> str:
    hue, y = hue_of(bar.label), top + bar.row * _PLACE
    left, width = _LEFT + bar.start * unit, (bar.end - bar.start) * unit
    look = f"slot{hue}" if at > bar.start else f"void{hue}"
    parts = [rect(left + 0.75, y, width - 1.5, _PLACE - 2, look, 2)]
    letters = text_width(bar.label, 10)
    if letters <= width - 2:  # a label cut short would be somebody else's
        middle = left + min(4 + letters / 2, width / 2)
        parts.append(text(middle, y + 10.5, bar.label, 10, "ink", room=width - 2, anchor="middle"))
    return group("wait", parts, f"{bar.label} waits, number {bar.row + 1} in line, steps {bar.start + 1} to {bar.end}")


def _axis(steps: int, unit: float, y: float) -> Iterator[str]:
    """The numbers of some steps, each under its own."""
    yield text(_MARGIN, y + 12, "step", 11, "mute", room=_LEFT - _MARGIN - 8)
    every = next((tick for tick in _TICKS if tick * unit >= 34), _TICKS[-1])
    for step in range(every, steps + 1, every):
        yield text(_LEFT + (step - 0.5) * unit, y + 12, str(step), 11, "mute", room=40, anchor="middle")


def _stays(rows: Sequence[Mapping[int, str]]) -> Iterator[tuple[int, str, int, int]]:
    """(row, label, start, end) of each label that stays in a row from one step to the next."""
    begun: dict[int, tuple[str, int]] = {}
    for step, row in enumerate([*rows, {}]):
        for place, (label, start) in list(begun.items()):
            if row.get(place) != label:
                yield place, label, start, step
                del begun[place]
        for place, label in row.items():
            begun.setdefault(place, (label, step))
