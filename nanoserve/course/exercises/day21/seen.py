"""What a step of a cache does, seen from outside: launches of the kernel, copies of the pool, copies to the host."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.overrides import TorchFunctionMode

from nanoserve.attention import gathered_attention
from nanoserve.pool import KVPool

_TO_HOST = ("item", "tolist", "cpu", "numpy", "__int__", "__index__", "__float__", "__bool__")
_FROM_HOST = ("tensor", "as_tensor")


@dataclass(frozen=True)
class Launch:
    """The decode kernel's arguments in one launch, and what lay in the pool at that moment.

    Attributes:
        memories: where its keys and its values lie, as ("k", 0) for layer 0 of the pool's k; None for other memory.
        tables, lengths: as it was given them.
        k: a copy of the keys that it was given.
    """

    memories: tuple[tuple[str, int] | None, tuple[str, int] | None]
    tables: list[list[int]]
    lengths: list[int]
    k: torch.Tensor


class Seen(TorchFunctionMode):
    """Listens to every torch function that is called, but not within the kernel.

    Attributes:
        launches: of the kernel.
        copies: functions that copied a part of the pool.
        to_host: functions that wait for the device and copy a number, or a tensor, to the host.
        made: functions that made a tensor out of Python numbers: on a GPU, each is a copy to it.
    """

    def __init__(self, pool: KVPool) -> None:
        self.launches: list[Launch] = []
        self.copies: list[str] = []
        self.to_host: list[str] = []
        self.made: list[str] = []
        self._pool, self._listens = pool, True
        super().__init__()

    def __torch_function__(self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        result = func(*args, **(kwargs or {}))
        if self._listens:
            self._listens = False  # not to what is asked here
            self._note(getattr(func, "__name__", ""), args, result)
            self._listens = True
        return result

    def _note(self, name: str, args: tuple, result: object) -> None:
        if name in _TO_HOST:
            self.to_host.append(name)
        elif name in _FROM_HOST and args and not isinstance(args[0], torch.Tensor):
            self.made.append(f"torch.{name}")
        elif isinstance(result, torch.Tensor) and any(map(self._is_pool, args)) and not self._is_pool(result):
            self.copies.append(name)

    def _is_pool(self, value: object) -> bool:
        if not isinstance(value, torch.Tensor):
            return False
        places = [tensor.untyped_storage().data_ptr() for tensor in (self._pool.k, self._pool.v)]
        return value.untyped_storage().data_ptr() in places

    def launched(self, q, k, v, tables, lengths, parts, lse, scale, *rest: object, **constants: object) -> None:
        """Note a launch, and do what it would: in torch, where an index outside the pool does no harm.

        Args: as the decode kernel's.
        """
        self._listens = False
        memories = self._memory(k), self._memory(v)
        self.launches.append(Launch(memories, tables.tolist(), lengths.tolist(), k.clone()))
        fits = [
            0 <= length <= len(table) * k.shape[1] and all(0 <= block_id < len(k) for block_id in table)
            for table, length in zip(self.launches[-1].tables, self.launches[-1].lengths, strict=True)
        ]
        parts.zero_()
        lse.fill_(-torch.inf)
        parts[:, :, 0] = gathered_attention(q, k, v, tables, lengths, scale) if all(fits) else torch.nan
        lse[:, :, 0] = 0
        self._listens = True

    def _memory(self, given: torch.Tensor) -> tuple[str, int] | None:
        memories = {"k": self._pool.k, "v": self._pool.v}
        places = {layer.data_ptr(): (name, i) for name, memory in memories.items() for i, layer in enumerate(memory)}
        return places.get(given.data_ptr())


@contextmanager
def watched(pool: KVPool) -> Iterator[Seen]:
    """Inside the block, what is done with this pool is seen."""
    from nanoserve.kernels import launch

    kernel, seen = launch.paged_decode_kernel, Seen(pool)

    class Listened:
        def __getitem__(self, grid: tuple[int, ...]) -> Callable:
            return seen.launched

    launch.paged_decode_kernel = Listened()
    try:
        with seen:
            yield seen
    finally:
        launch.paged_decode_kernel = kernel
