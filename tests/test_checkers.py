"""The checkers against the answers that people write."""

from collections import Counter
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from nanoserve.course.checking import examine
from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.probe import Probe
from nanoserve.course.tasks import all_tasks, find

# The days of kernels can be listed everywhere, and tried where Triton is.
_BY_PLACE = [task for task in all_tasks().values() if isinstance(task.reference, KernelReference)]
_KERNELS = {task.id.split(".")[0] for task in _BY_PLACE}
TASKS = [task for task in all_tasks().values() if find_spec("triton") or task.id.split(".")[0] not in _KERNELS]
_DAYS = sorted({task.id.split(".")[0] for task in TASKS})
DAYS = [
    import_module(f"tests.answers.{path.stem}")
    for path in sorted((Path(__file__).parent / "answers").glob("day*.py"))
    if path.stem.removeprefix("day") in _DAYS
]
WRONG = [answer for day in DAYS for answer in day.WRONG]
RIGHT = [answer for day in DAYS for answer in day.RIGHT]


def patient(task):
    """The task with more time: what a check says does not hang on how busy the machine is."""
    return replace(task, seconds=60)


def _slips_of(day):
    tasks = [task for task in all_tasks().values() if task.id.startswith(f"{day}.")]
    return {name: slip for task in tasks for name, slip in task.slips.items()}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.task}-{wrong.answer.__name__}")
def test_a_wrong_answer_is_told_its_own_slip(wrong):
    verdict = examine(patient(find(wrong.task)), wrong.answer)
    assert (verdict.status, verdict.slip_id) == ("not yet", wrong.slip), verdict.text()
    assert verdict.calls
    assert verdict.expected
    assert verdict.came


@pytest.mark.parametrize("right", RIGHT, ids=lambda right: f"{right.task}-{right.answer.__name__}")
def test_a_right_answer_of_another_style_passes(right):
    verdict = examine(patient(find(right.task)), right.answer)
    assert verdict.passed, verdict.text()


def test_no_two_wrong_answers_of_a_task_are_told_the_same():
    told = Counter((wrong.task, wrong.slip) for wrong in WRONG)
    assert [pair for pair, times in told.items() if times > 1] == []


@pytest.mark.parametrize("day", _DAYS)
def test_every_slip_is_told_to_somebody(day):
    assert set(_slips_of(day)) == {wrong.slip for wrong in WRONG if wrong.task.startswith(day + ".")}


@pytest.mark.parametrize("day", _DAYS)
def test_no_two_slips_give_the_same_hint(day):
    slips = {
        name: slip
        for task in all_tasks().values()
        if task.id.startswith(day + ".")
        for name, slip in task.slips.items()
    }
    assert len({slip.hint for slip in slips.values()}) == len(slips)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_the_reference_passes_as_a_whole_and_as_far_as_the_task(task):
    assert examine(patient(task), task.stand_in()).passed
    if task not in _BY_PLACE:  # a kernel's stand-in is the reference itself
        assert examine(patient(task), task.reference).passed


class Listening(Probe):
    """Hears which slips the stages may name."""

    def __init__(self, subject):
        super().__init__(subject)
        self.named = set()

    def equal(self, came, expected, slip, slips=None, *rest, **others):
        self.named |= {slip, *(slips or {})}
        super().equal(came, expected, slip, slips, *rest, **others)

    def raises(self, error, call, *args, slips):
        self.named |= set(slips.values())
        return super().raises(error, call, *args, slips=slips)

    def on_error(self, *errors, slip, match=""):
        self.named.add(slip)
        return super().on_error(*errors, slip=slip, match=match)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_every_slip_that_a_stage_may_name_has_its_words(task):
    probe = Listening(task.reference)
    for stage in task.stages:
        stage(probe)
    assert probe.named
    assert probe.named <= task.slips.keys()
