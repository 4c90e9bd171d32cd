"""Stages of task 22.4: where each slot's next token goes, and at which position it stands."""

from traceback import extract_tb

import torch

from nanoserve.block_table import BlockTable
from nanoserve.cache import NaiveKVCache
from nanoserve.course.exercises.day22.numbered import BLOCK, new_pool, prefilled
from nanoserve.course.exercises.day22.small_model import small_model
from nanoserve.course.probe import Probe, kind, named
from nanoserve.pool import KVPool
from nanoserve.prefill import PrefillCache, left_pad


def the_next_token_goes_behind_the_last(probe: Probe) -> None:
    """one sequence's next token goes behind its last"""
    slots = _new(probe, 1, [0], [0], 6, new_pool(taken=3))  # no block 0, which hides what it is multiplied by
    first, second = slots.tables[0].block_ids
    slips = {
        "overwrites-the-last": [second * BLOCK + 1],
        "leaves-a-gap": [second * BLOCK + 3],
        "block-without-offset": [second * BLOCK],
        "block-id-only": [second],
        "entry-for-block-id": [6],
        "first-block-for-all": [first * BLOCK + 2],
        "block-and-offset-swapped": [2 * BLOCK + second],
    }
    _places(probe, slots, "another-place", slips)


def a_full_block_is_followed_by_another(probe: Probe) -> None:
    """behind a full block comes the next one"""
    slots = _new(probe, 1, [0], [0], 8)
    last = slots.tables[0].block_ids[1]
    slips = {"runs-out-of-the-block": [last * BLOCK + 4], "kept-in-the-class": [_first_place()]}
    _places(probe, slots, "another-place-behind-a-full-block", slips)


def blocks_have_any_size(probe: Probe) -> None:
    """blocks have any size"""
    slots = _new(probe, 1, [0], [0], 6, new_pool(block_size=5))
    _places(probe, slots, "size-written-down", {})


