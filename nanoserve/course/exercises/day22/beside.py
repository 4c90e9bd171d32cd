"""Stages of task 22.3: what an admission leaves alone: those that are in already, and what it was given."""

import torch

from nanoserve.course.exercises.day22.numbered import prefilled
from nanoserve.course.exercises.day22.scene import admission, admit, new_slots
from nanoserve.course.probe import Probe
from nanoserve.prefill import PrefillCache


def who_is_in_already_stays(probe: Probe) -> None:
    """who is in already stays as it is"""
    slots = new_slots(probe, 3)
    admit(probe, slots, [1], [2], 8)
    before, places = _books(slots, 1), [slots.tables[1].slot(p) for p in range(6)]
    stored = _stored(slots, places)
    admit(probe, slots, [0], [3], 8)
    now = _books(slots, 1)
    probe.cases += 1
    for name, came in now.items():
        if came != before[name]:
            probe.fail(f"slots.{name} {before[name]}", f"slots.{name} {came}", "others-are-touched")
    if not torch.equal(_stored(slots, places), stored):
        probe.fail("slot 1's keys and values as they were", "others in their places", "others-are-touched")


def what_was_given_stays(probe: Probe) -> None:
    """the lists and the prefill that were given are as they were"""
    slots = new_slots(probe, 3)
    _, line, call, where, prefill, pad_lens = admission(probe, slots, [2, 0], [0, 3], 8)
    probe.record(line, call, where, prefill, pad_lens, shows_result=False)
    expected = {"slots": [2, 0], "pad_lens": [0, 3], "prefill.pad_lens": [0, 3]}
    came = {"slots": where, "pad_lens": pad_lens, "prefill.pad_lens": prefill.pad_lens}
    probe.cases += 1
    for name, value in came.items():
        if value != expected[name]:
            probe.fail(f"{name} {expected[name]}", f"{name} {value}", "changes-what-was-given")
    if not _same_layers(prefill, prefilled([0, 3], 8)):
        probe.fail("prefill.layers as they were", "others", "changes-what-was-given")


def _books(slots: object, slot: int) -> dict[str, object]:
    table = slots.tables.get(slot)
    return {
        f"lengths[{slot}]": slots.lengths[slot],
        f"offsets[{slot}]": slots.offsets[slot],
        f"tables.get({slot})": table and f"with blocks {table.block_ids}",
    }


def _stored(slots: object, places: list[int]) -> torch.Tensor:
    return torch.stack([memory.flatten(1, 2)[:, places] for memory in (slots.pool.k, slots.pool.v)])


def _same_layers(one: PrefillCache, other: PrefillCache) -> bool:
    def flat(prefill: PrefillCache) -> list[torch.Tensor]:
        return [part for layer in prefill.layers for part in layer]

    return len(one.layers) == len(other.layers) and all(map(torch.equal, flat(one), flat(other)))
