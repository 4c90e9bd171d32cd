"""One position followed to its slot, as arrows: from the text through the block table into the pool."""

from dataclasses import dataclass

from nanoserve.course.view.arrows import Box, Point, arrow, bend, bottom, top
from nanoserve.course.view.shapes import WIDTH, badge, badge_width, document, group, rect, text
from nanoserve.course.view.state import PoolState
from nanoserve.course.view.text import show_token
from nanoserve.course.view.theme import hue_of

_MARGIN = 22
_ROOM = WIDTH - 2 * _MARGIN
_GAP = 10  # between blocks, here and in the text
_PAD = 6  # between a block's edge and its slots
_CELL = 26  # height of a token
_TEXT_Y = 104
_TABLE_Y = 178
_TABLE_X = 300
_POOL_Y = 302
_BLOCK = _PAD + 4 + _CELL + 42  # height of a block: its slots, their numbers, its name
_ROW = _BLOCK + 30  # from one row of blocks to the next, with a lane for the arrow in between
_MOST_TOKENS = 24  # a longer text is shown around the position
_MOST_ENTRIES = 6


@dataclass(frozen=True)
class Route:
    """Where a block table says that a position lies."""

    position: int
    block_id: int
    offset: int
    slot: int


def draw_route(state: PoolState, route: Route, theme: str = "auto") -> str:
    """Draw the way of one position of the sequence in focus. The same input gives the same bytes.

    Args:
        state: a pool of some dozens of slots; its `focus` is the sequence.
        route: what that sequence's block table says.
        theme: as `document` takes it.

    Raises:
        ValueError: no such theme, or the route ends outside the pool.
    """
    num_slots = state.num_blocks * state.block_size
    if not 0 <= route.slot < num_slots:
        raise ValueError(f"slot {route.slot} is outside the pool's {num_slots} slots")
    text_parts, token = _text(state, route)
    table_parts, entry = _table(state, route)
    pool_parts, slots, lane, columns = _pool(state, route)
    slot = slots[route.slot]
    height = _POOL_Y + -(-state.num_blocks // columns) * _ROW - 30 + _MARGIN
    told = describe_route(state, route)
    parts = [
        text(_MARGIN, 38, f"Position {route.position} → slot {route.slot}", 18, "ink", room=_ROOM, bold=True),
        text(_MARGIN, 62, told, 13, "mute", room=_ROOM),
        *text_parts,
        *_sums(state, route),
        *table_parts,
        *pool_parts,
        *(rect(x - 1.5, y - 1.5, width + 3, height + 3, "here", 4) for x, y, width, height in (token, entry, slot)),
        arrow([bottom(token), *bend(bottom(token), _TABLE_Y - 16, top(entry)), top(entry)], "to its entry"),
        arrow([bottom(entry), *_lanes(bottom(entry), lane, top(slot)), top(slot)], "to its slot"),
    ]
    return document(parts, height, told, theme)


def describe_route(state: PoolState, route: Route) -> str:
    """The route in plain words."""
    entry = route.position // state.block_size
    return (
        f"{state.in_focus.label}'s position {route.position} belongs to entry {entry} of the block table, "
        f"which is block {route.block_id}; there it has offset {route.offset}, so slot {route.slot} of the pool."
    )


def _text(state: PoolState, route: Route) -> tuple[list[str], Box]:
    """The sequence as a reader sees it, position by position, and the box of the one that is followed."""
    sequence, size = state.in_focus, state.block_size
    first, last = _window(route.position // size, len(sequence.blocks), max(1, _MOST_TOKENS // size))
    positions = range(first * size, min(last * size, sequence.num_tokens))
    gaps = (positions[-1] // size - first) * _GAP
    width = min((_ROOM - gaps) / len(positions), 64)
    parts, hue = [], hue_of(sequence.label)
    for place, position in enumerate(positions):
        entry, offset = divmod(position, size)
        left = _MARGIN + place * width + (entry - first) * _GAP
        box = (left, _TEXT_Y, width - 2, _CELL)
        texts = sequence.blocks[entry].texts
        parts.append(_cell(box, f"slot{hue}", texts[offset] if offset < len(texts) else ""))
        look = "ink" if position == route.position else "mute"
        parts.append(text(left + width / 2 - 1, _TEXT_Y - 6, str(position), 10, look, room=width, anchor="middle"))
        if position == route.position:
            followed = box
    return parts, followed


def _sums(state: PoolState, route: Route) -> list[str]:
    """The arithmetic, line by line, beside the block table."""
    size, p = state.block_size, route.position
    lines = [
        ("entry", f"{p} // {size} = {p // size}"),
        ("block", f"block_ids[{p // size}] = {route.block_id}"),
        ("offset", f"{p} % {size} = {p % size}"),
        ("slot", f"{route.block_id} × {size} + {route.offset} = {route.slot}"),  # noqa: RUF001
    ]
    room = _TABLE_X - _MARGIN - 70
    head = text(_MARGIN, _TABLE_Y + 6, f"block table of {state.in_focus.label}", 13, "ink", room=room + 58, bold=True)
    return [head] + [
        part
        for line, (name, words) in enumerate(lines)
        for part in (
            text(_MARGIN, _TABLE_Y + 28 + 19 * line, name, 12, "mute", room=58),
            text(_MARGIN + 58, _TABLE_Y + 28 + 19 * line, words, 12, "ink", room=room, mono=True),
        )
    ]


def _table(state: PoolState, route: Route) -> tuple[list[str], Box]:
    """The block table's entries side by side, and the box of the one that the position belongs to."""
    sequence = state.in_focus
    own = route.position // state.block_size
    first, last = _window(own, len(sequence.blocks), _MOST_ENTRIES)
    hue = hue_of(sequence.label)
    width = min((WIDTH - _MARGIN - _TABLE_X) / (last - first), 112)
    parts = []
    for entry in range(first, last):
        left, middle = _TABLE_X + (entry - first) * width, _TABLE_X + (entry - first + 0.5) * width - 4
        box = (left, _TABLE_Y, width - 8, 50)
        words = [
            rect(left, _TABLE_Y, width - 8, 50, f"tint{hue}", 5),
            text(middle, _TABLE_Y + 17, f"entry {entry}", 11, "mute", room=width - 14, anchor="middle"),
            text(
                middle,
                _TABLE_Y + 38,
                f"block {sequence.block_ids[entry]}",
                13,
                "ink",
                room=width - 14,
                anchor="middle",
                bold=True,
            ),
        ]
        parts.append(group("entry", words, f"entry {entry}: block {sequence.block_ids[entry]}"))
        if entry == own:
            followed = box
    return parts, followed


def _pool(state: PoolState, route: Route) -> tuple[list[str], list[Box], list[Point], int]:
    """The pool's slots in the order of their numbers; each slot's box; the arrow's lane; blocks in a row."""
    size = state.block_size
    most = max(1, int((_ROOM + _GAP) // (size * 36 + 2 * _PAD + _GAP)))
    even = max(count for count in range(1, most + 1) if state.num_blocks % count == 0)
    columns = even if even * 2 > most else min(most, state.num_blocks)
    block_width = min((_ROOM + _GAP) / columns - _GAP, 64 * size + 2 * _PAD)
    width = (block_width - 2 * _PAD) / size
    parts, slots, holders, lane = [], [], state.holders, []
    for block_id in range(state.num_blocks):
        row, column = divmod(block_id, columns)
        x, y = _MARGIN + column * (block_width + _GAP), _POOL_Y + row * _ROW
        label, block = holders.get(block_id, [("", None)])[0]
        hue = hue_of(label) if label else 0
        words = [rect(x, y, block_width, _BLOCK, f"tint{hue}" if label else "free", 7)]
        for offset in range(size):
            box = (x + _PAD + offset * width + 1, y + _PAD + 4, width - 2, _CELL)
            filled = block is not None and offset < (block.filled or 0)
            look = f"slot{hue}" if filled else f"open{hue}" if label else "chip"
            words.append(_cell(box, look, block.texts[offset] if filled and offset < len(block.texts) else ""))
            at, middle = len(slots), box[0] + box[2] / 2
            look = "ink" if at == route.slot else "mute"
            words.append(text(middle, y + _PAD + _CELL + 17, str(at), 10, look, room=width, anchor="middle"))
            slots.append(box)
        words.append(text(x + _PAD + 1, y + _BLOCK - 9, f"block {block_id}", 12, "ink" if label else "mute", room=90))
        if label:
            words.append(
                badge(x + block_width - _PAD - badge_width(label, 10, 60), y + _BLOCK - 22, label, hue, 10, 60)
            )
        parts.append(group("block", words))
        if block_id == route.slot // size:
            lane = [(x - _GAP / 2, _POOL_Y - 16), (x - _GAP / 2, y - 14)] if row else []
    return parts, slots, lane, columns


def _cell(box: Box, look: str, token: str) -> str:
    x, y, width, height = box
    shape = rect(x, y, width, height, look, 2)
    if not token:
        return shape
    shown = show_token(token)
    words = text(
        x + width / 2, y + height / 2 + 4, shown, 10.5, "ink", room=width - 3, anchor="middle", mono=True, exact=True
    )
    return group("slot", [shape, words], shown)


def _window(at: int, length: int, most: int) -> tuple[int, int]:
    """First and last + 1 of at most `most` of `length` things around one of them."""
    first = max(0, min(at - most // 2, length - most))
    return first, min(first + most, length)


def _lanes(start: Point, lane: list[Point], end: Point) -> list[Point]:
    """Into the lane above the pool and, for a block further down, past the rows above it between two blocks."""
    if not lane:
        return bend(start, _POOL_Y - 16, end)
    return [(start[0], lane[0][1]), *lane, (end[0], lane[-1][1])]
