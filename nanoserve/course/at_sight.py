"""What can be said of a learner's code at sight: before a stage has run, and whatever the stages are."""

import inspect
from collections.abc import Callable

from nanoserve.course.probe import kind, named
from nanoserve.course.tasks import Task
from nanoserve.course.verdict import Verdict, about
from nanoserve.course.written import has_no_base, not_written, promises_only


def not_yours(task: Task, name: str) -> Verdict:
    """What is said where the reference's class, function or method was given: a learner's own goes by another name."""
    return about(
        task,
        "not yet",
        f"Not yet: this `{name}` is the reference's, and none of your own has taken its place.",
        slip="What you wrote goes by another name, stands elsewhere, or its lines have not run.",
        look=f"Is `{name}` spelt as in the stub, and indented as there?",
        slip_id="not-yours",
    )


def cannot_look(task: Task, error: Exception) -> Verdict:
    """What is said where the very look at what was given raises an error, as of a metaclass."""
    return about(
        task,
        "raised",
        f"What was given raised {type(error).__name__} when it was only looked at.",
        came=named(error),
        slip_id="cannot-look",
    )


def at_sight(task: Task, subject: Callable) -> Verdict | None:
    """What can be said without a run: it is not the class or function that was asked for, or a method is not in it."""
    wanted, given = _sort(task.reference), _sort(subject)
    if given != wanted:
        came = f"a {given}" if given else kind(subject)
        return about(
            task,
            "not yet",
            f"`check` takes the {wanted} itself.",
            expected=f'check("{task.id}", {task.name})',
            came=f"{came} in place of the {wanted}",
            slip=f"`{task.name}` is a {wanted} in the stub, and was made a {given}."
            if given
            else f"An instance, or the result of a call, was given in place of the {wanted}.",
            slip_id=f"not-a-{wanted}",
        )
    if has_no_base(task, subject):
        [head] = [line for line in task.stub().splitlines() if line.startswith("class ")]
        return about(
            task,
            "not yet",
            f"Not yet: your `{task.name}` does not build on the class that the stub's builds on.",
            expected=head,
            slip="What is in brackets behind the class's name was left out, or is another class.",
            look="The methods that the class does not write are that one's: keep the stub's `class` line.",
            slip_id="no-base",
        )
    if lazy := promises_only(task, subject):
        return about(
            task,
            "not yet",
            f"Not yet: a call of `{lazy}` gives a generator or a coroutine, and none of its lines has run.",
            slip="There is a `yield` in it, or an `async` before it.",
            look="A plain `def`, and `return` what is asked for.",
            slip_id="only-promised",
        )
    if absent := not_written(task, subject):
        return about(
            task,
            "not yet",
            f"Not yet: your `{task.name}` has no `{absent}`"
            + (" of its own, and inherits the reference's." if task.inherits else "."),
            slip="The method is not in the class, or has another name there.",
            look="Is its `def` indented into the class, and its name the stub's?",
            slip_id="not-written",
        )
    return None


def _sort(subject: object) -> str:
    """ "class" or "function", as a task asks for one of them; "" for what is neither."""
    if inspect.isclass(subject):
        return "class"
    return "function" if callable(subject) else ""
