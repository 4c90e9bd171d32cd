"""Stages of task 22.1: prompts of different lengths become rows of one tensor."""

from collections.abc import Sequence
from copy import deepcopy
from numbers import Integral
from random import Random

import torch

from nanoserve.course.probe import Mismatch, Probe, kind, show
from nanoserve.course.view.state import plural

_RAGGED = [[5, 6, 7], [8], [9, 4]]
_VOCABULARY = 49152  # SmolLM2's


def ids_and_counts_come_back(probe: Probe) -> None:
    """a tensor of ids comes back, and a list of counts"""
    ids, pad_lens = _pad(probe, [[5, 6, 7]])
    if ids.shape[1] == 4:
        probe.fail("input_ids [[5, 6, 7]]", f"input_ids {ids.tolist()}", "one-pad-too-many")
    _ends_with(probe, ids, [[5, 6, 7]])
    probe.equal(pad_lens, [0], "other-counts", {"lengths-for-pads": [3]})


def a_call_knows_nothing_of_another(probe: Probe) -> None:
    """the same call again gives the same again, in a tensor and a list of its own"""
    try:
        first_ids, first_lens = _called(probe, [[5, 6, 7]])
        ids, pad_lens = _called(probe, [[5, 6, 7]])
        _ends_with(probe, ids, [[5, 6, 7]])
        probe.equal(list(pad_lens), [0], "other-counts")
    except Mismatch as now:  # in the stage before, the same call was right
        probe.calls *= 2
        probe.fail(now.expected, now.came, "keeps-a-call")
    probe.calls *= 2
    if pad_lens is first_lens or ids.data_ptr() == first_ids.data_ptr():
        what = "list" if pad_lens is first_lens else "tensor"
        probe.fail(f"a {what} of its own", f"the {what} of the first call once more", "keeps-a-call")


def prompts_end_together(probe: Probe) -> None:
    """three prompts end together, behind their pads"""
    with probe.on_error(ValueError, slip="rows-of-different-lengths", match="expected sequence of length"):
        ids, pad_lens = _pad(probe, _RAGGED)
    if [row[: len(prompt)] for row, prompt in zip(ids.tolist(), _RAGGED, strict=True)] == _RAGGED:
        probe.fail("each row ends with its prompt", f"input_ids {ids.tolist()}", "padded-on-the-right")
    _ends_with(probe, ids, _RAGGED)
    probe.equal(pad_lens, [0, 2, 1], "other-counts", {"one-count-for-all": [2, 2, 2]})


def rows_stay_in_their_order(probe: Probe) -> None:
    """row i is prompt i, whatever its length"""
    prompts = [[8], [5, 6, 7], [9, 4]]
    with probe.on_error(ValueError, slip="first-is-not-the-longest", match="expected sequence of length"):
        ids, pad_lens = _pad(probe, prompts)
    _ends_with(probe, ids, prompts)
    probe.equal(pad_lens, [2, 0, 1], "other-counts")


def the_callers_prompts_stay(probe: Probe) -> None:
    """the caller's lists are as they were"""
    prompts = deepcopy(_RAGGED)
    _called(probe, prompts)
    probe.calls.append(f"prompts → {prompts}")
    probe.equal(prompts, _RAGGED, "changes-the-prompts")


def any_sequence_of_ids_will_do(probe: Probe) -> None:
    """a prompt may be a tuple"""
    prompts = [(5, 6, 7), (8,)]
    with probe.on_error(TypeError, AttributeError, slip="lists-only"):
        ids, _ = _pad(probe, prompts)
    _ends_with(probe, ids, prompts)


def a_pad_is_a_token_of_the_model(probe: Probe) -> None:
    """a pad is an id that the model has"""
    ids, _ = _pad(probe, _RAGGED)
    pad = int(ids[1, 0])
    if not 0 <= pad < _VOCABULARY:
        probe.fail(f"a pad from 0 to {_VOCABULARY - 1}", f"a pad of {pad}", "pad-is-no-token")


