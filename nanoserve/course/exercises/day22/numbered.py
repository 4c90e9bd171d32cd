"""A pool, and prompts prefilled together, whose every number says whose it is."""

from collections.abc import Sequence

import torch

from nanoserve.course.exercises.day16.rows import HEADS, WIDTH, keys, values
from nanoserve.course.view.state import plural
from nanoserve.pool import KVPool
from nanoserve.prefill import PrefillCache

LAYERS = 2
BLOCK = 4
PAD_TOKEN = 60
_ROW = 20  # row r's tokens are 20 r, 20 r + 1 …; a prompt is no longer than that


def tokens_of(row: int, length: int) -> range:
    """The numbers of a row's tokens."""
    return range(_ROW * row, _ROW * row + length)


def prefilled(pad_lens: Sequence[int], columns: int) -> PrefillCache:
    """What the model leaves of prompts that went through it together."""
    cache = PrefillCache(list(pad_lens))
    for layer in range(LAYERS):
        parts = []
        for numbers in (keys, values):
            pad = numbers(range(PAD_TOKEN, PAD_TOKEN + 1), layer)
            rows = [
                torch.cat([pad.expand(-1, -1, pads, -1), numbers(tokens_of(row, columns - pads), layer)], dim=2)
                for row, pads in enumerate(pad_lens)
            ]
            parts.append(torch.cat(rows))
        cache.append(layer, *parts)
    return cache


def new_pool(num_blocks: int = 12, block_size: int = BLOCK, taken: int = 0) -> KVPool:
    """A pool with nothing in it, whose blocks come out in no order: 5 first, which becomes the scratch block.

    Args:
        num_blocks: in the pool.
        block_size: tokens of a block.
        taken: blocks that are somebody else's already.
    """
    pool = KVPool(LAYERS, num_blocks, block_size, HEADS, WIDTH)
    pool.k.zero_()
    pool.v.zero_()
    order = [(5 + 7 * place) % num_blocks for place in range(num_blocks)]  # 5, 0, 7, 2 … of 12
    if sorted(order) == list(range(num_blocks)):
        pool.allocator.allocate_for(num_blocks * block_size)
        pool.allocator.free_all(order[::-1])
    pool.allocator.allocate_for(taken * block_size)
    return pool


def told(pad_lens: Sequence[int], columns: int) -> str:
    """A prefill in the words of a verdict."""
    rows = []
    for row, pads in enumerate(pad_lens):
        tokens = tokens_of(row, columns - pads)
        which = f"tokens {tokens[0]}-{tokens[-1]}" if len(tokens) > 1 else f"token {tokens[0]}"
        rows.append(f"row {row}: {plural(pads, 'pad')}, {which}" if pads else f"row {row}: {which}")
    return "; ".join(rows) + (f"; a pad is token {PAD_TOKEN}" if any(pad_lens) else "")


def whose(numbers: torch.Tensor) -> str:
    """Whose key or value lies in a place of a pool, (num_kv_heads, head_dim)."""
    if not numbers.any():
        return "nothing"
    for layer in range(LAYERS):
        for token in range(PAD_TOKEN + 1):
            for name, made in (("key", keys), ("value", values)):
                if torch.equal(numbers, made(range(token, token + 1), layer)[0, :, 0]):
                    return f"token {token}'s {name}" + (f" of layer {layer}" if layer else "")
    return "numbers that are nobody's"
