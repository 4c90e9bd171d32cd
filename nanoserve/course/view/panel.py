"""What stands beside the blocks: the block table in focus, the sequences, and the free stack."""

from nanoserve.course.view.shapes import badge, badge_width, group, rect, text
from nanoserve.course.view.state import PoolSequence, PoolState, plural
from nanoserve.course.view.text import text_width
from nanoserve.course.view.theme import hue_of

_ROW = 23
_HEADING = 26
_GAP = 20
_POSITION = 52  # three lines under the block table
_STACK = 84


def draw_panel(state: PoolState, x: float, y: float, width: float, height: float) -> list[str]:
    """The three lists, each shortened to its share of `height`, so that nothing moves when they grow.

    Args:
        state: what to tell.
        x, y: where the panel begins; y is the baseline of its headings.
        width, height: its size.
    """
    left = width - _STACK - 14
    rows = int((height - 2 * _HEADING - _POSITION - _GAP) // _ROW)
    table_rows = rows - rows // 2
    below = y + _HEADING + table_rows * _ROW + _POSITION + _GAP
    return [
        _table(state, x, y, left, table_rows),
        _sequences(state, x, below, left, rows // 2),
        _stack(state, x + left + 14, y, _STACK, int((height - _HEADING - 16) // _ROW)),
    ]


def _table(state: PoolState, x: float, y: float, width: float, rows: int) -> str:
    sequence = state.in_focus
    if sequence is None:
        return group("table", [_title(x, y, "block table", width), _note(x, y, 0, "no sequence yet", width)])
    parts = [_title(x, y, f"block table of {sequence.label}", width)]
    shown, hidden = _shorten(list(enumerate(sequence.block_ids)), rows, keep_last=True)
    hue = hue_of(sequence.label)
    for row, item in enumerate(shown):
        top = _top(y, row)
        if item is None:
            parts.append(_note(x, y, row, f"… {hidden:,} more …", width))
            continue
        entry, block_id = item
        parts += [
            rect(x, top, 36, 19, f"slot{hue}", 4),
            text(x + 18, top + 14, str(entry), 12, "ink", room=32, anchor="middle"),
            text(x + 47, top + 14, "→", 12, "mute", room=14, anchor="middle"),
            rect(x + 58, top, width - 58, 19, f"tint{hue}", 4),
            text(x + (width + 58) / 2, top + 14, f"block {block_id}", 12, "ink", room=width - 66, anchor="middle"),
        ]
    for line, words in enumerate(_newest_position(sequence, state.block_size, state.place)):
        if text_width(words, 11.5) > width:  # large pools have long numbers
            words = words.replace(" × ", "×").replace(" + ", "+")  # noqa: RUF001
        parts.append(text(x, _top(y, len(shown)) + 15 + line * 16, words, 11.5, "mute", room=width))
    return group("table", parts)


def _newest_position(sequence: PoolSequence, block_size: int, place: str) -> list[str]:
    """Where the newest token lies: the one step of address translation that is worth following at every event."""
    num_tokens = sequence.num_tokens
    if not num_tokens or any(block.filled < block_size for block in sequence.blocks[:-1]):
        return []
    entry, offset = divmod(num_tokens - 1, block_size)
    block_id = sequence.block_ids[entry]
    return [
        f"position {num_tokens - 1}",
        f"→ block {block_id}, offset {offset}",
        f"→ {place} {block_id} × {block_size} + {offset} = {block_id * block_size + offset}",  # noqa: RUF001
    ]


def _stack(state: PoolState, x: float, y: float, width: float, rows: int) -> str:
    parts = [_title(x, y, "free stack", width)]
    if not state.free:
        return group("stack", [*parts, _note(x, y, 0, "not known" if state.free is None else "empty", width)])
    shown, hidden = _shorten(list(state.free), rows)
    for row, block_id in enumerate(shown):
        top = _top(y, row) + (18 if row else 0)  # the words under the first chip stand in between
        if block_id is None:
            parts.append(text(x + width / 2, top + 14, f"… {hidden:,} more", 12, "mute", room=width, anchor="middle"))
            continue
        parts.append(rect(x, top, width, 19, "chip" if row else "next", 4))
        parts.append(text(x + width / 2, top + 14, f"block {block_id}", 12, "ink", room=width - 6, anchor="middle"))
    parts.append(text(x + width / 2, _top(y, 1) + 10, "↑ next out", 11.5, "mute", room=width, anchor="middle"))
    return group("stack", parts)


def _sequences(state: PoolState, x: float, y: float, width: float, rows: int) -> str:
    parts = [_title(x, y, "sequences", width)]
    if not state.sequences:
        return group("sequences", [*parts, _note(x, y, 0, "none", width)])
    shown, hidden = _shorten(list(state.sequences), rows)
    for row, sequence in enumerate(shown):
        if sequence is None:
            parts.append(_note(x, y, row, f"… {hidden:,} more", width))
            continue
        top = _top(y, row)
        letter = badge(x, top, sequence.label, hue_of(sequence.label), 11.5, 72)
        taken = badge_width(sequence.label, 11.5, 72)
        room = width - taken - 8
        words = plural(len(sequence.blocks), "block")
        if sequence.num_tokens is not None:
            words = f"{plural(sequence.num_tokens, 'token')}, {words}"
        parts += [letter, text(x + taken + 8, top + 14, words, 12, "ink", room=room, least=8)]
    return group("sequences", parts)


def _shorten(items: list, rows: int, keep_last: bool = False) -> tuple[list, int]:
    """At most `rows` items, None in the place of those left out, and how many these are."""
    if len(items) <= rows:
        return items, 0
    last = [items[-1]] if keep_last else []
    kept = items[: rows - 1 - len(last)]
    return [*kept, None, *last], len(items) - len(kept) - len(last)


def _top(y: float, row: int) -> float:
    return y + _HEADING - 14 + row * _ROW


def _title(x: float, y: float, words: str, width: float) -> str:
    return text(x, y, words, 13, "ink", room=width, bold=True)


def _note(x: float, y: float, row: int, words: str, width: float) -> str:
    return text(x, _top(y, row) + 14, words, 12, "mute", room=width)
