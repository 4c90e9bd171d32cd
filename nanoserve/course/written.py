"""Whether what was to be written is there, and takes what the stub takes."""

import inspect
import re
from collections.abc import Callable

from nanoserve.course.limits import Outcome
from nanoserve.course.tasks import Task


def not_written(task: Task, subject: Callable) -> str:
    """The first method that was to be written and that a class of the learner's own just inherits; "" if none."""
    if not task.inherits or subject is task.reference:
        return ""
    own = {name for owner in subject.__mro__ if owner not in task.reference.__mro__ for name in vars(owner)}
    return next((name for name in task.writes if name not in own and hasattr(subject, name)), "")


def other_signature(task: Task, subject: Callable, outcome: Outcome) -> str:
    """The function that could not be called as the reference can; "" where the error is another one."""
    if type(outcome.error) is not TypeError or outcome.line:
        return ""
    found = re.search(r"(\w+)\(\) (takes|missing|got)", str(outcome.error))
    name = found[1] if found else task.name  # a kernel's launch does not name it
    theirs, ours = signature_of(subject, name), signature_of(task.stand_in(), name)
    return name if theirs and ours and theirs != ours else ""


def signature_of(owner: Callable, name: str) -> str:
    """Such as `append(self, num_tokens)`, of a function or of a class's method; "" if there is none."""
    owner = getattr(owner, "fn", owner)  # what `@triton.jit` was given
    function = owner if inspect.isfunction(owner) else getattr(owner, name, None)
    if not inspect.isfunction(function):
        return ""
    signature = inspect.signature(function)
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return f"{function.__name__}{signature.replace(parameters=bare, return_annotation=signature.empty)}"


def is_stub(function: object) -> bool:
    """Nothing is in it but its docstring and `raise NotImplementedError`."""
    code = getattr(getattr(function, "fn", function), "__code__", None)  # `fn` is what `@triton.jit` was given
    return code is not None and code.co_names == ("NotImplementedError",)
