"""Answers that people write: wrong ones with the slip that each must be told, and right ones of other styles."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Wrong:
    """A wrong answer to a task, and the slip that the checker must name."""

    task: str
    slip: str
    answer: Callable


@dataclass(frozen=True)
class Right:
    """A right answer of another style than the reference's."""

    task: str
    answer: Callable
