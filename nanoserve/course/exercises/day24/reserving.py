"""Stages of task 24.1: the blocks are taken for all, or for none."""

from collections.abc import Mapping

from nanoserve.allocator import KVCacheExhausted
from nanoserve.course.exercises.day23.stand_in import CountingModel
from nanoserve.course.exercises.day24.ledger import BLOCK_SIZE, Ledger, seat
from nanoserve.course.exercises.day24.traffic import over_pages
from nanoserve.course.probe import Probe, show
from nanoserve.pool import KVPool

ALLOCATOR_SAYS = r"needed: \d+; free: \d+ of"  # and not an error that the learner raises


def blocks_that_are_due_are_taken(probe: Probe) -> None:
    """blocks that are due are taken, and the answer is yes"""
    ledger = Ledger(probe, {0: 4, 1: 6}, num_free=5)
    with probe.on_error(ValueError, slip="grows-by-a-step", match="num_tokens must be 0 or more"):
        _answers(probe, ledger, True, "no-with-room", {"nothing-said": None})
    giveaways = {"nothing-taken": [1, 2], "a-block-each": [2, 3]}
    probe.equal(ledger.blocks(), [2, 2], "other-blocks", giveaways)
    ledger = Ledger(probe, {0: 4, 1: 8}, num_free=2)
    _answers(probe, ledger, True, "keeps-one-back")
    probe.equal(ledger.blocks(), [2, 3], "not-for-all")


def idle_slots_lie_between(probe: Probe) -> None:
    """slots 1, 3 and 4 are busy, and those between them idle"""
    ledger = Ledger(probe, {1: 4, 3: 8, 4: 4}, num_free=3, num_slots=5)
    with probe.on_error(KeyError, slip="slots-counted-through"):
        _answers(probe, ledger, True, "no-with-room")
    probe.equal(ledger.blocks(), [2, 3, 2], "slots-counted-through")


def tokens_are_counted_later(probe: Probe) -> None:
    """`advance` counts the tokens, once the model has run"""
    ledger = Ledger(probe, {0: 4, 1: 6}, num_free=5)
    ledger.reserve()
    lengths = probe.record("slots.lengths", lambda: list(ledger.slots.lengths))
    probe.equal(lengths, [4, 6], "counted-too-early")


def nobody_is_here(probe: Probe) -> None:
    """all slots are idle: nothing is due, and that is room enough"""
    ledger = Ledger(probe, {}, num_free=1, num_slots=2)
    with probe.on_error(ValueError, slip="longest-of-none", match="empty"):
        _answers(probe, ledger, True, "idle-refused")


def nothing_due_and_nothing_free(probe: Probe) -> None:
    """nothing is due and nothing is free: that is room enough"""
    _answers(probe, Ledger(probe, {0: 3, 1: 6}, num_free=0), True, "full-pool-refused")


def a_block_due_and_none_free(probe: Probe) -> None:
    """a block is due and none is free"""
    ledger = Ledger(probe, {0: 4}, num_free=0)
    with (
        probe.on_error(KVCacheExhausted, slip="raised-for-no"),
        probe.on_error(KVCacheExhausted, slip="never-asks", match=ALLOCATOR_SAYS),
    ):
        _answers(probe, ledger, False, "yes-without-room", {"no-is-not-said": None})


def all_or_none(probe: Probe) -> None:
    """with too few for all, nobody gets any"""
    ledger = Ledger(probe, dict.fromkeys(range(5), 4), num_free=1)
    with probe.on_error(KVCacheExhausted, slip="each-asked-alone"):
        _answers(probe, ledger, False, "yes-to-some")
    probe.equal(ledger.free(), 1, "given-away", {"taken-for-some": 0})
    ledger = Ledger(probe, dict.fromkeys(range(3), 4), num_free=2)
    with probe.on_error(KVCacheExhausted, slip="not-block-for-block"):
        _answers(probe, ledger, False, "not-block-for-block")


def the_same_step_again_takes_nothing(probe: Probe) -> None:
    """the forward pass failed, and the same step is tried again: nothing more is taken"""
    ledger = Ledger(probe, {0: 4}, num_free=3)
    for _ in range(BLOCK_SIZE + 1):  # a token more each time would need a block more in the end
        ledger.reserve()
    probe.equal(ledger.blocks(), [2], "taken-again")
    for length, num_free in ((4, 1), (7, 0)):  # the first token of a block, and the last one
        ledger = Ledger(probe, {0: length}, num_free)
        ledger.reserve()
        _answers(probe, ledger, True, "due-twice")


def a_row_has_an_end(probe: Probe) -> None:
    """contiguous rows, each a block of `max_len` tokens: a full one cannot go on in its neighbour's"""
    full = Ledger(probe, {0: 8}, num_free=1, num_slots=2, block_size=8, max_len=8)
    _answers(probe, full, False, "past-its-row")
    nearly = Ledger(probe, {0: 7, 1: 3}, num_free=0, block_size=8, max_len=8)
    _answers(probe, nearly, True, "a-token-short")


def at_the_end_nobody_gets_any(probe: Probe) -> None:
    """one of three is at `max_len`, and nobody gets any"""
    ledger = Ledger(probe, {0: 4, 1: 8, 2: 4}, num_free=5, max_len=8)
    _answers(probe, ledger, False, "one-length-asked")
    probe.equal(ledger.free(), 5, "end-asked-too-late", {"end-asked-in-the-loop": 4})


def the_devices_table_follows(probe: Probe) -> None:
    """over pages, the table on the device follows"""
    model = CountingModel()
    slots = over_pages(probe.subject)(KVPool.for_model(model, 8, BLOCK_SIZE), 1)
    seat(slots, 0, 4)
    probe.calls[:] = ["slots over a pool; the model reads `slots.block_tables`", "slot 0 holds 4 tokens"]
    probe.record("slots.reserve_step()", slots.reserve_step)
    came = probe.record("slots.block_tables[0, :2].tolist()", lambda: slots.block_tables[0, :2].tolist())
    probe.equal(came, slots.tables[0].block_ids, "device-not-told")


def _answers(
    probe: Probe, ledger: Ledger, expected: bool, slip: str, slips: Mapping[str, object] | None = None
) -> None:
    """One case: the answer is this one, and True or False itself."""
    came = ledger.reserve()
    if came is not None and not isinstance(came, bool) and bool(came) is expected:
        probe.fail(f"{expected}", show(came), "not-true-itself" if expected else "not-false-itself")
    probe.equal(came, expected, slip, slips)
