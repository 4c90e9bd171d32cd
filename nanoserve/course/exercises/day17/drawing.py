"""Stages of task 17.2: one token out of what is kept."""

from collections.abc import Sequence
from numbers import Integral

import torch

from nanoserve.course.exercises.day17.raised import first_line
from nanoserve.course.probe import Probe, kind, show

_DRAWS = 1500
_LIKELY = torch.tensor([0.2, 0.5, 0.3])
ROW = _LIKELY.log() + 3  # its logits are all above 0


def temperature_0_is_the_likeliest(probe: Probe) -> None:
    """temperature 0 takes the likeliest token"""
    row = torch.tensor([1.0, 2.5, 7.0, 3.0])
    slip = "no-greedy"
    try:
        came = call(probe, row, 0.0)
    except (RuntimeError, ZeroDivisionError) as error:
        probe.fail("2", first_line(error), slip)
    if not isinstance(came, torch.Tensor) and came == 7:
        probe.fail("2", show(came), "value-for-index")
    _must_be_an_id(probe, came, "2", row)
    probe.equal(came, 2, slip)


def temperature_0_never_draws(probe: Probe) -> None:
    """temperature 0 draws nothing, however close the logits are"""
    row = torch.tensor([0.0, 1e-6, 0.0, 0.0])
    for _ in range(40):
        probe.equal(call(probe, row, 0.0), 1, "nearly-greedy")


def the_callers_row_stays(probe: Probe) -> None:
    """the caller's logits stay as they are"""
    for temperature in (0.0, 1.0):
        row = ROW.clone()
        probe.calls.clear()
        probe.record(f"sample(row, {temperature})", probe.subject, row, temperature, shows_result=False)
        probe.equal(row.tolist(), ROW.tolist(), "changes-the-callers-row", told=lambda row: told(torch.tensor(row)))


def above_0_a_token_is_drawn(probe: Probe) -> None:
    """above 0 a token is drawn"""
    draws = _draw(probe, 40, ROW, 1.0)
    if len(set(draws)) == 1:
        slip = "never-draws" if draws[0] == 1 else "same-draw-again"
        probe.fail("40 draws of tokens 0, 1 and 2", f"40 times token {draws[0]}", slip)


def draws_follow_the_probabilities(probe: Probe) -> None:
    """tokens are drawn as often as their probabilities say"""
    giveaways = {"no-softmax": ROW / ROW.sum(), "softmax-twice": _LIKELY.softmax(0)}
    giveaways["ranks-for-ids"] = _LIKELY.sort(descending=True).values
    _follow(probe, 1.0, _LIKELY, "other-frequencies", giveaways)
    cooler = (ROW / 0.5).softmax(0)
    giveaways = {"temperature-not-passed": _LIKELY, "greedy-too-early": torch.tensor([0.0, 1.0, 0.0])}
    _follow(probe, 0.5, cooler, "other-frequencies", giveaways)


def a_small_temperature_draws_too(probe: Probe) -> None:
    """a small temperature above 0 draws too"""
    giveaways = {"greedy-when-small": torch.tensor([0.0, 1.0, 0.0])}
    _follow(probe, 1e-3, _LIKELY, "other-frequencies", giveaways, _LIKELY.log() * 1e-3)


def too_little_to_divide_by(probe: Probe) -> None:
    """a temperature that is too little to divide by takes the likeliest"""
    with probe.on_error(RuntimeError, slip="divides-by-too-little"):
        came = call(probe, torch.tensor([1.0, 2.5, 7.0, 3.0]), 1e-40)
    probe.equal(came, 2, "divides-by-too-little")


