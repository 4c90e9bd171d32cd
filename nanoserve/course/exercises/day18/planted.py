"""Day 18's planted fault. To find it, look at the picture before you read on."""

import torch


def suspect_start(num_heads: int, head_dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the suspect's `largest`, `total` and `mixed` begin with."""
    return torch.full((num_heads,), -torch.inf), torch.zeros(num_heads), torch.zeros(num_heads, head_dim)


def suspect_fold(
    scores: torch.Tensor,
    values: torch.Tensor,
    largest: torch.Tensor,
    total: torch.Tensor,
    mixed: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `nanoserve.attention.fold`, with one fault, of a kind that ordinary texts never show."""
    new_largest = torch.maximum(largest, scores.amax(-1))
    new_largest = torch.where(new_largest == -torch.inf, 0.0, new_largest)  # -inf - -inf would be NaN
    shrink = (largest - new_largest).exp()
    weights = (scores - new_largest[:, None]).exp()
    return (
        new_largest,
        total * shrink + weights.sum(-1),
        mixed * shrink[:, None] + (weights[:, :, None] * values).sum(1),
    )
