"""Stages of task 16.1: a step's keys, or values, go into their slots."""

from random import Random

import torch

from nanoserve.course.exercises.day16.rows import HEADS, empty, keys, laid, same_memory
from nanoserve.course.probe import Mismatch, Probe


def one_token_in_its_slot(probe: Probe) -> None:
    """one token lies in its slot"""
    one, nothing = keys(range(1), heads=1), empty(8, heads=1)
    for slot in (1, 18):
        block, offset = divmod(slot, 4)
        whole_block, whole_block_of_slot = nothing.clone(), nothing.clone()
        whole_block[block] = one[0, :, 0]
        slips = {
            "written-to-a-copy": nothing,
            "fills-the-block": whole_block,
            "one-slot-late": laid(nothing, [slot + 1], one),
        }
        if slot == 1:  # here block and offset differ, and each is the id of a block
            whole_block_of_slot[slot] = one[0, :, 0]
            slips |= {
                "block-and-offset-swapped": laid(nothing, [offset * 4 + block], one),
                "slot-as-block": whole_block_of_slot,
            }
        else:
            slips["block-size-fixed"] = laid(nothing, [slot // 16 * 4 + slot % 16], one)
        with probe.on_error(IndexError, slip="dimensions-do-not-fit", match="dimensionality"):
            try:
                _write(probe, nothing.clone(), [slot], one, "wrong-slot", slips)
            except Mismatch as finding:
                if finding.slip == "written-to-a-copy" and _writes_the_first_of_two(probe):
                    finding.slip = "last-token-left"
                raise


def _writes_the_first_of_two(probe: Probe) -> bool:
    memory = empty(8, heads=1)
    probe.subject(memory, torch.tensor([1, 18]), keys(range(2), heads=1))
    return bool(memory.any())


def every_head_of_every_token(probe: Probe) -> None:
    """three tokens, each with its own heads"""
    new = keys(range(3))
    slots = [4, 5, 6]
    slips = {
        "written-to-a-copy": empty(4),
        "heads-for-tokens": laid(empty(4), slots[:HEADS], new[:, :, :HEADS]),
        "not-transposed": laid(empty(4), slots, new.reshape(1, 3, HEADS, -1).transpose(1, 2)),
        "one-head-for-all": laid(empty(4), slots, new[:, :1].expand(new.shape)),
        "last-token-only": laid(empty(4), slots[-1:], new[:, :, -1:]),
        "first-token-only": laid(empty(4), slots[:1], new[:, :, :1]),
    }
    other_shape = "shape mismatch|slice shapes|expanded size|Number of indices"
    other_dimensions = r"shape \[\d+(, \d+){2}\] .*shape \[\d+, \d+\]|shape \[\d+(, \d+){3}\] .*shape \[\d+(, \d+){2}\]"
    with (
        probe.on_error(RuntimeError, IndexError, slip="transpose-missing", match=other_shape),
        probe.on_error(RuntimeError, slip="sides-do-not-fit", match=other_dimensions),
    ):
        _write(probe, empty(4), slots, new, "wrong-slot", slips)


def scattered_slots(probe: Probe) -> None:
    """five tokens across two blocks that lie anywhere"""
    new = keys(range(5))
    slots = [10, 11, 4, 5, 6]
    slips = {
        "run-from-the-first-slot": laid(empty(4), list(range(10, 15)), new),
        "slots-sorted": laid(empty(4), sorted(slots), new),
    }
    _write(probe, empty(4), slots, new, "wrong-slot", slips)


def what_else_is_there_stays(probe: Probe) -> None:
    """what lies in other slots stays, and what lay in these is replaced"""
    old = laid(empty(4), list(range(16)), keys(range(16)))
    new, slots = keys(range(20, 23)), [7, 8, 9]
    cleared = laid(empty(4), slots, new)
    blocks_cleared = old.clone()
    blocks_cleared[1:3] = 0
    slips = {
        "clears-the-rest": cleared,
        "clears-its-blocks": laid(blocks_cleared, slots, new),
        "added-to-the-old": old + cleared,
        "only-where-empty": old,
    }
    memory = old.clone()
    try:
        _write(probe, memory, slots, new, "wrong-slot", slips)
    except Mismatch as finding:
        if finding.slip == "wrong-slot" and torch.equal(memory.flatten(0, 1)[slots], new[0].transpose(0, 1)):
            finding.slip = "other-slots-changed"
        raise


def any_pool_any_order(probe: Probe) -> None:
    """pools of any block size, slots in any order"""
    rng = Random(16)
    for block_size, heads in ((1, 1), (3, 2), (16, 3), (5, 1)):
        memory = laid(empty(6, block_size, heads), list(range(3)), keys(range(3), heads=heads))
        slots = rng.sample(range(6 * block_size), 6)
        with probe.on_error(IndexError, RuntimeError, slip="sizes-written-in"):
            _write(probe, memory, slots, keys(range(30, 36), heads=heads), "wrong-slot", {})


def _write(
    probe: Probe, memory: torch.Tensor, slots: list[int], new: torch.Tensor, slip: str, slips: dict[str, torch.Tensor]
) -> None:
    expected = laid(memory, slots, new)
    sizes = f"{len(memory)} blocks of {memory.shape[1]}"
    probe.calls.clear()
    line = f"write_by_slot(memory, slots, new)  # memory: {sizes}; slots {slots}; new: {tuple(new.shape)}"
    given = torch.tensor(slots), new.clone()
    probe.record(line, probe.subject, memory, *given, shows_result=False)
    same_memory(probe, memory, expected, slip, slips)
    for name, came, before in zip(("slots", "new"), given, (torch.tensor(slots), new), strict=True):
        if not torch.equal(came, before):
            probe.fail(f"{name} as given", f"another {name} after the call", "changes-its-arguments")
