"""Stages of task 14.1: one block goes out and comes back."""

from itertools import product
from numbers import Integral

from nanoserve.allocator import KVCacheExhausted
from nanoserve.course.probe import Probe, kind, show


def hands_out_each_block_once(probe: Probe) -> None:
    """a fresh pool hands out 0, 1, 2"""
    pool = probe.new("pool", 3, 16)
    with probe.on_error(KVCacheExhausted, slip="exhausted-too-soon"):
        first = pool.allocate()
        if isinstance(first, bool) or not isinstance(first, Integral | list | None):
            probe.fail("0, an int", f"{show(first)}, {kind(first)}", "not-an-int")
        probe.equal(first, 0, "wrong-id", {"no-return": None, "hands-out-backwards": 2, "a-list-for-an-id": [0]})
        probe.equal(pool.allocate(), 1, "wrong-id", {"handed-out-twice": 0})
        probe.equal(pool.allocate(), 2, "wrong-id")


def counts_what_is_out(probe: Probe) -> None:
    """the counters follow what is handed out"""
    pool = probe.new("pool", 3, 16)
    pool.allocate()
    pool.allocate()
    probe.equal(pool.num_free, 1, "count-of-free")
    probe.equal(pool.num_used, 2, "not-marked-allocated")
    sizes = getattr(pool, "num_blocks", 3), getattr(pool, "block_size", 16)
    probe.equal(sizes, (3, 16), "sizes-changed")


def an_empty_pool_says_so(probe: Probe) -> None:
    """an empty pool raises KVCacheExhausted"""
    pool = probe.new("pool", 1, 16)
    pool.allocate()
    slips = {IndexError: "bare-index-error", None: "silent-exhaustion", Exception: "another-exception"}
    probe.raises(KVCacheExhausted, pool.allocate, slips=slips)


def a_freed_block_comes_back(probe: Probe) -> None:
    """a freed block can be handed out again"""
    pool = probe.new("pool", 1, 16)
    block = pool.allocate()
    pool.free(block)
    probe.equal(pool.num_free, 1, "never-comes-back", {"comes-back-twice": 2})
    probe.equal(pool.num_used, 0, "still-marked")
    with probe.on_error(TypeError, slip="list-on-the-stack", match="unhashable type: 'list'"):
        probe.equal(pool.allocate(), block, "never-comes-back", {"list-on-the-stack": [block]})


def last_in_first_out(probe: Probe) -> None:
    """the block freed last is the next one out"""
    pool = probe.new("pool", 5, 16)
    for _ in range(4):
        pool.allocate()
    for block in (1, 0, 2):
        pool.free(block)
    probe.equal(pool.allocate(), 2, "not-last-in-first-out", {"queue": 4, "lowest-first": 0})
    probe.equal(pool.allocate(), 0, "not-last-in-first-out")


def the_peak_is_a_high_water_mark(probe: Probe) -> None:
    """peak_used remembers the most that was ever out"""
    pool = probe.new("pool", 4, 16)
    pool.allocate()
    pool.allocate()
    probe.equal(pool.peak_used, 2, "no-peak")
    pool.free(1)
    pool.free(0)
    probe.equal(pool.peak_used, 2, "peak-follows-used")
    pool.allocate()
    probe.equal(pool.peak_used, 2, "peak-counts-allocations", {"peak-follows-used": 1})


def two_pools_are_apart(probe: Probe) -> None:
    """two pools know nothing of one another"""
    one, other = probe.new("one", 2, 16), probe.another("other", 2, 16)
    one.allocate()
    probe.equal(other.num_free, 2, "shared-between-pools")
    probe.equal(other.num_used, 0, "shared-between-pools")
    probe.equal(other.allocate(), 0, "shared-between-pools")


def agrees_with_a_plain_model(probe: Probe) -> None:
    """every sequence of up to six calls agrees with a plain list"""
    for length in range(1, 7):
        for calls in product(("allocate", "free the oldest", "free the newest"), repeat=length):
            _run_beside_a_plain_list(probe, calls)


def _run_beside_a_plain_list(probe: Probe, calls: tuple[str, ...]) -> None:
    pool = probe.new("pool", 3, 16)
    stack, out, peak = [2, 1, 0], [], 0
    for call in calls:
        if call == "allocate" and stack:
            out.append(stack.pop())
            probe.equal(pool.allocate(), out[-1], "other")
        elif call == "allocate":
            probe.raises(KVCacheExhausted, pool.allocate, slips={None: "silent-exhaustion", Exception: "other"})
        elif out:
            stack.append(out.pop(0 if call == "free the oldest" else -1))
            pool.free(stack[-1])
        peak = max(peak, len(out))
    counts = (pool.num_free, pool.num_used, pool.peak_used)
    probe.equal(counts, (len(stack), len(out), peak), "other")
    while stack:
        probe.equal(pool.allocate(), stack.pop(), "other")
