"""Stages of tasks 14.1 and 14.2: one block goes out and comes back."""

from itertools import product

from nanoserve.allocator import KVCacheExhausted
from nanoserve.course.probe import Mismatch, Probe, Traced


def hands_out_each_block_once(probe: Probe) -> None:
    """a fresh pool hands out 0, 1, 2"""
    pool = probe.new("pool", 3, 16)
    first = pool.allocate()
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
    probe.equal(pool.num_free, 1, "never-comes-back")
    probe.equal(pool.num_used, 0, "still-marked")
    probe.equal(pool.allocate(), block, "never-comes-back")


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


def what_is_out_goes_back(probe: Probe) -> None:
    """a block that is out can still be freed"""
    pool = probe.new("pool", 3, 16)
    pool.allocate()
    pool.allocate()
    try:
        pool.free(0)
    except (ValueError, KeyError) as error:
        slip = "refuses-what-is-out" if isinstance(error, ValueError) else "guard-moves-blocks"
        probe.fail("no error: block 0 is out", f"{type(error).__name__}: {error}", slip)
    probe.equal((pool.num_free, pool.num_used), (2, 1), "still-marked")


def the_second_free_is_refused(probe: Probe) -> None:
    """the second free of a block raises ValueError"""
    pool = probe.new("pool", 3, 16)
    for _ in range(2):
        pool.allocate()
    pool.free(0)
    slips = {AssertionError: "assert-for-an-error", Exception: "wrong-error-type", None: "double-free-accepted"}
    before = pool.num_free
    try:
        probe.raises(ValueError, pool.free, 0, slips=slips)
    except Mismatch as finding:
        if finding.slip == "double-free-accepted" and pool.num_free == before:
            finding.slip = "ignored-quietly"
        elif finding.slip == "double-free-accepted" and _guard_refuses(pool, 0):
            finding.slip = "guard-not-called"
        raise
    probe.equal((pool.num_free, pool.num_used), (2, 1), "changed-before-refusal")
    pool.free(1)
    probe.raises(ValueError, pool.free, 0, slips={None: "only-the-last-freed", Exception: "wrong-error-type"})


def _guard_refuses(pool: Traced, block: int) -> bool:
    guard = getattr(pool, "_require_allocated", None)
    try:
        return guard is not None and guard([block]) is not None
    except ValueError:
        return True


def an_unknown_block_is_refused(probe: Probe) -> None:
    """a block that was never handed out raises ValueError"""
    for block in (2, 99, -1):
        pool = probe.new("pool", 3, 16)
        pool.allocate()
        pool.allocate()
        # KeyError: past the guard, and only the set knew
        slips = dict.fromkeys((None, KeyError), "unknown-id-accepted") | {Exception: "wrong-error-type"}
        probe.raises(ValueError, pool.free, block, slips=slips)
        probe.equal((pool.num_free, pool.num_used), (1, 2), "changed-before-refusal")


def the_error_names_the_block(probe: Probe) -> None:
    """the error names the block"""
    pool = probe.new("pool", 8, 16)
    for _ in range(8):
        pool.allocate()
    pool.free(7)
    error = probe.raises(ValueError, pool.free, 7, slips={None: "double-free-accepted", Exception: "wrong-error-type"})
    if "7" not in str(error):
        probe.fail("an error whose message names block 7", f"ValueError: {error}", "unnamed-block")


def a_list_is_looked_at_whole(probe: Probe) -> None:
    """a block that stands twice in one list is refused"""
    pool = probe.new("pool", 4, 16)
    for _ in range(3):
        pool.allocate()
    if not hasattr(probe.subject, "_require_allocated"):
        return  # a class of another build: task 14.4 asks the same of its free_all
    slips = {None: "first-of-list-only", Exception: "wrong-error-type"}
    probe.raises(ValueError, pool._require_allocated, [0, 3], slips=slips)
    slips = {None: "duplicate-in-list", Exception: "wrong-error-type"}
    error = probe.raises(ValueError, pool._require_allocated, [2, 1, 2], slips=slips)
    if "2" not in str(error):
        probe.fail("an error whose message names block 2", f"ValueError: {error}", "unnamed-duplicate")
    whole = [2, 0, 1]
    pool._require_allocated(whole)
    probe.equal(whole, [2, 0, 1], "guard-changes-the-list")
    probe.equal((pool.num_free, pool.num_used), (1, 3), "guard-moves-blocks")


def a_caught_error_harms_nothing(probe: Probe) -> None:
    """after a refused free, no block is out twice"""
    pool = probe.new("pool", 2, 16)
    pool.allocate()
    pool.free(0)
    probe.raises(ValueError, pool.free, 0, slips={None: "double-free-accepted", Exception: "wrong-error-type"})
    first, second = pool.allocate(), pool.allocate()
    probe.equal(sorted([first, second]), [0, 1], "changed-before-refusal")
