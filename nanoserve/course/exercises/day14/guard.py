"""Stages of task 14.2: what is not out does not come back."""

from nanoserve.course.probe import Mismatch, Probe, Traced, named


def what_is_out_goes_back(probe: Probe) -> None:
    """a block that is out can still be freed"""
    pool = probe.new("pool", 3, 16)
    pool.allocate()
    pool.allocate()
    try:
        with probe.on_error(TypeError, slip="list-as-an-id", match="unhashable type: 'list'"):
            pool.free(0)
    except (ValueError, KeyError) as error:
        slip = "refuses-what-is-out" if isinstance(error, ValueError) else "guard-moves-blocks"
        probe.fail("no error: block 0 is out", named(error), slip)
    except TypeError as error:
        if "not iterable" not in str(error) or _guards_error(pool, 0) is TypeError:
            raise
        probe.fail("no error: block 0 is out", named(error), "number-for-a-list")
    probe.equal((pool.num_free, pool.num_used), (2, 1), "still-marked")
    pool.allocate()
    with probe.on_error(ValueError, slip="seen-in-another-call"):
        pool.free(0)


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
        elif finding.slip == "double-free-accepted" and _guards_error(pool, 0) is ValueError:
            finding.slip = "guard-not-called"
        elif isinstance(finding.__context__, KeyError) and _guards_error(pool, 0) is None:
            finding.slip = "past-the-guard"  # only the set's own `remove` has noticed
        raise
    probe.equal((pool.num_free, pool.num_used), (2, 1), "changed-before-refusal")
    pool.free(1)
    probe.raises(ValueError, pool.free, 0, slips={None: "only-the-last-freed", Exception: "wrong-error-type"})


def _guards_error(pool: Traced, block: int) -> type[Exception] | None:
    """What the guard itself raises of this block; None if it raises nothing, or there is none."""
    guard = getattr(pool, "_require_allocated", None)
    try:
        if guard is not None:
            guard([block])
    except Exception as error:
        return type(error)
    return None


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
        probe.fail("an error whose message names block 7", named(error), "unnamed-block")


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
        probe.fail("an error whose message names block 2", named(error), "unnamed-duplicate")
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
