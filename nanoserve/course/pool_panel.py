"""What stands beside the blocks: the block table in focus, the free stack, the sequences."""

from nanoserve.course.pool_shapes import badge, group, rect, text
from nanoserve.course.pool_state import PoolSequence, PoolState, plural
from nanoserve.course.pool_theme import hue_of

_ROW = 25
_HEADING = 24
_GAP = 22


def draw_panel(state: PoolState, x: float, y: float, width: float, height: float) -> list[str]:
    """The three lists, each shortened so that together they fill `height` and never more."""
    stack_width = 78
    table_width = width - stack_width - 24
    rows = max(5, int((height - 2 * _HEADING - _GAP - 44) // _ROW))
    sequence_rows = max(2, min(rows // 3, 8))
    rows -= sequence_rows
    below = y + _HEADING + rows * _ROW + 44 + _GAP
    return [
        _table(state, x, y, table_width, rows),
        _stack(state, x + table_width + 24, y, stack_width, rows),
        _sequences(state, x, below, width, sequence_rows),
    ]


def _table(state: PoolState, x: float, y: float, width: float, rows: int) -> str:
    sequence = state.in_focus
    if sequence is None:
        return group("table", [_title(x, y, "block table", width), _note(x, y, 0, "no sequence yet", width)])
    parts = [_title(x, y, f"block table of {sequence.label}", width)]
    shown, hidden = _shorten(list(enumerate(sequence.block_ids)), rows, keep_last=True)
    hue = hue_of(sequence.label)
    for row, item in enumerate(shown):
        top = y + _HEADING - 14 + row * _ROW
        if item is None:
            parts.append(_note(x, y, row, f"… {hidden} more …", width))
            continue
        entry, block_id = item
        parts += [
            rect(x, top, 34, 20, f"slot{hue}", 4),
            text(x + 17, top + 14.5, str(entry), 12, "ink", room=30, anchor="middle"),
            text(x + 43, top + 14.5, "→", 12, "mute", room=14, anchor="middle"),
            rect(x + 53, top, width - 53, 20, f"tint{hue}", 4),
            text(x + (width + 53) / 2, top + 14.5, f"block {block_id}", 12, "ink", room=width - 57, anchor="middle"),
        ]
    for line, words in enumerate(_last_position(sequence, state.block_size)):
        parts.append(text(x, y + _HEADING + rows * _ROW + 4 + line * 17, words, 11, "mute", room=width + 100))
    return group("table", parts)


def _last_position(sequence: PoolSequence, block_size: int) -> list[str]:
    """Where the newest token lies: the one step of address translation that is worth following at every event."""
    num_tokens = sequence.num_tokens
    if not num_tokens or any(block.filled < block_size for block in sequence.blocks[:-1]):
        return []
    entry, offset = divmod(num_tokens - 1, block_size)
    block_id = sequence.block_ids[entry]
    return [
        f"position {num_tokens - 1} → block {block_id}, offset {offset}",
        f"slot {block_id} × {block_size} + {offset} = {block_id * block_size + offset}",  # noqa: RUF001
    ]


def _stack(state: PoolState, x: float, y: float, width: float, rows: int) -> str:
    parts = [_title(x, y, "free stack", width)]
    if state.free is None:
        return group("stack", [*parts, _note(x, y, 0, "not known", width)])
    if not state.free:
        return group("stack", [*parts, _note(x, y, 0, "empty", width)])
    # One row goes to the words under the block that is next.
    shown, hidden = _shorten(list(state.free), rows - 1)
    for row, block_id in enumerate(shown):
        top = y + _HEADING - 14 + (row + (row > 0)) * _ROW
        if block_id is None:
            parts.append(_note(x, y, row + 1, f"… {hidden} more", width))
            continue
        parts.append(rect(x, top, width, 20, "chip" if row else "next", 4))
        parts.append(text(x + width / 2, top + 14.5, f"block {block_id}", 12, "ink", room=width - 6, anchor="middle"))
    parts.append(
        text(x + width / 2, y + _HEADING - 14 + _ROW + 10, "↑ next out", 11, "mute", room=width, anchor="middle")
    )
    return group("stack", parts)


def _sequences(state: PoolState, x: float, y: float, width: float, rows: int) -> str:
    parts = [_title(x, y, "sequences", width)]
    if not state.sequences:
        return group("sequences", [*parts, _note(x, y, 0, "none", width)])
    shown, hidden = _shorten(list(state.sequences), rows)
    for row, sequence in enumerate(shown):
        if sequence is None:
            parts.append(_note(x, y, row, f"… {hidden} more", width))
            continue
        top = y + _HEADING - 14 + row * _ROW
        letter, taken = badge(x, top, sequence.label, hue_of(sequence.label), 12, 70)
        words = plural(len(sequence.blocks), "block")
        if sequence.num_tokens is not None:
            words = f"{plural(sequence.num_tokens, 'token')} · {words}"
        parts += [letter, text(x + taken + 10, top + 14.5, words, 12, "ink", room=width - taken - 10)]
    return group("sequences", parts)


def _shorten(items: list, rows: int, keep_last: bool = False) -> tuple[list, int]:
    """At most `rows` items, None in the place of those left out, and how many these are."""
    if len(items) <= rows:
        return items, 0
    last = [items[-1]] if keep_last else []
    kept = items[: rows - 1 - len(last)]
    return [*kept, None, *last], len(items) - len(kept) - len(last)


def _title(x: float, y: float, words: str, width: float) -> str:
    return text(x, y, words, 13, "ink", room=width, bold=True)


def _note(x: float, y: float, row: int, words: str, width: float) -> str:
    return text(x, y + _HEADING + row * _ROW + 0.5, words, 12, "mute", room=width)
