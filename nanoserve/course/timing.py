"""Timing a stream of tokens: the clock is an argument, so that the arithmetic can be tested without one."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import median
from time import perf_counter

Clock = Callable[[], float]


def arrivals(stream: Iterable[object], clock: Clock = perf_counter) -> list[float]:
    """Seconds from the start until each item of a stream was there.

    Args:
        stream: what is read to its end; nothing of it must have been computed before, so give a generator.
        clock: the time in seconds, from any zero.
    """
    start = clock()
    return [clock() - start for _ in stream]


def seconds_per_item(times: Sequence[float]) -> list[float]:
    """After each item, the seconds per item so far: all the time that has passed, over all the items."""
    return [time / count for count, time in enumerate(times, start=1)]


def first_and_step(times: Sequence[float]) -> tuple[float, float]:
    """Seconds to the first item, and the median of the seconds from one item to the next.

    Raises:
        ValueError: fewer than two items, between which there is no step.
    """
    if len(times) < 2:
        raise ValueError(f"a step needs two items, got {len(times)}")
    return times[0], median(later - earlier for earlier, later in pairwise(times))