def each_slot_has_its_own_table(probe: Probe) -> None:
    """each slot looks into its own table"""
    slots = _new(probe, 3, [2, 0, 1], [0, 3, 6], 9)
    tables = [slots.tables[slot].block_ids for slot in range(3)]
    lengths = slots.lengths

    def by(table: int, slot: int) -> int:
        entries = tables[table]
        return entries[min(lengths[slot] // BLOCK, len(entries) - 1)] * BLOCK + lengths[slot] % BLOCK

    slips = {"last-table-for-all": [by(2, slot) for slot in range(3)]}
    _places(probe, slots, "place-in-another-table", slips)


def an_idle_slot_writes_to_scratch(probe: Probe) -> None:
    """an idle slot writes to the scratch block"""
    slots = _new(probe, 4, [1, 3], [0, 3], 9)
    slots.release(3)
    probe.calls.append(f"slots.release(3)  # idle now: 0, 2, 3; the scratch block is {slots.scratch}")
    with probe.on_error(KeyError, slip="idle-has-no-table"):
        came = _ask(probe, slots).tolist()
    probe.cases += 1
    for slot in (0, 2, 3):
        if came[slot] // BLOCK != slots.scratch:
            first, last = slots.scratch * BLOCK, slots.scratch * BLOCK + BLOCK - 1
            elsewhere = "idle-in-block-0" if came[slot] < BLOCK else "idle-elsewhere"
            slip = {-1: "idle-at-minus-1", slots.scratch: "scratch-id-for-place"}.get(came[slot], elsewhere)
            probe.fail(f"slot {slot}'s place: {first} to {last}", f"{came[slot]}, in block {came[slot] // BLOCK}", slip)
    table = slots.tables[1]
    probe.equal(came[1], table.slot(9), "busy-slot-beside-idle-ones")


def a_token_stands_where_it_is_counted(probe: Probe) -> None:
    """without pads, a token's position is the number of those before it"""
    slots = _new(probe, 2, [0, 1], [0, 0], 6)
    slips = {"position-of-the-last": [5, 5], "position-one-late": [7, 7], "position-0": [0, 0]}
    _positions(probe, slots, [6, 6], "another-position", slips)


def pads_are_counted_too(probe: Probe) -> None:
    """the pads are counted too"""
    slots = _new(probe, 3, [2, 0], [0, 3], 9)
    slips = {"offset-left-out": [6, None, 9], "offset-taken-off": [3, None, 9], "offset-only": [3, None, 0]}
    _positions(probe, slots, [9, None, 9], "another-offset", slips)


def each_slot_counts_for_itself(probe: Probe) -> None:
    """who came in later is counted for itself"""
    slots = _new(probe, 3, [2, 0], [0, 3], 9)  # as they came in together, both go on at 9
    slots.admit([1], prefilled([2], 5), [2])
    slots.reserve_step()
    probe.calls.append("slots.admit([1], prefill, [2]); slots.reserve_step()  # 2 pads, 3 tokens")
    _positions(probe, slots, [9, 5, 9], "position-of-others", {"longest-for-all": [9, 9, 9]})


def a_step_of_a_model_goes_right(probe: Probe) -> None:
    """steps of a small model give each text the logits that it has alone"""
    model = small_model()
    texts = {2: [5, 9, 3, 7, 1, 8], 0: [4, 6]}
    probe.calls.clear()
    slots = probe.record(
        "slots = PagedSlotKVCache(pool, 3)", probe.subject, KVPool.for_model(model, 8, BLOCK), 3, shows_result=False
    )
    slots.pool.k.zero_()
    slots.pool.v.zero_()
    input_ids, pad_lens = left_pad(list(texts.values()))
    prefill = PrefillCache(pad_lens)
    model(input_ids, prefill)
    slots.admit(list(texts), prefill, pad_lens)
    probe.calls.append(f"slots.admit({list(texts)}, prefill, {pad_lens})")
    for step in range(3):
        new = {slot: 10 + 7 * step + slot for slot in texts}
        slots.reserve_step()
        line = f"model(input_ids, slots)  # step {step + 1}"
        step_ids = torch.tensor([[new.get(slot, 0)] for slot in range(3)])
        with probe.on_error(AttributeError, slip="step-not-begun", match="_places|_step|_mask|_pages|_copies"):
            logits = probe.record(line, model, step_ids, slots, shows_result=False)[:, -1]
        slots.advance()
        for slot in texts:
            texts[slot] = [*texts[slot], new[slot]]
            alone = model(torch.tensor([texts[slot]]), NaiveKVCache())[0, -1]
            probe.cases += 1
            off = float((logits[slot] - alone).abs().max())
            if not off < 1e-3:
                slip = "step-begun-once" if step else "step-of-other-lengths"
                probe.fail(f"slot {slot}: the logits of this text alone", f"off by {off:.2g} in step {step + 1}", slip)


def _first_place() -> int:
    """The place that the first stage has asked for."""
    table = BlockTable(new_pool(taken=4).allocator)  # others, and scratch
    table.append(7)
    return table.slot(6)


def _new(
    probe: Probe, num_slots: int, where: list[int], pad_lens: list[int], columns: int, pool: KVPool | None = None
) -> object:
    """The learner's slots with sequences in them, and room for one more token in each."""
    probe.calls.clear()
    pool = pool or new_pool()
    line = f"slots = PagedSlotKVCache(pool, {num_slots})  # blocks of {pool.allocator.block_size}"
    slots = probe.record(line, probe.subject, pool, num_slots, shows_result=False)
    slots.admit(where, prefilled(pad_lens, columns), pad_lens)
    slots.reserve_step()
    probe.calls.append(f"slots.admit({where}, prefill, {pad_lens}); slots.reserve_step()")
    for slot in sorted(where):
        probe.calls.append(f"slots.tables[{slot}].block_ids → {slots.tables[slot].block_ids}")
    return slots


def _ask(probe: Probe, slots: object) -> torch.Tensor:
    lengths, tables = torch.tensor(slots.lengths), slots.block_tables.clone()
    with (
        probe.on_error(IndexError, RuntimeError, slip="index-does-not-fit", match="[Ii]ndex|indic"),
        probe.on_error(IndexError, RuntimeError, slip="index-of-floats", match="int32|int64|long|integer|dtype"),
    ):
        came = probe.record(f"slots.places(torch.tensor({slots.lengths}))", slots.places, lengths)
    _require(probe, "places", came, (slots.num_slots,), "places-of-another-shape")
    if came.dtype != torch.int64:
        probe.fail("places of torch.int64", f"of {came.dtype}", "places-are-narrow")
    probe.equal(lengths.tolist(), slots.lengths, "changes-the-lengths")
    if not torch.equal(slots.block_tables, tables):
        changed = (slots.block_tables != tables).any(1).nonzero()[0].item()
        rows = (f"slots.block_tables[{changed}]: {each[changed].tolist()}" for each in (tables, slots.block_tables))
        probe.fail(*rows, "changes-the-tables")
    return came


def _places(probe: Probe, slots: object, slip: str, slips: dict[str, list[int]]) -> None:
    """One case: each slot's place is where its table has the position after its last."""
    came = _ask(probe, slots).tolist()
    expected = [slots.tables[slot].slot(length) for slot, length in enumerate(slots.lengths)]
    probe.equal(came, expected, slip, slips)


def _positions(
    probe: Probe, slots: object, expected: list[int | None], slip: str, slips: dict[str, list[int | None]]
) -> None:
    """One case: each slot's position; that of an idle one, None here, means nothing."""
    books = list(slots.lengths), list(slots.offsets)
    try:
        came = probe.record("slots.positions(1)", slots.positions, 1)
    except (RuntimeError, IndexError) as error:
        if "_begin_step" not in [frame.name for frame in extract_tb(error.__traceback__)]:
            raise
        probe.fail("no error", named(error), "step-begun-elsewhere")
    _require(probe, "positions", came, (slots.num_slots, 1), "positions-of-another-shape")
    busy = [None if slot is None else int(position) for slot, position in zip(expected, came[:, 0], strict=True)]
    probe.equal(busy, expected, slip, slips, told=lambda positions: str(positions).replace("None", "any"))
    if came.dtype not in (torch.int64, torch.int32):
        probe.fail("positions of torch.int64", f"of {came.dtype}", "positions-are-narrow")
    told = "slots.lengths {0[0]}, slots.offsets {0[1]}".format
    probe.equal((slots.lengths, slots.offsets), books, "changes-the-books", told=told)


def _require(probe: Probe, what: str, came: object, shape: tuple[int, ...], slip: str) -> None:
    if not isinstance(came, torch.Tensor):
        probe.fail(f"a tensor of shape {shape}", "None" if came is None else kind(came), f"{what}-no-tensor")
    if came.dtype.is_floating_point:
        probe.fail("whole numbers", f"a tensor of {came.dtype}", f"{what}-are-floats")
    if tuple(came.shape) != shape:
        probe.fail(f"a tensor of shape {shape}", f"one of {tuple(came.shape)}", slip)
