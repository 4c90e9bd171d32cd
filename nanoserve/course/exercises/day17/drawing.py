"""Stages of task 17.2: one token out of what is kept."""

import math
from collections.abc import Sequence

import torch

from nanoserve.course.exercises.day17.raised import first_line
from nanoserve.course.probe import Probe

_DRAWS = 1500
_LIKELY = torch.tensor([0.2, 0.5, 0.3])
_ROW = _LIKELY.log() + 3  # all of them above 0


def temperature_0_is_the_likeliest(probe: Probe) -> None:
    """temperature 0 takes the likeliest token"""
    row = torch.tensor([1.0, 2.5, 7.0, 3.0])
    slip = "no-greedy"
    try:
        came = _call(probe, row, 0.0)
    except (RuntimeError, ZeroDivisionError) as error:
        probe.fail("2", first_line(error), slip)
    if isinstance(came, torch.Tensor):
        probe.fail("2, a Python int", f"{came!r}", "a-tensor")
    probe.equal(came, 2, slip, {"value-for-index": 7.0})


def temperature_0_never_draws(probe: Probe) -> None:
    """temperature 0 draws nothing, however close the logits are"""
    row = torch.tensor([0.0, 1e-6, 0.0, 0.0])
    for _ in range(40):
        probe.equal(_call(probe, row, 0.0), 1, "nearly-greedy")


def above_0_a_token_is_drawn(probe: Probe) -> None:
    """above 0 a token is drawn"""
    draws = _draw(probe, 40, _ROW, 1.0)
    if len(set(draws)) == 1:
        slip = "never-draws" if draws[0] == 1 else "same-draw-again"
        probe.fail("40 draws of tokens 0, 1 and 2", f"40 times token {draws[0]}", slip)


def draws_follow_the_probabilities(probe: Probe) -> None:
    """tokens are drawn as often as their probabilities say"""
    giveaways = {"no-softmax": _ROW / _ROW.sum(), "softmax-twice": _LIKELY.softmax(0)}
    _follow(probe, 1.0, _LIKELY, "other-frequencies", giveaways)
    cooler = (_ROW / 0.5).softmax(0)
    giveaways = {"temperature-not-passed": _LIKELY, "greedy-too-early": torch.tensor([0.0, 1.0, 0.0])}
    _follow(probe, 0.5, cooler, "other-frequencies", giveaways)


def a_small_temperature_draws_too(probe: Probe) -> None:
    """a small temperature above 0 draws too"""
    giveaways = {"greedy-when-small": torch.tensor([0.0, 1.0, 0.0])}
    _follow(probe, 1e-3, _LIKELY, "other-frequencies", giveaways, _LIKELY.log() * 1e-3)


def only_what_is_kept_is_drawn(probe: Probe) -> None:
    """what top-k and top-p leave out is never drawn"""
    for settings, kept, slip in (
        ((1.0, 2), {1, 2}, "top-k-not-passed"),
        ((1.0, None, 0.4), {1}, "top-p-not-passed"),
        ((1.0, 2, 0.999), {1, 2}, "one-or-the-other"),
    ):
        strays = [token for token in _draw(probe, 60, _ROW, *settings) if token not in kept]
        probe.cases += 1
        if strays:
            probe.fail(f"tokens among {sorted(kept)}", f"token {strays[0]}", slip)


def the_generator_draws(probe: Probe) -> None:
    """the run's own generator draws, and no other"""
    row = torch.zeros(100)
    first = _draw(probe, 12, row, 1.0, None, None, seed=5)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    again = _draw(probe, 12, row, 1.0, None, None, seed=5)
    if not torch.equal(torch.get_rng_state(), before):
        slip = "global-seed" if again == first else "global-draw"
        probe.fail("torch's global generator untouched", "it was used", slip)
    probe.equal(again, first, "not-by-the-seed")
    unseeded = [_call(probe, row, 1.0) for _ in range(12)]  # without a generator, torch's own may draw
    probe.cases += 1
    if len(set(unseeded)) == 1:
        probe.fail("draws that differ", f"{unseeded[0]} twelve times", "seeded-by-itself")


def half_precision_is_no_matter(probe: Probe) -> None:
    """a row in half precision is scaled in single precision"""
    row = torch.tensor([8.0, 9.0, 8.5], dtype=torch.float16)
    try:
        came = _call(probe, row, 1e-4)
    except RuntimeError as error:
        probe.fail("1", first_line(error), "half-precision")
    probe.equal(came, 1, "half-precision")


def nonsense_is_refused(probe: Probe) -> None:
    """a setting outside its range raises ValueError"""
    for settings in ((-1.0,), (math.nan,), (1.0, -3), (1.0, None, 0.0), (1.0, None, 1.5)):
        slips = {None: "nonsense-accepted", Exception: "nonsense-in-other-words"}
        probe.raises(ValueError, _call, probe, _ROW, *settings, slips=slips)


def _call(probe: Probe, row: torch.Tensor, *settings: object) -> object:
    line = f"sample({', '.join([_told(row), *map(str, settings)])})"
    probe.calls.clear()
    return probe.record(line, probe.subject, row, *settings)


def _draw(probe: Probe, times: int, row: torch.Tensor, *settings: object, seed: int = 3) -> list[int]:
    """So many draws by one generator."""
    generator = torch.Generator().manual_seed(seed)
    settings = (*settings, *[None] * (3 - len(settings)))
    line = f"sample({', '.join([_told(row), *map(str, settings), f'generator of seed {seed}'])})"
    probe.calls.clear()
    probe.calls.append(f"{times} times {line}")
    try:
        return [int(probe.subject(row, *settings, generator)) for _ in range(times)]
    except RuntimeError as error:
        probe.fail("a token id", first_line(error), "no-probabilities")


def _follow(
    probe: Probe,
    temperature: float,
    expected: torch.Tensor,
    slip: str,
    giveaways: dict[str, torch.Tensor],
    row: torch.Tensor = _ROW,
) -> None:
    """Many draws must come as often as expected, to five hundredths: chance alone goes no further than four."""
    draws = torch.tensor(_draw(probe, _DRAWS, row, temperature)).bincount(minlength=3) / _DRAWS
    probe.cases += 1
    if _distance(draws, expected) < 0.05:
        return
    nearest = min(giveaways, key=lambda name: _distance(draws, giveaways[name]))
    if _distance(draws, giveaways[nearest]) < 0.05:
        slip = nearest
    probe.fail(f"tokens 0, 1, 2 in shares of {_told(expected)}", _told(draws), slip)


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())


def _told(row: torch.Tensor) -> str:
    values: Sequence[float] = row.tolist()
    if len(set(values)) == 1 and len(values) > 8:
        return f"{len(values)} equal logits"
    return f"[{', '.join(f'{value:.3g}' for value in values)}]"