def only_what_is_kept_is_drawn(probe: Probe) -> None:
    """what top-k and top-p leave out is never drawn"""
    for settings, kept, slip in (
        ((1.0, 2), {1, 2}, "top-k-not-passed"),
        ((1.0, None, 0.4), {1}, "top-p-not-passed"),
        ((1.0, 2, 0.999), {1, 2}, "one-or-the-other"),
    ):
        drawn = _draw(probe, 60, ROW, *settings)
        strays = [token for token in drawn if token not in kept]
        probe.cases += 1
        if strays:
            slip = "counted-among-the-kept" if max(drawn) < len(kept) else slip
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
    unseeded = [call(probe, row, 1.0) for _ in range(12)]  # without a generator, torch's own may draw
    probe.cases += 1
    _must_be_an_id(probe, unseeded[0], "a token id", row)
    if len(set(unseeded)) == 1:
        probe.fail("draws that differ", f"{unseeded[0]} twelve times", "seeded-by-itself")


def half_precision_is_no_matter(probe: Probe) -> None:
    """a row in half precision is scaled in single precision"""
    row = torch.tensor([8.0, 9.0, 8.5], dtype=torch.float16)
    try:
        came = call(probe, row, 1e-4)
    except RuntimeError as error:
        slip = "half-precision"
        try:
            probe.subject(row.float(), 1e-4)
        except RuntimeError:
            slip = "overflows"
        probe.fail("1", first_line(error), slip)
    probe.equal(came, 1, "half-precision")


def call(probe: Probe, row: torch.Tensor, *settings: object) -> object:
    """Call the learner's `sample` under a fresh list of calls."""
    line = f"sample({', '.join([told(row), *map(str, settings)])})"
    probe.calls.clear()
    return probe.record(line, probe.subject, row.clone(), *settings)


def _draw(probe: Probe, times: int, row: torch.Tensor, *settings: object, seed: int = 3) -> list[int]:
    """So many draws by one generator."""
    generator = torch.Generator().manual_seed(seed)
    settings = (*settings, *[None] * (3 - len(settings)))
    line = f"sample({', '.join([told(row), *map(str, settings), f'generator of seed {seed}'])})"
    probe.calls.clear()
    probe.calls.append(f"{times} times {line}")
    try:
        drawn = [probe.subject(row.clone(), *settings, generator) for _ in range(times)]
    except RuntimeError as error:
        probe.fail("a token id", first_line(error), "no-probabilities")
    for came in drawn:
        _must_be_an_id(probe, came, "a token id", row)
    return drawn


def _must_be_an_id(probe: Probe, came: object, expected: str, row: torch.Tensor) -> None:
    if came is None:
        probe.fail(expected, "None", "no-token")
    if isinstance(came, bool) or not isinstance(came, Integral):
        slip = "a-tensor" if isinstance(came, torch.Tensor) else "another-type"
        probe.fail(f"{expected}, a Python int", f"{show(came)}, {kind(came)}", slip)
    if not 0 <= came < len(row):
        probe.fail(f"{expected}, from 0 to {len(row) - 1}", show(came), "no-such-token")


def _follow(
    probe: Probe,
    temperature: float,
    expected: torch.Tensor,
    slip: str,
    giveaways: dict[str, torch.Tensor],
    row: torch.Tensor = ROW,
) -> None:
    """Many draws must come as often as expected, to five hundredths: chance alone goes no further than four."""
    draws = torch.tensor(_draw(probe, _DRAWS, row, temperature)).bincount(minlength=3) / _DRAWS
    probe.cases += 1
    if _distance(draws, expected) < 0.05:
        return
    nearest = min(giveaways, key=lambda name: _distance(draws, giveaways[name]))
    if _distance(draws, giveaways[nearest]) < 0.05:
        slip = nearest
    probe.fail(f"tokens 0, 1, 2 in shares of {told(expected)}", told(draws), slip)


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())


def told(row: torch.Tensor) -> str:
    if row.ndim > 1:
        return f"logits of shape {tuple(row.shape)}"
    values: Sequence[float] = row.tolist()
    if len(set(values)) == 1 and len(values) > 8:
        return f"{len(values)} equal logits"
    return f"[{', '.join(f'{value:.3g}' for value in values)}]"
