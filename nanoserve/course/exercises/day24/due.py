"""Stages of task 24.1: how many blocks the next step needs."""

from nanoserve.course.exercises.day24.ledger import Ledger
from nanoserve.course.probe import Probe


def a_block_is_due_when_the_last_one_is_full(probe: Probe) -> None:
    """a block is due when the last one is full"""
    came = []
    for length in (3, 4, 5, 7, 8):
        came.append(Ledger(probe, {0: length}, num_free=5).due())
    probe.calls[:] = ["blocks of 4; slots._blocks_due() for a sequence of 3, 4, 5, 7 and 8 tokens"]
    giveaways = {
        "a-token-early": [1, 0, 0, 1, 0],
        "a-token-late": [0, 0, 1, 0, 0],
        "held-counted-too": [1, 2, 2, 2, 3],
        "always-one": [1] * 5,
        "due-not-returned": [None] * 5,
    }
    probe.equal(came, [0, 1, 0, 0, 1], "other-due", giveaways)


def each_sequence_has_blocks_of_its_own(probe: Probe) -> None:
    """each sequence has blocks of its own"""
    ledger = Ledger(probe, dict(enumerate((4, 4, 4, 4, 4, 11))), num_free=9)
    giveaways = {"tokens-pooled": 2, "longest-only": 0, "whether-and-not-how-many": True, "longest-for-all": 10}
    probe.equal(ledger.due(), 5, "other-sum", giveaways)
    probe.equal(ledger.free(), 9, "taken-by-counting")


def blocks_have_any_size(probe: Probe) -> None:
    """blocks have any size"""
    probe.equal(Ledger(probe, {0: 5, 1: 6}, num_free=9, block_size=3).due(), 1, "size-written-down")


def an_idle_slot_needs_none(probe: Probe) -> None:
    """an idle slot needs none"""
    ledger = Ledger(probe, {1: 4}, num_free=9, num_slots=4)
    with probe.on_error(KeyError, slip="idle-has-no-table"):
        came = ledger.due()
    probe.equal(came, 1, "idle-counted", {"lengths-by-place": 0})
