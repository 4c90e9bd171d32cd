"""Stages of tasks 13.2 and 13.3: what a token costs, and what a reservation wastes."""

from collections.abc import Mapping
from fractions import Fraction
from math import isclose
from numbers import Integral, Real

import torch

from nanoserve.course.exercises.day13.published import LLAMA_3_2_1B, MISTRAL_NEMO, SMOLLM2_135M, Sizes
from nanoserve.course.probe import Probe, kind, named, show


def _bytes(probe: Probe, name: str, config: Sizes, dtype: torch.dtype) -> object:
    """Call the learner's function; the list of calls tells the config's numbers before it."""
    heads = f"{config.num_attention_heads} query heads, {config.num_key_value_heads} KV heads"
    sizes = f"{name}: {config.num_hidden_layers} layers, {heads} of {config.head_dim}"
    if sizes not in probe.calls:
        probe.calls.append(sizes)
    with probe.on_error(TypeError, slip="config-as-a-key", match="unhashable type: 'Sizes'"):
        return probe.record(f"{probe.subject.__name__}({name}, {dtype})", probe.subject, config, dtype)


def two_tensors_a_layer(probe: Probe) -> None:
    """SmolLM2's bytes, in 4 and in 2 bytes a number"""
    came = tuple(_bytes(probe, "SMOLLM2_135M", SMOLLM2_135M, dtype) for dtype in (torch.float32, torch.bfloat16))
    giveaways = {
        "no-return": (None, None),
        "keys-only": (23_040, 11_520),
        "one-layer": (1_536, 768),
        "query-heads": (138_240, 69_120),
        "queries-too": (115_200, 57_600),
        "numbers-not-bytes": (11_520, 11_520),
        "always-two-bytes": (23_040, 23_040),
        "always-four-bytes": (46_080, 46_080),
        "bits": (368_640, 184_320),
        "per-sequence": (377_487_360, 188_743_680),
        "kib": (45, 22.5),
    }
    _must_be_a_number(probe, came[0], 46_080)
    probe.equal(came, (46_080, 23_040), "other-count", giveaways)
    if not isinstance(came[0], Integral):
        probe.fail("46080, a whole number", f"{show(came[0])}, {kind(came[0])}", "not-an-integer")


def the_numbers_are_the_configs(probe: Probe) -> None:
    """another model, another cost: Llama-3.2-1B"""
    came = _bytes(probe, "LLAMA_3_2_1B", LLAMA_3_2_1B, torch.bfloat16)
    probe.equal(came, 32_768, "other-count", {"hard-coded": 23_040, "layers-fixed": 61_440, "kv-heads-fixed": 12_288})


def a_heads_width_is_its_own(probe: Probe) -> None:
    """head_dim is a field of its own: Mistral-Nemo"""
    came = _bytes(probe, "MISTRAL_NEMO", MISTRAL_NEMO, torch.bfloat16)
    probe.equal(came, 163_840, "other-count", {"head-dim-derived": 204_800, "head-dim-fixed": 81_920})


def any_dtype(probe: Probe) -> None:
    """1 byte and 8 bytes a number"""
    came = _bytes(probe, "SMOLLM2_135M", SMOLLM2_135M, torch.float8_e4m3fn)
    probe.equal(came, 11_520, "other-count", {"two-or-four": 46_080, "two-or-four-bytes": 23_040})
    came = _bytes(probe, "SMOLLM2_135M", SMOLLM2_135M, torch.float64)
    probe.equal(came, 92_160, "other-count", {"two-or-four": 46_080, "two-or-four-bytes": 23_040})


def _share(probe: Probe, lengths: list[int], max_len: int) -> object:
    """Call the learner's function."""
    line = f"{probe.subject.__name__}({lengths}, {max_len})"
    return probe.record(line, probe.subject, lengths, max_len)


def _is(probe: Probe, came: object, expected: float, slip: str, slips: Mapping[str, float | None]) -> None:
    """One case: the number, but for what float32 has no room for."""
    probe.cases += 1
    _must_be_a_number(probe, came, expected)
    if _close(came, expected):
        return
    for name, giveaway in slips.items():
        if came is giveaway or (giveaway is not None and _close(came, giveaway)):
            slip = name
    probe.fail(show(expected), show(came), slip)


def _must_be_a_number(probe: Probe, came: object, expected: float) -> None:
    if came is not None and not _is_number(came):
        probe.fail(f"{show(expected)}, a number", f"{show(came)}, {kind(came)}", "not-a-number")


