"""Draws the pictures of the course, as SVG and as PNG beside this file: `python figures/draw.py`.

Each picture is what the pool view shows of real calls to the engine; the same calls give the same bytes.
"""

from collections.abc import Callable
from pathlib import Path

from nanoserve import BlockAllocator, BlockTable
from nanoserve.course.watch import Watch, watch

HERE = Path(__file__).resolve().parent


def pool_view() -> Watch:
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
    return view


FIGURES: dict[str, Callable[[], Watch]] = {"pool_view": pool_view}


def main() -> None:
    """Draw every picture."""
    for name, draw in FIGURES.items():
        view = draw()
        for kind in ("svg", "png"):
            view.save(HERE / f"{name}.{kind}")
        print(f"figures/{name}.svg and .png")


if __name__ == "__main__":
    main()
