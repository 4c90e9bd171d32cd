"""Task 21.2: putting shares together, one mechanism each."""

import torch

from nanoserve.course.exercises.day19.misuses import NO_PYTHON, keeps_its_pointers, no_triton
from nanoserve.course.exercises.day21.combine_trial import combine, combined, equal_rows, mixed_by_weight
from nanoserve.course.kernels.accesses import Access
from nanoserve.course.kernels.trial import builds, close, undefined
from nanoserve.course.probe import Probe

REFUSED = NO_PYTHON | {
    "global variable": "plain-global",
    "K >= 16": "dot-over-shares",
    "incompatible dimensions": "shapes-do-not-meet",
    "power of 2": "no-power-of-two",
    "": "not-compiled",
}
EMPTY = -torch.inf


def one_share_comes_through(probe: Probe) -> None:
    """One head of one sequence, and one share: it comes through as it is."""
    keeps_its_pointers(probe, "parts_ptr", "lse_ptr", "out_ptr")
    parts, lse = torch.tensor([[[[10.1, 20.2, 30.3, 40.4]]]]), torch.tensor([[[1.5]]])
    right = parts[:, :, 0]
    slips = {
        "nothing-stored": undefined(1, 1, 4),
        "not-divided": right * torch.tensor(1.5).exp(),
        "first-number-only": torch.tensor([[[10.1, *[torch.nan] * 3]]]),
        "numbers-added-up": right.sum(2, keepdim=True).expand(right.shape),
    }
    with (
        probe.on_error(ValueError, slip="scalar-pointer", match="if pointer argument is not a block"),
        no_triton(probe),
    ):
        came = combine(probe, parts, lse, race="wrong-mix", outside="too-far")
    equal_rows(probe, came, right, "wrong-mix", slips)


def the_compiler_takes_it(probe: Probe) -> None:
    """The compiler, which takes less than the interpreter, takes the kernel."""
    parts, lse, out = torch.zeros(2, 3, 3, 6), torch.zeros(2, 3, 3), torch.zeros(2, 3, 6)
    builds(probe, parts, lse, out, 3, 18, 6, SPLITS_PAD=4, DIM=6, DIM_PAD=8, slips=REFUSED)


def two_shares_by_their_weight(probe: Probe) -> None:
    """Two shares, of which the second weighs three times as much."""
    parts = torch.tensor([[[[10.0, 0.0], [30.0, 4.0]]]])
    lse = torch.tensor([[[2.0, 2.0 + torch.tensor(3.0).log()]]])
    one, other = parts[0, 0]
    by_lse = (lse[0, 0] / lse.sum()) @ parts[0, 0]
    by_two = (2 ** lse[0, 0] / (2 ** lse[0, 0]).sum()) @ parts[0, 0]
    slips = {
        "unweighted": (one + other) / 2,
        "added-up": one + other,
        "weighed-by-lse": by_lse,
        "another-base": by_two,
        "divided-by-the-count": (lse[0, 0] - lse.max()).exp() @ parts[0, 0] / 2,
        "largest-weighs-one": (lse[0, 0] - lse.max()).exp() @ parts[0, 0],
        "first-share-only": one,
    }
    combined(probe, parts, lse, "wrong-mix", {name: mix[None, None] for name, mix in slips.items()})


def each_head_of_each_sequence(probe: Probe) -> None:
    """Two sequences of three heads, two shares each."""
    parts = 10 * (1 + torch.arange(12.0)).view(2, 3, 2, 1) + torch.arange(2)
    lse = torch.zeros(2, 3, 2)
    flat = parts.view(12, 2)
    slips = {"no-program-id": torch.cat([flat[:2].mean(0)[None], undefined(5, 2)]).view(2, 3, 2)}
    for name, firsts in {
        "one-head-for-all": [0, 0, 0, 0, 0, 0],
        "sequence-forgotten": [0, 2, 4, 0, 2, 4],
        "head-forgotten": [0, 0, 0, 6, 6, 6],
        "splits-forgotten": [0, 1, 2, 3, 4, 5],
        "heads-and-sequences-swapped": [0, 4, 8, 2, 6, 10],
    }.items():
        slips[name] = torch.stack([flat[row : row + 2].mean(0) for row in firsts]).view(2, 3, 2)

    def outside(access: Access) -> str:
        return "too-far" if access.kind == "read" else "stores-too-far"

    combined(probe, parts, lse, "wrong-row", slips, outside=outside)


def each_head_by_weights_of_its_own(probe: Probe) -> None:
    """Two sequences of two heads; in each of them the second share weighs something else."""
    parts = torch.tensor([[0.0, 0.0], [10.0, 20.0]]).expand(2, 2, 2, 2).contiguous()
    second = torch.tensor([[0.1, 0.2], [0.3, 0.4]])
    lse = torch.stack([1 - second, second], dim=2).log()

    def by_others(came: torch.Tensor) -> bool:
        others = (lse[:1, :1], lse[:1], lse[:, :1])
        return any(close(came, mixed_by_weight(parts, other.expand(2, 2, 2))) for other in others)

    combined(probe, parts, lse, "wrong-mix", {"weights-of-another-head": by_others})


