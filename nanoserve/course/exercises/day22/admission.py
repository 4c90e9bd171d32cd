"""Stages of task 22.3: prompts that were prefilled together move into slots, and their pads do not."""

from collections.abc import Mapping, Sequence
from random import Random

import torch

from nanoserve.allocator import KVCacheExhausted
from nanoserve.block_table import BlockTable
from nanoserve.course.exercises.day16.rows import laid
from nanoserve.course.exercises.day22.numbered import prefilled, whose
from nanoserve.course.exercises.day22.scene import admission, admit, new_slots
from nanoserve.course.exercises.day22.standing import as_it_was, standing
from nanoserve.course.probe import Probe, in_16_bits, kind


def a_prompt_lies_in_its_blocks(probe: Probe) -> None:
    """one prompt without pads lies in its slot's blocks"""
    slots = new_slots(probe, 3)
    with (
        probe.on_error(IndexError, RuntimeError, slip="row-dimension-lost", match="dimensionality"),
        probe.on_error(IndexError, RuntimeError, slip="columns-and-places-differ", match=r"indices \([1-9]"),
        probe.on_error(
            IndexError, RuntimeError, slip="stored-before-there-is-room", match=r"indices \(0\)|Expected a long"
        ),
        probe.on_error(KeyError, slip="no-table", match="^0$"),
        probe.on_error(AttributeError, slip="stored-as-a-step", match="_places"),
        probe.on_error(RuntimeError, slip="other-heads-or-width", match="same slice shapes"),
    ):
        admit(probe, slots, [0], [0], 5)
    nobody = slots.lengths == [0, 0, 0] and not slots.tables
    _equal(
        probe,
        "slots.lengths",
        slots.lengths,
        [5, 0, 0],
        "nobody-is-in" if nobody else "other-length",
        {} if nobody else {"length-not-kept": [0, 0, 0]},
    )
    table = slots.tables.get(0)
    if not isinstance(table, BlockTable):
        came = "nothing" if table is None else kind(table)
        probe.fail("slots.tables[0], a BlockTable", f"{came} in its place", "no-block-table")
    _equal(probe, "slots.tables[0].num_tokens", table.num_tokens, 5, "table-of-another-length")
    (k, v), last = prefilled([0], 5).layers
    stored = {"nothing-stored": (k[..., :0, :],) * 2, "values-first": (v, k), "layers-over-one-another": last}
    _holds(probe, slots, [0], [0], 5, "other-memory", stored)


def pads_stay_behind(probe: Probe) -> None:
    """the pads are not stored"""
    slots = new_slots(probe, 2)
    with (
        probe.on_error(IndexError, RuntimeError, slip="columns-and-places-differ", match="Number of indices"),
        probe.on_error(IndexError, RuntimeError, slip="more-columns-than-places", match=r"indices \(5\).* \(8\)"),
        probe.on_error(RuntimeError, slip="other-heads-or-width", match="same slice shapes"),
    ):
        admit(probe, slots, [0], [3], 8)
    _equal(probe, "slots.lengths", slots.lengths, [5, 0], "other-length-with-pads", {"pads-are-counted": [8, 0]})
    k, v = prefilled([3], 8).layers[0]
    ends = {"pads-are-stored": (k[:, :, :5], v[:, :, :5]), "values-with-pads": (k[:, :, 3:], v[:, :, :5])}
    _holds(probe, slots, [0], [3], 8, "other-tokens", ends)


def each_row_goes_to_its_slot(probe: Probe) -> None:
    """row i goes to slots[i]"""
    slots = new_slots(probe, 3)
    with probe.on_error(ValueError, slip="one-table-for-all", match="num_tokens must be 0 or more"):
        admit(probe, slots, [2, 0], [0, 3], 8)
    swapped = {"row-number-for-slot": [8, 5, 0], "lengths-of-other-rows": [8, 0, 5], "first-length-for-all": [8, 0, 8]}
    swapped |= {"first-row-only": [0, 0, 8]}
    _equal(probe, "slots.lengths", slots.lengths, [5, 0, 8], "other-length", swapped)
    k, v = prefilled([0, 3], 8).layers[0]
    _holds(probe, slots, [2, 0], [0, 3], 8, "other-rows-stored", {"first-row-for-all": (k[:1, :, 3:], v[:1, :, 3:])}, 1)


def the_offset_stays_with_the_slot(probe: Probe) -> None:
    """each slot keeps its pad count as its offset"""
    slots = new_slots(probe, 3)
    admit(probe, slots, [2, 0], [0, 3], 8)
    slips = {"offset-forgotten": [0, 0, 0], "length-for-offset": [5, 0, 8], "offsets-by-row": [0, 3, 0]}
    _equal(probe, "slots.offsets", slots.offsets, [3, 0, 0], "other-offset", slips)


def a_slot_that_is_taken_is_refused(probe: Probe) -> None:
    """a slot that is taken is refused, and nothing happens"""
    slots = new_slots(probe, 3)
    admit(probe, slots, [1], [0], 6)
    before = standing(slots)
    call = admission(probe, slots, [0, 1], [2, 0], 7)
    errors = {
        None: "taken-slot-overwritten",
        AssertionError: "refused-by-assert",
        Exception: "refused-by-another-error",
    }
    probe.raises(ValueError, *call, slips=errors)
    as_it_was(probe, slots, before, "refused-too-late", {"the-one-there-is-lost": {"free_slots()": [0, 1, 2]}})


