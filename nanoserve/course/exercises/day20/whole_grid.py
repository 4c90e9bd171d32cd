"""Task 20.4, second half: many programs, and all that memory may look like."""

from dataclasses import replace

import torch

from nanoserve.course.exercises.day20.numbers import same_numbers
from nanoserve.course.exercises.day20.pools import Inputs, attend, poisoned
from nanoserve.course.kernels.accesses import Access
from nanoserve.course.kernels.trial import Outside, close, undefined
from nanoserve.course.probe import Probe


def several_sequences(probe: Probe) -> None:
    """Three sequences of 6, 3 and 5 tokens."""
    inputs = poisoned(2, 2, 4, 2, [6, 3, 5])
    firsts_table = replace(inputs, tables=inputs.tables[[0, 0, 0]])
    slips = {
        "table-of-the-first": firsts_table.expected(),
        "query-of-the-first": replace(inputs, q=inputs.q[[0, 0, 0]]).expected(),
    }

    def outside(access: Access) -> str:
        return "length-of-another" if access.kind == "read" else "wrong-batch"

    _attended(probe, inputs, "wrong-batch", slips, outside, race="sequences-in-one-place")


def a_sequence_of_no_tokens(probe: Probe) -> None:
    """A sequence of no tokens, beside one of three: zeros."""
    inputs = poisoned(2, 1, 4, 2, [3, 0])
    empty = inputs.expected()
    empty[1] = torch.nan
    run = attend(probe, inputs, "heads-in-one-place", "empty-reads", "empty-reads")
    stored = any(access.tensor == "out" and access.kind == "write" for access in run.accesses if access.program[0] == 1)
    nan = "empty-is-nan" if stored else "empty-not-stored"
    same_numbers(probe, run.tensors["out"], inputs.expected(), "wrong-batch", {nan: empty})


def a_query_out_of_a_fused_projection(probe: Probe) -> None:
    """Queries that are a slice of a wider matrix: each sequence's begin 8 heads behind the one before."""
    inputs = poisoned(4, 2, 4, 2, [3, 4])
    fused = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(20))
    fused[:, :4] = inputs.q
    sliced = replace(inputs, q=fused[:, :4])
    packed = replace(inputs, q=torch.stack([fused.flatten()[row * 16 : row * 16 + 16].view(4, 4) for row in (0, 1)]))

    def outside(access: Access) -> str:
        return "output-strides" if access.kind == "write" else "query-strides"

    _attended(probe, sliced, "wrong-strides", {"query-strides": packed.expected()}, outside)


def a_layer_of_a_pool(probe: Probe) -> None:
    """A pool in which a block's layers lie together, and its KV heads two heads apart."""
    inputs = poisoned(4, 2, 4, 2, [3, 4])
    pools = torch.full((2, len(inputs.k), 3, 2, 4, 4), torch.nan)[:, :, 1, :, ::2]
    pools.copy_(torch.stack([inputs.k, inputs.v]))
    right = inputs.expected()

    def second_kv_head(came: torch.Tensor) -> bool:
        return close(came[:, :2], right[:, :2])

    slips = {"kv-heads-follow": second_kv_head}
    _attended(probe, replace(inputs, k=pools[0], v=pools[1]), "pool-strides", slips, "pool-strides")


def an_output_with_strides(probe: Probe) -> None:
    """An output whose heads lie 2 heads apart."""
    inputs = poisoned(4, 2, 4, 2, [3, 4])
    wide = undefined(2, 8, 4)
    run = attend(probe, inputs, "output-strides", "wrong-strides", "output-strides", out=wide[:, ::2])
    same_numbers(probe, run.tensors["out"], inputs.expected(), "output-strides")


