"""Day 21's planted fault. To find it, look at the numbers before you read on."""

import math

import torch


def suspect_shares(scores: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The attention over each share, and its log-sum-exp, with powers of 2: a GPU has an instruction for those.

    Args:
        scores: (splits, tokens of a share).
        values: (splits, tokens of a share, head_dim).

    Returns:
        Parts, (splits, head_dim), and log-sum-exps, (splits,).
    """
    scores = scores * math.log2(math.e)  # e**x is 2**(x * log2(e))
    largest = scores.amax(1, keepdim=True)
    weights = torch.exp2(scores - largest)
    total = weights.sum(1, keepdim=True)
    parts = ((weights / total)[:, :, None] * values).sum(1)
    return parts, (largest + total.log2())[:, 0]
