"""The checkers against the answers that people write."""

from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from nanoserve.course.checking import examine
from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.tasks import all_tasks, find

# A kernel's task can be listed everywhere, and tried where Triton is.
TASKS = [
    task for task in all_tasks().values() if find_spec("triton") or not isinstance(task.reference, KernelReference)
]
_DAYS = sorted({task.id.split(".")[0] for task in TASKS})
DAYS = [
    import_module(f"tests.answers.{path.stem}")
    for path in sorted((Path(__file__).parent / "answers").glob("day*.py"))
    if path.stem.removeprefix("day") in _DAYS
]
WRONG = [answer for day in DAYS for answer in day.WRONG]
RIGHT = [answer for day in DAYS for answer in day.RIGHT]


def _slips_of(day):
    tasks = [task for task in all_tasks().values() if task.id.startswith(f"{day}.")]
    return {name: slip for task in tasks for name, slip in task.slips.items()}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.task}-{wrong.answer.__name__}")
def test_a_wrong_answer_is_told_its_own_slip(wrong):
    verdict = examine(find(wrong.task), wrong.answer)
    assert (verdict.status, verdict.slip_id) == ("not yet", wrong.slip), verdict.text()
    assert verdict.calls
    assert verdict.expected
    assert verdict.came


@pytest.mark.parametrize("right", RIGHT, ids=lambda right: f"{right.task}-{right.answer.__name__}")
def test_a_right_answer_of_another_style_passes(right):
    verdict = examine(find(right.task), right.answer)
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
    assert examine(task, task.reference).passed
    assert examine(task, task.stand_in()).passed
