"""Stages of task 15.1: a table grows by need."""

from itertools import product
from numbers import Integral

from nanoserve.allocator import KVCacheExhausted
from nanoserve.course.exercises.day15.pools import Pool, ids_of
from nanoserve.course.probe import Probe, kind, show


def the_first_token_takes_a_block(probe: Probe) -> None:
    """the first token takes a block from the pool"""
    pool = Pool(4)
    table = probe.new("table", pool)
    probe.equal(ids_of(table), [], "shared-between-tables")  # a default list is full from the last check
    with (
        probe.on_error(TypeError, slip="number-for-a-list", match="not iterable"),
        probe.on_error(KVCacheExhausted, slip="exhausted-too-soon"),
    ):
        table.append(1)
    slips = {"list-in-list": [[5]], "table-is-none": None, "made-up-ids": [0], "blocks-lost": [7]}
    came = ids_of(table)
    if came == []:
        whole = probe.another("full", Pool(4))
        whole.append(4)
        probe.fail("[5]", "[]", "floor" if ids_of(whole) else "nothing-taken")
    probe.equal(came, [5], "wrong-blocks", slips)
    probe.equal(pool.num_used, 1, "blocks-lost", {"behind-the-pool": 0})
    count = table.num_tokens
    if isinstance(count, bool) or not isinstance(count, Integral):
        probe.fail("1, an int", f"{show(count)}, {kind(count)}", "count-of-another-type")
    probe.equal(count, 1, "wrong-count", {"not-counted": 0})


def a_new_table_is_empty(probe: Probe) -> None:
    """a new table holds no block, whatever an older one holds"""
    probe.new("older", Pool(4)).append(1)
    probe.equal(ids_of(probe.another("newer", Pool(4))), [], "shared-between-tables")


def a_block_holds_many_tokens(probe: Probe) -> None:
    """one block holds block_size tokens"""
    pool = Pool(4)
    table = probe.new("table", pool)
    table.append(3)
    slips = {"block-a-token": [5, 7, 2], "modulo-of-the-length": []}
    probe.equal(ids_of(table), [5], "wrong-blocks", slips)
    probe.equal(pool.num_used, 1, "blocks-lost")


def the_room_in_the_last_block_comes_first(probe: Probe) -> None:
    """the room in the last block comes first"""
    table = probe.new("table", Pool(4))
    table.append(2)
    with probe.on_error(ValueError, slip="asks-for-fewer-than-none", match=r"-\d"):  # the allocator names the number
        table.append()
    slips = {"room-forgotten": [5, 7], "table-replaced": [], "blocks-moved": [7]}
    probe.equal(ids_of(table), [5], "wrong-blocks", slips)
    probe.equal(table.num_tokens, 3, "wrong-count")


def a_block_is_due_when_a_position_has_none(probe: Probe) -> None:
    """with blocks of 4, token 4 needs none and token 5 needs one"""
    table = probe.new("table", Pool(4))
    for _ in range(4):
        table.append(1)
    probe.equal(ids_of(table), [5], "wrong-blocks", {"one-early": [5, 7]})
    table.append(1)
    if ids_of(table) == [5]:
        table.append(1)
        late = ids_of(table) == [5, 7]
        probe.fail("[5, 7] after token 5", "[5]", "one-late" if late else "size-written-in")
    probe.equal(ids_of(table), [5, 7], "wrong-blocks", {"table-replaced": [7], "newest-first": [7, 5]})
    for _ in range(4):
        table.append(1)
    probe.equal(ids_of(table), [5, 7, 2], "wrong-blocks", {"sorted": [2, 5, 7]})


def room_in_the_table_needs_none_in_the_pool(probe: Probe) -> None:
    """an empty pool is no matter while the last block has room"""
    table = probe.new("table", Pool(4, order=(0,)))
    table.append(3)
    try:
        table.append(1)
    except KVCacheExhausted as error:
        probe.fail("no error: token 4 has a slot", f"KVCacheExhausted: {error}", "refuses-with-room")
    probe.equal((ids_of(table), table.num_tokens), ([0], 4), "wrong-blocks")


def the_last_free_block_can_be_taken(probe: Probe) -> None:
    """the pool's last block can be taken"""
    table = probe.new("table", Pool(4, order=(1, 0)))
    table.append(4)
    try:
        table.append(1)
    except KVCacheExhausted as error:
        probe.fail("no error: one block is due, and one is free", f"KVCacheExhausted: {error}", "counts-its-own")
    probe.equal((ids_of(table), table.num_tokens), ([1, 0], 5), "wrong-blocks")


def many_tokens_at_once(probe: Probe) -> None:
    """any number of tokens at once takes the exact ceiling of blocks"""
    for tokens in (9, 8, 12):
        pool = Pool(4)
        table = probe.new("table", pool)
        table.append(tokens)
        right = [5, 7, 2][: -(-tokens // 4)]
        slips = {"one-block-a-call": [5], "contiguous": list(range(5, 5 + len(right)))}
        slips |= {"one-too-many": [5, 7, 2, 0][: len(right) + 1], "backwards": right[::-1]}
        probe.equal(ids_of(table), right, "wrong-blocks", slips)
        probe.equal((table.num_tokens, pool.num_used), (tokens, len(right)), "wrong-count")


def a_chunk_across_a_boundary(probe: Probe) -> None:
    """a chunk on top of a block that is partly filled"""
    for first, chunk in ((2, 4), (3, 5), (4, 4), (1, 11)):
        table = probe.new("table", Pool(4))
        table.append(first)
        table.append(chunk)
        right = [5, 7, 2][: -(-(first + chunk) // 4)]
        slips = {"chunk-past-the-boundary": right[:-1], "room-forgotten-in-a-chunk": [*right, [5, 7, 2, 0][len(right)]]}
        probe.equal(ids_of(table), right, "wrong-blocks", slips)
        probe.equal(table.num_tokens, first + chunk, "wrong-count")


def any_block_size(probe: Probe) -> None:
    """blocks of 1, of 3 and of 128 tokens, by ones and at once"""
    for size, steps in (*product((1, 3), ([1] * 4, [4], [2, 2])), (128, [1]), (128, [129]), (128, [128, 1])):
        table = probe.new("table", Pool(size))
        for step in steps:
            table.append(step)
        right = [5, 7, 2, 0][: -(-sum(steps) // size)]
        slips = {"rounds-to-nearest": right[:-1]} if size == 128 else {"block-size-one": []}
        probe.equal(ids_of(table), right, "wrong-blocks", slips)
