"""Stages of task 17.1: which logits stay in the draw."""

import math

import torch

from nanoserve.course.exercises.day17.raised import first_line
from nanoserve.course.probe import Probe, show
from nanoserve.sampling import warp

_OUT = -math.inf
# Probabilities of tokens 0 to 3; in order of rank they are .5, .3, .15, .05. A constant on every logit changes none.
_ROW = torch.tensor([0.15, 0.5, 0.05, 0.3]).log() + 4


def temperature_divides(probe: Probe) -> None:
    """temperature divides every logit"""
    row = torch.tensor([2.0, 1.0, -1.0, 0.25])
    came = _call(probe, row, 0.5)
    giveaways = {
        "floor-division": row // 0.5,
        "temperature-multiplies": row * 0.5,
        "temperature-ignored": row,
        "probabilities": (row / 0.5).softmax(0),
        "softmax-before-scaling": row.softmax(0) / 0.5,
    }
    _compare(probe, came, row / 0.5, "other-scale", giveaways)


def the_callers_row_stays(probe: Probe) -> None:
    """the caller's logits stay as they are"""
    for temperature, slip in ((0.5, "changes-the-row"), (1.0, "changes-the-row-at-1")):
        row = torch.tensor([2.0, 1.0, -1.0, 0.0])
        probe.calls.clear()
        line = f"warp(row, {temperature}, 2, 0.7)"
        probe.record(line, probe.subject, row, temperature, 2, 0.7, shows_result=False)
        probe.equal(row.tolist(), [2.0, 1.0, -1.0, 0.0], slip)


def top_k_keeps_k(probe: Probe) -> None:
    """top-k keeps the k likeliest"""
    came = _call(probe, torch.tensor([1.0, 4.0, 2.0, 3.0]), 1.0, 2)
    giveaways = {
        "top-k-ignored": [1, 4, 2, 3],
        "kth-removed": [_OUT, 4, _OUT, _OUT],
        "k-and-one": [_OUT, 4, 2, 3],
        "keeps-the-lowest": [1, _OUT, 2, _OUT],
        "zero-is-not-out": [0, 4, 0, 3],
        "in-order-of-rank": [4, 3, _OUT, _OUT],
    }
    _compare(probe, came, [_OUT, 4, _OUT, 3], "other-top-k", giveaways)


def ties_stay(probe: Probe) -> None:
    """what ties with the k-th stays too"""
    came = _call(probe, torch.tensor([3.0, 1.0, 2.0, 2.0, 0.0]), 1.0, 2)
    _compare(probe, came, [3, _OUT, 2, 2, _OUT], "ties-cut")


def top_k_can_be_off_or_large(probe: Probe) -> None:
    """a k of None or 0 is off; one above the vocabulary keeps it all"""
    row = torch.tensor([1.0, 3.0, 2.0])
    for top_k in (None, 0, 3, 7):
        slip = "k-of-0" if top_k == 0 else "k-above-the-vocabulary"
        try:
            came = _call(probe, row, 1.0, top_k)
        except (RuntimeError, IndexError) as error:
            probe.fail(_told(row), first_line(error), slip)
        _compare(probe, came, row, slip)


def top_p_keeps_the_nucleus(probe: Probe) -> None:
    """top-p keeps the fewest tokens that together reach p"""
    came = _call(probe, _ROW, 1.0, None, 0.7)
    giveaways = {
        "top-p-ignored": _ROW,
        "crossing-dropped": _only(1),
        "p-and-one": _only(1, 3, 0),
        "keeps-the-tail": _only(0, 2),
        "not-mapped-back": _only(2, 3),
        "probabilities": _only(1, 3).softmax(0).where(_only(1, 3).isfinite(), torch.tensor(_OUT)),
    }
    if isinstance(came, torch.Tensor) and came.shape == _ROW.shape:
        giveaways |= _of_the_order(probe, came)
    _compare(probe, came, _only(1, 3), "other-top-p", giveaways)
    _compare(probe, _call(probe, _ROW, 1.0, None, 0.9), _only(1, 3, 0), "other-top-p")
    _compare(probe, _call(probe, _ROW, 1.0, None, 0.96), _ROW, "other-top-p", {"share-of-the-tokens": _only(1, 3, 0)})


def _of_the_order(probe: Probe, came: torch.Tensor) -> dict[str, torch.Tensor]:
    """`came` under the name of what it looks like, where it has the right logits, or the mask's places mixed up."""
    if _alike(came.sort().values, _only(1, 3).sort().values):
        return {"sorted-by-top-p": came}
    if _alike(came, _only(0, 1)):
        return {"not-mapped-back": came}  # in descending order
    if _alike(came, _only(0, 2)):  # the tail, or `out[order]` for `order[out]`: in another row they differ
        other = torch.tensor([0.3, 0.15, 0.5, 0.05]).log() + 4
        kept = probe.subject(other.clone(), 1.0, None, 0.7)
        if isinstance(kept, torch.Tensor) and kept.isfinite().tolist() == [True, False, False, True]:
            return {"not-mapped-back": came}
    return {}


