"""Task 20.4, first half: what one program does."""

from dataclasses import replace

import torch

from nanoserve.course.exercises.day19.misuses import NO_PYTHON, keeps_its_pointers, masked_by_and
from nanoserve.course.exercises.day20.numbers import nearly, same_numbers
from nanoserve.course.exercises.day20.pools import Inputs, attend, compile_it, poisoned
from nanoserve.course.kernels.accesses import Access
from nanoserve.course.kernels.launch import Run, compiled
from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.kernels.trial import Outside, undefined
from nanoserve.course.probe import Probe

REFUSED = NO_PYTHON | {
    "global variable": "plain-global",
    "Boolean value": "if-on-a-vector",
    "oop-carried": "type-changes",
    "power of 2": "not-padded",
    "K >= 16": "dot-always",
    "incompatible dimensions": "wrong-shape",
    "": "not-compiled",
}


def one_head_one_tile(probe: Probe) -> None:
    """One query head over four tokens: one block, one tile."""
    keeps_its_pointers(probe, "q_ptr", "k_ptr", "v_ptr", "table_ptr", "lens_ptr", "out_ptr", "lse_ptr")
    inputs = poisoned(1, 1, 4, 4, [4], scale=0.3)
    right = inputs.expected()
    total = _weights(inputs).sum()
    slips = {
        "nothing-stored": undefined(1, 1, 4),
        "no-tile-folded": torch.zeros(1, 1, 4),
        "not-divided": right * total,
        "scale-left-out": replace(inputs, scale=1.0).expected(),
        "scale-of-its-own": replace(inputs, scale=0.5).expected(),
        "scaled-twice": replace(inputs, scale=inputs.scale**2).expected(),
        "keys-for-values": replace(inputs, v=inputs.k).expected(),
        "values-for-keys": replace(inputs, k=inputs.v).expected(),
        "last-token-left-out": inputs.over(0, [0, 1, 2]),
        "stored-in-16-bits": lambda came: nearly(came, right),
        "step-of-one": inputs.over(0, [0, 1, 2, 3, 1, 2, 3, 2, 3, 3]),
    }
    _attended(probe, inputs, "wrong-attention", slips, "one-too-far")


def the_compiler_takes_it(probe: Probe) -> None:
    """The compiler takes the kernel for a T4, and with DOT for an H100."""
    compile_it(probe, poisoned(6, 2, 4, 4, [9]), (7, 5), REFUSED)
    inputs = replace(poisoned(6, 2, 16, 4, [9], dtype=torch.float16), tile=16, dot=True)
    code = compile_it(probe, inputs, (9, 0), REFUSED)
    arguments, constants = inputs.arguments(torch.empty_like(inputs.q))
    right = compiled(
        KernelReference("nanoserve.kernels.paged_decode", "paged_decode_kernel"), (9, 0), *arguments, **constants
    )
    came, wanted = (made.ptx.count("f32.f16.f16") for made in (code, right))
    if came < wanted:
        probe.fail(f"{wanted} instructions for fp16 on tensor cores (mma … f16.f16)", f"{came}", "dot-not-for-both")


def heads_in_groups(probe: Probe) -> None:
    """Four query heads, two KV heads: heads 0 and 1 read KV head 0, heads 2 and 3 KV head 1."""
    inputs = poisoned(4, 2, 4, 4, [4])
    right = inputs.expected()
    first_only = right.clone()
    first_only[:, [1, 3]] = torch.nan
    slips = {
        "neighbours-keys": inputs.with_kv_heads([0, 1, 0, 1]),
        "one-kv-head-for-all": inputs.with_kv_heads([0, 0, 0, 0]),
        "one-query-for-all": replace(inputs, q=inputs.q[:, [0, 0, 2, 2]]).expected(),
        "one-head-of-the-group": first_only,
    }

    def outside(access: Access) -> str:
        return "grid-axes" if access.tensor in ("lens", "table") else "heads-too-far"

    _attended(probe, inputs, "wrong-heads", slips, outside)


def a_group_of_three(probe: Probe) -> None:
    """Three query heads a KV head: the group is padded to 4, and memory is not."""
    inputs = poisoned(6, 2, 4, 4, [4])

    def outside(access: Access) -> str:
        if access.elements.min() == 16:  # head 4, where the second group's first is head 3
            return "group-by-the-pad"
        return "padding-stored" if access.kind == "write" else "padding-loaded"

    _attended(probe, inputs, "wrong-group", {}, outside, race="padding-stored")


