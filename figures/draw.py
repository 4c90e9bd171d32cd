"""Draws the pictures of the course, as SVG and as PNG beside this file: `python figures/draw.py`.

Each picture comes from real calls to the engine, or from what a benchmark wrote, drawn as the notebooks draw them; the
same calls and files give the same bytes.
They are in light colours on paper of their own, and so they can be read on a dark page too.
"""

from collections.abc import Callable
from pathlib import Path

from block_allocator import block_allocator
from block_table import block_table
from gather import gather
from memory_wall import memory_wall
from online_softmax import online_softmax
from paged_free_reuse import paged_free_reuse
from serving import serving

from nanoserve import BlockAllocator, BlockTable
from nanoserve.course.view.png import to_png
from nanoserve.course.view.svg import draw_pool
from nanoserve.course.view.watch import watch

HERE = Path(__file__).resolve().parent


def pool_view() -> str:
    """Three sequences share a pool; a fourth one has come and gone, and B grows into a block that it left."""
    allocator = BlockAllocator(num_blocks=8, block_size=4)
    view = watch(allocator)
    texts = {
        "A": "Paged| attention| keeps| keys| and| values| in| blocks| of| four",
        "D": "This| one| comes| and| goes",
        "C": "Hello| world|!",
        "B": "Freed| blocks| come| back| and| are| handed| out",
    }
    tokens = {label: text.split("|") for label, text in texts.items()}
    tables = {label: BlockTable(allocator) for label in tokens}
    for label, table in tables.items():
        view.follow(label, table, tokens[label])
    for label, num_tokens in (("A", 6), ("D", 5), ("C", 2), ("B", 4), ("A", 4)):
        tables[label].append(num_tokens)
    tables["D"].free()
    for label in "CBBBB":
        tables[label].append()
    return draw_pool(view.state(), "light")


# A file's name -> what draws it, as an SVG whose colours are literal.
FIGURES: dict[str, Callable[[], str]] = {
    "pool_view": pool_view,
    "block-allocator": block_allocator,
    "block-table": block_table,
    "gather": gather,
    "memory-wall": memory_wall,
    "online-softmax": online_softmax,
    "paged-free-reuse": paged_free_reuse,
    "serving": serving,
}


def main() -> None:
    """Draw every picture."""
    for name, draw in FIGURES.items():
        svg = draw()
        (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")
        (HERE / f"{name}.png").write_bytes(to_png(svg))
        print(f"figures/{name}.svg and .png")


if __name__ == "__main__":
    main()
