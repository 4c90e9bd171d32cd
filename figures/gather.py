"""The gather: a text's scattered blocks, copied into one tensor so that attention can read them, at every step."""

from nanoserve import BlockAllocator, BlockTable
from nanoserve.course.view.shapes import badge, document, group, number, rect, text
from nanoserve.course.view.text import show_token
from nanoserve.course.view.theme import hue_of

WORDS = "Attention| asks| for| one| tensor|,| oldest| token| first|."
NUM_BLOCKS, BLOCK_SIZE = 8, 4
_LEFT, _ROOM = 22, 916
_POOL_Y, _TENSOR_Y, _ATTENTION_Y = 84, 300, 400
_BLOCK, _GAP, _SLOT = 104, 12, 20  # a block's width, the gap between two, a slot's height
_CELL = 86  # a token's width in the tensor


def gather(theme: str = "light") -> str:
    """A sentence of ten tokens in blocks 5, 0 and 3, and beside it another's blocks and free ones."""
    tokens = WORDS.split("|")
    allocator = BlockAllocator(NUM_BLOCKS, BLOCK_SIZE)
    allocator.allocate_for(NUM_BLOCKS * BLOCK_SIZE)
    allocator.free_all([7, 4, 2, 3, 0, 5, 6, 1])
    others = allocator.allocate_for(2 * BLOCK_SIZE)
    table = BlockTable(allocator)
    table.append(len(tokens))

    owners = {block_id: ("B", ["·"] * BLOCK_SIZE) for block_id in others}
    for entry, block_id in enumerate(table.block_ids):
        owners[block_id] = ("A", tokens[entry * BLOCK_SIZE : (entry + 1) * BLOCK_SIZE])
    shape = f"(1, num_kv_heads, {len(tokens)}, head_dim)"
    told = f"keys or values of A, {shape}: copied in the table's order, in every layer, at every step"
    parts = [
        text(_LEFT, 38, "The gather", 18, "ink", room=_ROOM, bold=True),
        text(_LEFT, 62, "one layer's blocks, and where the text's tokens lie in them", 13, "mute", room=_ROOM),
        *(_block(block_id, *owners.get(block_id, ("", []))) for block_id in range(NUM_BLOCKS)),
        *(_arrow(block_id, entry, len(tokens)) for entry, block_id in enumerate(table.block_ids)),
        *(_token(position, token) for position, token in enumerate(tokens)),
        text(_LEFT, _TENSOR_Y + 48, told, 13, "mute", room=_ROOM),
        *_attention(len(tokens)),
    ]
    words = f"A text of {len(tokens)} tokens is copied out of blocks {table.block_ids} into one tensor, for attention"
    return document(parts, _ATTENTION_Y + 92, words, theme)


def _x(block_id: int) -> float:
    return _LEFT + block_id * (_BLOCK + _GAP)


def _block(block_id: int, label: str, tokens: list[str]) -> str:
    x, height = _x(block_id), 40 + BLOCK_SIZE * (_SLOT + 3)
    hue = hue_of(label) if label else 0
    parts = [
        rect(x, _POOL_Y, _BLOCK, height, f"tint{hue}" if label else "free", 8),
        text(x + 10, _POOL_Y + 23, f"block {block_id}", 12, "ink" if label else "mute", room=60),
    ]
    if not label:
        parts.append(text(x + _BLOCK / 2, _POOL_Y + 84, "free", 12, "mute", room=80, anchor="middle"))
        return group("block", parts, f"block {block_id}: free")
    parts.append(badge(x + _BLOCK - 29, _POOL_Y + 8, label, hue, 12, 30))
    for offset in range(BLOCK_SIZE):
        top = _POOL_Y + 36 + offset * (_SLOT + 3)
        if offset >= len(tokens):
            parts.append(rect(x + 8.5, top + 0.5, _BLOCK - 17, _SLOT - 1, f"open{hue}", 3))
            continue
        parts.append(rect(x + 8, top, _BLOCK - 16, _SLOT, f"slot{hue}", 3))
        if label == "A":
            word = show_token(tokens[offset])
            middle = x + _BLOCK / 2
            parts.append(text(middle, top + 14, word, 10.5, "ink", room=_BLOCK - 20, anchor="middle", mono=True))
    return group("block", parts, f"block {block_id}: {label}, {len(tokens)} of {BLOCK_SIZE} slots filled")


def _arrow(block_id: int, entry: int, num_tokens: int) -> str:
    """From under a block to the middle of a bracket over its part of the tensor."""
    x, y = _x(block_id) + _BLOCK / 2, _POOL_Y + 40 + BLOCK_SIZE * (_SLOT + 3) + 4
    first, last = entry * BLOCK_SIZE, min((entry + 1) * BLOCK_SIZE, num_tokens)
    left, right = _LEFT + first * (_CELL + 4) + 1, _LEFT + last * (_CELL + 4) - 5
    to_x, to_y = (left + right) / 2, _TENSOR_Y - 11
    middle = (y + to_y) / 2
    points = [(x, y), (x, middle), (to_x, middle), (to_x, to_y - 8)]
    (start, *bend) = [f"{number(px)} {number(py)}" for px, py in points]
    head = f"M{number(to_x)} {number(to_y)}l-4.5 -9h9Z"
    bracket = f"M{number(left)} {_TENSOR_Y - 4}v-6H{number(right)}v6"
    line = f'<path class="here" d="M{start}C{" ".join(bend)}{bracket}"/><path class="ink" d="{head}"/>'
    aside, anchor = (10, "start") if x < to_x else (-10, "end")  # where the arrow does not come from
    label = text(to_x + aside, to_y - 8, f"entry {entry}", 11.5, "mute", room=70, anchor=anchor)
    return group("arrow", [line, label], f"entry {entry} of the table: block {block_id}")


def _token(position: int, token: str) -> str:
    x = _LEFT + position * (_CELL + 4)
    word = show_token(token)
    words = text(x + _CELL / 2, _TENSOR_Y + 18, word, 11, "ink", room=_CELL - 6, anchor="middle", mono=True)
    return group("slot", [rect(x, _TENSOR_Y, _CELL, 28, f"slot{hue_of('A')}", 3), words], f"position {position}")


def _attention(num_tokens: int) -> list[str]:
    width = num_tokens * (_CELL + 4) - 4
    read = "attention reads it once: softmax(q · keys) · values"
    after = "the copy is thrown away; the next step, one token longer, makes it anew"
    middle = _LEFT + width / 2
    tip = f"M{number(middle)} {_ATTENTION_Y - 4}l-4.5 -9h9Z"
    return [
        f'<path class="here" d="M{number(middle)} {_TENSOR_Y + 58}V{_ATTENTION_Y - 12}"/><path class="ink" d="{tip}"/>',
        rect(_LEFT, _ATTENTION_Y, width, 34, "next", 8),
        text(middle, _ATTENTION_Y + 22, read, 13, "ink", room=width - 20, anchor="middle"),
        text(_LEFT, _ATTENTION_Y + 60, after, 13, "mute", room=_ROOM),
    ]
