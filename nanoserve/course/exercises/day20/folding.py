"""Task 20.3: each mechanism of the online softmax, alone. They are Day 18's, in a kernel."""

import torch

from nanoserve.course.exercises.day20.fold_trial import REFUSED, State, built, compare, softmaxed
from nanoserve.course.exercises.day20.numbers import nearly, no_tf32
from nanoserve.course.kernels.trial import close
from nanoserve.course.probe import Probe

INF = torch.inf


def the_first_tile(probe: Probe) -> None:
    """The first tile: nothing is known yet."""
    s, v = torch.tensor([[1.0, 3.0], [-1.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 2.0]])
    largest, total, mixed = softmaxed(s, v)
    plain = s.exp()
    weights = (s - largest[:, None]).exp()
    slips = {
        "no-maximum": (largest, plain.sum(1), plain @ v),
        "one-maximum-for-all-heads": (torch.full((2,), 3.0), (s - 3).exp().sum(1), (s - 3).exp() @ v),
        "no-exp": (largest, (s - largest[:, None]).sum(1), (s - largest[:, None]) @ v),
        "softmax-of-the-tile": (largest, torch.ones(2), mixed / total[:, None]),
        "divided-in-every-tile": (largest, total, mixed / total[:, None]),
        "values-unweighted": (largest, total, v.sum(0).expand(2, 2)),
        "wrong-axis": lambda came: any(
            close(came[2], mix) for mix in (weights * v.sum(1), weights.sum(0)[:, None] * v)
        ),
        "old-maximum-returned": (torch.full((2,), -1e30), total, mixed),
        "maximum-down-the-heads": lambda came: close(came[0], s.amax(0)),
        "largest-across": lambda came: close(came[1], (s - largest).exp().sum(1)),
        "summed-in-half": lambda came: all(map(nearly, came, (largest, total, mixed))),
        "other-order": (total, largest, mixed),
        "total-of-all-heads": (largest, weights.sum().expand(2), mixed),
        "total-down-the-heads": (largest, weights.sum(0), mixed),
    }
    compare(probe, s, v, None, slips, "other-first-tile")


def the_compiler_takes_it(probe: Probe) -> None:
    """The compiler takes the function without DOT, for a T4, and for an A100 multiplies in fp32."""
    built(probe, (7, 5), 8, False)
    no_tf32(probe, built(probe, (8, 0), 16, False, group=16))


def a_higher_score_comes_later(probe: Probe) -> None:
    """A higher score comes later, and what is known shrinks."""
    known = largest, total, mixed = softmaxed(*_first())
    s, v = torch.tensor([[5.0, 2.0]]), torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    _, own_total, own_mixed = softmaxed(s, v)
    new_largest, new_total, new_mixed = _both(_first(), (s, v))
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
    compare(probe, s, v, known, slips, "other-second-tile", (new_largest, new_total, new_mixed))


def a_lower_score_comes_later(probe: Probe) -> None:
    """The scores fall by 40 a tile: the largest so far stays."""
    s = torch.tensor([[90.0, 88.0, 50.0, 49.0, 10.0, 8.0]])
    v = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 3.0]])
    alone = [softmaxed(s[:, tile : tile + 2], v[tile : tile + 2]) for tile in (0, 2, 4)]
    summed = [sum(tile[part] for tile in alone) for part in (1, 2)]
    slips = {
        "maximum-of-the-tile": lambda came: bool(came[0].item() == 10.0),
        "shrinks-by-the-tile": (torch.tensor([90.0]), *summed),
    }
    compare(probe, s, v, None, slips, "other-second-tile")


def of_two_heads_one_rises_and_one_falls(probe: Probe) -> None:
    """Two heads: the scores of one rise, and those of the other fall."""
    s, v = torch.tensor([[0.0, 1.0, 2.0, 3.0], [3.0, 2.0, 1.0, 0.0]]), torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    first, last = (s[:, tile : tile + 2].amax(1) for tile in (0, 2))

    def one_choice(came: State) -> bool:
        return close(came[0], first) or close(came[0], last)

    compare(probe, s, v, None, {"one-choice-for-all-heads": one_choice}, "other-second-tile")


