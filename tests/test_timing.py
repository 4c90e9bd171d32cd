"""The arithmetic of Day 13's timings, under a clock that says what it is told to."""

import pytest

from nanoserve.course.timing import arrivals, first_and_step, seconds_per_item


def test_arrivals_count_from_the_start():
    ticks = iter([100.0, 103.0, 104.0, 104.5])
    assert arrivals(iter("abc"), clock=lambda: next(ticks)) == [3.0, 4.0, 4.5]


def test_the_clock_is_read_after_each_item_and_not_before_it():
    now = 0.0

    def stream():
        nonlocal now
        for seconds in (5.0, 1.0, 1.0):
            now += seconds
            yield seconds

    assert arrivals(stream(), clock=lambda: now) == [5.0, 6.0, 7.0]
    assert arrivals([], clock=lambda: now) == []


def test_seconds_per_item_spread_the_first_ones_cost_over_those_that_follow():
    assert seconds_per_item([3.0, 4.0, 4.5]) == [3.0, 2.0, 1.5]
    assert seconds_per_item([]) == []


def test_a_step_is_the_median_between_arrivals_and_leaves_the_first_one_out():
    assert first_and_step([9.0, 10.0, 12.0, 13.0, 99.0]) == (9.0, 1.5)
    with pytest.raises(ValueError, match="two items, got 1"):
        first_and_step([9.0])
