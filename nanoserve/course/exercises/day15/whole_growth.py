"""Stages of task 15.1: a growth happens as a whole or not at all, and any sequence of them comes out right."""

from itertools import product

from nanoserve.allocator import KVCacheExhausted
from nanoserve.course.exercises.day15.pools import OtherPool, Pool, ids_of
from nanoserve.course.probe import Mismatch, Probe


def all_or_nothing(probe: Probe) -> None:
    """too large a growth changes nothing: not the table, not the pool"""
    pool = Pool(4, order=(2, 1, 3, 0))
    table = probe.new("table", pool)
    table.append(6)
    try:
        probe.raises(KVCacheExhausted, table.append, 11, slips={None: "clamped", Exception: "another-exception"})
    except Mismatch as finding:
        if finding.slip == "clamped" and table.num_tokens == 6:
            finding.slip = "swallowed"
        raise
    probe.equal(table.num_tokens, 6, "counted-first", {"emptied-on-failure": 0})
    probe.equal((ids_of(table), pool.num_free), ([2, 1], 2), "partial-growth")
    table.append(6)
    probe.equal((ids_of(table), table.num_tokens), ([2, 1, 3], 12), "order-changed")


def none_and_fewer(probe: Probe) -> None:
    """0 tokens take no block, fewer than 0 are refused"""
    table = probe.new("table", Pool(4))
    for tokens, right in ((0, []), (4, [5]), (0, [5])):
        with probe.on_error(ValueError, slip="zero-refused"):
            table.append(tokens)
        probe.equal(ids_of(table), right, "zero-takes-one")
    slips = {None: "negative-accepted", Exception: "wrong-error-type"}
    probe.raises(ValueError, table.append, -1, slips=slips)
    probe.equal((ids_of(table), table.num_tokens), ([5], 4), "negative-accepted")


def a_freed_table_begins_anew(probe: Probe) -> None:
    """a freed table begins anew, and two tables share a pool"""
    pool = Pool(4)
    one, other = probe.new("one", pool), probe.another("other", pool)
    one.append(5)
    other.append(5)
    one.append(4)
    came = (ids_of(one), ids_of(other))
    probe.equal(came, ([5, 7, 6], [2, 0]), "one-list-for-two" if came[0] == came[1] else "wrong-blocks")
    one.free()
    one.append(2)
    probe.equal((ids_of(one), one.num_tokens), ([6], 2), "room-remembered")


def an_allocator_of_another_make(probe: Probe) -> None:
    """it works over an allocator of another make"""
    pool = OtherPool(3, 2)
    table = probe.new("table", pool)
    try:
        table.append(3)
    except AttributeError as error:
        probe.fail("[0, 1]", f"AttributeError: {error}", "private-names")
    probe.equal((ids_of(table), pool.num_free), ([0, 1], 1), "private-names")
    probe.raises(KVCacheExhausted, table.append, 4, slips={None: "clamped", Exception: "another-exception"})
    probe.equal((ids_of(table), table.num_tokens, pool.num_free), ([0, 1], 3, 1), "partial-growth")


def agrees_with_a_plain_model(probe: Probe) -> None:
    """every sequence of up to four growths agrees with a table filled token by token"""
    for size in (1, 2, 3, 5):
        for length in range(1, 5):
            for steps in product((1, 2, 4, 14, "free"), repeat=length):
                _replay(probe, size, steps)


def _replay(probe: Probe, size: int, steps: tuple) -> None:
    pool = Pool(size)
    table = probe.new("table", pool)
    free, ids, tokens = list(pool_order(pool)), [], 0
    for step in steps:
        if step == "free":
            table.free()
            free, ids, tokens = ids[::-1] + free, [], 0
            continue
        due = [p for p in range(tokens, tokens + step) if p % size == 0]
        if len(due) > len(free):
            probe.raises(KVCacheExhausted, table.append, step, slips={None: "clamped", Exception: "another-exception"})
            continue
        table.append(step)
        ids, free, tokens = ids + free[: len(due)], free[len(due) :], tokens + step
    probe.equal((ids_of(table), table.num_tokens, pool.num_free), (ids, tokens, len(free)), "other")


def pool_order(pool: Pool) -> list[int]:
    """The blocks that will come out, the next one first."""
    return list(reversed(pool._free))
