"""Day 17: from one row of logits to the next token. Greedy, temperature, top-k, top-p."""

import math
from numbers import Integral, Real

import torch


def check_sampling(
    temperature: float, top_k: int | None, top_p: float | None, logits: torch.Tensor | None = None
) -> None:
    """Raise a ValueError that says the range, if an argument of `sample` is outside it.

    `logits` may be left out where there are none yet, as at the call of `generate`.
    """
    if logits is not None and logits.ndim != 1:
        raise ValueError(
            f"logits must be one row, (vocab_size,), got {tuple(logits.shape)}: the last position's is logits[0, -1]"
        )
    if not (isinstance(temperature, Real) and math.isfinite(temperature) and temperature >= 0):
        raise ValueError(f"temperature must be a finite number of 0 (greedy) or more, got {temperature!r}")
    if top_k is not None and (not isinstance(top_k, Integral) or isinstance(top_k, bool) or top_k < 0):
        raise ValueError(f"top_k must be a whole number of 1 or more, or 0 or None for off, got {top_k!r}")
    if top_p is not None and not (isinstance(top_p, Real) and 0 < top_p <= 1):
        raise ValueError(f"top_p must be above 0 and at most 1, got {top_p!r}")


def warp(
    logits: torch.Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> torch.Tensor:
    """Scale one row of logits and set those out of the draw to -inf, in the order of transformers' warpers.

    Top-k keeps whatever ties with the k-th; top-p keeps the fewest tokens whose probabilities reach it
    (nucleus sampling, Holtzman et al., 2020), counted after top-k.

    Args:
        logits: (vocab_size,), fp32; it is left as it is.
        temperature: above 0; every logit is divided by it.
        top_k: None or 0 is off; a k above the vocabulary is the vocabulary.
        top_p: None or 1 is off.

    Returns:
        (vocab_size,), fp32.
    """
    scores = logits / temperature
    if top_k:
        kth = scores.topk(min(top_k, len(scores))).values[-1]
        scores = scores.masked_fill(scores < kth, -math.inf)
    if top_p is not None and top_p < 1:
        ascending, order = scores.sort()
        out = ascending.softmax(dim=-1).cumsum(dim=-1) <= 1 - top_p  # the tail that the nucleus can do without
        out[-1] = False  # rounding must not lose the likeliest
        scores = scores.index_fill(0, order[out], -math.inf)
    return scores


def sample(
    logits: torch.Tensor,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> int:
    """Choose the next token.

    Args:
        logits: (vocab_size,), any dtype and device: one row, `logits[0, -1]` of a model's, and no batch of them.
        temperature: 0 takes the likeliest; above 0, logits are divided by it and a token is drawn.
        top_k: draw among the k likeliest; None or 0 is off, and a k above the vocabulary is the vocabulary.
        top_p: draw among the likeliest that together reach this probability; None or 1 is off.
        generator: of the CPU, where the draw is made, so that a seed means the same on every machine.

    Returns:
        A token id.

    Raises:
        ValueError: an argument is outside its range, or `logits` is not one row.
    """
    check_sampling(temperature, top_k, top_p, logits)
    if temperature < 1e-5 or top_k == 1:  # dividing by less would overflow before it changed a token
        return int(logits.argmax())
    scores = warp(logits.float().cpu(), temperature, top_k, top_p)
    return int(torch.multinomial(scores.softmax(dim=-1), 1, generator=generator))
