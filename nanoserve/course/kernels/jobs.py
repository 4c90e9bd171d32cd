"""What goes to the processes that try kernels, and what comes back. Nothing here needs Triton."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from nanoserve.course.kernels.accesses import Access
from nanoserve.course.kernels.package import Package


@dataclass(frozen=True)
class Window:
    """A part of a tensor that is too large to be there: its elements from `first` on, and no others may be touched."""

    tensor: torch.Tensor
    first: int


@dataclass(frozen=True)
class RunJob:
    """A launch to be interpreted.

    Attributes:
        arguments: by the kernel's own names for them, constants included.
        windows: where those tensors begin that are windows.
        seconds: how long it may take.
        keeps: whether the accesses are wanted; a large launch goes faster without.
    """

    package: Package
    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    windows: Mapping[str, int]
    seconds: float
    keeps: bool


@dataclass(frozen=True)
class CompileJob:
    """A kernel to be compiled for one compute capability; of a tensor argument, its type as in "*fp32" is enough."""

    package: Package
    capability: tuple[int, int]
    arguments: Mapping[str, Any]
    num_warps: int = 4


@dataclass(frozen=True)
class Told:
    """An error, for a process that did not see it: its kind, its words, and the learner's line."""

    kind: str
    words: str
    line: str | None


@dataclass(frozen=True)
class Answer:
    """What became of a launch; `tensors` are its tensor arguments as the kernel left them."""

    tensors: Mapping[str, torch.Tensor]
    accesses: list[Access]
    races: list[str]
    printed: str
    seconds: float
    error: Told | None


def shown(parameter: str) -> str:
    """What a tensor is called where it is told of: `x` for the parameter `x_ptr`."""
    return parameter.removesuffix("_ptr") or parameter
