"""Task 20.2: each mechanism of the scores, alone."""

from typing import TYPE_CHECKING

import torch

from nanoserve.course.exercises.day19.misuses import NO_PYTHON, no_triton, returned
from nanoserve.course.exercises.day20.numbers import nearly, no_tf32, same_numbers
from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.kernels.trial import builds, close, tried, undefined
from nanoserve.course.probe import Probe

if TYPE_CHECKING:
    from nanoserve.course.kernels.ahead import Compiled

DRIVER = KernelReference(f"{__package__}.drivers", "scores_driver")
CALLS = "scores"
INF = torch.inf
REFUSED = NO_PYTHON | {
    "global variable": "plain-global",
    "Boolean value": "if-on-a-vector",
    "K >= 16": "dot-always",
    "incompatible dimensions": "wrong-shape",
    "": "not-compiled",
}


def products_of_queries_and_keys(probe: Probe) -> None:
    """Two queries and four keys, a scale of 1."""
    q, k = _numbers(2, 4), _numbers(4, 4).roll(1, 0)
    summed = q[:, None] * k
    slips = {
        "scale-of-its-own": q @ k.T / 2,
        "masked-the-wrong-way-round": torch.full((2, 4), -INF),
        "wrong-axis": lambda came: close(came, summed.sum(1)) or close(came, summed.sum().expand(2, 4)),
        "not-transposed": q @ k,
        "exp-already": (q @ k.T).exp(),
        "softmax-already": (q @ k.T).softmax(1),
    }
    _scored(probe, q, k, 4, 1.0, "wrong-scores", slips)


def the_compiler_takes_it(probe: Probe) -> None:
    """The compiler takes the function without DOT, for a T4, and for an A100 multiplies in fp32."""
    _built(probe, (7, 5), 8, False)
    no_tf32(probe, _built(probe, (8, 0), 16, False, group=16))


def the_scale(probe: Probe) -> None:
    """A scale of 0.3, which is not 1 / sqrt(4)."""
    q, k = _numbers(2, 4), _numbers(4, 4).roll(1, 0)
    slips = {
        "no-scale": q @ k.T,
        "divided-by-the-scale": q @ k.T / 0.3,
        "scaled-twice": q @ k.T * 0.09,
        "scores-in-16-bits": lambda came: nearly(came, q @ k.T * 0.3),
    }
    _scored(probe, q, k, 4, 0.3, "wrong-scores", slips)


def tokens_that_are_not_held(probe: Probe) -> None:
    """Four lanes, of which three hold a token; then with NaN in the fourth."""
    q, k = _numbers(2, 4), _numbers(4, 4).roll(1, 0)
    all_scores = 0.5 * q @ k.T
    there = torch.tensor([True, True, True, False])
    slips = {
        "not-masked": all_scores,
        "masked-with-zero": all_scores.where(there, 0.0),
        "masked-with-plus-infinity": all_scores.where(there, INF),
        "masked-with-a-number": lambda came: bool((came[:, 3] < -1e3).all() and came.isfinite().all()),
    }
    _scored(probe, q, k, 3, 0.5, "wrong-mask", slips)
    k[3] = torch.nan  # what a slot holds that nobody has written
    _scored(probe, q, k, 3, 0.5, "mask-added", {})


def halves_are_multiplied_in_fp32(probe: Probe) -> None:
    """Numbers in fp16 whose products go beyond 65504."""
    q, k = (300 * torch.ones(2, 4)).half(), (300 * torch.ones(4, 4)).half()
    slips = {"multiplied-in-half": torch.full((2, 4), INF)}
    _scored(probe, q, k, 4, 1.0, "wrong-scores", slips)


