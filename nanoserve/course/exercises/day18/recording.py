"""A walk over the blocks, written down: what a learner's `fold` was given and gave back, as one head saw it."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch


@dataclass(frozen=True)
class Turn:
    """One call of `fold`, as one head saw it: the block, its tokens' scores, and what was known afterwards."""

    block_id: int
    scores: torch.Tensor
    largest: float
    total: float


@contextmanager
def recorded(walk: Callable, v_pool: torch.Tensor, head: int = 0) -> Iterator[list[Turn | None]]:
    """Write down what the `fold` that `walk` calls does to one query head, while the `with` block runs.

    A call that is given something else than one block, with a row for each head, is written down as None.

    Args:
        walk: a `blockwise_attention`, whose module or notebook has the `fold`.
        v_pool: (num_blocks, block_size, num_kv_heads, head_dim); a block is known by its values.
        head: the query head.
    """
    turns: list[Turn | None] = []
    names = _names_around(walk)
    if "fold" not in names:
        yield turns
        return
    fold = names["fold"]

    def noted(*given: torch.Tensor, **named: torch.Tensor) -> Sequence[torch.Tensor]:
        scores, values = inspect.signature(fold).bind(*given, **named).args[:2]
        kept = fold(*given, **named)
        turns.append(_turn(scores, values, kept, v_pool, head))
        return kept

    names["fold"] = noted
    try:
        yield turns
    finally:
        names["fold"] = fold


def _names_around(walk: Callable) -> dict[str, object]:
    """The globals of the function that is under decorators and `partial`s."""
    walk = inspect.unwrap(walk)
    while isinstance(walk, partial):
        walk = inspect.unwrap(walk.func)
    return getattr(walk, "__globals__", {})


def _turn(
    scores: torch.Tensor, values: torch.Tensor, kept: Sequence[torch.Tensor], v_pool: torch.Tensor, head: int
) -> Turn | None:
    if scores.ndim != 2 or values.ndim != 3 or not len(scores) == len(values) > head:
        return None
    own = scores[head][scores[head] > -torch.inf]
    if (held := len(own)) > v_pool.shape[1]:
        return None
    mine = (v_pool[:, :held] == values[head, :held, None].to(v_pool)).all(-1).any(-1).all(-1)
    return Turn(int(mine.int().argmax()), own, float(kept[0][head]), float(kept[1][head])) if mine.any() else None
