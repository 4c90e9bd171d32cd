"""The same six requests in the same memory, twice: each in a reservation, and each in as many blocks as it fills."""

from nanoserve import BlockAllocator
from nanoserve.course.view.reservations import bars
from nanoserve.course.view.shapes import document, group, rect, text
from nanoserve.course.view.theme import hue_of

LENGTHS = (70, 33, 121, 20, 58, 96)  # tokens of A to F
MAX_LEN, BLOCK_SIZE = 256, 16
_X, _Y, _WIDTH, _ROW, _BAR = 500, 90, 438, 38, 28


def memory_wall(theme: str = "light") -> str:
    """The figure as an SVG document."""
    allocator = BlockAllocator(len(LENGTHS) * MAX_LEN // BLOCK_SIZE, BLOCK_SIZE)
    owners = {}
    for row, length in enumerate(LENGTHS):
        owners |= dict.fromkeys(allocator.allocate_for(length), chr(ord("A") + row))
    words = f"{len(LENGTHS)} requests of {sum(LENGTHS)} tokens in room for {len(LENGTHS) * MAX_LEN}"
    parts = [
        text(22, 38, "Reserved: the memory is full", 18, "ink", room=440, bold=True),
        text(22, 62, f"each request keeps room for {MAX_LEN} tokens; a seventh must wait", 13, "mute", room=440),
        *bars(LENGTHS, MAX_LEN, 22, _Y, 438),
        text(
            _X,
            38,
            f"In blocks: {allocator.num_free} of {allocator.num_blocks} are free",
            18,
            "ink",
            room=440,
            bold=True,
        ),
        text(_X, 62, f"the same memory, in blocks of {BLOCK_SIZE} tokens", 13, "mute", room=440),
        *_blocks(owners, allocator.num_blocks),
    ]
    return document(parts, _Y + len(LENGTHS) * _ROW + 12, words, theme)


def _blocks(owners: dict[int, str], num_blocks: int) -> list[str]:
    """The blocks, a reservation's worth in a row, each in its owner's colour up to its last token."""
    columns = MAX_LEN // BLOCK_SIZE
    width = _WIDTH / columns
    left = dict(zip("ABCDEF", LENGTHS, strict=True))
    parts = []
    for block_id in range(num_blocks):
        row, column = divmod(block_id, columns)
        x, y = _X + column * width, _Y + row * _ROW
        label = owners.get(block_id)
        if label is None:
            parts.append(group("block", [rect(x + 1, y, width - 2, _BAR, "free", 3)], f"block {block_id}: free"))
            continue
        hue, filled = hue_of(label), min(left[label], BLOCK_SIZE)
        left[label] -= filled
        drawn = [
            rect(x + 1, y, width - 2, _BAR, f"open{hue}", 3),
            rect(x + 1, y, (width - 2) * filled / BLOCK_SIZE, _BAR, f"badge{hue}", 3),
        ]
        if filled > BLOCK_SIZE / 2:  # or the letter would stand half on white
            drawn.append(text(x + 5, y + 18.5, label, 12, f"on{hue}", room=width - 6, bold=True))
        parts.append(group("block", drawn, f"block {block_id}: {label}, {filled} of {BLOCK_SIZE}"))
    return parts
