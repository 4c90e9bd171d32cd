"""`check`: tells a learner at once, and kindly, whether their code is right and, if not, which slip it looks like."""

import inspect
import os
from collections.abc import Callable

from IPython import get_ipython
from IPython.display import display

from nanoserve.course.limits import Outcome, own_line, run_limited
from nanoserve.course.probe import Mismatch, Probe, kind, named
from nanoserve.course.tasks import Task, all_tasks, find
from nanoserve.course.verdict import Verdict
from nanoserve.course.written import is_stub, not_written, other_signature, signature_of

_passed: dict[str, Callable] = {}


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
    verdict = examine(task, subject)
    _show(verdict)
    _forget(task.id)
    if verdict.passed:
        _passed[task.id] = subject
        return subject
    if os.environ.get("NANOSERVE_STRICT") == "1":
        raise CheckFailed(verdict.text())
    return task.stand_in()


def yours(task_id: str) -> Callable:
    """Your class from an earlier task if it passed here, and the reference as far as that task if not."""
    task = find(task_id)
    return _passed.get(task.id) or task.stand_in()


def _forget(task_id: str) -> None:
    """A task that is checked anew takes with it what was built on it: that stands on code that is gone."""
    _passed.pop(task_id, None)
    for task in all_tasks().values():
        if task.extends == task_id:
            _forget(task.id)


def examine(task: Task, subject: Callable) -> Verdict:
    """Run a task's stages, up to the first that fails, against a learner's code, and say what was found."""
    wanted = "class" if inspect.isclass(task.reference) else "function"
    if not callable(subject) or inspect.isclass(subject) != (wanted == "class"):
        return _verdict(
            task,
            "not yet",
            f"`check` takes the {wanted} itself.",
            expected=f'check("{task.id}", {task.name})',
            came=f"{kind(subject)} in place of the {wanted}",
            slip=f"An instance, or the result of a call, was given in place of the {wanted}.",
            slip_id=f"not-a-{wanted}",
        )
    if absent := not_written(task, subject):
        return _verdict(
            task,
            "not yet",
            f"Not yet: your `{task.name}` has no `{absent}` of its own, and inherits the reference's.",
            slip="The method is not in the class, or has another name there.",
            look="Is its `def` indented into the class, and its name the stub's?",
            slip_id="not-written",
        )
    probe = Probe(subject)
    reached = 0

    def run() -> None:
        nonlocal reached
        for stage in task.stages:
            probe.calls.clear()
            stage(probe)
            reached += 1

    outcome = run_limited(run, task.seconds)
    if outcome.error is None:
        cases = f"{probe.cases:,} cases" if probe.cases != 1 else "1 case"
        return _verdict(task, "passed", f"Passed: {cases}.", printed=outcome.printed)
    return _failure(task, outcome, probe, reached)


def _failure(task: Task, outcome: Outcome, probe: Probe, reached: int) -> Verdict:
    error, stage = outcome.error, inspect.getdoc(task.stages[reached])
    facts = {
        "stage": f"stage {reached + 1} of {len(task.stages)}: {stage}",
        "calls": _last(probe.calls),
        "printed": outcome.printed,
    }
    if isinstance(error, Mismatch):
        slip = task.slips[error.slip]
        cause, headline = error.__context__, "Not yet."
        if cause is not None and error.came.startswith(type(cause).__name__):  # it is an error that came
            facts["calls"] = _by_its_type(facts["calls"], cause)
            if line := own_line(cause):
                headline = f"Not yet: your code raised {type(cause).__name__} at {line}."
        return _verdict(
            task,
            "not yet",
            headline,
            expected=error.expected,
            came=error.came,
            slip=slip.hint,
            look=slip.look,
            slip_id=error.slip,
            **facts,
        )
    if type(error) is NotImplementedError:  # a subclass is another matter: input() raises one where nobody can type
        written = [getattr(probe.subject, name, None) for name in task.writes] or [probe.subject]
        if all(map(is_stub, written)):
            what = " and ".join(f"`{name}`" for name in task.writes or (task.name,))
            return _verdict(task, "not started", f"Not started: write {what}, then run the cell again.")
        return _verdict(task, "not yet", f"Not yet: a stub is left at {outcome.line}.", slip_id="stub-left", **facts)
    if outcome.out_of_time:
        limit = str(error).removeprefix("longer than ") or f"{task.seconds:g} seconds"  # a launch has one of its own
        return _verdict(
            task,
            "out of time",
            f"Your code ran longer than {limit} and was stopped" + (f" at {outcome.line}." if outcome.line else "."),
            slip="A loop that never ends, or a wait for something that never comes.",
            look="What changes with each turn of the loop, and can it ever make the condition false?",
            slip_id="out-of-time",
            **facts,
        )
    if name := other_signature(task, probe.subject, outcome):
        return _verdict(
            task,
            "raised",
            f"Your code raised TypeError: `{name}` does not take what it is called with.",
            expected=signature_of(task.reference, name),
            came=signature_of(probe.subject, name),
            slip="The arguments are not the stub's, and whoever calls it gives those of the stub.",
            look="Keep the stub's `def` line as it is; an argument of your own needs a default.",
            slip_id="another-signature",
            **facts,
        )
    facts["calls"] = _by_its_type(facts["calls"], error)
    return _verdict(
        task,
        "raised",
        f"Your code raised {type(error).__name__}" + (f" at {outcome.line}." if outcome.line else "."),
        came=named(error),
        slip_id="raised",
        **facts,
    )


def _verdict(task: Task, status: str, headline: str, **facts: object) -> Verdict:
    mine = f"The notebook goes on with your `{task.name}`."
    other = f"Until it passes, the notebook goes on with the reference's `{task.name}`."
    return Verdict(task.full_title, status, headline, mine if status == "passed" else other, **facts)


def _last(calls: list[str], most: int = 8) -> tuple[str, ...]:
    if len(calls) <= most + 1:  # a line that hides one line saves nothing
        return tuple(calls)
    return (calls[0], f"… {len(calls) - most} calls", *calls[1 - most :])


def _by_its_type(calls: tuple[str, ...], error: BaseException) -> tuple[str, ...]:
    """The calls, where the error goes by its type alone: the verdict tells it in full as what came."""
    full, short = f" → {named(error)}", f" → {type(error).__name__}"
    return tuple(line.removesuffix(full) + short if line.endswith(full) else line for line in calls)


def _show(verdict: Verdict) -> None:
    if get_ipython() is None:
        print(verdict.text())
    else:
        display(verdict)
