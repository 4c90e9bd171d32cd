"""Which blocks will come out next: asked of a copy, since every allocator keeps its free blocks in its own way."""

from collections.abc import MutableMapping, MutableSequence, MutableSet
from contextlib import redirect_stdout
from copy import deepcopy
from io import StringIO
from operator import index
from typing import Any


def free_order(allocator: Any) -> tuple[int, ...] | None:
    """The ids that `allocate()` would give from now on, until it raises; None when that cannot be found out.

    The allocator itself is left alone. A copy shares what stands on the class, so an allocator that keeps its
    blocks there, for all instances at once, is not asked.

    Args:
        allocator: any object with `allocate()` and `num_blocks`.
    """
    if _shares_state(type(allocator)):
        return None
    try:
        allocate = deepcopy(allocator).allocate
    except Exception:
        return None
    order: list[int] = []
    for _ in range(allocator.num_blocks + 1):
        try:
            with redirect_stdout(StringIO()):  # what a learner prints in there is meant for the real calls
                block_id = allocate()
        except NotImplementedError:
            return None
        except Exception:
            break
        try:
            order.append(index(block_id))
        except TypeError:
            return None
    return tuple(order)


def _shares_state(cls: type) -> bool:
    containers = (MutableSequence, MutableSet, MutableMapping)
    attributes = (item for base in cls.__mro__ for item in vars(base).items())
    return any(isinstance(value, containers) for name, value in attributes if not name.startswith("__"))
