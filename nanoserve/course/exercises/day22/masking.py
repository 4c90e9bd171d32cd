"""Stages of task 22.2: which columns of a padded batch attend to which."""

from collections.abc import Mapping, Sequence

import torch

from nanoserve.course.exercises.day22.whereabouts import Elsewhere
from nanoserve.course.probe import Probe, kind

_CPU = torch.device("cpu")


def a_column_sees_itself_and_what_came_before(probe: Probe) -> None:
    """without pads, a column sees itself and what came before"""
    right, alone = _right([0], 4), torch.eye(4, dtype=torch.bool)
    slips = {
        "upside-down": ~right,
        "sees-the-future": torch.ones_like(right),
        "queries-and-keys-swapped": right.transpose(2, 3),
        "not-itself": right & ~alone,
        "only-itself": alone.expand_as(right),
        "first-token-hidden": right & (torch.arange(4) > 0) | alone,
    }
    _compare(probe, [0], 4, "other-triangle", slips)


def nobody_sees_a_pad(probe: Probe) -> None:
    """nobody sees a pad, and everybody sees their own first token"""
    pads, columns = 2, 5
    column = torch.arange(columns)
    causal = torch.ones(columns, columns, dtype=torch.bool).tril()
    mask = _mask(probe, [pads], columns)
    if torch.equal(mask[0, 0], causal & (column >= pads)[:, None]):
        _fail(probe, mask, _right([pads], columns), (0, pads), "hides-the-pads-queries")
    slips = {
        "pads-are-seen": causal,
        "pads-on-the-right": causal & (column < columns - pads),
        "last-pad-is-seen": causal & (column >= pads - 1),
    }
    slips = {slip: giveaway.expand_as(mask) for slip, giveaway in slips.items()}
    _same(probe, mask, [pads], columns, "other-pads", slips)


def each_call_looks_at_its_own_pads(probe: Probe) -> None:
    """each call looks at its own pads"""
    columns = 5
    before = _mask(probe, [2], columns)
    first = probe.calls[0]
    mask = _mask(probe, [1], columns)
    probe.calls.insert(0, first)
    _same(probe, mask, [1], columns, "other-pads", {"pads-of-another-call": _right([2], columns)})
    if before.data_ptr() == mask.data_ptr():
        probe.fail("a mask of its own", "the memory of the mask before", "masks-share-memory")


def each_row_has_its_own_pads(probe: Probe) -> None:
    """each row has its own pads"""
    pad_lens, columns = [1, 3, 0], 5
    slips = {
        "one-rows-pads-for-all": _right([1, 1, 1], columns),
        "most-pads-for-all": _right([3, 3, 3], columns),
    }
    with probe.on_error(RuntimeError, slip="rows-meet-columns", match="must match the size|broadcast"):
        mask = _mask(probe, pad_lens, columns)
    slip, slips = ("rows-share-memory", {}) if mask.stride(0) == 0 else ("other-rows", slips)
    _same(probe, mask, pad_lens, columns, slip, slips)


def the_callers_counts_stay(probe: Probe) -> None:
    """the caller's list is as it was"""
    pad_lens = [3, 0, 1]
    probe.calls[:] = [f"padded_causal_mask({pad_lens}, 5, device)"]
    probe.subject(pad_lens, 5, _CPU)
    probe.calls.append(f"pad_lens → {pad_lens}")
    probe.equal(pad_lens, [3, 0, 1], "changes-the-counts")


def a_pad_has_something_to_see(probe: Probe) -> None:
    """even a pad has something to see"""
    pad_lens, columns = [3, 0], 5
    mask = _mask(probe, pad_lens, columns)
    probe.cases += 1
    for row, pads in enumerate(pad_lens):
        for column in range(pads):
            if not mask[row, 0, column].any():
                came = f"row {row}, column {column} sees no column: softmax gives NaN"
                probe.fail(f"row {row}, column {column} sees some column", came, "pads-see-nothing")


def the_mask_lies_on_the_device(probe: Probe) -> None:
    """the mask lies on the device that was asked for"""
    probe.cases += 1
    meta = Elsewhere(torch.device("meta"))
    with probe.on_error(RuntimeError, slip="on-another-device", match="on the same device"), meta:
        mask = _mask(probe, [1, 0], 3, meta.device)
    if mask not in meta:
        probe.fail("a mask on device meta", "on cpu", "on-another-device")


def any_rows_and_columns(probe: Probe) -> None:
    """any number of rows and columns"""
    for pad_lens, columns in (([2, 0, 1], 3), ([0], 1), ([0, 0], 6), ([7, 0, 3, 15, 8], 16)):
        with probe.on_error(RuntimeError, IndexError, slip="other-sizes"):
            mask = _mask(probe, pad_lens, columns, shape_slip="other-sizes")
            _same(probe, mask, pad_lens, columns, "other-sizes", {})


def _right(pad_lens: Sequence[int], columns: int) -> torch.Tensor:
    """What real tokens must see; of the pads' own rows only that there is something in them."""
    seen = [
        [[pads <= key <= query or key == query for key in range(columns)] for query in range(columns)]
        for pads in pad_lens
    ]
    return torch.tensor(seen).unsqueeze(1)


def _compare(probe: Probe, pad_lens: list[int], columns: int, slip: str, slips: Mapping[str, torch.Tensor]) -> None:
    _same(probe, _mask(probe, pad_lens, columns), pad_lens, columns, slip, slips)


def _same(
    probe: Probe,
    mask: torch.Tensor,
    pad_lens: list[int],
    columns: int,
    slip: str,
    slips: Mapping[str, torch.Tensor],
) -> None:
    """One case: what the real tokens see. What a pad sees is nobody's concern, as long as it is something."""
    right = _right(pad_lens, columns)
    real = (torch.arange(columns) >= torch.tensor(pad_lens)[:, None])[:, None, :, None]
    wrong = ((mask != right) & real).any(-1).squeeze(1).nonzero().tolist()
    probe.cases += 1
    if wrong:
        likely = (name for name, giveaway in slips.items() if torch.equal(mask & real, giveaway & real))
        _fail(probe, mask, right, wrong[0], next(likely, slip))


def _fail(probe: Probe, mask: torch.Tensor, right: torch.Tensor, where: Sequence[int], slip: str) -> None:
    row, column = where
    expected, came = (tensor[row, 0, column].nonzero().flatten().tolist() for tensor in (right, mask))
    who = f"row {row}, column {column} sees columns"
    probe.fail(f"{who} {expected}", f"{who} {came}", slip)


def _mask(
    probe: Probe, pad_lens: list[int], columns: int, device: torch.device = _CPU, shape_slip: str = "other-shape"
) -> torch.Tensor:
    probe.calls.clear()
    line = f'padded_causal_mask({pad_lens}, {columns}, torch.device("{device}"))'
    mask = probe.record(line, probe.subject, list(pad_lens), columns, device, shows_result=False)
    shape = (len(pad_lens), 1, columns, columns)
    if not isinstance(mask, torch.Tensor):
        told, slip = ("None", "nothing-returned") if mask is None else (kind(mask), "no-tensor")
        probe.fail(f"a tensor of shape {shape}", told, slip)
    if tuple(mask.shape) != shape:
        slip = "head-dimension-missing" if tuple(mask.shape) == shape[:1] + shape[2:] else shape_slip
        probe.fail(f"a mask of shape {shape}", f"one of {tuple(mask.shape)}", slip)
    if mask.dtype != torch.bool:
        probe.fail("a mask of torch.bool", f"one of {mask.dtype}", "not-bool")
    return mask
