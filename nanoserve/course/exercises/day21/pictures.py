"""Day 21's pictures: which multiprocessors have work, and which program reads which slot."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.colors import ListedColormap

# Okabe and Ito's palette, which colour-blind people can tell apart, each with a colour for words on it.
COLOURS = [("#0072b2", "white"), ("#e69f00", "black"), ("#009e73", "black"), ("#cc79a7", "black"), ("#56b4e9", "black")]
NOBODY = "#e3e5e8"
_LOADS = ListedColormap([NOBODY, "#9ecae1", "#4292c6", "#2171b5", "#08306b"])


def draw_programs(launches: Mapping[str, int], multiprocessors: int) -> None:
    """A row for each launch, a cell for each multiprocessor: the darker, the more programs it is given; grey is idle.

    Args:
        launches: how many programs there are, by what the row is called.
    """
    counts = np.zeros((len(launches), multiprocessors))
    for row, programs in enumerate(launches.values()):
        counts[row] = programs // multiprocessors
        counts[row, : programs % multiprocessors] += 1
    figure, axes = plt.subplots(figsize=(9, 0.7 + 0.42 * len(launches)), layout="constrained")
    mesh = axes.pcolormesh(np.minimum(counts, 4), cmap=_LOADS, vmin=-0.5, vmax=4.5, edgecolors="white", linewidth=0.5)
    for row, programs in enumerate(launches.values()):
        axes.axhline(row, color="white", lw=6)
        words = f"{programs:,} program{'s' * (programs > 1)}: {(counts[row] > 0).sum()} of {multiprocessors} busy"
        axes.text(multiprocessors + 1, row + 0.5, words, va="center", fontsize=9)
    axes.set(xlabel="multiprocessors", ylim=(len(launches), 0), yticks=np.arange(len(launches)) + 0.5)
    axes.set_yticklabels(launches)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(mesh, ax=axes, location="bottom", aspect=40, shrink=0.4, ticks=range(5))
    bar.ax.set_xticklabels(["idle", "1", "2", "3", "4+"], fontsize=8)
    bar.set_label("programs on a multiprocessor", fontsize=8)
    bar.outline.set_visible(False)
    plt.show()


def draw_shares(
    dealt: Mapping[int, Sequence[range]], tile: int, table: Sequence[int], block_size: int, num_blocks: int
) -> None:
    """The sequence once for each number of programs, in its own order, and below it the pool, for the last of them.

    Args:
        dealt: how many programs -> the tokens of each.
        tile: tokens fetched at a time; a white line ends each tile.
        table: the sequence's block ids.
        num_blocks: of the pool.
    """
    tokens = 1 + max(token for shares in dealt.values() for share in shares for token in share)
    _, (above, below) = plt.subplots(
        2, figsize=(9, 1.4 + 0.4 * len(dealt) + 1.3), height_ratios=[len(dealt), 2.6], layout="constrained"
    )
    for row, shares in enumerate(dealt.values()):
        for program, share in enumerate(shares):
            for token in share:
                _cell(above, token, row, program)
            if share:
                middle = (share.start + min(share.stop, share.start + tile)) / 2
                colour = COLOURS[program % len(COLOURS)][1]
                above.text(middle, row + 0.45, f"program {program}", color=colour, **_WORDS)
    for end in range(tile, tokens, tile):
        above.axvline(end, color="white", lw=4)
    above.set(xlim=(0, tokens), ylim=(len(dealt), 0), yticks=np.arange(len(dealt)) + 0.45, xlabel="token")
    above.set_yticklabels([f"{count} program{'s' * (count > 1)}" for count in dealt])

    last = list(dealt.values())[-1]
    owners = {token: program for program, share in enumerate(last) for token in share}
    columns = num_blocks // 2
    for block in range(num_blocks):
        row, column = divmod(block, columns)
        left = column * (block_size + 1)
        below.text(left, row * 1.7, f"block {block}", fontsize=8, color="#667280", va="bottom")
        for offset in range(block_size):
            token = table.index(block) * block_size + offset if block in table else -1
            _cell(below, left + offset, row * 1.7, owners.get(token), str(token) if token in owners else "")
    below.set(xlim=(0, columns * (block_size + 1) - 1), ylim=(2.8, -0.6), xticks=[], yticks=[])
    below.set_xlabel(f"the pool, read by {len(last)} programs; grey is not this sequence's")
    for axes in (above, below):
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    plt.show()


_WORDS = {"ha": "center", "va": "center", "fontsize": 8, "fontweight": "bold"}


def _cell(axes: plt.Axes, left: float, top: float, program: int | None, words: str = "") -> None:
    colour, on_it = (NOBODY, "black") if program is None else COLOURS[program % len(COLOURS)]
    axes.add_patch(plt.Rectangle((left + 0.03, top), 0.94, 0.9, color=colour, lw=0))
    axes.text(left + 0.5, top + 0.45, words, color=on_it, **_WORDS)
