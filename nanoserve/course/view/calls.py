"""Reading a call to an allocator: what was asked, and which blocks the answer names."""

from collections.abc import Iterable, Iterator
from operator import index
from reprlib import repr as short_repr
from typing import Any


def told(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The call as its caller wrote it: `allocate_for(40)`."""
    words = [short_repr(value) for value in args] + [f"{key}={short_repr(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(words)})"


def readable(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, with an iterator made into a list: looking at it would leave nothing for the method."""
    return tuple(list(value) if isinstance(value, Iterator) else value for value in args)


def argument(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call's one argument, however it was passed; None if there is none."""
    return next(iter((*args, *kwargs.values())), None)


def whole(value: Any) -> int | None:
    """A whole number of any kind, NumPy's included, as an int; None for anything else."""
    try:
        return index(value)
    except TypeError:
        return None


def block_ids_in(value: Any) -> list[int] | None:
    """One block id or several as a list of ints; None when it is neither."""
    if (single := whole(value)) is not None:
        return [single]
    if not isinstance(value, Iterable):
        return None
    block_ids = [whole(item) for item in value]
    return None if None in block_ids else block_ids
