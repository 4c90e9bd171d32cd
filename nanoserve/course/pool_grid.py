"""The pool's blocks as a grid: each one's owner, its filled slots, what they hold, and what is wrong with it."""

from dataclasses import dataclass
from math import ceil

from nanoserve.course.pool_shapes import badge, group, hatch, rect, text
from nanoserve.course.pool_state import HeldBlock, PoolState, plural
from nanoserve.course.pool_text import show_token
from nanoserve.course.pool_theme import hue_of

MAX_DRAWN = 1024  # more blocks than this are counted, not drawn
_TEXT_SLOT = 20  # height of a slot that shows its token
_BARE_SLOT = 14


@dataclass(frozen=True)
class Grid:
    """Where the blocks stand. All blocks of a pool are drawn alike, whatever they hold, so that nothing jumps.

    Args:
        x, y, width: the grid's place in the picture.
        columns: blocks in a row.
        per_row: slots in a row of a block.
        cell, height: a block's width and height.
        shows_text: the slots have room for their tokens' texts.
        drawn: blocks that are drawn.
    """

    x: float
    y: float
    width: float
    columns: int
    per_row: int
    cell: float
    height: float
    shows_text: bool
    drawn: int

    @classmethod
    def of(cls, state: PoolState, x: float, y: float, width: float) -> "Grid":
        """The grid of a pool's shape: big blocks with texts for a few, small ones with a letter for hundreds."""
        count = min(state.num_blocks, MAX_DRAWN)
        has_text = any(block.texts for sequence in state.sequences for block in sequence.blocks)
        shows_text = has_text and count <= 32
        steps = ((8, 2), (18, 3), (32, 4)) if shows_text else ((4, 2), (12, 3), (20, 4), (30, 5), (64, 8), (256, 16))
        columns = next((columns for most, columns in steps if count <= most), 32)
        gap = _gap(columns)
        cell = (width - gap * (columns - 1)) / columns
        inside = cell - 2 * _pad(columns)
        per_row = _slots_in_a_row(state.block_size, inside, 62 if shows_text else 14 if columns <= 5 else 5)
        rows = ceil(state.block_size / per_row)
        slot = _TEXT_SLOT if shows_text else _BARE_SLOT if columns <= 5 else 6
        if columns <= 5:
            height = max(36 + rows * (slot + 4) + 6, 66)
        else:
            height = {8: max(26 + rows * (slot + 2) + 4, 42), 16: 30, 32: cell}[columns]
        return cls(x, y, width, columns, per_row, cell, height, shows_text, count)

    @property
    def bottom(self) -> float:
        """The lower edge of the last row."""
        rows = ceil(self.drawn / self.columns)
        return self.y + rows * (self.height + _gap(self.columns)) - _gap(self.columns)

    def corner(self, block_id: int) -> tuple[float, float]:
        """The top left corner of a block."""
        row, column = divmod(block_id, self.columns)
        gap = _gap(self.columns)
        return self.x + column * (self.cell + gap), self.y + row * (self.height + gap)


def draw_grid(state: PoolState, grid: Grid) -> list[str]:
    """Every block of the pool, in order of its id."""
    holders, faults = state.holders, state.faults
    next_out = state.free[0] if state.free else None
    return [
        _block(state, grid, block_id, holders.get(block_id, []), faults.get(block_id, ""), block_id == next_out)
        for block_id in range(grid.drawn)
    ]


def _block(
    state: PoolState, grid: Grid, block_id: int, holders: list[tuple[str, HeldBlock]], fault: str, is_next: bool
) -> str:
    x, y = grid.corner(block_id)
    width, height, roomy = grid.cell, grid.height, grid.columns <= 5
    pad = _pad(grid.columns)
    radius = 8 if roomy else 4
    look = f"tint{hue_of(holders[0][0])}" if holders else "next" if is_next else "free"
    parts = [rect(x, y, width, height, look, radius)]
    if fault:
        parts.append(hatch(x, y, width, height, 7 if roomy else 5))
    right = x + width - pad
    size = 12 if roomy else 9.5 if grid.columns == 8 else 8.5
    top = y + (8 if roomy else 4)
    labels = list(dict.fromkeys(label for label, _ in holders))
    room = (width - 2 * pad) * (0.6 if roomy else 0.62) / max(len(labels[:3]), 1)
    if grid.columns == 32:
        right, room = x + width - 1, width - 2
        labels, top = labels[:1], y + 1
    for label in reversed(labels[:3]):
        letter, taken = badge(right - _badge_width(label, size, room), top, label, hue_of(label), size, room)
        parts.append(letter)
        right -= taken + 3
    if grid.columns < 32:
        name = f"block {block_id}" if roomy else str(block_id)
        parts.append(text(x + pad, top + size * 1.19, name, size, "ink" if holders else "mute", room=right - x - pad))
    if fault:
        parts.append(_fault_words(grid, x, y, fault))
    elif holders:
        parts += _slots(state, grid, x, y, holders[0][0], holders[0][1])
    elif grid.columns <= 8:
        words = "next out" if is_next else "free"
        middle = y + height / 2 + (10 if roomy else 13)
        look = "ink" if is_next else "mute"
        parts.append(text(x + width / 2, middle, words, size, look, room=width - 2 * pad, anchor="middle"))
    if fault:
        parts.append(rect(x, y, width, height, "broken", radius))
    return group("block", parts, _block_title(block_id, holders, fault, is_next, state.block_size))