def _close(came: object, expected: float) -> bool:
    return _is_number(came) and isclose(came, expected, rel_tol=1e-6, abs_tol=1e-9)


def _is_number(came: object) -> bool:
    return isinstance(came, Real) and not isinstance(came, bool | Fraction)  # which no `:.1%` can print


def tokens_over_reserved(probe: Probe) -> None:
    """three requests, each in room for 50"""
    came = _share(probe, [5, 15, 40], 50)
    giveaways = {"no-return": None, "wasted-share": 0.6, "per-cent": 40.0, "tokens-not-share": 60, "inverted": 2.5}
    giveaways |= {"one-reservation": 1.2, "longest-for-all": 0.5, "integer-division": 0, "tokens-wasted": 90}
    _is(probe, came, 0.4, "other-share", giveaways | {"mean-length": 20.0})


def a_share_is_not_rounded(probe: Probe) -> None:
    """a share with many decimals"""
    came = _share(probe, [1, 2], 7)
    near = _is_number(came) and abs(came - 3 / 14) < 0.05
    _is(probe, came, 3 / 14, "rounded-share" if near else "other-share", {})


def a_full_reservation(probe: Probe) -> None:
    """a request may fill its reservation, or be empty"""
    try:
        came = _share(probe, [8, 8], 8)
    except ValueError as error:
        probe.fail("1.0", f"ValueError: {error}", "refuses-exact-fit")
    _is(probe, came, 1.0, "other-share", {"last-token-not-stored": 7 / 8})
    with probe.on_error(ValueError, slip="zero-refused"):
        came = _share(probe, [0], 8)
    _is(probe, came, 0.0, "other-share", {})


def the_callers_list_stays(probe: Probe) -> None:
    """the caller's list is left alone"""
    lengths = [30, 10, 20]
    came = _share(probe, lengths, 40)
    _is(probe, came, 0.5, "other-share", {})
    probe.equal(lengths, [30, 10, 20], "changes-callers-list")


def no_request_wastes_nothing(probe: Probe) -> None:
    """no request: 0.0"""
    try:
        came = _share(probe, [], 100)
    except (ZeroDivisionError, ValueError) as error:  # `max` and `mean` raise the latter
        probe.fail("0.0", f"{type(error).__name__}: {error}", "no-requests")
    _is(probe, came, 0.0, "no-share-of-nothing", {})


def too_long_is_refused(probe: Probe) -> None:
    """a request longer than its reservation raises ValueError"""
    shares = {0.6: "overflows", 0.5: "clipped", 1 / 6: "left-out", 0.25: "left-out"}
    _refused(probe, [10, 130, 40], 100, 130, "not-refused", shares)
    _refused(probe, [130, 10, 40], 100, 130, "not-every-length", {})
    _refused(probe, [10, 40, 130], 100, 130, "not-every-length", {})


def fewer_than_none_is_refused(probe: Probe) -> None:
    """a request of fewer than 0 tokens raises ValueError"""
    _refused(probe, [10, -30, 40], 100, -30, "negative-length", {})
    _refused(probe, [-30, 10, 40], 100, -30, "not-every-length", {})
    _refused(probe, [10, 40, -30], 100, -30, "not-every-length", {})


def no_room_is_refused(probe: Probe) -> None:
    """a reservation for fewer than 1 token raises ValueError"""
    probe.cases += 1
    try:
        came = show(_share(probe, [0, 0], 0))
    except ValueError:
        return
    except NotImplementedError:
        raise
    except Exception as error:
        probe.fail("ValueError", named(error), "no-room")
    probe.fail("ValueError", f"no error, and {came} was returned", "no-room")


def _refused(
    probe: Probe, lengths: list[int], max_len: int, length: int, slip: str, shares: Mapping[float, str]
) -> None:
    """One case: a length is refused; `shares` has a more precise reason for some that are returned."""
    probe.cases += 1
    try:
        came = _share(probe, lengths, max_len)
    except ValueError as error:
        if str(length) not in str(error):
            expected = f"an error whose message names the length, {length}"
            probe.fail(expected, named(error), "unnamed-length")
        return
    except NotImplementedError:
        raise
    except Exception as error:
        wrong = "assert-for-an-error" if isinstance(error, AssertionError) else "wrong-error-type"
        probe.fail("ValueError", named(error), wrong)
    slip = next((reason for share, reason in shares.items() if _close(came, share)), slip)
    probe.fail("ValueError", f"no error, and {show(came)} was returned", slip)