def scores_far_below_zero(probe: Probe) -> None:
    """All scores near -300, and falling by 40 a tile."""
    inputs = poisoned(1, 1, 4, 2, [12])
    inputs.q[:] = 1.0
    for entry, block_id in enumerate(inputs.tables[0].tolist()):
        exact = (64 * inputs.k[block_id]).round() / 64  # so that a score of some hundreds is not rounded
        inputs.k[block_id] = exact - 150 - 20 * (entry // 2)
    _attended(probe, inputs, "wrong-sums", {"maximum-begins-at-0": torch.zeros(1, 1, 4)}, "wrong-sums")


def tiles_and_blocks_of_any_size(probe: Probe) -> None:
    """Tiles longer than a block, shorter than one, and neither a multiple of the other."""
    for block_size, tile in [(3, 8), (16, 4), (5, 4), (1, 4)]:
        inputs = replace(poisoned(3, 1, 4, block_size, [11, 2]), tile=tile)
        _attended(probe, inputs, "tile-and-block", {}, "tile-and-block")


def the_form_with_dot(probe: Probe) -> None:
    """In fp16, and with DOT: the group is padded to 16 rows."""
    inputs = replace(poisoned(6, 2, 16, 4, [21, 3], dtype=torch.float16), tile=16)
    for dot in (False, True):
        run = attend(probe, replace(inputs, dot=dot), "padding-stored", "other-sizes", "padding-stored")
        right = inputs.expected()
        came = run.tensors["out"].float()
        near = came.where((came - right).abs() > 2e-3, right)  # a rounding of fp16 is no slip
        same_numbers(probe, near, right, "other-sizes")


def a_pool_beyond_int32(probe: Probe) -> None:
    """A pool of more than 2**31 elements, of which only the last blocks are there."""
    inputs = poisoned(2, 2, 64, 16, [40])
    first = 2**31 // inputs.k[0].numel() + 7
    beyond = replace(inputs, tables=inputs.tables + first, first_block=first, tile=64)

    def outside(access: Access) -> str:
        before = access.elements[access.elements < first * inputs.k[0].numel()]
        in_block_0 = (before >= 0) & (before < inputs.k[0].numel())
        return "lanes-in-block-0" if access.kind == "read" and len(before) and in_block_0.all() else "int32"

    _attended(probe, beyond, "int32", {}, outside)


def the_log_sum_exp(probe: Probe) -> None:
    """What `store_lse` writes, which tomorrow puts parts of a sequence together."""
    inputs = poisoned(3, 1, 4, 2, [5])
    run = attend(probe, inputs, "wrong-lse", "wrong-lse", "wrong-lse")
    keys = inputs.k[inputs.tables[0, :3]].flatten(0, 1)[:5, 0]
    right = (inputs.scale * inputs.q[0] @ keys.T).logsumexp(1)
    same_numbers(probe, run.tensors["lse"].flatten(), right, "wrong-lse", {"no-lse": undefined(3)}, what="lse")


def two_programs_that_share_a_sequence(probe: Probe) -> None:
    """Two programs a sequence, as tomorrow: of 6 tokens each has a tile; of 3 the second has none."""
    inputs = poisoned(2, 1, 4, 2, [6, 3])
    probe.calls.append("two programs along the grid's third axis:")
    right, whole = torch.zeros(2, 2, 2, 4), inputs.expected()
    right[0] = torch.stack([inputs.over(0, [0, 1, 2, 3])[0], inputs.over(0, [4, 5])[0]], 1)
    right[1, :, 0] = whole[1]
    slips = {
        "share-ignored": whole[:, :, None].expand(2, 2, 2, 4),
        "share-begins-at-0": torch.stack([right[:, :, 0], whole], 2),
    }
    run = attend(probe, inputs, "splits-in-one-place", "wrong-share", "wrong-share", out=undefined(2, 2, 2, 4))
    same_numbers(probe, run.tensors["out"], right, "wrong-share", slips)
    same_numbers(probe, run.tensors["lse"][1, :, 1], torch.full((2,), -torch.inf), "lse-of-nothing", what="lse")


def any_shapes(probe: Probe) -> None:
    """Other numbers of heads, other widths and lengths."""
    shapes = [((9, 3, 64, 16), [33, 0, 16], 32), ((7, 1, 80, 3), [10, 1], 16), ((2, 2, 5, 24), [25, 24], 8)]
    for shape, lengths, tile in shapes:
        inputs = replace(poisoned(*shape, lengths), tile=tile, scale=shape[2] ** -0.5)
        _attended(probe, inputs, "other-sizes", {}, "other-sizes")


def _attended(
    probe: Probe, inputs: Inputs, slip: str, slips: dict, outside: Outside, race: str = "heads-in-one-place"
) -> None:
    run = attend(probe, inputs, race=race, reads=outside, writes=outside)
    same_numbers(probe, run.tensors["out"], inputs.expected(), slip, slips)
