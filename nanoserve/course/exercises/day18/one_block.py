"""Stages of task 18.1: one block is taken into the online softmax."""

from collections.abc import Sequence

import torch

from nanoserve.course.exercises.day18.numbers import MOST, listed, same_numbers
from nanoserve.course.probe import Probe, kind

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def the_first_block(probe: Probe) -> None:
    """the first block: nothing is known yet"""
    scores, values = _block([[1.0, 3.0]], [[[1.0, 0.0], [0.0, 1.0]]])
    largest, total, mixed = expected = softmaxed(scores, values)
    slips = {
        "no-maximum": (largest, scores.exp().sum(-1), (scores.exp()[:, :, None] * values).sum(1)),
        "no-exp": (largest, (scores - 3).sum(-1), ((scores - 3)[:, :, None] * values).sum(1)),
        "softmax-of-the-block": (largest, torch.ones(1), mixed / total),
        "divided-in-every-block": (largest, total, mixed / total),
        "values-unweighted": (largest, total, values.sum(1)),
        "order-of-the-three": (mixed, total, largest),
    }
    _compare(probe, _fold(probe, scores, values, _start()), expected, slips, "other-first-block")


def a_higher_score_comes_later(probe: Probe) -> None:
    """a higher score comes later, and what is known shrinks"""
    first = _block([[1.0, 3.0]], [[[1.0, 0.0], [0.0, 1.0]]])
    scores, values = _block([[5.0, 2.0]], [[[2.0, 0.0], [0.0, 2.0]]])
    known = largest, total, mixed = softmaxed(*first)
    expected = new_largest, new_total, new_mixed = softmaxed(*_together(first, (scores, values)))
    _, own_total, own_mixed = softmaxed(scores, values)
    shrink = (largest - new_largest).exp()
    slips = {
        "neither-shrinks": (new_largest, total + own_total, mixed + own_mixed),
        "mixed-does-not-shrink": (new_largest, new_total, mixed + own_mixed),
        "total-does-not-shrink": (new_largest, total + own_total, new_mixed),
        "shrinks-upside-down": (new_largest, total / shrink + own_total, mixed / shrink + own_mixed),
        "new-ones-shrink-too": (new_largest, (total + own_total) * shrink, (mixed + own_mixed) * shrink),
        "forgets-the-past": (new_largest, own_total, own_mixed),
        "old-maximum": (new_largest, new_total / shrink, new_mixed / shrink),
        "old-maximum-returned": (largest, new_total, new_mixed),
    }
    _compare(probe, _fold(probe, scores, values, known), expected, slips, "other-second-block")
    _compare(probe, _fold(probe, *first, _start()), softmaxed(*first), {}, "kept-between-calls")


def a_lower_score_comes_later(probe: Probe) -> None:
    """a lower score comes later: the largest so far stays"""
    first = _block([[5.0, 2.0]], [[[2.0, 0.0], [0.0, 2.0]]])
    scores, values = _block([[1.0, 3.0]], [[[1.0, 0.0], [0.0, 1.0]]])
    known = largest, total, mixed = softmaxed(*first)
    expected = softmaxed(*_together(first, (scores, values)))
    own_largest, own_total, own_mixed = softmaxed(scores, values)
    grown = (largest - own_largest).exp()
    slips = {
        "maximum-of-the-block": (own_largest, total * grown + own_total, mixed * grown + own_mixed),
        "maximum-of-the-block-unshrunk": (own_largest, total + own_total, mixed + own_mixed),
    }
    _compare(probe, _fold(probe, scores, values, known), expected, slips, "other-second-block")


def each_head_for_itself(probe: Probe) -> None:
    """two heads, each with a largest score of its own"""
    scores, values = _block([[2.0, 4.0, 0.0], [-9.0, -7.0, -8.0]], [[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]])
    expected = softmaxed(scores, values)
    weights = (scores - 4).exp()
    one_largest = weights.sum(-1), (weights[:, :, None] * values).sum(1)
    slips = {
        "one-maximum-for-all-heads": (torch.full((2,), 4.0), *one_largest),
        "one-maximum-as-a-number": (torch.tensor(4.0), *one_largest),
    }
    with (
        probe.on_error(RuntimeError, IndexError, slip="wrong-dimension"),
        probe.on_error(
            RuntimeError, ValueError, slip="one-answer-for-all-heads", match="Boolean value of Tensor|converted to"
        ),
    ):
        came = _fold(probe, scores, values, _start(2, 1))
    _compare(probe, came, expected, slips, "wrong-dimension")


def large_scores(probe: Probe) -> None:
    """scores of some hundreds, falling by 40 a block"""
    blocks = [_block([[400.0 - 40 * i, 398.0 - 40 * i]], [[[1.0], [float(i)]]]) for i in range(4)]
    _compare(probe, _fold_all(probe, blocks, 1, 1), softmaxed(*_together(*blocks)), {}, "large-scores")


def a_masked_token(probe: Probe) -> None:
    """a token of score -inf counts for nothing"""
    scores, values = _block([[1.0, -torch.inf, 0.0]], [[[1.0], [9.0], [2.0]]])
    expected = softmaxed(scores[:, [0, 2]], values[:, [0, 2]])
    _compare(probe, _fold(probe, scores, values, _start(1, 1)), expected, {}, "masked-token-counts")