def a_tile_that_is_masked_as_a_whole(probe: Probe) -> None:
    """A whole tile of -inf, first and later: no NaN, and it counts for nothing."""
    s = torch.tensor([[-INF, -INF, -300.0, -301.0]])
    v = torch.tensor([[7.0], [9.0], [1.0], [2.0]])
    expected = softmaxed(s[:, 2:], v[2:])
    slips = {
        "nan-from-inf": lambda came: bool(torch.stack([part.sum() for part in came]).isnan().any()),
        "maximum-set-to-0": (torch.zeros(1), torch.zeros(1), torch.zeros(1, 1)),
    }
    for order in ([0, 1, 2, 3], [2, 3, 0, 1]):
        compare(probe, s[:, order], v[order], None, slips, "masked-tile-counts", expected)


def halves_are_summed_in_fp32(probe: Probe) -> None:
    """Values in fp16: the weights, the products and the sums are in fp32."""
    s, v = torch.tensor([[0.0, -1.1, -2.3, -3.1]]), torch.tensor([[1.0], [300.0], [5.0], [7.0]]).half()
    compare(probe, s, v, None, {}, "summed-in-half")


def with_dot_the_same_numbers(probe: Probe) -> None:
    """DOT=True with values in fp16: the same sums by `tl.dot`, of small numbers and of large ones."""
    s, v = torch.tensor([[0.0, -INF, 0.0, 0.0]]), torch.tensor([[1.0, 2.0], [9.0, 9.0], [4.0, 8.0], [16.0, 32.0]])
    with probe.on_error(AssertionError, TypeError, ValueError, slip="dot-of-two-types", match="dtype|types"):
        compare(probe, s, v.half(), None, {}, "wrong-dot", tile=2, dot=True)
    slips = {
        "dot-in-half": lambda came: bool(came[2].isinf().all()),
        "made-in-16-bits": lambda came: nearly(came[2], torch.tensor([[24e4]])),
    }
    compare(probe, torch.zeros(1, 4), torch.full((4, 1), 6e4).half(), None, slips, "wrong-dot", dot=True)
    s, nothing = torch.tensor([[0.0, -1.1, -2.3, -3.1]]), torch.zeros(4, 1).half()
    compare(probe, s, nothing, None, {}, "total-in-half", dot=True)


def with_dot_on_tensor_cores(probe: Probe) -> None:
    """DOT=True, compiled for an H100: it uses the tensor cores."""
    code = built(probe, (9, 0), 16, True, torch.float16)
    if "f32.f16.f16" not in code.ptx:
        probe.fail("instructions for fp16 on tensor cores (mma … f16.f16) in the machine code", "none", "dot-ignored")


def with_dot_and_bf16(probe: Probe) -> None:
    """DOT=True with values in bf16."""
    code = built(probe, (9, 0), 16, True, torch.bfloat16, dict.fromkeys(REFUSED, "not-in-bf16"))
    if "f32.bf16.bf16" not in code.ptx:
        probe.fail("instructions for bf16 on tensor cores (mma … bf16.bf16) in the machine code", "none", "not-in-bf16")


def any_tiles(probe: Probe) -> None:
    """Tiles of many sizes: softmax over all of their tokens."""
    draw = torch.Generator().manual_seed(20)
    for group, tokens, dim, tile in [(1, 3, 1, 1), (4, 32, 16, 8), (2, 16, 64, 16)]:
        s = 4 * torch.randn(group, tokens, generator=draw)
        compare(probe, s, torch.randn(tokens, dim, generator=draw), None, {}, "other-sizes", tile=tile)


def _first() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([[1.0, 3.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])


def _both(one: tuple[torch.Tensor, torch.Tensor], other: tuple[torch.Tensor, torch.Tensor]) -> State:
    return softmaxed(torch.cat([one[0], other[0]], 1), torch.cat([one[1], other[1]]))
