"""How much memory an object's tensors really hold, whoever wrote its class."""

from collections.abc import Mapping

import torch


def held_bytes(obj: object) -> int:
    """Bytes of the memory behind all tensors that an object's attributes lead to, each memory counted once.

    A tensor that shows only a part of its memory keeps all of it alive, and so all of it counts.

    Args:
        obj: a tensor, a list, tuple, set or dict, or an object with attributes, however deep.
    """
    memories: dict[int, int] = {}
    waiting, seen = [obj], set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            memory = value.untyped_storage()
            memories[memory.data_ptr()] = memory.nbytes()
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif not isinstance(value, type | str | bytes):
            waiting += vars(value).values() if hasattr(value, "__dict__") else ()
            waiting += [getattr(value, name) for name in getattr(value, "__slots__", ()) if hasattr(value, name)]
    return sum(memories.values())
