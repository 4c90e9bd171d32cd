"""Stages of task 15.1: a table grows by need, all or nothing."""

from itertools import product

from nanoserve.allocator import KVCacheExhausted
from nanoserve.course.exercises.day15.pools import OtherPool, Pool
from nanoserve.course.probe import Mismatch, Probe, Traced


def the_first_token_takes_a_block(probe: Probe) -> None:
    """the first token takes a block from the pool"""
    pool = Pool(4)
    table = probe.new("table", pool)
    probe.equal(_ids(table), [], "shared-between-tables")  # a default list is full from the last check
    with probe.on_error(TypeError, slip="number-for-a-list", match="not iterable"):
        table.append(1)
    slips = {"list-in-list": [[5]], "table-is-none": None, "made-up-ids": [0], "blocks-lost": [7]}
    came = _ids(table)
    if came == []:
        whole = probe.another("full", Pool(4))
        whole.append(4)
        probe.fail("[5]", "[]", "floor" if _ids(whole) else "nothing-taken")
    probe.equal(came, [5], "wrong-blocks", slips)
    probe.equal(pool.num_used, 1, "blocks-lost", {"behind-the-pool": 0})
    probe.equal(table.num_tokens, 1, "not-counted")


def a_new_table_is_empty(probe: Probe) -> None:
    """a new table holds no block, whatever an older one holds"""
    probe.new("older", Pool(4)).append(1)
    probe.equal(_ids(probe.another("newer", Pool(4))), [], "shared-between-tables")


def a_block_holds_many_tokens(probe: Probe) -> None:
    """one block holds block_size tokens"""
    pool = Pool(4)
    table = probe.new("table", pool)
    table.append(3)
    slips = {"block-a-token": [5, 7, 2], "modulo-of-the-length": []}
    probe.equal(_ids(table), [5], "wrong-blocks", slips)
    probe.equal(pool.num_used, 1, "blocks-lost")


def the_room_in_the_last_block_comes_first(probe: Probe) -> None:
    """the room in the last block comes first"""
    table = probe.new("table", Pool(4))
    table.append(2)
    with probe.on_error(ValueError, slip="asks-for-fewer-than-none", match=r"-\d"):  # the allocator names the number
        table.append()
    probe.equal(_ids(table), [5], "wrong-blocks", {"room-forgotten": [5, 7], "table-replaced": []})
    probe.equal(table.num_tokens, 3, "wrong-count")


def a_block_is_due_when_a_position_has_none(probe: Probe) -> None:
    """with blocks of 4, token 4 needs none and token 5 needs one"""
    table = probe.new("table", Pool(4))
    for _ in range(4):
        table.append(1)
    probe.equal(_ids(table), [5], "wrong-blocks", {"one-early": [5, 7]})
    table.append(1)
    if _ids(table) == [5]:
        table.append(1)
        late = _ids(table) == [5, 7]
        probe.fail("[5, 7] after token 5", "[5]", "one-late" if late else "size-written-in")
    probe.equal(_ids(table), [5, 7], "wrong-blocks", {"table-replaced": [7], "newest-first": [7, 5]})
    for _ in range(4):
        table.append(1)
    probe.equal(_ids(table), [5, 7, 2], "wrong-blocks", {"sorted": [2, 5, 7]})


def room_in_the_table_needs_none_in_the_pool(probe: Probe) -> None:
    """an empty pool is no matter while the last block has room"""
    table = probe.new("table", Pool(4, order=(0,)))
    table.append(3)
    try:
        table.append(1)
    except KVCacheExhausted as error:
        probe.fail("no error: token 4 has a slot", f"KVCacheExhausted: {error}", "refuses-with-room")
    probe.equal((_ids(table), table.num_tokens), ([0], 4), "wrong-blocks")


def the_last_free_block_can_be_taken(probe: Probe) -> None:
    """the pool's last block can be taken"""
    table = probe.new("table", Pool(4, order=(1, 0)))
    table.append(4)
    try:
        table.append(1)
    except KVCacheExhausted as error:
        probe.fail("no error: one block is due, and one is free", f"KVCacheExhausted: {error}", "counts-its-own")
    probe.equal((_ids(table), table.num_tokens), ([1, 0], 5), "wrong-blocks")


