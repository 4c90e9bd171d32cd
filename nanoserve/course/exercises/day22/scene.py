"""The learner's slots over a pool whose numbers can be told apart, and admissions as a verdict tells them."""

from nanoserve.course.exercises.day22.numbered import BLOCK, new_pool, prefilled, told
from nanoserve.course.probe import Probe


def new_slots(probe: Probe, num_slots: int, num_blocks: int = 12) -> object:
    """Slots with nothing in them, under a fresh list of calls."""
    probe.calls.clear()
    line = f"slots = PagedSlotKVCache(pool, {num_slots})  # pool of {num_blocks} blocks of {BLOCK}"
    return probe.record(line, probe.subject, new_pool(num_blocks), num_slots, shows_result=False)


def admission(probe: Probe, slots: object, where: list[int], pad_lens: list[int], columns: int) -> tuple:
    """What `Probe.raises` takes to try an admission: the call, and its arguments."""
    line = f"slots.admit({where}, prefill, {pad_lens})  # {told(pad_lens, columns)}"
    return probe.record, line, slots.admit, list(where), prefilled(pad_lens, columns), list(pad_lens)


def admit(probe: Probe, slots: object, where: list[int], pad_lens: list[int], columns: int) -> None:
    """Let prompts in; row i has `pad_lens[i]` pads, then its tokens, up to so many columns."""
    _, line, call, *arguments = admission(probe, slots, where, pad_lens, columns)
    probe.record(line, call, *arguments, shows_result=False)
