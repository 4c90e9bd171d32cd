"""Stages of task 17.4: which memory a run lives in."""

from nanoserve.allocator import BlockAllocator
from nanoserve.cache import KVPool, NaiveKVCache, PagedKVCache
from nanoserve.course.exercises.day17.stand_in import ScriptedModel
from nanoserve.course.probe import Probe, show

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
        }
        probe.cases += 1
        if sizes != (blocks, size):
            told = "a pool of {} blocks of {}".format
            probe.fail(told(blocks, size), told(*sizes), slips.get(sizes, "other-size"))
        _nothing_taken(probe, allocator)


def a_pool_that_is_shared(probe: Probe) -> None:
    """a shared pool is used as it is"""
    for paged, size in ((True, 16), (False, 16), (False, 4)):
        pool = KVPool.for_model(_MODEL, 6, 16)
        try:
            came = _paged(probe, "pool-needs-the-flag", 20, paged, size, pool)
        except (AttributeError, TypeError, ValueError) as error:
            probe.fail("a cache over the shared pool", f"{type(error).__name__}: {error}", "pool-taken-for-allocator")
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
        probe.fail("a cache over the allocator's ids", f"AttributeError: {error}", "allocator-taken-for-pool")
    except ValueError as error:
        probe.fail("a cache over the allocator's ids", f"ValueError: {error}", "sized-by-the-run")
    probe.cases += 1
    if came.pool.allocator is not allocator:
        probe.fail("a cache whose ids come from the shared allocator", "one with an allocator of its own", "own-ids")
    shape = tuple(came.pool.k.shape[1:3])
    probe.equal(shape, (6, 8), "sized-by-the-run")
    _nothing_taken(probe, allocator)


def _nothing_taken(probe: Probe, allocator: BlockAllocator) -> None:
    probe.cases += 1
    if allocator.num_used:
        probe.fail("0 blocks in use before the first token", f"{allocator.num_used} in use", "takes-blocks-early")


def _call(probe: Probe, tokens: int, paged: bool, size: int, allocator: object) -> object:
    what = None if allocator is None else "pool" if isinstance(allocator, KVPool) else "BlockAllocator(6, 8)"
    line = f"cache_for(model, {tokens}, {paged}, {size}, {what})"
    return probe.record(line, probe.subject, _MODEL, tokens, paged, size, allocator, shows_result=False)


def _paged(probe: Probe, slip: str, *arguments: object) -> PagedKVCache:
    came = _call(probe, *arguments)
    if not isinstance(came, PagedKVCache):
        kinds = {type(None): "no-return", type: "class-for-cache", KVPool: "not-a-cache"}
        probe.fail("a PagedKVCache", _kind(came), kinds.get(type(came), slip))
    return came


def _kind(value: object) -> str:
    return show(value) if value is None or isinstance(value, type) else f"a {type(value).__name__}"