def many_tokens_at_once(probe: Probe) -> None:
    """any number of tokens at once takes the exact ceiling of blocks"""
    for tokens in (9, 8, 12):
        pool = Pool(4)
        table = probe.new("table", pool)
        table.append(tokens)
        right = [5, 7, 2][: -(-tokens // 4)]
        slips = {"one-block-a-call": [5], "contiguous": list(range(5, 5 + len(right)))}
        slips |= {"one-too-many": [5, 7, 2, 0][: len(right) + 1], "backwards": right[::-1]}
        probe.equal(_ids(table), right, "wrong-blocks", slips)
        probe.equal((table.num_tokens, pool.num_used), (tokens, len(right)), "wrong-count")


def a_chunk_across_a_boundary(probe: Probe) -> None:
    """a chunk on top of a block that is partly filled"""
    for first, chunk in ((2, 4), (3, 5), (4, 4), (1, 11)):
        table = probe.new("table", Pool(4))
        table.append(first)
        table.append(chunk)
        right = [5, 7, 2][: -(-(first + chunk) // 4)]
        slips = {"chunk-past-the-boundary": right[:-1], "room-forgotten-in-a-chunk": [*right, [5, 7, 2, 0][len(right)]]}
        probe.equal(_ids(table), right, "wrong-blocks", slips)
        probe.equal(table.num_tokens, first + chunk, "wrong-count")


def any_block_size(probe: Probe) -> None:
    """blocks of 1, of 3 and of 128 tokens, by ones and at once"""
    for size, steps in (*product((1, 3), ([1] * 4, [4], [2, 2])), (128, [1]), (128, [129]), (128, [128, 1])):
        table = probe.new("table", Pool(size))
        for step in steps:
            table.append(step)
        right = [5, 7, 2, 0][: -(-sum(steps) // size)]
        slips = {"rounds-to-nearest": right[:-1]} if size == 128 else {"block-size-one": []}
        probe.equal(_ids(table), right, "wrong-blocks", slips)


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
    probe.equal((_ids(table), pool.num_free), ([2, 1], 2), "partial-growth")
    table.append(6)
    probe.equal((_ids(table), table.num_tokens), ([2, 1, 3], 12), "order-changed")


def none_and_fewer(probe: Probe) -> None:
    """0 tokens take no block, fewer than 0 are refused"""
    table = probe.new("table", Pool(4))
    for tokens, right in ((0, []), (4, [5]), (0, [5])):
        with probe.on_error(ValueError, slip="zero-refused"):
            table.append(tokens)
        probe.equal(_ids(table), right, "zero-takes-one")
    slips = {None: "negative-accepted", Exception: "wrong-error-type"}
    probe.raises(ValueError, table.append, -1, slips=slips)
    probe.equal((_ids(table), table.num_tokens), ([5], 4), "negative-accepted")


def a_freed_table_begins_anew(probe: Probe) -> None:
    """a freed table begins anew, and two tables share a pool"""
    pool = Pool(4)
    one, other = probe.new("one", pool), probe.another("other", pool)
    one.append(5)
    other.append(5)
    one.append(4)
    probe.equal((_ids(one), _ids(other)), ([5, 7, 6], [2, 0]), "wrong-blocks")
    one.free()
    one.append(2)
    probe.equal((_ids(one), one.num_tokens), ([6], 2), "room-remembered")


def an_allocator_of_another_make(probe: Probe) -> None:
    """it works over an allocator of another make"""
    pool = OtherPool(3, 2)
    table = probe.new("table", pool)
    try:
        table.append(3)
    except AttributeError as error:
        probe.fail("[0, 1]", f"AttributeError: {error}", "private-names")
    probe.equal((_ids(table), pool.num_free), ([0, 1], 1), "private-names")
    probe.raises(KVCacheExhausted, table.append, 4, slips={None: "clamped", Exception: "another-exception"})
    probe.equal((_ids(table), table.num_tokens, pool.num_free), ([0, 1], 3, 1), "partial-growth")


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
    probe.equal((_ids(table), table.num_tokens, pool.num_free), (ids, tokens, len(free)), "other")


def pool_order(pool: Pool) -> list[int]:
    """The blocks that will come out, the next one first."""
    return list(reversed(pool._free))


def _ids(table: Traced) -> object:
    """The table's block ids; a tuple or an array of them is as good as a list."""
    ids = table.block_ids
    return ids if ids is None or isinstance(ids, str) else list(ids)
