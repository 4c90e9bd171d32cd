"""One block of the pool: its owner, its filled slots, what they hold, and what is wrong with it."""

from nanoserve.course.view.grid import Grid
from nanoserve.course.view.shapes import badge, badge_width, group, hatch, rect, text
from nanoserve.course.view.state import HeldBlock, PoolState, plural
from nanoserve.course.view.text import show_token
from nanoserve.course.view.theme import hue_of

Holders = list[tuple[str, HeldBlock]]


def draw_blocks(state: PoolState, grid: Grid) -> list[str]:
    """Every block that the grid shows, in order of its id."""
    holders, faults = state.holders, state.faults
    next_out = state.free[0] if state.free else None
    return [
        _block(grid, block_id, state, holders.get(block_id, []), faults.get(block_id, ""), block_id == next_out)
        for block_id in range(grid.drawn)
    ]


def _block(grid: Grid, block_id: int, state: PoolState, holders: Holders, fault: str, is_next: bool) -> str:
    x, y = grid.corner(block_id)
    form, width, height = grid.form, grid.cell, grid.height
    look = f"tint{hue_of(holders[0][0])}" if holders else "next" if is_next else "free"
    parts = [rect(x, y, width, height, look, form.radius)]
    if fault:
        parts.append(hatch(x, y, width, height, 7 if form.name == "roomy" else 5))
    draw = {"roomy": _full, "small": _full, "tiny": _tiny, "dot": _dot}[form.name]
    parts += draw(grid, block_id, state.block_size, holders, fault, is_next)
    if fault:
        parts.append(rect(x, y, width, height, "broken", form.radius))
    return group("block", parts, _told(block_id, state, holders, fault, is_next))


def _told(block_id: int, state: PoolState, holders: Holders, fault: str, is_next: bool) -> str:
    """The block in words."""
    places = plural(state.block_size, state.place)
    told = [
        label if block.filled is None else f"{label}, {block.filled} of {places} filled" for label, block in holders
    ]
    told += [fault] if fault else []
    return f"block {block_id}: {'; '.join(told) or ('free, next out' if is_next else 'free')}"


def _full(grid: Grid, block_id: int, block_size: int, holders: Holders, fault: str, is_next: bool) -> list[str]:
    """A line with the id and the owners, and under it the slots, or the words that take their place."""
    x, y = grid.corner(block_id)
    form = grid.form
    roomy = form.name == "roomy"
    top, right = y + (8 if roomy else 4), x + grid.cell - form.pad
    labels = list(dict.fromkeys(label for label, _ in holders))[:3]
    room = (grid.cell - 2 * form.pad) * 0.6 / max(len(labels), 1)
    parts = []
    for label in reversed(labels):
        right -= badge_width(label, form.size, room)
        parts.append(badge(right, top, label, hue_of(label), form.size, room))
        right -= 3
    name = f"block {block_id}" if roomy else str(block_id)
    look = "ink" if holders else "mute"
    parts.append(text(x + form.pad, top + form.size * 1.19, name, form.size, look, room=right - x - form.pad))
    if fault:
        return [*parts, _fault_words(grid, x, y, fault)]
    words = "" if holders else "next out" if is_next else "free"
    if holders and holders[0][1].filled is None:
        words = "taken"
    if not words:
        return [*parts, *_slots(grid, block_id, block_size, *holders[0])]
    look = "ink" if is_next else "mute"
    middle = y + (grid.height + form.head - form.pad) / 2 + form.size * 0.36
    return [*parts, text(x + grid.cell / 2, middle, words, form.size, look, room=grid.cell - 8, anchor="middle")]


def _slots(grid: Grid, block_id: int, block_size: int, label: str, block: HeldBlock) -> list[str]:
    hue = hue_of(label)
    slots = []
    for offset in range(block_size):
        left, top, width, height = grid.slot_box(block_id, offset)
        if offset >= block.filled:
            look = f"open{hue}" if grid.form.name == "roomy" else f"void{hue}"
            slots.append(rect(left + 0.5, top + 0.5, width - 1, height - 1, look, 2))
            continue
        box = rect(left, top, width, height, f"slot{hue}", 2)
        if grid.shows_text and offset < len(block.texts):
            shown = show_token(block.texts[offset])
            middle = left + width / 2
            words = text(
                middle, top + height / 2 + 4, shown, 10.5, "ink", room=width - 4, anchor="middle", mono=True, exact=True
            )
            box = group("slot", [box, words], shown)
        slots.append(box)
    return slots


def _fault_words(grid: Grid, x: float, y: float, fault: str) -> str:
    """The fault in words on a band of its own, on two lines where a block is narrow."""
    form = grid.form
    roomy = form.name == "roomy"
    size = 12 if roomy and grid.columns < 5 else 10 if roomy else 8.5
    *first, last = fault.split()
    lines = [fault] if roomy or not first else [" ".join(first), last]
    width, leading = grid.cell - (2 * form.pad if roomy else 6), size + 2
    height = len(lines) * leading + 5
    top = y + (grid.height + form.head - (form.pad if roomy else 3) - height) / 2
    parts = [rect(x + (grid.cell - width) / 2, top, width, height, "band", 3)]
    for line, words in enumerate(lines):
        baseline = top + 2 + line * leading + size * 0.95
        parts.append(
            text(x + grid.cell / 2, baseline, words, size, "fault", room=width - 2, anchor="middle", bold=roomy)
        )
    return "".join(parts)


def _tiny(grid: Grid, block_id: int, block_size: int, holders: Holders, fault: str, is_next: bool) -> list[str]:
    """The id, and under it the owner's letter and a bar as long as its slots are full."""
    x, y = grid.corner(block_id)
    left, inside = x + grid.form.pad, grid.cell - 2 * grid.form.pad
    look = "ink" if holders or is_next else "mute"
    parts = [text(left, y + 11, str(block_id), grid.form.size, look, room=inside)]
    if not holders:
        return parts
    label, block = holders[0]
    taken = badge_width(label, 7.5, inside)
    parts.append(badge(left, y + 15, label, hue_of(label), 7.5, inside))
    room = inside - taken - 3
    if block.filled is not None and room > 4 and not fault:
        parts.append(rect(left + taken + 3, y + 19, room, 4.5, f"void{hue_of(label)}", 1))
        filled = room * block.filled / block_size
        parts.append(rect(left + taken + 3, y + 19, filled, 4.5, f"badge{hue_of(label)}", 1) if block.filled else "")
    return parts


def _dot(grid: Grid, block_id: int, block_size: int, holders: Holders, fault: str, is_next: bool) -> list[str]:
    """The owner's letter on the owner's colour."""
    if not holders:
        return []
    label = holders[0][0]
    x, y = grid.corner(block_id)
    middle = y + grid.cell / 2 + grid.form.size * 0.36
    letter = text(
        x + grid.cell / 2, middle, label, grid.form.size, f"on{hue_of(label)}", room=grid.cell - 2, anchor="middle"
    )
    return [rect(x + 1, y + 1, grid.cell - 2, grid.cell - 2, f"badge{hue_of(label)}", 2), letter]
