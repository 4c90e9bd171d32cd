"""Listening to one object's methods without changing its class for anyone else."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any


def hook(target: Any, names: Iterable[str], around: Callable[..., Any]) -> None:
    """Route calls of these methods on this one object through `around`; names that it lacks are skipped.

    The object is moved to a subclass of its class that is made for it alone: it stays an instance of its class,
    works with `__slots__`, and a copy of it, which belongs to that subclass too, is not listened to.

    Args:
        target: the object.
        names: its methods.
        around: called as `around(name, method, *args, **kwargs)`; what it returns is what the caller gets.

    Raises:
        TypeError: objects of this kind cannot change their class (those of built-in types).
    """
    cls = type(target)

    def routed(name: str) -> Callable[..., Any]:
        @wraps(getattr(cls, name))
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True  # a learner's traceback shows the learner's lines
            method = getattr(super(hooked, self), name)
            return around(name, method, *args, **kwargs) if self is target else method(*args, **kwargs)

        return call

    body = {name: routed(name) for name in names if callable(getattr(cls, name, None))}
    body |= {"__slots__": (), "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    hooked = type(cls)(cls.__name__, (cls,), body)
    target.__class__ = hooked
