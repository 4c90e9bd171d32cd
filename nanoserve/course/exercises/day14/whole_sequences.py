"""Stages of tasks 14.3 and 14.4: a sequence's blocks go out together and come back together."""

from contextlib import suppress
from itertools import product
from numbers import Integral

from nanoserve.allocator import KVCacheExhausted
from nanoserve.course.probe import Mismatch, Probe, Traced, kind, named, show


def takes_the_ceiling(probe: Probe) -> None:
    """ceil(num_tokens / block_size) blocks"""
    for tokens in (30, 40, 16, 17, 1, 15, 31, 32, 33):
        pool = probe.new("pool", 8, 16)
        blocks, right = _taken(probe, pool, tokens), -(-tokens // 16)
        if len(blocks) != right:
            expected = f"a list of length {right} for {tokens} tokens"
            probe.fail(expected, f"length {len(blocks)}: {blocks}", _slip_of_the_length(probe, tokens, blocks))
        slip = "not-in-order" if len(set(blocks)) == right else "one-block-again"
        probe.equal(blocks, list(range(right)), slip)
        probe.equal(pool.num_free, 8 - right, "blocks-lost")
    pool = probe.new("pool", 8, 4)
    probe.equal(pool.allocate_for(10), [0, 1, 2], "block-size-fixed")


def _taken(probe: Probe, pool: Traced, tokens: int) -> list[int]:
    """What `allocate_for` returned, once it is sure to be a list of ids."""
    try:
        blocks = pool.allocate_for(tokens)
    except KVCacheExhausted as error:
        slip = "refuses-what-fits"
        with suppress(KVCacheExhausted):
            probe.another("few", 8, 16).allocate_for(5)  # fewer tokens than there are blocks
            slip = "tokens-against-blocks"
        probe.fail(f"no error: {tokens} tokens fit in 8 blocks", named(error), slip)
    if not isinstance(blocks, list):
        slip = "no-return" if blocks is None else "not-a-list"
        probe.fail("a list of block ids", f"{show(blocks)}, {kind(blocks)}", slip)
    if not all(isinstance(block, Integral) for block in blocks):
        probe.fail("a list of block ids", f"a list with {kind(blocks[0])} in it", "not-ids")
    return blocks


def _slip_of_the_length(probe: Probe, tokens: int, blocks: list[int]) -> str:
    came, right = len(blocks), -(-tokens // 16)
    if came > right and blocks[-right:] == list(range(right)):
        return "list-kept"
    if came == 1 and len(probe.another("other", 8, 16).allocate_for(48)) == 1:
        return "one-block-only"
    if came == tokens // 16:
        return "floor" if tokens == 30 else "rounded"  # 30 comes first, and rounds to 2
    if came == tokens // 16 + 1:
        return "one-too-many"
    return "tokens-for-blocks" if came == min(tokens, 8) else "wrong-count"


def no_tokens_take_no_block(probe: Probe) -> None:
    """0 tokens take no block, fewer than 0 are refused"""
    pool = probe.new("pool", 2, 16)
    try:
        none = pool.allocate_for(0)
    except ValueError as error:
        probe.fail("[]", named(error), "zero-refused")
    probe.equal(none, [], "zero-takes-one" if isinstance(none, list) else "no-list-for-none")
    probe.equal(pool.num_free, 2, "zero-takes-one")
    slips = {None: "negative-accepted", Exception: "wrong-error-type"}
    probe.raises(ValueError, pool.allocate_for, -1, slips=slips)


def the_last_blocks_can_be_taken(probe: Probe) -> None:
    """a request that fits exactly is served"""
    for tokens in (32, 20):
        pool = probe.new("pool", 2, 16)
        try:
            blocks = pool.allocate_for(tokens)
        except KVCacheExhausted as error:
            probe.fail("[0, 1]", named(error), "refuses-exact-fit")
        probe.equal(blocks, [0, 1], "not-in-order")
        probe.equal(pool.peak_used, 2, "peak-not-kept")


def two_sequences_are_apart(probe: Probe) -> None:
    """what one sequence holds stays as it is when the next one comes"""
    pool = probe.new("pool", 8, 16)
    first = pool.allocate_for(20)
    pool.allocate_for(20)
    probe.calls.append(f"the first one's list → {show(first)}")
    probe.equal(first, [0, 1], "one-list-for-all")


def the_peak_stays(probe: Probe) -> None:
    """the peak is of all time"""
    pool = probe.new("pool", 8, 16)
    for block in pool.allocate_for(64):
        pool.free(block)
    pool.allocate_for(16)
    probe.equal(pool.peak_used, 4, "peak-not-kept")


def all_or_none(probe: Probe) -> None:
    """too large a request takes nothing at all"""
    pool = probe.new("pool", 3, 16)
    pool.allocate()
    slips = {None: "returns-what-there-is", Exception: "another-exception"}
    probe.raises(KVCacheExhausted, pool.allocate_for, 40, slips=slips)
    probe.equal((pool.num_free, pool.num_used), (2, 1), "partial")
    probe.equal(pool.allocate(), 1, "order-changed")
    probe.equal(pool.allocate(), 2, "order-changed")


def a_sequence_goes_back(probe: Probe) -> None:
    """a sequence's blocks go back, and only they"""
    pool = probe.new("pool", 6, 16)
    first = pool.allocate_for(40)
    pool.allocate_for(20)
    with probe.on_error(ValueError, slip="refuses-what-is-out", match=r"^block \d"):
        pool.free_all(first)
    slips = {"frees-everyone": (0, 6), "frees-nothing": (5, 1), "one-left-behind": (3, 3)}
    slips |= {"still-marked": (5, 4), "list-in-list": (2, 2)}
    probe.equal((pool.num_used, pool.num_free), (2, 4), "wrong-blocks-freed", slips)
    probe.equal(pool.peak_used, 5, "peak-lowered")
    probe.equal((pool.num_blocks, pool.block_size), (6, 16), "sizes-changed")  # caches ask an allocator for both


def the_trace_of_the_day(probe: Probe) -> None:
    """the next sequence gets [2, 1], and the one after it [1, 2]"""
    pool = probe.new("pool", 6, 16)
    a = pool.allocate_for(40)
    pool.allocate_for(20)
    pool.allocate_for(16)
    pool.free_all(a)
    d = pool.allocate_for(30)
    probe.equal(d, [2, 1], "wrong-order", {"reverse-order": [0, 1]})
    pool.free_all(d)
    probe.equal(pool.allocate_for(30), [1, 2], "wrong-order", {"sorted": [2, 1]})


def nothing_moves_before_all_is_checked(probe: Probe) -> None:
    """a list with one bad block moves nothing"""
    for bad, slip in (([0, 1, 5], "half-way"), ([0, 0], "duplicate-moved-first"), ([5, 0], "half-way")):
        pool = probe.new("pool", 6, 16)
        pool.allocate_for(40)
        unheard = "duplicate-dropped" if slip == "duplicate-moved-first" else "skips-bad"
        try:
            error = probe.raises(ValueError, pool.free_all, bad, slips={None: unheard, Exception: slip})
        except Mismatch as finding:
            if finding.slip == "skips-bad" and pool.num_free == 6:
                finding.slip = "pushes-bad"
            raise
        probe.equal((pool.num_free, pool.num_used), (3, 3), slip)
        block = "0" if bad == [0, 0] else "5"
        if block not in str(error):
            probe.fail(f"an error whose message names block {block}", named(error), "unnamed-block")
        pool.free_all([0, 1, 2])
        probe.equal((pool.num_free, pool.num_used), (6, 0), slip)


def the_callers_list_is_theirs(probe: Probe) -> None:
    """the caller's list is left alone, and may be any iterable"""
    pool = probe.new("pool", 4, 16)
    blocks = pool.allocate_for(48)
    copy = list(blocks)
    pool.free_all(blocks)
    probe.equal(blocks, copy, "emptied-callers-list")
    once = iter(pool.allocate_for(48))
    pool.free_all(once)
    probe.equal((pool.num_free, pool.num_used), (4, 0), "iterator-used-up")
    pool.free_all([])
    probe.equal((pool.num_free, pool.num_used), (4, 0), "wrong-blocks-freed")


def the_whole_agrees_with_a_plain_model(probe: Probe) -> None:
    """every sequence of up to four calls agrees with a plain list"""
    moves = ("allocate", "allocate_for 17", "allocate_for 33", "free oldest", "free_all", "free_all with a stranger")
    for length in range(1, 5):
        for calls in product(moves, repeat=length):
            pool = probe.new("pool", 4, 16)
            _replay(probe, pool, calls)


def _replay(probe: Probe, pool: Traced, calls: tuple[str, ...]) -> None:
    stack, out = [3, 2, 1, 0], []
    exhausted = {None: "partial", Exception: "another-exception"}
    for call in calls:
        if call.startswith("allocate"):
            blocks = {"allocate": 1, "allocate_for 17": 2, "allocate_for 33": 3}[call]
            take = (pool.allocate,) if call == "allocate" else (pool.allocate_for, int(call.split()[1]))
            if blocks > len(stack):
                probe.raises(KVCacheExhausted, *take, slips=exhausted)
            else:
                taken = [stack.pop() for _ in range(blocks)]
                out += taken
                probe.equal(take[0](*take[1:]), taken[0] if call == "allocate" else taken, "other")
        elif call == "free oldest" and out:
            stack.append(out.pop(0))
            pool.free(stack[-1])
        elif call == "free_all":
            pool.free_all(list(out))
            stack, out = stack + out, []
        elif call == "free_all with a stranger":
            probe.raises(ValueError, pool.free_all, [*out, 9], slips={None: "skips-bad", Exception: "half-way"})
    probe.equal((pool.num_free, pool.num_used), (len(stack), len(out)), "other")
    while stack:
        probe.equal(pool.allocate(), stack.pop(), "other")