def the_likeliest_always_stays(probe: Probe) -> None:
    """however small p is, the likeliest token stays"""
    for top_p in (0.3, 1e-9):
        _compare(probe, _call(probe, _ROW, 1.0, None, top_p), _only(1), "nothing-left", {"keeps-two": _only(1, 3)})


def top_p_of_1_is_off(probe: Probe) -> None:
    """a p of 1 is off, whatever the sums round to"""
    generator = torch.Generator().manual_seed(17)
    for scale in (6, 60):
        row = torch.randn(4000, generator=generator) * scale
        line = f"warp(4000 logits, {row.min():.3g} to {row.max():.3g}, 1.0, None, 1.0)"
        probe.calls.clear()
        came = probe.record(line, probe.subject, row.clone(), 1.0, None, 1.0, shows_result=False)
        _compare(probe, came, row, "p-of-1")


def top_p_counts_after_temperature(probe: Probe) -> None:
    """top-p counts the probabilities that temperature leaves"""
    came = _call(probe, _ROW, 2.0, None, 0.7)  # .38, .29, .21, .12 by then: three are needed
    _compare(probe, came, _only(1, 3, 0) / 2, "top-p-before-temperature")


def top_p_counts_after_top_k(probe: Probe) -> None:
    """top-p counts the probabilities that top-k leaves"""
    came = _call(probe, _ROW, 1.0, 2, 0.6)  # .625 and .375 by then: one is enough
    _compare(probe, came, _only(1), "top-p-before-top-k")


def all_three_agree_with_the_reference(probe: Probe) -> None:
    """all three together, over 200 rows drawn at random, and one as long as a real vocabulary"""
    generator = torch.Generator().manual_seed(17)
    for number in range(200):
        row = torch.randn(12, generator=generator) * 3
        settings = ((0.7, 5, 0.9), (1.5, None, 0.8), (1.0, 3, None), (0.4, 20, 0.55))[number % 4]
        _compare(probe, _call(probe, row, *settings), warp(row, *settings), "other-together")
    row = torch.randn(49_152, generator=generator) * 3
    probe.calls.clear()
    line = "warp(49,152 logits, 0.7, 50, 0.9)"
    came = probe.record(line, probe.subject, row.clone(), 0.7, 50, 0.9, shows_result=False)
    _compare(probe, came, warp(row, 0.7, 50, 0.9), "other-together")


def _call(probe: Probe, row: torch.Tensor, *settings: float | None) -> object:
    line = f"warp({', '.join([_told(row), *map(str, settings)])})"
    probe.calls.clear()
    try:
        return probe.record(line, probe.subject, row.clone(), *settings, shows_result=False)
    finally:
        if settings[2:]:
            probe.calls.append(f"(softmax of the row by its temperature: {_told((row / settings[0]).softmax(0))})")


def _compare(
    probe: Probe, came: object, expected: object, slip: str, giveaways: dict[str, object] | None = None
) -> None:
    """One case: the row must be the expected one, to a hundred thousandth."""
    expected = torch.as_tensor(expected, dtype=torch.float32)
    probe.cases += 1
    if came is None:
        probe.fail(_told(expected), "None", "no-row")
    if not isinstance(came, torch.Tensor) or came.shape != expected.shape:
        what = f"a tensor of shape {tuple(came.shape)}" if isinstance(came, torch.Tensor) else show(came)
        probe.fail(f"a row of {len(expected)} logits, {_told(expected)}", what, "not-the-whole-row")
    if came.device != expected.device:
        probe.fail(f"a row on {expected.device}", f"one on {came.device}", "other-device")
    if came.dtype != expected.dtype:
        probe.fail(f"a row of {expected.dtype}", f"one of {came.dtype}", "other-dtype")
    if _alike(came, expected):
        return
    if came.isnan().any():
        probe.fail(_told(expected), _told(came), "not-a-number")
    for name, row in (giveaways or {}).items():
        if _alike(came, torch.as_tensor(row, dtype=torch.float32)):
            slip = name
    probe.fail(_told(expected), _told(came), slip)


def _alike(came: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(came.float(), expected, rtol=1e-5, atol=1e-5)


def _only(*kept: int) -> torch.Tensor:
    """The row with all but these set to -inf."""
    out = torch.ones(len(_ROW), dtype=torch.bool)
    out[list(kept)] = False
    return _ROW.masked_fill(out, _OUT)


def _told(row: torch.Tensor) -> str:
    if len(row) > 20:
        return f"{len(row)} logits, {row.isinf().sum()} of them -inf"
    return f"[{', '.join(f'{value:.4g}' for value in row.tolist())}]"
