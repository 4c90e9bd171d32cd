"""How Day 20 compares tensors: to 1e-5, told by the first row that differs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from nanoserve.course.kernels.trial import close, numbers
from nanoserve.course.probe import Probe

if TYPE_CHECKING:
    from nanoserve.course.kernels.ahead import Compiled

Numbers = torch.Tensor | Sequence[torch.Tensor]
MOST = 6  # numbers of a row that a verdict lists


def same_numbers(
    probe: Probe,
    came: Numbers,
    expected: Numbers,
    slip: str,
    slips: Mapping[str, Numbers | Callable[[Numbers], bool]] | None = None,
    what: str | Sequence[str] = "out",
) -> None:
    """One case: a tensor, or several, equal what is expected to about 1e-5; a NaN equals only a NaN.

    Args:
        slip: the reason when nothing more is known.
        slips: for each more precise reason, the numbers by which it gives itself away, or a test of what came.
        what: the name of the tensor, or of each.
    """

    def told(shown: Numbers) -> str:
        if isinstance(expected, torch.Tensor):
            return _told(shown, came, expected, what)
        return "; ".join(_told(*four) for four in zip(shown, came, expected, what, strict=True))

    probe.equal(came, expected, slip, slips, same=_same, told=told)


def no_tf32(probe: Probe, code: "Compiled") -> None:
    """One case: no product of fp32 numbers was made a dot, which rounds them to tf32.

    Raises:
        Mismatch: one was; the compiler does that to `a * b` and a sum, as it would to `tl.dot`, by the factors' order.
    """
    probe.cases += 1
    if count := code.ptx.count("tf32"):
        probe.fail("fp32 multiplied in fp32", f"{count} lines of machine code that speak of tf32", "tf32-by-the-order")


def nearly(came: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether these numbers are right to two or three digits, as after 16 bits."""
    return torch.allclose(came.float(), right, rtol=1 / 64, atol=1e-3)


def _same(came: Numbers, other: Numbers | Callable[[Numbers], bool]) -> bool:
    if callable(other):
        return other(came)
    if isinstance(other, torch.Tensor):
        return close(came.float(), other.float())
    return all(_same(*pair) for pair in zip(came, other, strict=True))


def _told(shown: torch.Tensor, came: torch.Tensor, expected: torch.Tensor, what: str) -> str:
    """A few numbers in full; of more, the first row that differs."""
    if expected.numel() <= MOST or expected.ndim < 2:
        return f"{what} = {numbers(shown)}"
    differs = ~torch.isclose(came.float(), expected.float(), rtol=1e-5, atol=1e-5, equal_nan=True)
    row = tuple((differs.any(-1).nonzero().tolist() or [[0] * (expected.ndim - 1)])[0])
    more = " …]" if expected.shape[-1] > MOST else "]"
    return f"{what}{list(row)} = {numbers(shown[row][:MOST]).removesuffix(']')}{more}"