def with_dot_the_same_numbers(probe: Probe) -> None:
    """DOT=True: the same products by `tl.dot`, of small numbers and of large ones in fp16."""
    q, k = _numbers(4, 4), _numbers(4, 4).roll(1, 0)
    slips = {"dot-not-transposed": _masked(0.5 * q @ k, 3), "no-scale": _masked(q @ k.T, 3)}
    _scored(probe, q, k, 3, 0.5, "wrong-dot", slips, dot=True)
    q, k = torch.full((2, 4, 4), 150.0).half()
    right = torch.full((4, 4), 9e4)
    slips = {"dot-in-half": torch.full((4, 4), INF), "made-in-16-bits": lambda came: nearly(came, right)}
    _scored(probe, q, k, 4, 1.0, "wrong-dot", slips, dot=True)


def with_dot_on_tensor_cores(probe: Probe) -> None:
    """DOT=True, compiled for an H100: it uses the tensor cores."""
    code = _built(probe, (9, 0), 16, True)
    if "f32.f16.f16" not in code.ptx:
        probe.fail("instructions for fp16 on tensor cores (mma … f16.f16) in the machine code", "none", "dot-ignored")


def with_dot_and_bf16(probe: Probe) -> None:
    """DOT=True with numbers in bf16."""
    code = _built(probe, (9, 0), 16, True, torch.bfloat16, dict.fromkeys(REFUSED, "not-in-bf16"))
    if "f32.bf16.bf16" not in code.ptx:
        probe.fail("instructions for bf16 on tensor cores (mma … bf16.bf16) in the machine code", "none", "not-in-bf16")


def any_sizes(probe: Probe) -> None:
    """Other numbers of heads and tokens, other widths."""
    draw = torch.Generator().manual_seed(20)
    for group, tile, dim in [(1, 1, 1), (4, 16, 64), (16, 2, 8)]:
        q, k = (torch.randn(rows, dim, generator=draw) for rows in (group, tile))
        _scored(probe, q, k, max(1, tile - 3), dim**-0.5, "other-sizes", {})


def _scored(
    probe: Probe,
    q: torch.Tensor,
    k: torch.Tensor,
    num_tokens: int,
    scale: float,
    slip: str,
    slips: dict,
    dot: bool = False,
) -> None:
    """One case: the scores of these queries over these keys."""
    probe.calls.append(f"q of shape {tuple(q.shape)}, k of shape {tuple(k.shape)}, {num_tokens} tokens held")
    shape = {"GROUP": len(q), "DIM": q.shape[1], "TILE": len(k), "DOT": dot}
    with (
        returned(probe, DRIVER.__name__, none="no-return", other="other-return"),
        probe.on_error(UnboundLocalError, slip="one-branch-only"),
        probe.on_error(ValueError, slip="wrong-shape", match="incompatible dimensions"),
        no_triton(probe),
    ):
        run = tried(
            probe,
            (1,),
            q,
            k,
            undefined(len(q), len(k)),
            num_tokens,
            scale,
            race=slip,
            reads=slip,
            writes=slip,
            driver=DRIVER,
            calls=CALLS,
            **shape,
        )
    right = _masked(scale * (q.double() @ k.double().T).float(), num_tokens)
    same_numbers(probe, run.tensors["out"], right, slip, slips, what="scores")


def _built(
    probe: Probe,
    capability: tuple[int, int],
    dim: int,
    dot: bool,
    dtype: torch.dtype = torch.float16,
    refused: dict[str, str] = REFUSED,
    group: int = 4,
) -> "Compiled":
    dtype, group = (dtype, 16) if dot else (torch.float32, group)
    q, k = torch.zeros(group, dim, dtype=dtype), torch.zeros(16, dim, dtype=dtype)
    shape = {"GROUP": group, "DIM": dim, "TILE": 16, "DOT": dot}
    return builds(
        probe,
        q,
        k,
        torch.zeros(group, 16),
        9,
        0.125,
        slips=refused,
        capability=capability,
        driver=DRIVER,
        calls=CALLS,
        **shape,
    )


def _masked(scores: torch.Tensor, num_tokens: int) -> torch.Tensor:
    return scores.where(torch.arange(scores.shape[1]) < num_tokens, -INF)


def _numbers(rows: int, columns: int) -> torch.Tensor:
    """Small numbers, no two rows alike."""
    return (torch.arange(rows * columns).view(rows, columns) % 7 - 2) / 4
