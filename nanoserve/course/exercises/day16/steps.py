"""How the stages of task 16.3 make a learner's cache, take it through a step, and look at it afterwards."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode

from nanoserve.block_table import BlockTable
from nanoserve.cache import KVPool
from nanoserve.course.exercises.day16.rows import HEADS, WIDTH, keys, values
from nanoserve.course.probe import Probe, kind
from nanoserve.course.view.hooks import hook

LAYERS = 3
FREE = [5, 2, 6, 1, 7, 0, 4, 3]  # the order in which the pool of the stages hands its blocks out


def new_pool(num_blocks: int = 8) -> KVPool:
    """A small pool with nothing in it, whose blocks have been out, and come back in another order."""
    pool = KVPool(LAYERS, num_blocks, 4, HEADS, WIDTH)
    pool.k.zero_()
    pool.v.zero_()
    if num_blocks == len(FREE):
        pool.allocator.allocate_for(num_blocks * 4)
        pool.allocator.free_all(FREE[::-1])
    return pool


def new_cache(probe: Probe, pool: KVPool, name: str = "cache", fresh: bool = True) -> object:
    """The learner's cache over this pool; a `fresh` one begins a new list of calls."""
    if fresh:
        probe.calls.clear()
        sizes = f"{len(pool.k)} layers, {pool.k.shape[1]} blocks of {pool.k.shape[2]}"
        order = f", out next: {' '.join(map(str, FREE))}" if pool.k.shape[1] == len(FREE) else ""
        probe.calls.append(f"pool  # {sizes}{order}")
    return probe.record(f"{name} = {probe.subject.__name__}(pool)", probe.subject, pool, shows_result=False)


def append(
    probe: Probe, cache: object, layer: int, tokens: range, slip: str = "", name: str = "cache"
) -> tuple[torch.Tensor, torch.Tensor]:
    """One layer's part of a step; an index outside the table has reasons that are known."""
    which = f"token {tokens[0]}" if len(tokens) == 1 else f"tokens {tokens[0]} to {tokens[-1]}"
    line = f"{name}.append({layer}, k, v)  # {which}"
    k, v = keys(tokens, layer), values(tokens, layer)
    try:
        with _named_errors(probe, slip):
            came = probe.record(line, cache.append, layer, k, v, shows_result=False)
    except IndexError as error:
        if "outside a sequence" not in str(error) and "list index" not in str(error):
            raise
        reason = "start-has-moved" if layer else "grows-at-new-blocks-only" if tokens[0] else "written-before-growth"
        probe.fail("no error", f"IndexError: {error}", slip or reason)
    if not isinstance(came, (tuple, list)) or len(came) != 2:
        slip = "no-return" if came is None else "not-a-pair"
        probe.fail("(keys, values)", "None" if came is None else kind(came), slip)
    if not (torch.equal(k, keys(tokens, layer)) and torch.equal(v, values(tokens, layer))):
        probe.fail("k and v as given", "other numbers in them after the call", "changes-its-arguments")
    return came[0], came[1]


@contextmanager
def _named_errors(probe: Probe, slip: str) -> Iterator[None]:
    """torch's errors that have one likely cause in a step; all of them are told `slip`, where that is not ""."""
    torch_errors = (IndexError, RuntimeError)
    row = rf"\[\d+, {HEADS}, {WIDTH}\]"
    other_tokens = f"Number of indices|{row} cannot .*{row}"
    whole_pool = (
        rf"destination dimensionality \(4\)|dimension 0 with size {LAYERS}$|shape \[\d+(, \d+)+, {HEADS}, {WIDTH}\]$"
    )
    with (
        probe.on_error(TypeError, slip=slip or "list-for-a-tensor", match="must be Tensor, not list"),
        probe.on_error(*torch_errors, slip=slip or "index-of-floats", match="int32 or int64|must be long|long tensor"),
        probe.on_error(*torch_errors, slip=slip or "layer-forgotten", match=whole_pool),
        probe.on_error(*torch_errors, slip=slip or "slots-for-other-tokens", match=other_tokens),
    ):
        yield


def blocks_out(probe: Probe, pool: KVPool, expected: int, slip: str, slips: dict[str, int] | None = None) -> None:
    """One case: so many blocks of the pool are in use."""
    if pool.allocator.num_used != expected:  # else it is not worth a line
        probe.calls.append(f"pool.allocator.num_used → {pool.allocator.num_used}")
    probe.equal(pool.allocator.num_used, expected, slip, slips)


def length(probe: Probe, cache: object, expected: int, slip: str, slips: dict[str, int] | None = None) -> None:
    """One case: the cache says that it holds so many tokens."""
    if cache.seq_len != expected:
        probe.calls.append(f"cache.seq_len → {cache.seq_len}")
    probe.equal(cache.seq_len, expected, slip, slips)


@contextmanager
def counting(cache: object) -> Iterator[list[str]]:
    """Yields the list of slots asked of the cache's table, and of calls that make a tensor out of Python numbers.

    On a GPU each of those is a copy to it. Some ways to make one cannot be seen from here; asking for slots can.
    """
    made: list[str] = []
    table = getattr(cache, "table", None)
    if isinstance(table, BlockTable):

        def note(name: str, method: Callable, *args: object) -> object:
            made.append(f"table.{name}")
            return method(*args)

        hook(table, ("slot", "position"), note)

    class Count(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            name = getattr(func, "__name__", "")
            if name in ("tensor", "as_tensor") and args and not isinstance(args[0], torch.Tensor):
                made.append(f"torch.{name}")
            return func(*args, **(kwargs or {}))

    with Count():
        yield made
    if isinstance(table, BlockTable):
        table.__class__ = type(table).__base__  # no longer listened to