def a_slot_named_twice_is_refused(probe: Probe) -> None:
    """a slot that is named twice is refused"""
    slots = new_slots(probe, 3)
    before = standing(slots)
    call = admission(probe, slots, [2, 2], [2, 0], 7)
    probe.raises(ValueError, *call, slips={None: "slot-named-twice", Exception: "named-twice-met-another-error"})
    as_it_was(probe, slots, before, "named-twice-found-late")


def too_few_blocks_take_nothing(probe: Probe) -> None:
    """where the blocks do not suffice for all, nobody gets any"""
    slots = new_slots(probe, 4, num_blocks=6)
    admit(probe, slots, [3], [0], 4)
    before = standing(slots)  # 4 blocks are free; 2 and 3 are asked for
    call = admission(probe, slots, [0, 1], [3, 0], 10)
    probe.raises(KVCacheExhausted, *call, slips={None: "no-error-when-full", Exception: "full-met-another-error"})
    as_it_was(probe, slots, before, "some-are-in")


def any_rows_and_slots(probe: Probe) -> None:
    """any rows, any slots"""
    draw = Random(22)
    for _ in range(6):
        slots = new_slots(probe, 5, num_blocks=23)
        columns, rows = draw.randrange(2, 20), draw.randrange(1, 4)
        pad_lens = [0, *(draw.randrange(columns) for _ in range(rows - 1))]
        where = draw.sample(range(5), rows)
        admit(probe, slots, where, pad_lens, columns)
        _holds(probe, slots, where, pad_lens, columns, "other-numbers", {})


def _equal(
    probe: Probe, name: str, came: object, expected: object, slip: str, slips: Mapping[str, object] | None = None
) -> None:
    if came != expected:
        probe.calls.append(f"{name} → {came}")
    elif other := [number for number in came if type(number) is not int] if isinstance(came, list) else []:
        probe.fail(f"{name} of ints", f"{kind(other[0])} in it: {came}", "books-hold-no-ints")
    probe.equal(came, expected, slip, slips, told=lambda value: f"{name} = {value}")


def _holds(
    probe: Probe,
    slots: object,
    where: Sequence[int],
    pad_lens: Sequence[int],
    columns: int,
    slip: str,
    giveaways: Mapping[str, tuple[torch.Tensor, torch.Tensor]],
    about: int = 0,
) -> None:
    """One case: every row's real tokens lie in the places of its slot's table, in each layer, and else nothing.

    Args:
        giveaways: for each more precise reason, what it would have stored of row `about` in layer 0, keys and values.
    """
    layers = prefilled(pad_lens, columns).layers
    for slot, pads in zip(where, pad_lens, strict=True):
        name, held = f"slots.tables[{slot}].num_tokens", slots.tables[slot].num_tokens
        _equal(probe, name, held, columns - pads, "table-of-another-length")
        ids = slots.tables[slot].block_ids
        mirrored = slots.block_tables[slot, : len(ids)].tolist()
        _equal(probe, f"slots.block_tables[{slot}, :{len(ids)}]", mirrored, ids, "mirror-left")
    for layer, parts in enumerate(layers):
        for part, (name, memory) in enumerate((("pool.k", slots.pool.k), ("pool.v", slots.pool.v))):
            others, rows = torch.zeros_like(memory[layer]), []
            for row, (slot, pads) in enumerate(zip(where, pad_lens, strict=True)):
                places = [slots.tables[slot].slot(p) for p in range(columns - pads)]
                rows.append((places, parts[part][row : row + 1, :, pads:]))
                if row != about:
                    others = laid(others, *rows[row])
            places = rows[about][0]
            slips = (
                {"first-layer-only": torch.zeros_like(others)}
                if layer
                else {
                    likely: laid(others, places[: given[part].shape[2]], given[part])
                    for likely, given in giveaways.items()
                    if part == 0
                    or torch.equal(given[0], parts[0][about : about + 1, :, pad_lens[about] :])  # keys are right
                }
            )
            _same_memory(probe, memory[layer], laid(others, *rows[about]), slip, slips, f"{name}[{layer}]")


def _same_memory(
    probe: Probe,
    came: torch.Tensor,
    expected: torch.Tensor,
    slip: str,
    slips: Mapping[str, torch.Tensor],
    name: str,
) -> None:
    """One case: a layer's blocks hold this and nothing else; of a difference, the first place is told."""

    def told(memory: torch.Tensor) -> str:
        block, offset = (came != expected).flatten(2).any(2).nonzero()[0].tolist()
        return f"{name}[{block}, {offset}]: {whose(memory[block, offset])}"

    if in_16_bits(came, expected):
        probe.fail(told(expected), f"{told(came)}, rounded to 16 bits", "rounded-to-16-bits")
    probe.equal(came, expected, slip, slips, same=torch.equal, told=told)
