"""What stands between an interpreted kernel and memory: every address is looked at before it is used.

The addresses that a kernel sees are made up. The tensor arguments lie far apart in them, so that an address tells whose
it is even when it is wrong, and a step too far never lands in another argument's memory.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

from nanoserve.course.kernels.accesses import Access, Write, name_program

_APART = 1 << 44  # bytes from where one argument begins to where the next does
_GARBAGE = 77_777  # what an integer lane holds that was masked out of a load without `other`
_DOING = {"read": "reads", "write": "writes", "atomic": "updates"}


class Guard:
    """Stands in for the interpreter's memory functions while a kernel runs, and keeps a list of what it did.

    Args:
        tensors: the kernel's tensor arguments, by the names that they are told by.
        windows: elements that come before what there is of a tensor, for those of which only a part is there.
        keeps: whether the list is kept; large launches go faster without.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor], windows: Mapping[str, int], keeps: bool) -> None:
        self.accesses: list[Access] = []
        self.writes: list[Write] = []
        self.reads: list[tuple[tuple[int, int, int], np.ndarray]] = []
        self._keeps = keeps
        self._names, self._tensors = list(tensors), list(tensors.values())
        self._size = np.array([tensor.element_size() for tensor in self._tensors], dtype=np.int64)
        before = np.array([windows.get(name, 0) for name in self._names], dtype=np.int64)
        self._count = [int(first) + tensor.numel() for first, tensor in zip(before, self._tensors, strict=True)]
        self._data = np.array([tensor.data_ptr() for tensor in self._tensors], dtype=np.int64)
        self._first = self._data - before * self._size
        memories = [tensor.untyped_storage() for tensor in self._tensors]
        self._low = np.array([memory.data_ptr() for memory in memories], dtype=np.int64) - self._first
        self._high = self._low + [memory.nbytes() for memory in memories]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside the block, the interpreter goes through this guard."""
        memory, convert, load, masked = (
            interpreter._interpreter,
            interpreter._implicit_cvt,
            TritonSemantic.load,
            interpreter.InterpreterBuilder.create_masked_load,
        )
        has_other = False
        made_up = {int(data): _APART * (place + 1) for place, data in enumerate(self._data)}

        def convert_argument(argument: Any) -> Any:
            converted = convert(argument)
            if isinstance(argument, torch.Tensor):
                converted.handle.data = np.array([made_up[argument.data_ptr()]], dtype=np.uint64)
            return converted

        def load_or_other(semantic: Any, pointers: Any, mask: Any, other: Any, *rest: Any) -> Any:
            nonlocal has_other
            has_other = other is not None
            return load(semantic, pointers, mask, other, *rest)

        def masked_load(builder: Any, pointers: Any, mask: Any, other: Any, *rest: Any) -> Any:
            if other is None and not has_other:  # Triton drops a single lane's `other` that is 0; then 0 is right
                other = _garbage(pointers)
            return masked(builder, pointers, mask, other, *rest)

        interpreter._interpreter, self._memory = self, memory
        interpreter._implicit_cvt = convert_argument
        TritonSemantic.load = load_or_other
        interpreter.InterpreterBuilder.create_masked_load = masked_load
        try:
            yield
        finally:
            interpreter._interpreter, interpreter._implicit_cvt = memory, convert
            TritonSemantic.load = load
            interpreter.InterpreterBuilder.create_masked_load = masked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)  # what touches no memory

    def load(self, pointers: np.ndarray, mask: Any, other: np.ndarray, dtype: np.dtype) -> np.ndarray:
        return self._memory.load(self._real("read", pointers, mask), mask, other, dtype)

    def store(self, pointers: np.ndarray, value: np.ndarray, mask: Any) -> None:
        real = self._real("write", pointers, mask, value)
        return self._memory.store(real, value, mask)

    def atomic_rmw(self, operation: Any, pointers: np.ndarray, value: np.ndarray, mask: Any, order: Any) -> np.ndarray:
        return self._memory.atomic_rmw(operation, self._real("atomic", pointers, mask), value, mask, order)

    def atomic_cas(self, pointers: np.ndarray, old: np.ndarray, new: np.ndarray, order: Any) -> np.ndarray:
        return self._memory.atomic_cas(self._real("atomic", pointers, True), old, new, order)

    def _real(self, kind: str, pointers: np.ndarray, mask: Any, value: np.ndarray | None = None) -> np.ndarray:
        """The real addresses of made-up ones.

        Raises:
            IndexError: one that is not masked out is outside all memory that the kernel was given.
        """
        held = np.broadcast_to(np.asarray(mask, dtype=bool), pointers.shape).ravel()
        made_up = pointers.ravel()[held].astype(np.int64)
        place = np.clip((made_up + _APART // 2) // _APART - 1, 0, len(self._names) - 1)
        offset = made_up - (place + 1) * _APART
        out = (offset < self._low[place]) | (offset + self._size[place] > self._high[place])
        program = interpreter.interpreter_builder.grid_idx
        if self._keeps or out.any():
            self._keep(program, kind, place, offset, bool(out.any()))
        if out.any():
            first = np.flatnonzero(out)[0]
            where, element = place[first], offset[first] // self._size[place[first]]
            has = f"`{self._names[where]}`, which has {self._count[where]}"
            raise IndexError(f"{name_program(program)} {_DOING[kind]} element {element} of {has}")
        at = self._first[place] + offset
        if self._keeps and kind == "read":
            self.reads.append((program, at))
        elif self._keeps and kind == "write":
            self._keep_write(program, place, at, np.broadcast_to(value, pointers.shape).ravel()[held])
        real = np.zeros(pointers.size, dtype=np.uint64)
        real[held] = at
        return real.reshape(pointers.shape)

    def _keep(self, program: tuple, kind: str, place: np.ndarray, offset: np.ndarray, outside: bool) -> None:
        for tensor in np.unique(place):
            elements = (offset // self._size[place])[place == tensor]
            self.accesses.append(Access(program, kind, self._names[tensor], elements, outside))

    def _keep_write(self, program: tuple, place: np.ndarray, at: np.ndarray, value: np.ndarray) -> None:
        bits = np.ascontiguousarray(value).view(f"u{value.itemsize}").astype(np.uint64)
        for tensor in np.unique(place):
            mine = place == tensor
            facts = self._names[tensor], int(self._first[tensor]), int(self._size[tensor])
            self.writes.append(Write(program, *facts, at[mine], bits[mine]))


def _garbage(pointers: Any) -> Any:
    """What masked-out lanes hold without an `other`: on a GPU it may be anything, and in the interpreter it is 0."""
    element = pointers.get_element_ty()
    dtype = interpreter._get_np_dtype(element)
    if dtype.kind == "f":
        value = np.nan
    elif element.is_floating():  # kept as bits: all of them set but the sign is a NaN in every such type
        value = (1 << (8 * dtype.itemsize - 1)) - 1
    else:
        value = True if dtype.kind == "b" else min(_GARBAGE, np.iinfo(dtype).max // 2)
    return interpreter.TensorHandle(np.full_like(pointers.data, value, dtype=dtype), element)
