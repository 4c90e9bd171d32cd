"""Where a pool's blocks stand in the picture: few of them large, with the slots' texts; hundreds as small tiles."""

from dataclasses import dataclass
from math import ceil

from nanoserve.course.view.state import PoolState

MAX_DRAWN = 1024  # more blocks than this are counted, not drawn


@dataclass(frozen=True)
class Form:
    """One size of block.

    Args:
        name: "roomy" has words, "small" has numbers, "tiny" a bar for its slots, "dot" only the owner's letter.
        gap: between blocks.
        pad: between a block's edge and what is in it.
        radius: of a block's corners.
        size: of its letters.
        head: height of the line with its id and its owner.
        slot_gap: between slots.
        least: the least width of a slot.
    """

    name: str
    gap: float
    pad: float
    radius: float
    size: float
    head: float = 0
    slot_gap: float = 0
    least: float = 1


_ROOMY = Form("roomy", gap=12, pad=10, radius=8, size=12, head=36, slot_gap=4, least=13)
_SMALL = Form("small", gap=6, pad=6, radius=5, size=9.5, head=24, slot_gap=2, least=5)
_TINY = Form("tiny", gap=4, pad=4, radius=4, size=8)
_DOT = Form("dot", gap=3, pad=1, radius=3, size=8)

# (most blocks, columns, form): the first that is large enough.
_BARE = (
    *((4, 2, _ROOMY), (12, 3, _ROOMY), (20, 4, _ROOMY), (30, 5, _ROOMY)),
    *((64, 8, _SMALL), (256, 16, _TINY), (MAX_DRAWN, 32, _DOT)),
)
_WITH_TEXT = ((8, 2, _ROOMY), (18, 3, _ROOMY), (32, 4, _ROOMY))


@dataclass(frozen=True)
class Grid:
    """All blocks of a pool are drawn alike, whatever they hold, so that nothing jumps from one event to the next.

    Args:
        form: the blocks' size.
        columns: blocks in a row.
        rows: rows of blocks.
        per_row: slots in a row of a block.
        slot: a slot's height.
        cell, height: a block's width and height.
        shows_text: the slots have room for their tokens' texts.
        drawn: blocks that are drawn.
        x, y: the grid's place in the picture.
    """

    form: Form
    columns: int
    rows: int
    per_row: int
    slot: float
    cell: float
    height: float
    shows_text: bool
    drawn: int
    x: float
    y: float

    @classmethod
    def of(cls, state: PoolState, x: float, y: float, width: float, columns: int | None = None) -> "Grid":
        """The grid for a pool's shape, in a width; with so many blocks in a row, where it is not to choose itself."""
        drawn = min(state.num_blocks, MAX_DRAWN)
        has_text = any(block.texts for sequence in state.sequences for block in sequence.blocks)
        shows_text = (state.room_for_text or has_text) and drawn <= _WITH_TEXT[-1][0]
        sizes = _WITH_TEXT if shows_text else _BARE
        if shows_text and state.num_blocks * state.block_size > 96:
            sizes = _WITH_TEXT[1:]
        own, form = next((own, form) for most, own, form in sizes if drawn <= most)
        columns = columns or own
        cell = (width - form.gap * (columns - 1)) / columns
        least = (62 if columns < 3 else 40) if shows_text else form.least
        per_row = _slots_in_a_row(state.block_size, cell - 2 * form.pad + form.slot_gap, least + form.slot_gap)
        slot_rows = ceil(state.block_size / per_row)
        if form is _ROOMY:
            slot = (26 if slot_rows == 1 else 20) if shows_text else (26 if slot_rows < 3 and columns < 4 else 15)
        else:
            slot = 7
        height = form.head + slot_rows * (slot + form.slot_gap) - form.slot_gap + form.pad
        height = {"roomy": max(height, 74), "small": max(height, 46), "tiny": 31, "dot": cell}[form.name]
        rows = ceil(drawn / columns)
        return cls(form, columns, rows, per_row, slot, cell, height, shows_text, drawn, x, y)

    @property
    def bottom(self) -> float:
        """The lower edge of the last row."""
        return self.y + self.rows * (self.height + self.form.gap) - self.form.gap

    def corner(self, block_id: int) -> tuple[float, float]:
        """The top left corner of a block."""
        row, column = divmod(block_id, self.columns)
        return self.x + column * (self.cell + self.form.gap), self.y + row * (self.height + self.form.gap)

    def slot_box(self, block_id: int, offset: int) -> tuple[float, float, float, float]:
        """Left, top, width and height of a slot."""
        x, y = self.corner(block_id)
        row, column = divmod(offset, self.per_row)
        gap = self.form.slot_gap
        width = (self.cell - 2 * self.form.pad - gap * (self.per_row - 1)) / self.per_row
        return (
            x + self.form.pad + column * (width + gap),
            y + self.form.head + row * (self.slot + gap),
            width,
            self.slot,
        )


def _slots_in_a_row(block_size: int, width: float, least: float) -> int:
    """As many slots as fit at their least width, evenly: a divisor of the block size, if it is not far below."""
    most = max(1, min(block_size, int(width // least)))
    even = max(count for count in range(1, most + 1) if block_size % count == 0)
    return even if even * 2 > most else most
