"""Whether what was to be written is there, and takes what the stub takes."""

import inspect
import re
from collections.abc import Callable

from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.limits import Outcome
from nanoserve.course.tasks import Task, find

_LAZY = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)


def has_no_base(task: Task, subject: Callable) -> bool:
    """Whether a class lacks the one that the stub's `class` line names."""
    if not inspect.isclass(subject):
        return False
    if task.inherits:
        return not issubclass(subject, task.reference)
    above = [name for base in task.reference.__mro__[1:-1] for name in vars(base)]
    while task.extends:
        task = find(task.extends)
        above += task.writes
    return not all(hasattr(subject, name) for name in above if not name.startswith("_"))  # one may write it all anew


def not_written(task: Task, subject: Callable) -> str:
    """The first method that was to be written and that a class has not, or only from a class above; "" if none."""
    if subject is task.reference or not inspect.isclass(subject):
        return ""
    above = task.reference.__mro__ if task.inherits else task.reference.__mro__[1:]
    own = {name for owner in subject.__mro__ if owner not in above for name in vars(owner)}
    # In a class that is all the learner's, a private method is one way among others.
    asked = [name for name in task.writes if task.inherits or not name.startswith("_")]
    return next((name for name in asked if name not in own), "")


def promises_only(task: Task, subject: Callable) -> str:
    """The first function that gives a generator or a coroutine where the reference's computes; "" if none."""
    for name in task.writes or (task.name,):
        theirs, ours = (getattr(owner, name, owner) for owner in (subject, task.reference))
        if any(lazy(theirs) and not lazy(ours) for lazy in _LAZY):
            return name
    return ""


def other_signature(task: Task, subject: Callable, outcome: Outcome) -> str:
    """The function that could not be called as the reference can; "" where the error is another one."""
    ours_called = not outcome.line or isinstance(task.reference, KernelReference)  # a driver counts as the learner's
    if type(outcome.error) is not TypeError or not ours_called:
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
