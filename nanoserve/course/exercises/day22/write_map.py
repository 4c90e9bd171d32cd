"""Where a decode step wrote: the picture by which Day 22's planted fault is found."""

from collections.abc import Mapping, Sequence

import torch
from matplotlib import pyplot as plt

_OWNERS = ("#0072b2", "#009e73", "#cc79a7", "#56b4e9")


def places_written(before: torch.Tensor, after: torch.Tensor) -> list[tuple[int, int]]:
    """Block and offset of each place of a pool's `k` that changed.

    Args:
        before, after: (num_layers, num_blocks, block_size, num_kv_heads, head_dim).
    """
    differs = (before != after) & ~(before.isnan() & after.isnan())  # fresh memory may hold NaN, which equals nothing
    changed = differs.flatten(3).any(3).any(0)  # (num_blocks, block_size)
    return [(block, offset) for block, offset in changed.nonzero().tolist()]


def draw_writes(before: torch.Tensor, after: torch.Tensor, owners: Mapping[str, Sequence[int]], scratch: int) -> None:
    """One column a block, one row an offset; a star where a step wrote.

    Args:
        before, after: a pool's `k`.
        owners: whose blocks are whose.
        scratch: the scratch block.
    """
    num_blocks, block_size = before.shape[1:3]
    names = {block: name for name, blocks in owners.items() for block in blocks} | {scratch: "scratch"}
    hues = dict(zip(owners, _OWNERS, strict=False)) | {"scratch": "#7f8895"}
    _, axes = plt.subplots(figsize=(1.0 * num_blocks, 0.6 + 0.34 * block_size), layout="constrained")
    for block in range(num_blocks):
        colour = hues.get(names.get(block, ""), "#d3d7dd")
        for offset in range(block_size):
            axes.add_patch(plt.Rectangle((block - 0.44, offset - 0.42), 0.88, 0.84, color=colour, alpha=0.35, lw=0))
    for block, offset in places_written(before, after):
        axes.plot(block, offset, marker="*", markersize=15, color="#d55e00", markeredgecolor="white")
    labels = [f"block {block}\n{names.get(block, 'free')}" for block in range(num_blocks)]
    axes.set(xlim=(-0.5, num_blocks - 0.5), ylim=(block_size - 0.5, -0.5), ylabel="offset in the block")
    axes.set_xticks(range(num_blocks), labels)
    axes.set_yticks(range(block_size))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    plt.show()
