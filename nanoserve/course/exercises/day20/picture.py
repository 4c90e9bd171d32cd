"""What one program of the decode kernel does, as a picture: table, blocks, tiles, and what is made of them."""

from nanoserve.course.view.shapes import badge, document, group, number, rect, text
from nanoserve.course.view.theme import hue_of
from nanoserve.course.view.widget import live_html, show_picture

TABLE, OTHERS, NUM_BLOCKS, BLOCK_SIZE = (4, 1, 5), (0, 2), 6, 3
NUM_TOKENS, TILE = 7, 4
_LEFT, _ROOM = 22, 916
_BLOCK, _GAP, _CELL = 140, 15.2, 40
_POOL, _TILES, _STEPS = 150, 282, 408
_WORDS = "One program: a sequence of 7 tokens in blocks 4, 1 and 5, fetched in tiles of 4, scored, folded in and stored"


class ProgramPicture:
    """The picture in a notebook, still and live."""

    def _ipython_display_(self) -> None:
        show_picture(program_picture("light"), _WORDS, self._live)

    def _live(self) -> object:
        import ipywidgets as widgets

        return widgets.HTML(live_html(program_picture("auto")), layout={"overflow": "auto hidden"})


def program_picture(theme: str = "light") -> str:
    """One program over a sequence of seven tokens."""
    parts = [
        text(_LEFT, 38, "One program: one sequence, one KV head", 18, "ink", room=_ROOM, bold=True),
        text(_LEFT, 62, "the grid has one for each; they know nothing of one another", 13, "mute", room=_ROOM),
        *_table(),
        *(_block(block_id) for block_id in range(NUM_BLOCKS)),
        *_tiles(),
        *_steps(),
    ]
    return document(parts, _STEPS + 124, _WORDS, theme)


def _table() -> list[str]:
    x = _LEFT + 132
    parts = [text(_LEFT, 108, "its row of the table", 13, "ink", room=126)]
    for entry, block_id in enumerate(TABLE):
        left = x + entry * (_CELL + 4)
        parts.append(rect(left, 90, _CELL, 28, f"slot{hue_of('A')}", 3))
        parts.append(text(left + _CELL / 2, 109, str(block_id), 13, "ink", room=_CELL, anchor="middle", bold=True))
    told = f"its length: {NUM_TOKENS} tokens"
    return [*parts, text(x + 3 * (_CELL + 4) + 16, 108, told, 13, "ink", room=200)]


def _block(block_id: int) -> str:
    x = _LEFT + block_id * (_BLOCK + _GAP)
    label = "A" if block_id in TABLE else "B" if block_id in OTHERS else ""
    hue = hue_of(label or "A")
    parts = [
        rect(x, _POOL, _BLOCK, 78, f"tint{hue}" if label else "free", 8),
        text(x + 10, _POOL + 22, f"block {block_id}", 12, "ink" if label else "mute", room=80),
    ]
    if label:
        parts.append(badge(x + _BLOCK - 28, _POOL + 7, label, hue, 12, 30))
    for offset in range(BLOCK_SIZE if label else 0):
        left = x + 8 + offset * 42
        token = TABLE.index(block_id) * BLOCK_SIZE + offset if label == "A" else 0
        held = label == "B" or token < NUM_TOKENS
        parts.append(rect(left, _POOL + 36, 38, 30, f"slot{hue}" if held else f"open{hue}", 3))
        if label == "A":
            words = str(token) if held else "?"
            look = "ink" if held else "mute"
            parts.append(text(left + 19, _POOL + 56, words, 12, look, room=36, anchor="middle", bold=held))
    return group("block", parts, f"block {block_id}: {label or 'free'}")


def _tiles() -> list[str]:
    parts = []
    for tile in range(2):
        x = _LEFT + 200 + tile * 320
        parts.append(text(x, _TILES - 8, f"tile {tile}, in turn {tile} of the loop", 12, "mute", room=300))
        for lane in range(TILE):
            token, left = tile * TILE + lane, x + lane * 64
            held = token < NUM_TOKENS
            hue = hue_of("A")
            parts.append(rect(left, _TILES, 60, 46, f"slot{hue}" if held else "free", 3))
            words, size = (f"token {token}", 11) if held else ("masked", 11)
            look = "ink" if held else "mute"
            parts.append(text(left + 30, _TILES + 19, words, size, look, room=58, anchor="middle", bold=held))
            if held:
                where = f"{TABLE[token // BLOCK_SIZE]}, {token % BLOCK_SIZE}"
                parts.append(text(left + 30, _TILES + 36, where, 11, "ink", room=58, anchor="middle"))
    words = ("20.1  token_offsets", "each lane: block, offset")
    for line, told in enumerate(words):
        look = "mute" if line else "ink"
        parts.append(text(_LEFT, _TILES + 19 + 18 * line, told, 13 - line, look, room=180, bold=not line))
    return parts


def _steps() -> list[str]:
    steps = [
        ("load once", "q", "(GROUP, DIM)"),
        ("20.2  scores", "q · keys", "(GROUP, TILE)"),
        ("20.3  fold", "largest, total, mixed", "three for each head"),
        ("after the loop", "mixed / total", "stored, (GROUP, DIM)"),
    ]
    parts, width, gap = [], 196, 44
    for place, (name, what, shape) in enumerate(steps):
        x = _LEFT + place * (width + gap)
        parts.append(rect(x, _STEPS, width, 78, "next", 8))
        for line, (words, size, look) in enumerate([(name, 12, "mute"), (what, 14, "ink"), (shape, 12, "mute")]):
            bold = line == 1
            parts.append(
                text(
                    x + width / 2,
                    _STEPS + 22 + 22 * line,
                    words,
                    size,
                    look,
                    room=184,
                    anchor="middle",
                    bold=bold,
                    least=12,
                )
            )
        if place:
            y = _STEPS + 39
            line = f'<path class="here" d="M{number(x - gap + 6)} {y}H{number(x - 14)}"/>'
            parts.append(line + f'<path class="ink" d="M{number(x - 5)} {y}l-9 -4.5v9Z"/>')
    left, right = _LEFT + width + gap, _LEFT + 2 * (width + gap) + width
    y = _STEPS - 22
    parts.append(f'<path class="here" d="M{number(right - 40)} {_STEPS - 4}V{y}H{number(left + 40)}V{_STEPS - 12}"/>')
    parts.append(f'<path class="ink" d="M{number(left + 40)} {_STEPS - 3}l-4.5 -9h9Z"/>')
    middle = (left + right) / 2
    parts.append(
        text(middle, y - 8, "in every turn: keys and values of one tile", 12, "mute", room=340, anchor="middle")
    )
    around = "20.4  the kernel around it: who am I, the loop, the store"
    return [*parts, text(_LEFT, _STEPS + 106, around, 13, "ink", room=_ROOM, bold=True)]
