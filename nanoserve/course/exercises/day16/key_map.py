"""Which token's key lies where: the picture by which Day 16's planted fault is found."""

import torch
from matplotlib import pyplot as plt


def whose_keys(kept: torch.Tensor, right: torch.Tensor) -> list[int | None]:
    """For each position of a history, the token whose key is kept there; None where it is nobody's.

    Args:
        kept: (T, head_dim), what a cache hands back.
        right: (T, head_dim), the key of each token; all different.
    """
    found = [(right == row).all(1).nonzero().flatten().tolist() for row in kept]
    return [tokens[0] if tokens else None for tokens in found]


def draw_key_map(whose: list[int | None], block_size: int) -> None:
    """One row a block of the table, one column an offset; what is not its position's own key is orange."""
    entries = -(-len(whose) // block_size)
    _, axes = plt.subplots(figsize=(0.8 * block_size, 0.5 + 0.5 * entries), layout="constrained")
    for position, token in enumerate(whose):
        entry, offset = divmod(position, block_size)
        colour = "#d9e8f2" if token == position else "#e69f00"
        axes.add_patch(plt.Rectangle((offset - 0.47, entry - 0.45), 0.94, 0.9, color=colour))
        words = "nothing" if token is None else f"key of {token}"
        axes.text(offset, entry, words, ha="center", va="center", fontsize=8)
    axes.set(xlim=(-0.5, block_size - 0.5), ylim=(entries - 0.5, -0.5))
    axes.set(xlabel="offset in the block", ylabel="entry of the table", xticks=range(block_size), yticks=range(entries))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    plt.show()