def several_tiles(probe: Probe) -> None:
    """Eight tokens in two tiles of 4, over four scattered blocks of 2."""
    inputs = poisoned(2, 1, 4, 2, [8])
    slips = {
        "first-tile-only": inputs.over(0, [0, 1, 2, 3]),
        "last-tile-only": inputs.over(0, [4, 5, 6, 7]),
        "step-of-a-block": inputs.over(0, [0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7]),
        "divided-in-every-turn": _divided_in_every_turn(inputs),
    }

    def outside(access: Access) -> str:
        return "outside-with-two-tiles" if access.tensor in ("k", "v") else "wrong-loop"

    _attended(probe, inputs, "wrong-loop", slips, outside)


def the_last_tile_is_not_full(probe: Probe) -> None:
    """Five tokens in a tile of 8 and blocks of 2; NaN lies in the slot behind the last token."""
    inputs = replace(poisoned(2, 1, 4, 2, [5]), tile=8)
    run = _run(probe, inputs, "table-too-far", "wrong-end")
    stale = inputs.v.isnan().flatten().nonzero().flatten()
    read = torch.cat([torch.as_tensor(access.elements) for access in run.accesses if access.tensor == "v"] or [stale])
    read, behind = read[torch.isin(read, stale)], stale[-inputs.v[0, 0].numel() :]  # the pool's last slot is token 5's
    nan = masked_by_and(probe) or (
        "no-other" if not len(read) else "one-token-too-many" if torch.isin(read, behind).all() else "values-not-masked"
    )
    slips = {
        nan: lambda came: bool(came.isnan().any()),
        "whole-tiles-only": torch.zeros(1, 2, 4),
        "zeros-counted": _zeros_counted(inputs, 8),
    }
    same_numbers(probe, run.tensors["out"], inputs.expected(), "wrong-end", slips)


def a_width_that_is_no_power_of_two(probe: Probe) -> None:
    """Heads of 3 numbers, in tiles 4 wide."""
    inputs = poisoned(2, 2, 3, 2, [4])
    slips = {"no-other-in-the-width": lambda came: bool(came.isnan().all(-1).any())}

    def outside(access: Access) -> str:
        masked = access.tensor in ("q", "out") and len(access.elements) == 3
        return "padded-stride" if masked else unmasked

    unmasked = masked_by_and(probe) or "width-not-masked"
    _attended(probe, inputs, "wrong-width", slips, outside, race=unmasked)


def _attended(
    probe: Probe, inputs: Inputs, slip: str, slips: dict, outside: Outside, race: str = "heads-in-one-place"
) -> None:
    same_numbers(probe, _run(probe, inputs, outside, race).tensors["out"], inputs.expected(), slip, slips)


def _run(probe: Probe, inputs: Inputs, outside: Outside, race: str) -> Run:
    return attend(probe, inputs, race=race, reads=outside, writes=outside)


def _scores(inputs: Inputs) -> torch.Tensor:
    """(num_heads, tokens) of the first sequence, which has one KV head."""
    keys = inputs.k[inputs.tables[0]].flatten(0, 1)[: inputs.lengths[0], 0]
    return inputs.scale * inputs.q[0] @ keys.T


def _weights(inputs: Inputs) -> torch.Tensor:
    scores = _scores(inputs)
    return (scores - scores.amax(1, keepdim=True)).exp()


def _zeros_counted(inputs: Inputs, tokens: int) -> torch.Tensor:
    """What comes out if the lanes without a token counted with a score of 0 and values of 0."""
    scores = _scores(inputs)
    whole = scores.exp().sum(1) + tokens - scores.shape[1]
    return inputs.expected() * (scores.exp().sum(1) / whole)[None, :, None]


def _divided_in_every_turn(inputs: Inputs) -> torch.Tensor:
    """What comes out of two tiles of four if the mix is divided by the total in each turn."""
    scores, values = _scores(inputs), inputs.v[inputs.tables[0]].flatten(0, 1)[:, 0]
    largest = scores[:, :4].amax(1)
    weights = (scores[:, :4] - largest[:, None]).exp()
    new_largest = scores.amax(1)
    shrink, new_weights = (largest - new_largest).exp(), (scores[:, 4:] - new_largest[:, None]).exp()
    mixed = (weights @ values[:4]) / weights.sum(1, keepdim=True) * shrink[:, None] + new_weights @ values[4:]
    return (mixed / (weights.sum(1) * shrink + new_weights.sum(1))[:, None])[None]
