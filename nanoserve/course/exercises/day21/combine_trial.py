"""Task 21.2: one run of the learner's kernel that puts shares together, and how its rows are compared."""

from collections.abc import Callable

import torch

from nanoserve.course.exercises.day19.misuses import only_writes
from nanoserve.course.kernels.trial import Outside, close, numbers, tried, undefined
from nanoserve.course.probe import Probe

Giveaway = torch.Tensor | Callable[[torch.Tensor], bool]  # what gives a slip away: the result, or what is true of it


def combined(
    probe: Probe,
    parts: torch.Tensor,
    lse: torch.Tensor,
    slip: str,
    slips: dict[str, Giveaway],
    race: str = "stores-in-one-place",
    outside: Outside = "too-far",
) -> None:
    equal_rows(probe, combine(probe, parts, lse, race=race, outside=outside), mixed_by_weight(parts, lse), slip, slips)


def combine(
    probe: Probe,
    parts: torch.Tensor,
    lse: torch.Tensor,
    out: torch.Tensor | None = None,
    race: str = "stores-in-one-place",
    outside: Outside = "too-far",
) -> torch.Tensor:
    batch, heads, splits, dim = parts.shape
    out = undefined(batch, heads, dim) if out is None else out
    if lse.numel() <= 6:
        probe.calls.append(f"lse = {numbers(lse)}")
    sizes = {"SPLITS_PAD": 1 << (splits - 1).bit_length(), "DIM": dim, "DIM_PAD": 1 << (dim - 1).bit_length()}
    arguments = parts, lse, out, splits, *out.stride()[:2]
    run = tried(probe, (batch, heads), *arguments, **sizes, race=race, reads=outside, writes=outside)
    only_writes(probe, run, "out")
    return run.tensors["out"]


def mixed_by_weight(parts: torch.Tensor, lse: torch.Tensor) -> torch.Tensor:
    """(batch, heads, dim): the parts, each by the share of its exp(lse); zeros where there is none."""
    weights = (lse - lse.amax(2, keepdim=True).clamp(min=-1e30)).exp()
    return (weights[..., None] * parts).sum(2) / weights.sum(2).clamp(min=1e-30)[..., None]


def equal_rows(probe: Probe, came: torch.Tensor, expected: torch.Tensor, slip: str, slips: dict[str, Giveaway]) -> None:
    """One case: these rows; of a difference, the first row is told, from where it differs."""

    def nearly(came: torch.Tensor) -> bool:
        return bool((came - expected).abs().max() <= expected.abs().max() / 256)

    def told(out: torch.Tensor) -> str:
        different = ~torch.isclose(came, expected, rtol=1e-5, atol=1e-5)
        batch, head, place = different.nonzero()[0].tolist()
        first = place if came.shape[2] > 8 else 0
        return f"out[{batch}, {head}, {first}:] = {numbers(out[batch, head, first : first + 8])}"

    probe.equal(came, expected, slip, slips | {"nearly-right": nearly}, same=_fits, told=told)


def _fits(came: torch.Tensor, giveaway: Giveaway) -> bool:
    return giveaway(came) if callable(giveaway) else close(came, giveaway)
