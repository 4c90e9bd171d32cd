"""Stages of task 17.4: which memory a run lives in."""

import torch

from nanoserve.allocator import BlockAllocator
from nanoserve.cache import KVPool, NaiveKVCache, PagedKVCache
from nanoserve.course.exercises.day17.stand_in import ScriptedModel
from nanoserve.course.probe import Probe, named, show

_MODEL = ScriptedModel()


def without_blocks(probe: Probe) -> None:
    """without blocks, a contiguous cache"""
    came = _call(probe, 10, False, 16, None)
    probe.cases += 1
    if not isinstance(came, NaiveKVCache):
        kinds = {type(None): "no-return", type: "class-for-cache"}
        probe.fail("a NaiveKVCache", _kind(came), kinds.get(type(came), "always-paged"))


def a_pool_of_its_own(probe: Probe) -> None:
    """paged alone, a pool that is just large enough"""
    for tokens, size, blocks in ((40, 16, 3), (20, 16, 2), (32, 16, 2), (20, 4, 5)):
        try:
            came = _paged(probe, "never-paged", tokens, True, size, None)
        except ValueError as error:
            probe.fail(f"{blocks} blocks of {size}", f"ValueError: {error}", "rounded-down")
        allocator = came.pool.allocator
        sizes = (allocator.num_blocks, allocator.block_size)
        slips = {
            (tokens // size, size): "rounded-down",
            (tokens // size + 1, size): "a-block-too-many",
            (tokens, size): "a-block-a-token",
            (-(-tokens // 16), 16): "block-size-ignored",
            (size, blocks): "sizes-swapped",
        }
        probe.cases += 1
        if sizes != (blocks, size):
            told = "a pool of {} blocks of {}".format
            probe.fail(told(blocks, size), told(*sizes), slips.get(sizes, "other-size"))
        with probe.on_error(ValueError, slip="own-misfit"):
            came.pool.require_fit(_MODEL)
        _nothing_taken(probe, allocator)


def a_pool_that_is_shared(probe: Probe) -> None:
    """a shared pool is used as it is"""
    for paged, size in ((True, 16), (False, 16), (False, 4)):
        pool = KVPool.for_model(_MODEL, 6, 16)
        try:
            came = _paged(probe, "pool-needs-the-flag", 20, paged, size, pool)
        except (AttributeError, TypeError, ValueError) as error:
            own = isinstance(error, ValueError) and "its allocator" not in str(error)  # not KVPool's, of its sizes
            slip = "good-pool-refused" if own else "pool-taken-for-allocator"
            probe.fail("a cache over the shared pool", named(error), slip)
        probe.cases += 1
        if came.pool is not pool:
            same_ids = came.pool.allocator is pool.allocator
            ours, theirs = f"{len(pool.k[0])} blocks, the shared ones", f"a new pool of {len(came.pool.k[0])} blocks"
            slip = "fresh-memory" if same_ids else "fresh-pool"
            probe.fail(f"a cache over {ours}", f"a cache over {theirs}", slip)
        _nothing_taken(probe, pool.allocator)


def two_runs_of_one_pool(probe: Probe) -> None:
    """two runs of one pool have a table each"""
    pool = KVPool.for_model(_MODEL, 6, 16)
    first = _paged(probe, "pool-needs-the-flag", 20, False, 16, pool)
    second = _paged(probe, "pool-needs-the-flag", 20, False, 16, pool)
    probe.cases += 1
    if first is second or first.table is second.table:
        probe.fail("a new cache for each run", "the same cache again", "one-cache-for-all")
    first.table.append(20)
    second.table.append(20)
    probe.equal((first.table.block_ids, second.table.block_ids), ([0, 1], [2, 3]), "one-cache-for-all")


def ids_that_are_shared(probe: Probe) -> None:
    """a bare allocator shares its ids, and the run brings the memory"""
    allocator = BlockAllocator(6, 8)
    try:
        came = _paged(probe, "allocator-ignored", 20, False, 16, allocator)
    except AttributeError as error:
        probe.fail("a cache over the allocator's ids", named(error), "allocator-taken-for-pool")
    except ValueError as error:
        slip = "sizes-swapped" if "has 8 blocks of 6" in str(error) else "sized-by-the-run"
        probe.fail("a cache over the allocator's ids", named(error), slip)
    probe.cases += 1
    if came.pool.allocator is not allocator:
        probe.fail("a cache whose ids come from the shared allocator", "one with an allocator of its own", "own-ids")
    shape = tuple(came.pool.k.shape[1:3])
    probe.equal(shape, (6, 8), "sized-by-the-run")
    _nothing_taken(probe, allocator)


def runs_with_memory_of_their_own(probe: Probe) -> None:
    """two runs without a shared pool have memory of their own"""
    for paged in (False, True):
        first, second = (_call(probe, 20, paged, 16, None) for _ in range(2))
        probe.cases += 1
        if first is second or (paged and first.pool is second.pool):
            probe.fail("memory of its own for each run", "the same again", "own-memory-shared")


def the_others_are_left_alone(probe: Probe) -> None:
    """what other runs hold stays as it is, and a pool that is nearly full is no error yet"""
    pool = KVPool.for_model(_MODEL, 6, 16)
    pool.k.fill_(3)
    pool.v.fill_(4)
    PagedKVCache(pool).table.append(80)  # five of the six blocks
    for shared in (pool, pool.allocator):
        probe.calls.clear()
        with (
            probe.on_error(RuntimeError, ValueError, AssertionError, MemoryError, slip="refused-early"),
            probe.on_error(ValueError, slip="sized-by-what-is-free", match="its allocator hands out"),
        ):
            _call(probe, 20, True, 16, shared, told="a pool with 1 free block" if shared is pool else "its allocator")
        probe.equal(pool.allocator.num_used, 5, "frees-the-others")
    kept = bool(torch.all(pool.k == 3)) and bool(torch.all(pool.v == 4))
    probe.cases += 1
    if not kept:
        probe.fail("the pool's keys and values as they were", "other numbers in them", "wipes-the-pool")


def arguments_by_name(probe: Probe) -> None:
    """arguments go by their names, and most have a default"""
    pool = KVPool.for_model(_MODEL, 6, 16)
    for given, expected in (
        ({}, None),
        ({"paged": True}, (2, 16)),
        ({"paged": True, "block_size": 4}, (5, 4)),
        ({"allocator": pool}, (6, 16)),
    ):
        named = "".join(f", {name}={'pool' if value is pool else value}" for name, value in given.items())
        line = f"cache_for(model, num_tokens=20{named})"
        with probe.on_error(TypeError, slip="no-defaults", match="argument"):
            came = probe.record(
                line, lambda given=given: probe.subject(_MODEL, num_tokens=20, **given), shows_result=False
            )
        allocator = came.pool.allocator if isinstance(came, PagedKVCache) else None
        sizes = allocator and (allocator.num_blocks, allocator.block_size)
        words = [f"{size[0]} blocks of {size[1]}" if size else "a cache without blocks" for size in (expected, sizes)]
        probe.equal(words[1], words[0], "other-defaults")


def a_pool_of_another_model(probe: Probe) -> None:
    """a pool of another model raises ValueError"""
    for name, sizes, dtype in (
        ("2 layers", (2, 6, 16, 1, 1), torch.float32),
        ("2 KV heads", (1, 6, 16, 2, 1), torch.float32),
        ("head_dim 2", (1, 6, 16, 1, 2), torch.float32),
        ("float16", (1, 6, 16, 1, 1), torch.float16),
    ):
        pool = KVPool(*sizes, dtype=dtype)
        slips = {None: "misfit-accepted", Exception: "misfit-in-other-words"}
        probe.calls.clear()
        probe.raises(ValueError, _call, probe, 20, False, 16, pool, f"a pool of {name}", slips=slips)
        _nothing_taken(probe, pool.allocator)


def _nothing_taken(probe: Probe, allocator: BlockAllocator) -> None:
    probe.cases += 1
    if allocator.num_used:
        probe.fail("0 blocks in use before the first token", f"{allocator.num_used} in use", "takes-blocks-early")


def _call(probe: Probe, tokens: int, paged: bool, size: int, allocator: object, told: str = "") -> object:
    what = None if allocator is None else "pool" if isinstance(allocator, KVPool) else "BlockAllocator(6, 8)"
    line = f"cache_for(model, {tokens}, {paged}, {size}, {told or what})"
    return probe.record(line, probe.subject, _MODEL, tokens, paged, size, allocator, shows_result=False)


def _paged(probe: Probe, slip: str, *arguments: object) -> PagedKVCache:
    came = _call(probe, *arguments)
    if not isinstance(came, PagedKVCache):
        kinds = {type(None): "no-return", type: "class-for-cache", KVPool: "not-a-cache"}
        probe.fail("a PagedKVCache", _kind(came), kinds.get(type(came), slip))
    return came


def _kind(value: object) -> str:
    return show(value) if value is None or isinstance(value, type) else f"a {type(value).__name__}"
