"""Stages of task 17.2: what `sample` refuses, and how it may be called."""

import math

import torch

from nanoserve.course.exercises.day17.drawing import ROW, call
from nanoserve.course.probe import Probe


def nonsense_is_refused(probe: Probe) -> None:
    """a setting outside its range raises ValueError"""
    for settings in ((-1.0,), (math.nan,), (1.0, -3), (1.0, None, 0.0), (1.0, None, 1.5)):
        slips = {None: "nonsense-accepted", Exception: "nonsense-in-other-words"}
        probe.raises(ValueError, call, probe, ROW, *settings, slips=slips)
    for settings in ((0.0, None, 5.0), (0.0, -3)):
        slips = {None: "greedy-unchecked", Exception: "nonsense-in-other-words"}
        probe.raises(ValueError, call, probe, ROW, *settings, slips=slips)


def a_batch_is_refused(probe: Probe) -> None:
    """logits that are not one row raise ValueError"""
    for temperature in (0.0, 1.0):
        slips = dict.fromkeys((None, Exception), "row-unchecked")
        probe.raises(ValueError, call, probe, ROW[None], temperature, slips=slips)


def arguments_by_name(probe: Probe) -> None:
    """arguments go by their names, and without settings the likeliest comes"""
    row = torch.zeros(50_000)  # so long that chance does not find the likeliest
    row[1] = 1
    for line, settings in (
        ("sample(row)", {}),
        ("sample(row, temperature=1.0, top_k=1, top_p=0.9)", {"temperature": 1.0, "top_k": 1, "top_p": 0.9}),
        ("sample(row, temperature=0.0, generator=None)", {"temperature": 0.0, "generator": None}),
    ):
        probe.calls.clear()
        with probe.on_error(TypeError, slip="not-by-name", match="argument"):
            came = probe.record(line, lambda settings=settings: probe.subject(row.clone(), **settings))
        probe.equal(came, 1, "not-greedy-by-default")