def _badge_width(label: str, size: float, room: float) -> float:
    return badge(0, 0, label, 0, size, room)[1]


def _block_title(
    block_id: int, holders: list[tuple[str, HeldBlock]], fault: str, is_next: bool, block_size: int
) -> str:
    told = [
        label if block.filled is None else f"{label}, {block.filled} of {plural(block_size, 'slot')} filled"
        for label, block in holders
    ]
    told = told or ([] if fault else ["free, next out" if is_next else "free"])
    return f"block {block_id}: {'; '.join([*told, fault] if fault else told)}"


def _slots(state: PoolState, grid: Grid, x: float, y: float, label: str, block: HeldBlock) -> list[str]:
    hue, pad, roomy = hue_of(label), _pad(grid.columns), grid.columns <= 5
    inside = grid.cell - 2 * pad
    if grid.columns == 32:
        return []
    if block.filled is None:
        if grid.columns == 16:
            return []
        middle = y + grid.height / 2 + (10 if roomy else 13)
        size = 12 if roomy else 9.5
        return [text(x + grid.cell / 2, middle, "taken", size, "mute", room=inside, anchor="middle")]
    if grid.columns == 16:
        filled = inside * block.filled / state.block_size
        bars = [rect(x + pad, y + 22, inside, 4, f"open{hue}")]
        return bars + ([rect(x + pad, y + 22, filled, 4, f"done{hue}")] if block.filled else [])
    gap = 4 if roomy else 2
    height = _TEXT_SLOT if grid.shows_text else _BARE_SLOT if roomy else 6
    gap_across = 4 if grid.shows_text else 2
    width = (inside - gap_across * (grid.per_row - 1)) / grid.per_row
    slots = []
    for offset in range(state.block_size):
        row, column = divmod(offset, grid.per_row)
        left, top = x + pad + column * (width + gap_across), y + (36 if roomy else 24) + row * (height + gap)
        if offset >= block.filled:
            slots.append(rect(left + 0.5, top + 0.5, width - 1, height - 1, f"open{hue}", 2))
            continue
        box = rect(left, top, width, height, f"slot{hue}", 2)
        if grid.shows_text and offset < len(block.texts):
            shown = show_token(block.texts[offset])
            words = text(
                left + width / 2, top + height / 2 + 4, shown, 11, "ink",
                room=width - 6, anchor="middle", mono=True, exact=True,
            )  # fmt: skip
            box = group("slot", [box, words], shown)
        slots.append(box)
    return slots


def _fault_words(grid: Grid, x: float, y: float, fault: str) -> str:
    """The fault in words on a band of its own, on two lines where a block is narrow, nowhere where it is tiny."""
    if grid.columns > 8:
        return ""
    roomy = grid.columns <= 5
    size = 12 if roomy else 8.5
    lines = [fault] if roomy else _halves(fault)
    pad = _pad(grid.columns) if roomy else 3
    leading = size + 2
    top = y + (grid.height + (26 if roomy else 20)) / 2 - len(lines) * leading / 2 - 1
    width = grid.cell - 2 * pad
    parts = [rect(x + pad, top - 3, width, len(lines) * leading + 6, "band", 3)]
    for line, words in enumerate(lines):
        baseline = top + line * leading + size * 0.95
        parts.append(
            text(x + grid.cell / 2, baseline, words, size, "fault", room=width - 2, anchor="middle", bold=roomy)
        )
    return "".join(parts)


def _halves(words: str) -> list[str]:
    """Words on one line, or on two of about the same length."""
    *first, last = words.split()
    return [" ".join(first), last] if first else [last]


def _gap(columns: int) -> float:
    return 12 if columns <= 5 else 6 if columns == 8 else 4 if columns == 16 else 3


def _pad(columns: int) -> float:
    return 10 if columns <= 5 else 6 if columns == 8 else 4


def _slots_in_a_row(block_size: int, width: float, least: float) -> int:
    """As many slots as fit at their least width, evenly: a divisor of the block size, if it is not far below."""
    most = max(1, min(block_size, int(width // least)))
    even = max(count for count in range(1, most + 1) if block_size % count == 0)
    return even if even * 2 > most else most