def an_empty_share_weighs_nothing(probe: Probe) -> None:
    """A share without a token: its log-sum-exp is -inf, and its part zeros."""
    parts, lse = torch.tensor([[[[8.0, 4.0], [0.0, 0.0]]]]), torch.tensor([[[0.0, EMPTY]]])
    slips = {"empty-share-counts": parts.mean(2), "nan-beside-an-empty-share": undefined(1, 1, 2)}
    combined(probe, parts, lse, "wrong-mix", slips)


def three_shares_in_four_lanes(probe: Probe) -> None:
    """Three shares, in a block of four lanes."""
    parts, lse = 10 * torch.arange(1.0, 13.0).view(1, 2, 3, 2), torch.tensor([[[1.0, 2.0, 1.0], [0.5, 0.0, 1.0]]])

    def outside(access: Access) -> str:
        if access.kind == "write":
            return "stores-too-far"
        return "heads-by-the-pad" if access.elements.min() in (4, 8) else "splits-not-masked"  # head 1 begins at 3, 6

    right, total = mixed_by_weight(parts, lse), lse.exp().sum(2, keepdim=True)
    slips = {
        "no-other": undefined(1, 2, 2),
        "padding-counts": right * total / (total + 1),
        "last-share-left-out": mixed_by_weight(parts[:, :, :2], lse[:, :, :2]),
    }
    combined(probe, parts, lse, "wrong-mix", slips, outside=outside)


def a_width_that_is_no_power_of_two(probe: Probe) -> None:
    """Rows of five numbers, in a block eight wide."""
    parts, lse = torch.arange(20.0).view(1, 2, 2, 5), torch.tensor([[[0.0, 1.0], [2.0, 0.0]]])

    def outside(access: Access) -> str:
        return "rows-by-the-pad" if access.kind == "read" and access.elements.max() > 22 else "width-not-masked"

    combined(probe, parts, lse, "wrong-width", {}, race="width-not-masked", outside=outside)


def large_and_small_sums(probe: Probe) -> None:
    """Log-sum-exps of 200, and of -200."""
    parts = torch.tensor([[[[8.0, 4.0], [2.0, 6.0]]]])
    for level, slip in ((200.0, "largest-not-taken-off"), (-200.0, "floor-too-high")):
        combined(probe, parts, torch.tensor([[[level, level + 1]]]), slip, {})
    parts = torch.cat([parts, parts[:, :, :1]], 2)  # three shares in four lanes
    combined(probe, parts, torch.tensor([[[-200.0, -199.0, -201.0]]]), "padding-counts", {})


def a_sequence_without_a_token(probe: Probe) -> None:
    """All shares are empty: the sequence has no token, and the result is zeros."""
    parts, lse = torch.zeros(2, 1, 2, 2), torch.tensor([[[EMPTY, EMPTY]], [[0.0, 0.0]]])
    parts[1] = 5.0
    before = torch.full((2, 1, 2), 9.0)
    slips = {
        "empty-not-stored": torch.stack([before[0], parts[1, :, 0]]),
        "all-empty-is-nan": torch.stack([undefined(1, 2), parts[1, :, 0]]),
    }
    equal_rows(probe, combine(probe, parts, lse, out=before), mixed_by_weight(parts, lse), "wrong-mix", slips)


def an_output_with_strides_of_its_own(probe: Probe) -> None:
    """The output is a slice of a wider tensor, in fp16."""
    parts, lse = torch.arange(24.0).view(2, 3, 2, 2), torch.zeros(2, 3, 2)
    wide = torch.full((2, 5, 4), torch.nan, dtype=torch.float16)
    came = combine(probe, parts, lse, out=wide[:, :3, :2], race="strides-not-used", outside="strides-not-used")
    equal_rows(probe, came.float(), mixed_by_weight(parts, lse), "strides-not-used", {})


def agrees_with_one_softmax(probe: Probe) -> None:
    """Shares of many sizes, against the softmax over all of their tokens."""
    generator = torch.Generator().manual_seed(21)
    for splits, dim in [(1, 80), (7, 64), (128, 16)]:
        scores, values = (
            torch.randn(2, 3, splits, 5, generator=generator),
            torch.randn(2, 3, splits, 5, dim, generator=generator),
        )
        scores = 4 * scores + 3 * torch.randn(2, 3, splits, 1, generator=generator)
        parts = (scores.softmax(3)[..., None] * values).sum(3)
        right = (scores.flatten(2).softmax(2)[..., None] * values.flatten(2, 3)).sum(2)
        equal_rows(probe, combine(probe, parts, scores.logsumexp(3)), right, "other-sizes", {})
