"""Stages of tasks 15.2 and 15.3: from a position to its block, its offset, and its flat slot."""

from collections.abc import Callable
from numbers import Integral

from nanoserve.course.exercises.day15.pools import SCATTERED, Pool
from nanoserve.course.probe import Mismatch, Probe, Traced, kind, show


def _table(probe: Probe, tokens: int = 9, size: int = 4) -> Traced:
    """A table with blocks 5, 7, 2 … of 4 tokens."""
    table = probe.new("table", Pool(size))
    table.append(tokens)
    return table


def _position(probe: Probe, table: Traced, p: int) -> object:
    """What `position` answered; where it is a tuple, sure to be one of ints."""
    with probe.on_error(IndexError, slip="refuses-inside"):
        came = table.position(p)
    pair = isinstance(came, tuple) and all(isinstance(part, Integral) and not isinstance(part, bool) for part in came)
    if (not pair or len(came) != 2) and not isinstance(came, Integral | list | None):
        probe.fail("a tuple of two ints", f"{show(came)}, {kind(came)}", "not-two-ints")
    return came


def _only_looked(probe: Probe, table: Traced) -> None:
    """The table of `_table` is as it was."""
    probe.equal(list(table.block_ids), [5, 7, 2], "look-up-changes")
    probe.equal(table.num_tokens, 9, "look-up-changes")


def position_0_lies_in_the_first_block(probe: Probe) -> None:
    """position 0 lies in the block of entry 0"""
    table = _table(probe)
    slips = {"no-return": None, "entry-for-block": (0, 0), "swapped": (0, 5), "last-block": (2, 0), "a-list": [5, 0]}
    slips |= {"slot-for-position": 20, "block-alone": 5, "counts-from-one": (5, 1), "one-before": (2, 3)}
    came = _position(probe, table, 0)
    _only_looked(probe, table)
    if came == 5 and table.position(1) != 5:
        probe.fail("(5, 0)", "5", "one-number")
    probe.equal(came, (5, 0), "wrong-place", slips)


