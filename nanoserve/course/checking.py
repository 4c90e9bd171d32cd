"""`check`: tells a learner at once, and kindly, whether their code is right and, if not, which slip it looks like."""

import inspect
import os
from collections.abc import Callable
from dataclasses import replace

from IPython import get_ipython
from IPython.display import display

from nanoserve.course.at_sight import at_sight, cannot_look, not_yours
from nanoserve.course.judge import judge
from nanoserve.course.limits import run_limited
from nanoserve.course.probe import Probe
from nanoserve.course.tasks import Task, all_tasks, find
from nanoserve.course.verdict import Verdict

_passed: dict[str, Callable] = {}
_lent: dict[str, Callable] = {}  # what a notebook goes on with where the learner's own did not pass


class CheckFailed(Exception):
    """A task did not pass, and NANOSERVE_STRICT=1 asked for an error."""


def check(task_id: str, subject: Callable) -> Callable:
    """Check a learner's class or function, say what was found, and return what the notebook goes on with.

    It never raises and never hangs, so that a notebook runs to its end in every state.

    Args:
        task_id: the task's number, such as "14.1".
        subject: the class or the function itself, not an instance and not a call.

    Returns:
        `subject` when it passed, and the reference in its place when it did not.

    Raises:
        CheckFailed: it did not pass, and the environment has NANOSERVE_STRICT=1.
    """
    try:
        task = find(task_id)
    except KeyError as error:
        _show(Verdict(f"{task_id}", "raised", f"{error.args[0]}.", "The notebook goes on with what you gave."))
        return subject
    try:
        borrowed = _borrowed(task, subject)
        verdict = not_yours(task, borrowed) if borrowed else examine(task, subject)
    except Exception as error:
        verdict = cannot_look(task, error)
    if built := [other for other in _forget(task.id) if other != task.id]:
        again = f" Run {' and '.join(built)} again: what was built there stands on what was here before."
        verdict = replace(verdict, goes_on_with=verdict.goes_on_with + again)
    _show(verdict)
    if verdict.passed:
        _passed[task.id] = subject
        return subject
    if os.environ.get("NANOSERVE_STRICT") == "1":
        raise CheckFailed(verdict.text())
    _lent[task.id] = task.stand_in()
    return _lent[task.id]


def yours(task_id: str) -> Callable:
    """Your class from an earlier task if it passed here, and the reference as far as that task if not."""
    task = find(task_id)
    return _passed.get(task.id) or task.stand_in()


def _borrowed(task: Task, subject: Callable) -> str:
    """The name of what is the reference's in what should be the learner's; "" if nothing is."""
    if subject is task.reference or (task.id in _lent and subject is _lent[task.id]):
        return task.name
    if task.inherits or not inspect.isclass(subject):  # what a class inherits by its stub is looked at in `at_sight`
        return ""
    return next((name for name in task.writes if getattr(subject, name, None) is getattr(task.reference, name)), "")


def _forget(task_id: str) -> list[str]:
    """A task that is checked anew takes with it what was built on it: that stands on code that is gone.

    Returns:
        Those of them that had passed.
    """
    gone = [task_id] if _passed.pop(task_id, None) is not None else []
    on_it = [task.id for task in all_tasks().values() if task.extends == task_id]
    return gone + [task for other in on_it for task in _forget(other)]


def examine(task: Task, subject: Callable) -> Verdict:
    """Run a task's stages, up to the first that fails, against a learner's code, and say what was found."""
    if verdict := at_sight(task, subject):
        return verdict
    probe = Probe(subject)
    reached = 0

    def run() -> None:
        nonlocal reached
        for stage in task.stages:
            probe.calls.clear()
            stage(probe)
            reached += 1

    return judge(task, probe, run_limited(run, task.seconds), reached)


def _show(verdict: Verdict) -> None:
    if get_ipython() is None:
        print(verdict.text())
    else:
        display(verdict)