def a_block_that_is_masked_as_a_whole(probe: Probe) -> None:
    """a whole block of -inf, first and later: no NaN, and nothing is changed"""
    masked = _block([[-torch.inf, -torch.inf]], [[[7.0], [9.0]]])
    low = _block([[-300.0, -301.0]], [[[1.0], [2.0]]])  # far below 0, which is no maximum of anything here
    expected = softmaxed(*low)
    for blocks in ([masked, low], [low, masked]):
        came = _fold_all(probe, blocks, 1, 1)
        zero = torch.zeros(1)
        vanished = (zero, zero, torch.zeros(1, 1))
        nan = [torch.full_like(part, torch.nan) for part in expected]
        slips = {
            "maximum-set-to-0": vanished,
            "nan-from-inf": (expected[0], nan[1], nan[2]),
            "nan-everywhere": tuple(nan),
        }
        _compare(probe, came, expected, slips, "masked-block-counts")


def masks_that_differ_between_heads(probe: Probe) -> None:
    """two heads, each with tokens of its own masked: some in a block, then all"""
    infinity = torch.inf
    values = [[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]]
    scores, values = _block([[1.0, -infinity, 0.0], [-infinity, 2.0, 1.0]], values)
    slips = {
        "mask-of-the-first-head": softmaxed(scores[:, [0, 2]], values[:, [0, 2]]),
        "masked-in-any-head": softmaxed(scores[:, [2]], values[:, [2]]),
    }
    _compare(probe, _fold(probe, scores, values, _start(2, 1)), softmaxed(scores, values), slips, "other-masks")
    first = _block([[1.0, 3.0], [2.0, 0.0]], [[[1.0], [2.0]], [[3.0], [4.0]]])
    for head in (0, 1):
        later = _block([[5.0, 4.0], [1.0, 3.0]], [[[5.0], [6.0]], [[7.0], [8.0]]])
        later[0][head] = -infinity
        known, expected = softmaxed(*first), softmaxed(*_together(first, later))
        _compare(probe, _fold(probe, *later, known), expected, {"one-head-ends-the-block": known}, "other-masks")


def the_block_stays_as_it_is(probe: Probe) -> None:
    """scores and values are only read"""
    scores, values = _block([[1.0, 3.0]], [[[1.0, 0.0], [0.0, 1.0]]])
    given = scores.clone(), values.clone()
    probe.calls.clear()
    _call(probe, *given, _start())
    same_numbers(probe, given[0], scores, "changes-the-block", what="scores afterwards")
    same_numbers(probe, given[1], values, "changes-the-block", what="values afterwards")


def any_blocks(probe: Probe) -> None:
    """any blocks, of any length: softmax over all of their tokens"""
    draw = torch.Generator().manual_seed(18)
    for heads, width, lengths in ((1, 1, (1, 1, 1)), (3, 8, (4, 4, 1)), (9, 64, (16, 16, 16, 5))):
        blocks = [
            (
                4 * torch.randn(heads, tokens, generator=draw),
                torch.randn(heads, tokens, width, generator=draw),
            )
            for tokens in lengths
        ]
        came = _fold_all(probe, blocks, heads, width)
        _compare(probe, came, softmaxed(*_together(*blocks)), {}, "other-blocks")


def softmaxed(scores: torch.Tensor, values: torch.Tensor) -> State:
    """The three that `fold` keeps, of a softmax over all these tokens at once."""
    largest = scores.amax(-1)
    weights = (scores - largest[:, None]).exp()
    return largest, weights.sum(-1), (weights[:, :, None] * values).sum(1)


def _block(scores: Sequence, values: Sequence) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(scores), torch.tensor(values)


def _together(*blocks: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    scores, values = zip(*blocks, strict=True)
    return torch.cat(scores, dim=1), torch.cat(values, dim=1)


def _start(heads: int = 1, width: int = 2) -> State:
    return torch.full((heads,), -1e30), torch.zeros(heads), torch.zeros(heads, width)


def _fold(probe: Probe, scores: torch.Tensor, values: torch.Tensor, known: State) -> object:
    probe.calls.clear()
    return _call(probe, scores.clone(), values.clone(), tuple(part.clone() for part in known))


def _fold_all(probe: Probe, blocks: Sequence[tuple[torch.Tensor, torch.Tensor]], heads: int, width: int) -> object:
    """Block after block, as the learner's own function leaves it."""
    probe.calls.clear()
    known = _start(heads, width)
    for scores, values in blocks:
        known = _call(probe, scores.clone(), values.clone(), known)
    return known


def _call(probe: Probe, scores: torch.Tensor, values: torch.Tensor, known: State) -> object:
    line = f"fold({', '.join(map(listed, (scores, values, *known)))})"
    if values.numel() > MOST:
        line = (
            f"fold(scores, values, largest, total, mixed)  # scores {tuple(scores.shape)}, values {tuple(values.shape)}"
        )
    came = probe.record(line, probe.subject, scores, values, *known, shows_result=False)
    if not isinstance(came, tuple | list) or len(came) != 3 or not all(isinstance(part, torch.Tensor) for part in came):
        what = "None" if came is None else kind(came)
        if isinstance(came, tuple | list):
            what += f" of {len(came)}: {', '.join(type(part).__name__ for part in came[:4])}"
        probe.fail("three tensors: largest, total, mixed", what, "no-return" if came is None else "not-three")
    if any(part.device != scores.device for part in came):
        devices = ", ".join(str(part.device) for part in came)
        probe.fail(f"three tensors on {scores.device}", f"tensors on {devices}", "another-device")
    return came


def _compare(probe: Probe, came: object, expected: State, slips: dict[str, State], slip: str) -> None:
    same_numbers(probe, came, expected, slip, slips, what=("largest", "total", "mixed"))