def a_prompt_may_hold_the_pads_id(probe: Probe) -> None:
    """a prompt may hold the id that pads have"""
    prompts = [[0, 5], [7]]
    ids, pad_lens = _pad(probe, prompts)
    _ends_with(probe, ids, prompts)
    probe.equal(pad_lens, [0, 1], "counts-the-pads-id")


def any_lengths(probe: Probe) -> None:
    """any number of prompts of any lengths"""
    draw = Random(22)
    for lengths in ([4, 4], [1], [1, 17, 2, 5], [30, 30, 29]):
        prompts = [[draw.randrange(1, 100) for _ in range(length)] for length in lengths]
        ids, pad_lens = _pad(probe, prompts)
        _ends_with(probe, ids, prompts, "other-lengths")
        probe.equal(pad_lens, [max(lengths) - length for length in lengths], "other-lengths")


def _ends_with(probe: Probe, ids: torch.Tensor, prompts: Sequence[Sequence[int]], slip: str = "other-ids") -> None:
    """One case: each row ends with its prompt, and is as long as the longest."""
    longest = max(map(len, prompts))
    probe.equal(ids.shape[1], longest, slip, told=lambda width: f"rows of {plural(width, 'token')}")
    last, right = ids[:, -1].tolist(), [prompt[-1] for prompt in prompts]
    if last != right and sorted(last) == sorted(right):
        probe.fail(f"rows that end with {right}", f"rows that end with {last}", "rows-in-another-order")
    ends = [row[len(row) - len(prompt) :] for row, prompt in zip(ids.tolist(), prompts, strict=True)]
    probe.equal(ends, [list(prompt) for prompt in prompts], slip, told=lambda ends: f"rows that end with {ends}")


def _pad(probe: Probe, prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, list[int]]:
    """What comes for these prompts, whatever becomes of the lists that are given."""
    ids, pad_lens = _called(probe, deepcopy(prompts))
    return ids, list(pad_lens)


def _called(probe: Probe, prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, list[int] | tuple[int, ...]]:
    """What comes, once it is known to be a row of ids for each prompt, and a list of whole numbers."""
    probe.calls.clear()
    number = len(prompts)
    shown = prompts if sum(map(len, prompts)) < 12 else f"prompts of {list(map(len, prompts))} tokens"
    came = probe.record(f"left_pad({shown})", probe.subject, prompts, shows_result=False)
    if came is None:
        probe.fail("(input_ids, pad_lens)", "None", "no-return")
    if not isinstance(came, tuple | list) or len(came) != 2:
        probe.fail("(input_ids, pad_lens)", kind(came), "not-a-pair")
    ids, pad_lens = came
    if not isinstance(ids, torch.Tensor):
        swapped = isinstance(pad_lens, torch.Tensor) and pad_lens.ndim == 2
        slip = "counts-come-first" if swapped else "ids-are-no-tensor"
        probe.fail("input_ids, a tensor, and pad_lens, a list", f"{kind(ids)} and {kind(pad_lens)}", slip)
    if ids.ndim != 2 or len(ids) != number:
        probe.fail(f"input_ids of shape ({number}, longest)", f"of shape {tuple(ids.shape)}", "not-a-row-a-prompt")
    if ids.dtype not in (torch.int64, torch.int32):  # the two that an embedding takes
        slip = "ids-are-floats" if ids.dtype.is_floating_point else "ids-have-no-room"
        probe.fail("input_ids of torch.int64", f"of {ids.dtype}", slip)
    if not isinstance(pad_lens, tuple | list):
        probe.fail("pad_lens, a list", kind(pad_lens), "counts-are-no-list")
    if other := [count for count in pad_lens if not isinstance(count, Integral)]:
        probe.fail("pad_lens of ints", f"{kind(other[0])} in it: {show(pad_lens)}", "counts-are-no-ints")
    return ids, pad_lens
