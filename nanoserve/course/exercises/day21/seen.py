"""What a step of a cache does, seen from outside: launches of the kernel, copies of the pool, copies to the host."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from nanoserve.attention import gathered_attention
from nanoserve.pool import KVPool

_TO_HOST = ("item", "tolist", "cpu", "numpy", "__int__", "__index__", "__float__", "__bool__")
# What a tensor answers where it stands in for one on a GPU.
_AS_ON_A_GPU = {torch.Tensor.is_cuda.__get__: True, torch.Tensor.device.__get__: torch.device("cuda", 0)}


@dataclass(frozen=True)
class Launch:
    """The decode kernel's arguments in one launch, and what lay in the pool at that moment.

    Attributes:
        memories: where its keys and its values lie, as ("k", 0) for layer 0 of the pool's k; None for other memory.
        tables, lengths: as it was given them.
        scale: of the scores.
        k: a copy of the keys that it was given.
    """

    memories: tuple[tuple[str, int] | None, tuple[str, int] | None]
    tables: list[list[int]]
    lengths: list[int]
    scale: float
    k: torch.Tensor


class Seen(TorchFunctionMode):
    """Listens to every torch function that is called, but not within the kernel.

    Attributes:
        launches: of the kernel.
        copies: functions that copied a part of the pool.
        to_host: functions that wait for the device and copy a number, or a tensor, to the host.
        made: shapes of the tensors that were made out of Python numbers or NumPy's: on a GPU, each is a copy to it.
    """

    def __init__(self, pool: KVPool, says_gpu: bool = False) -> None:
        self.launches: list[Launch] = []
        self.copies: list[str] = []
        self.to_host: list[str] = []
        self.made: list[str] = []
        self.listens = True
        self._pool, self._says_gpu = pool, says_gpu
        super().__init__()

    def __torch_function__(self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        kwargs = kwargs or {}
        if self._says_gpu:
            if func in _AS_ON_A_GPU:
                return _AS_ON_A_GPU[func]
            args = tuple(map(_on_the_cpu, args))
            kwargs = {name: _on_the_cpu(value) for name, value in kwargs.items()}
        heard = self.listens
        self.listens = heard and func is not torch.Tensor.__setitem__  # which fills with a number, and copies none
        result = func(*args, **kwargs)
        self.listens = heard
        if heard:
            self.listens = False  # not to what is asked here
            self._note(getattr(func, "__name__", ""), args, result)
            self.listens = True
        return result

    def _note(self, name: str, args: tuple, result: object) -> None:
        if name in _TO_HOST:
            self.to_host.append(name)
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
        self.listens = False
        memories = self._memory(k), self._memory(v)
        self.launches.append(Launch(memories, tables.tolist(), lengths.tolist(), scale, k.clone()))
        fits = [
            0 <= length <= len(table) * k.shape[1] and all(0 <= block_id < len(k) for block_id in table)
            for table, length in zip(self.launches[-1].tables, self.launches[-1].lengths, strict=True)
        ]
        parts.zero_()
        lse.fill_(-torch.inf)
        parts[:, :, 0] = gathered_attention(q, k, v, tables, lengths, scale) if all(fits) else torch.nan
        lse[:, :, 0] = 0
        self.listens = True

    def _memory(self, given: torch.Tensor) -> tuple[str, int] | None:
        memories = {"k": self._pool.k, "v": self._pool.v}
        places = {layer.data_ptr(): (name, i) for name, memory in memories.items() for i, layer in enumerate(memory)}
        return places.get(given.data_ptr())


class _FromHost(TorchDispatchMode):
    """Notes every tensor made from the host's numbers, also by constructors like `torch.LongTensor`."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        super().__init__()

    def __torch_dispatch__(self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        if self._seen.listens and func is torch.ops.aten.lift_fresh.default:
            self._seen.made.append(str(tuple(args[0].shape)))
        return func(*args, **(kwargs or {}))


def _on_the_cpu(value: object) -> object:
    return torch.device("cpu") if isinstance(value, torch.device) else value


@contextmanager
def watched(pool: KVPool, says_gpu: bool = False) -> Iterator[Seen]:
    """Inside the block, what is done with this pool is seen.

    Args:
        says_gpu: every tensor says that it lies on a GPU, and is where it was.
    """
    from nanoserve.kernels import launch

    kernel, looks, seen = launch.paged_decode_kernel, launch._require_places, Seen(pool, says_gpu)

    class Listened:
        def __getitem__(self, grid: tuple[int, ...]) -> Callable:
            return seen.launched

    launch.paged_decode_kernel = Listened()
    launch._require_places = lambda *_: None  # no GPU has that look at the numbers, and `launched` has its own
    try:
        with seen, _FromHost(seen):
            yield seen
    finally:
        launch.paged_decode_kernel, launch._require_places = kernel, looks
