"""From how a run of the stages ended to what is said of it: what came, the likely slip, and the learner's own line."""

import inspect
from collections.abc import Callable
from difflib import get_close_matches

from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.limits import Outcome, own_line
from nanoserve.course.probe import Mismatch, Probe, named
from nanoserve.course.tasks import Task
from nanoserve.course.verdict import Verdict, about
from nanoserve.course.written import is_stub, other_signature, signature_of


def judge(task: Task, probe: Probe, outcome: Outcome, reached: int) -> Verdict:
    """What is said of a run.

    Args:
        probe: what was called, and how many cases were compared.
        reached: how many stages passed.
    """
    error, printed = outcome.error, outcome.printed
    if error is None:
        cases = f"{probe.cases:,} cases" if probe.cases != 1 else "1 case"
        return about(task, "passed", f"Passed: {cases}.", printed=printed)
    stage = f"stage {reached + 1} of {len(task.stages)}: {inspect.getdoc(task.stages[reached])}"
    facts = {"stage": stage, "calls": _last(probe.calls), "printed": printed}
    if isinstance(error, Mismatch):
        return _mismatch(task, error, facts)
    if outcome.out_of_time:
        return _out_of_time(task, outcome, facts)
    # A stub's own: torch raises one of these where an operation has no such kernel, and input() a subclass of it.
    if type(error) is NotImplementedError and outcome.line and not error.args:
        return _stub_left(task, probe.subject, outcome, facts)
    if name := other_signature(task, probe.subject, outcome):
        return _not_its_arguments(task, probe.subject, name, facts)
    facts["calls"] = _by_its_type(facts["calls"], error)
    if not outcome.line and not isinstance(task.reference, KernelReference):  # a kernel's process has its own troubles
        return _cannot_go_on(task, probe.subject, error, facts)
    return _raised(task, outcome, error, facts)


def _stub_left(task: Task, subject: Callable, outcome: Outcome, facts: dict) -> Verdict:
    written = [getattr(subject, name, None) for name in task.writes] or [subject]
    if all(map(is_stub, written)):
        what = " and ".join(f"`{name}`" for name in task.writes or (task.name,))
        return about(task, "not started", f"Not started: write {what}, then run the cell again.")
    return about(task, "not yet", f"Not yet: a stub is left at {outcome.line}.", slip_id="stub-left", **facts)


def _not_its_arguments(task: Task, subject: Callable, name: str, facts: dict) -> Verdict:
    return about(
        task,
        "raised",
        f"Your code raised TypeError: `{name}` does not take what it is called with.",
        expected=signature_of(task.stand_in(), name),
        came=signature_of(subject, name),
        slip="The arguments are not the stub's, and whoever calls it gives those of the stub.",
        look="Keep the stub's `def` line as it is; an argument of your own needs a default.",
        slip_id="another-signature",
        **facts,
    )


def _cannot_go_on(task: Task, subject: Callable, error: BaseException, facts: dict) -> Verdict:
    """The error came in a stage, and not on a line of the learner's."""
    look = "Print what you return, or leave on `self`: its type and, of a tensor, `.shape`, `.dtype` and `.device`."
    if (task.inherits or task.extends) and "__init__" in vars(subject):
        look = "Does your `__init__` begin with `super().__init__(…)`, and with what it was given?"
    return about(
        task,
        "not yet",
        "Not yet: the check cannot go on with what your code gave.",
        came=named(error),
        slip="Something is missing, or is of another type, shape or device than the stub's docstring says.",
        look=look,
        slip_id="cannot-go-on",
        **facts,
    )


def _raised(task: Task, outcome: Outcome, error: BaseException, facts: dict) -> Verdict:
    return about(
        task,
        "raised",
        f"Your code raised {type(error).__name__}" + (f" at {outcome.line}." if outcome.line else "."),
        came="\n".join([named(error), *_before(error)]),
        slip_id="raised",
        **_way_out(error),
        **facts,
    )


def _way_out(error: BaseException) -> dict[str, str]:
    """A slip and where to look next, for a name that is not there and for a value that is None."""
    if isinstance(error, UnboundLocalError):
        look = (
            "Is there a path on which it is not set before? What a function sets anywhere is its own everywhere in it."
        )
        return {"slip": "A name of the function's own is used before it has a value.", "look": look}
    if isinstance(error, NameError):
        look = "Is it made in a cell above? Then run that one first. Or is it misspelt?"
        return {"slip": "The name has no value.", "look": look}
    if isinstance(error, AttributeError | TypeError | RuntimeError) and "NoneType" in str(error):
        look = "Was there a call that returns nothing, as `append` and `sort` do, or a `def` without its `return`?"
        return {"slip": "Something on that line is None.", "look": look}
    # A name that is none comes from a kernel's process, or from the learner.
    if isinstance(error, AttributeError) and error.name and (near := _nearest(error.name, error.obj)):
        return {"slip": f"`{error.name}` is misspelt, or not made yet.", "look": f"Is `{near}` meant?"}
    return {}


def _nearest(name: str, owner: object) -> str:
    """The attribute whose name is most like this one; "" if none is like it."""
    names = {*object.__dir__(owner)} - {name}  # a `__dir__` of the learner's might raise, or never end
    return next(iter(get_close_matches(name, names, n=1, cutoff=0.8)), "")


def _before(error: BaseException) -> list[str]:
    """The error of the learner's that was being handled when this one came: it is the first cause."""
    first = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    line = own_line(first) if first else None
    return [f"while handling {named(first)}", f"at {line}"] if line else []


def _mismatch(task: Task, error: Mismatch, facts: dict) -> Verdict:
    slip = task.slips[error.slip]
    cause, headline = error.__context__, "Not yet."
    if cause is not None and error.came.startswith(type(cause).__name__):  # it is an error that came
        facts["calls"] = _by_its_type(facts["calls"], cause)
        if line := own_line(cause):
            headline = f"Not yet: your code raised {type(cause).__name__} at {line}."
    return about(
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


def _out_of_time(task: Task, outcome: Outcome, facts: dict) -> Verdict:
    # A launch has a limit of its own, and its error names it.
    limit = str(outcome.error).removeprefix("longer than ") or f"{task.seconds:g} seconds"
    return about(
        task,
        "out of time",
        f"Your code ran longer than {limit} and was stopped" + (f" at {outcome.line}." if outcome.line else "."),
        slip="A loop that never ends or takes very many turns, or a wait for something that never comes.",
        look="What changes with each turn of the loop, and can it ever make the condition false?",
        slip_id="out-of-time",
        **facts,
    )


def _last(calls: list[str], most: int = 8) -> tuple[str, ...]:
    if len(calls) <= most + 1:  # a line that hides one line saves nothing
        return tuple(calls)
    return (calls[0], f"… {len(calls) - most} calls", *calls[1 - most :])


def _by_its_type(calls: tuple[str, ...], error: BaseException) -> tuple[str, ...]:
    """The calls, where the error goes by its type alone: the verdict tells it in full as what came."""
    full, short = f" → {named(error)}", f" → {type(error).__name__}"
    return tuple(line.removesuffix(full) + short if line.endswith(full) else line for line in calls)
