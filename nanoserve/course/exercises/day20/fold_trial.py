"""Task 20.3: one run of the learner's `fold`, what it should give, and what the compiler makes of it."""

from typing import TYPE_CHECKING

import torch

from nanoserve.course.exercises.day19.misuses import NO_PYTHON, no_triton, returned
from nanoserve.course.exercises.day20.numbers import same_numbers
from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.kernels.trial import builds, tried
from nanoserve.course.probe import Probe

if TYPE_CHECKING:
    from nanoserve.course.kernels.ahead import Compiled

DRIVER = KernelReference(f"{__package__}.drivers", "fold_driver")
CALLS = "fold"
REFUSED = NO_PYTHON | {
    "global variable": "plain-global",
    "Boolean value": "if-on-a-vector",
    "K >= 16": "dot-always",
    "oop-carried": "type-changes",
    "incompatible dimensions": "wrong-shape",
    "": "not-compiled",
}

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def softmaxed(s: torch.Tensor, v: torch.Tensor) -> State:
    """The three that `fold` keeps, of a softmax over all these tokens at once."""
    largest = s.amax(1)
    weights = (s.double() - largest[:, None]).exp()
    return largest, weights.sum(1).float(), (weights @ v.double()).float()


def compare(
    probe: Probe,
    s: torch.Tensor,
    v: torch.Tensor,
    known: State | None,
    slips: dict,
    slip: str,
    expected: State | None = None,
    tile: int = 2,
    dot: bool = False,
) -> None:
    """One case: these scores and values, taken in tile by tile."""
    group, dim = len(s), v.shape[1]
    known = known or (torch.full((group,), -1e30), torch.zeros(group), torch.zeros(group, dim))
    if s.numel() <= 8:
        probe.calls.append(f"s = {s.tolist()}, v = {v.tolist()}")
    with (
        returned(probe, DRIVER.__name__, none="not-three", other="other-return"),
        probe.on_error(UnboundLocalError, slip="one-branch-only"),
        probe.on_error(ValueError, slip="wrong-shape", match="incompatible dimensions"),
        no_triton(probe),
    ):
        run = tried(
            probe,
            (1,),
            s,
            v,
            *known,
            s.shape[1],
            GROUP=group,
            DIM=dim,
            TILE=tile,
            DOT=dot,
            race=slip,
            reads=slip,
            writes=slip,
            driver=DRIVER,
            calls=CALLS,
        )
    names = ("largest", "total", "mixed")
    came = tuple(run.tensors[name] for name in names)
    same_numbers(probe, came, expected or softmaxed(s, v), slip, slips, what=names)


def built(
    probe: Probe,
    capability: tuple[int, int],
    tile: int,
    dot: bool,
    dtype: torch.dtype = torch.float32,
    slips: dict[str, str] = REFUSED,
    group: int = 4,
) -> "Compiled":
    group = 16 if dot else group
    arguments = torch.zeros(group, 2 * tile), torch.zeros(2 * tile, 16, dtype=dtype)
    state = torch.zeros(group), torch.zeros(group), torch.zeros(group, 16)
    return builds(
        probe,
        *arguments,
        *state,
        2 * tile,
        GROUP=group,
        DIM=16,
        TILE=tile,
        DOT=dot,
        slips=slips,
        capability=capability,
        driver=DRIVER,
        calls=CALLS,
    )