def the_offset_counts_within_the_block(probe: Probe) -> None:
    """positions 1, 2, 3 follow in the same block"""
    table = _table(probe)
    for p in (1, 2, 3):
        came = _position(probe, table, p)
        slips = {"no-offset": (5, 0), "dealt-out": ((5, 7, 2)[p % 3], p // 3)}
        if came == (7, 0) and table.position(4) == (5, 1):  # like cards it were (7, 1)
            slips = {"divmod-swapped": (7, 0)}
        probe.equal(came, (5, p), "wrong-place", slips)


def the_next_block_begins_at_offset_0(probe: Probe) -> None:
    """with blocks of 4, position 4 begins the next one"""
    table = _table(probe)
    for p in (4, 5, 7):
        came = _position(probe, table, p)
        slips = {"offset-not-reduced": (7, p), "size-written-in": (5, p), "first-block-only": (5, p - 4)}
        if came == (5, 4) and table.position(5) == (7, 1):
            slips = {"one-over-the-edge": (5, 4)}
        probe.equal(came, (7, p - 4), "wrong-place", slips)


def the_last_position_is_inside(probe: Probe) -> None:
    """the last position is inside the sequence"""
    for tokens, right in ((9, (2, 0)), (8, (7, 3)), (1, (5, 0))):
        table = _table(probe, tokens)
        try:
            probe.equal(table.position(tokens - 1), right, "wrong-place")
        except IndexError as error:
            probe.fail(str(right), f"IndexError: {error}", "refuses-the-last")


def a_position_outside_is_an_index_error(probe: Probe) -> None:
    """a position outside the sequence is an IndexError"""
    _refuses_outside(probe, "position")


def _refuses_outside(probe: Probe, method: str) -> None:
    for tokens, p, slip in (
        (6, 7, "reads-past-the-end"),
        (6, 6, "one-past-the-end"),
        (6, 8, "reads-past-the-end"),
        (8, 8, "one-past-the-end"),
        (6, -1, "negative-wraps"),
        (6, -6, "negative-wraps"),
        (0, 0, "one-past-the-end"),
    ):
        table = _table(probe, tokens)
        slips = {None: slip, AssertionError: "assert-for-an-error", Exception: "wrong-error-type"}
        try:
            probe.raises(IndexError, getattr(table, method), p, slips=slips)
        except Mismatch as finding:
            answer = finding.came.removeprefix("no error, and ").removesuffix(" was returned")
            inside = [(SCATTERED[q // 4], q % 4) for q in range(tokens)]
            if method == "slot":
                inside = [block * 4 + offset for block, offset in inside]
            if answer in ("None", "-1", "(None, None)", "(-1, -1)") or answer.startswith("IndexError"):
                finding.slip = "quiet-outside"
            elif p >= tokens and answer in map(show, inside):
                finding.slip = "another-position"
            raise


def a_table_that_grew_again(probe: Probe) -> None:
    """a table that was freed and grew again is another one"""
    table = _table(probe, 5)
    probe.equal(table.position(0), (5, 0), "wrong-place")
    table.free()
    table.append(5)
    probe.equal(table.position(0), (7, 0), "remembered")


def every_position_agrees_with_a_plain_model(probe: Probe) -> None:
    """every position, for blocks of 1 to 6 tokens"""
    _every(probe, lambda table, p: table.position(p), lambda block, offset, size: (block, offset))


def _every(probe: Probe, ask: Callable, right: Callable) -> None:
    for size in range(1, 7):
        for tokens in range(1, 8 * size, 3):
            table = _table(probe, tokens, size)
            for p in range(tokens):
                expected = right(SCATTERED[p // size], p % size, size)
                slip = "size-written-in" if size < 3 else "powers-of-two" if size & (size - 1) else "other"
                probe.equal(ask(table, p), expected, slip)


def a_block_begins_at_id_times_size(probe: Probe) -> None:
    """block 5 of 4 tokens begins at slot 20"""
    table = _table(probe, 21)
    with probe.on_error(TypeError, slip="pair-as-number", match="tuple"):
        came = table.slot(0)
    slips = {"no-return": None, "position-for-slot": 0, "a-pair": (5, 0), "slot-from-one": 21, "times-num-blocks": 40}
    slips |= {"times-table-length": 30, "size-written-in": 80}
    if came == 5:
        probe.fail("20", "5", "offset-times-size" if table.slot(1) == 9 else "not-multiplied")
    if isinstance(came, bool) or not isinstance(came, Integral | tuple | None):
        probe.fail("20, an int", f"{show(came)}, {kind(came)}", "not-an-integer")
    if isinstance(came, tuple) and len(came) != 2:  # a pair times a number is the pair again and again
        slip = "pair-as-number" if len(came) > 2 else "not-an-integer"
        probe.fail("20, an int", f"{show(came)}, {kind(came)}", slip)
    if came == 0 and table.slot(1) != 1:
        probe.fail("20", "0", "wrong-slot")
    probe.equal(came, 20, "wrong-slot", slips)


def the_offset_is_added(probe: Probe) -> None:
    """the block's other slots follow"""
    table = _table(probe)
    for p in (1, 2, 3):
        with probe.on_error(IndexError, slip="refuses-inside"):
            probe.equal(table.slot(p), 20 + p, "wrong-slot", {"no-offset": 20})
        _only_looked(probe, table)


def the_slots_of_the_next_block(probe: Probe) -> None:
    """position 4 lies in the next block, wherever that is"""
    table = _table(probe)
    for p, right in ((4, 28), (5, 29), (8, 8)):
        slips = {"offset-not-reduced": right - p % 4 + p, "blocks-in-a-row": 20 + p}
        with probe.on_error(IndexError, slip="refuses-inside"):
            probe.equal(table.slot(p), right, "wrong-slot", slips)


def a_slot_outside_is_an_index_error(probe: Probe) -> None:
    """a position outside the sequence has no slot: IndexError"""
    _refuses_outside(probe, "slot")


def slots_of_a_table_that_grew_again(probe: Probe) -> None:
    """a table that was freed and grew again has other slots"""
    table = _table(probe, 5)
    probe.equal(table.slot(0), 20, "wrong-slot")
    table.free()
    table.append(5)
    probe.equal(table.slot(0), 28, "remembered")


def by_ones_and_at_once(probe: Probe) -> None:
    """growing by ones and growing at once land on the same slots"""
    for size in (1, 4):
        at_once, by_ones = _table(probe, 7, size), probe.another("by_ones", Pool(size))
        for _ in range(7):
            by_ones.append(1)
        probe.equal([by_ones.slot(p) for p in range(7)], [at_once.slot(p) for p in range(7)], "wrong-slot")


def every_slot_agrees_with_a_plain_model(probe: Probe) -> None:
    """every slot, for blocks of 1 to 6 tokens"""
    _every(probe, lambda table, p: table.slot(p), lambda block, offset, size: block * size + offset)
