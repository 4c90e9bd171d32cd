"""How Day 18 compares numbers: within a rounding of fp32, and told in a few digits."""

from collections.abc import Mapping, Sequence

import torch

from nanoserve.course.probe import Probe

Numbers = torch.Tensor | Sequence[torch.Tensor]
MOST = 6  # numbers of a tensor that a verdict lists
_ROUNDING = {"rtol": 2e-5, "atol": 2e-5}


def same_numbers(
    probe: Probe,
    came: Numbers,
    expected: Numbers,
    slip: str,
    slips: Mapping[str, Numbers] | None = None,
    what: str | Sequence[str] = "out",
) -> None:
    """One case: a tensor, or several, equal what is expected to about 1e-5; a NaN equals only a NaN.

    Args:
        slip: the reason when nothing more is known.
        slips: for each more precise reason, the numbers by which it gives itself away.
        what: the name of the tensor, or of each.
    """
    probe.equal(came, expected, slip, slips, same=_alike, told=lambda numbers: _told(numbers, came, expected, what))


def listed(tensor: torch.Tensor) -> str:
    """A tensor's numbers, in four digits."""
    return str(_rounded(tensor.tolist())).replace("'", "")


def _alike(came: Numbers, other: Numbers) -> bool:
    if isinstance(other, torch.Tensor):
        return came.shape == other.shape and torch.allclose(came.double(), other.double(), equal_nan=True, **_ROUNDING)
    return all(_alike(*pair) for pair in zip(came, other, strict=True))


def _told(numbers: Numbers, came: Numbers, expected: Numbers, what: str | Sequence[str]) -> str:
    """Small tensors in full; of large ones the shape, if that is wrong, and else the first row that differs."""
    if not isinstance(expected, torch.Tensor):
        return "; ".join(_told(*four) for four in zip(numbers, came, expected, what, strict=True))
    if came.shape != expected.shape:
        return f"{what} of shape {tuple(numbers.shape)}"
    if numbers.numel() <= MOST:
        return f"{what} {listed(numbers)}"
    differs = ~torch.isclose(came.double(), expected.double(), **_ROUNDING)
    row = tuple((differs.any(-1).nonzero().tolist() or [[0] * (numbers.ndim - 1)])[0])
    shown, more = numbers[row][:4], ", …" if numbers.shape[-1] > 4 else ""
    return f"{what}{list(row) or ''} = {listed(shown).removesuffix(']')}{more}]"


def _rounded(value: float | list) -> str | list:
    return [_rounded(item) for item in value] if isinstance(value, list) else f"{value:.4g}"
