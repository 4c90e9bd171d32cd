"""Stages of task 18.2: attention goes over the blocks of a table where they lie."""

from collections.abc import Sequence

import torch

from nanoserve.course.exercises.day18.numbers import same_numbers
from nanoserve.course.exercises.day18.scenes import (
    BLOCK,
    NOWHERE,
    WIDTH,
    LargestMade,
    attention,
    call,
    carried_over,
    compare,
    dense,
    divided_in_every_block,
    pools,
)
from nanoserve.course.probe import Probe


def one_full_block(probe: Probe) -> None:
    """one full block, one head: softmax(q · keys · scale) · values"""
    q, k_pool, v_pool = pools(2, 1, 1, width=3)
    keys, values = k_pool[1].transpose(0, 1), v_pool[1].transpose(0, 1)
    weights = (keys @ q[0][:, :, None]).squeeze(-1) * 3**-0.5
    twice = [0, 1, 2, 3, 0, 1, 2, 0, 1, 0]  # what turns of 4, 3, 2 and 1 tokens hold
    slips = {
        "no-scale": attention(q[0], keys, values, scale=1.0),
        "scaled-by-the-wrong-power": attention(q[0], keys, values, scale=1 / 3),
        "never-divided": (weights - weights.amax()).exp() @ values[0],
        "keys-for-values": attention(q[0], keys, keys),
        "values-for-keys": attention(q[0], values, values),
        "entry-for-id": attention(q[0], k_pool[0].transpose(0, 1), v_pool[0].transpose(0, 1)),
        "one-short": attention(q[0], keys[:, :3], values[:, :3]),
        "step-of-one": attention(q[0], keys[:, twice], values[:, twice]),
        "fold-not-kept": torch.full((1, 3), torch.nan),
    }
    compare(probe, q, k_pool, v_pool, [[1]], [4], {name: out[None] for name, out in slips.items()}, "other-attention")


def query_heads_in_groups(probe: Probe) -> None:
    """six query heads share two KV heads: 0 to 2 read the first, 3 to 5 the second"""
    q, k_pool, v_pool = pools(2, 6, 2)
    keys, values = k_pool[1].transpose(0, 1), v_pool[1].transpose(0, 1)  # (2, 4, width)
    slips = {
        "neighbouring-head": attention(q[0], keys.repeat(3, 1, 1), values.repeat(3, 1, 1)),
        "values-of-the-neighbouring-head": attention(q[0], keys.repeat_interleave(3, 0), values.repeat(3, 1, 1)),
        "first-head-for-all": attention(q[0], keys[[0] * 6], values[[0] * 6]),
    }
    giveaways = {name: out[None] for name, out in slips.items()}
    with probe.on_error(RuntimeError, IndexError, slip="heads-do-not-fit"):
        compare(probe, q, k_pool, v_pool, [[1]], [4], giveaways, "other-heads")


def three_blocks_in_the_tables_order(probe: Probe) -> None:
    """three full blocks, scattered"""
    q, k_pool, v_pool = pools(5, 2, 1)
    table = [4, 0, 2]

    def over(ids: Sequence[int]) -> torch.Tensor:
        return dense(q[0], k_pool, v_pool, ids, BLOCK * len(ids))[None]

    each = torch.stack([over([block_id]) for block_id in table])
    slips = {
        "entry-for-id": over([0, 1, 2]),
        "first-block-only": over(table[:1]),
        "last-block-only": over(table[-1:]),
        "last-block-missing": over(table[:-1]),
        "mean-of-the-blocks": each.mean(0),
        "sum-of-the-blocks": each.sum(0),
        "divided-in-every-block": divided_in_every_block(q[0], k_pool, v_pool, table)[None],
    }
    compare(probe, q, k_pool, v_pool, [table], [12], slips, "other-blocks-read")


def the_rest_of_the_last_block(probe: Probe) -> None:
    """ten tokens in three blocks: behind the tenth lies another's"""
    q, k_pool, v_pool = pools(5, 2, 1)
    table = [2, 4, 0]
    own = dense(q[0], k_pool, v_pool, table, 10)
    slips = {
        "stale-slots": dense(q[0], k_pool, v_pool, table, 12)[None],
        "last-block-missing": dense(q[0], k_pool, v_pool, table, 8)[None],
        "id-order": dense(q[0], k_pool, v_pool, sorted(table), 10)[None],
        "table-backwards": dense(q[0], k_pool, v_pool, table[::-1], 10)[None],
        "one-short": dense(q[0], k_pool, v_pool, table, 9)[None],
    }
    compare(probe, q, k_pool, v_pool, [table], [10], slips, "other-tokens")
    for pool in (k_pool, v_pool):  # and now what lies there is no number
        pool[table[-1], 2:] = torch.nan
    compare(probe, q, k_pool, v_pool, [table], [10], {}, "nan-behind-the-end", out=own[None])


def several_sequences(probe: Probe) -> None:
    """two sequences of 6 and 4 tokens; a table's unused entries name no block"""
    q, k_pool, v_pool = pools(5, 2, 1, batch=2)
    tables, lengths = [[3, 0, NOWHERE], [1, NOWHERE, NOWHERE]], [6, 4]
    first = dense(q[0], k_pool, v_pool, [3, 0], 6)
    both = dense(q[1], k_pool, v_pool, [3, 0], 6)
    slips = {
        "first-table-for-all": torch.stack([first, both]),
        "first-query-for-all": torch.stack([first, dense(q[0], k_pool, v_pool, [1], 4)]),
        "first-sequence-only": torch.stack([first, torch.zeros_like(first)]),
        "carried-over": torch.stack([first, carried_over(q, k_pool, v_pool)]),
    }
    with probe.on_error(IndexError, slip="beyond-the-table"):
        compare(probe, q, k_pool, v_pool, tables, lengths, slips, "other-sequence")


def a_sequence_of_no_tokens(probe: Probe) -> None:
    """an idle row of no tokens gives zeros, and its neighbour is none the worse"""
    q, k_pool, v_pool = pools(3, 2, 1, batch=2)
    own = dense(q[1], k_pool, v_pool, [2], 3)
    slips = {
        "nothing-by-nothing": torch.stack([torch.full_like(own, torch.nan), own]),
        "ends-at-an-empty-one": torch.zeros(2, *own.shape),
    }
    refusals = AssertionError, IndexError, TypeError, ValueError, RuntimeError, ZeroDivisionError
    with probe.on_error(*refusals, slip="empty-refused"):
        compare(probe, q, k_pool, v_pool, [[NOWHERE], [2]], [0, 3], slips, "other-empty")


def a_scale_of_the_callers(probe: Probe) -> None:
    """a scale that the caller gives takes the place of 1 / sqrt(head_dim)"""
    q, k_pool, v_pool = pools(3, 2, 1)
    slips = {
        "scale-ignored": dense(q[0], k_pool, v_pool, [1, 2], 7)[None],
        "scale-and-root": dense(q[0], k_pool, v_pool, [1, 2], 7, 0.25 * WIDTH**-0.5)[None],
    }
    compare(probe, q, k_pool, v_pool, [[1, 2]], [7], slips, "other-scale", scale=0.25)
    by_default = {"zero-taken-for-none": dense(q[0], k_pool, v_pool, [1, 2], 7)[None]}
    compare(probe, q, k_pool, v_pool, [[1, 2]], [7], by_default, "other-scale", scale=0.0)


def scores_far_below_zero(probe: Probe) -> None:
    """scores of -200, then of a million below 0: the maximum begins below them all"""
    q, k_pool, v_pool = torch.ones(1, 1, WIDTH), torch.full((2, BLOCK, 1, WIDTH), -150.0), pools(2, 1, 1)[2]
    k_pool += torch.arange(2 * BLOCK).view(2, BLOCK, 1, 1)
    nan = torch.full((1, 1, WIDTH), torch.nan)
    slips = {"starts-at-0": nan, "vanishes": torch.zeros(1, 1, WIDTH)}
    compare(probe, q, k_pool, v_pool, [[1, 0]], [7], slips, "other-low-scores")
    compare(probe, q, k_pool - 5e5, v_pool, [[1, 0]], [7], {}, "begins-too-high", scale=1.0)


def the_pool_stays_as_it_is(probe: Probe) -> None:
    """queries, keys, values, table and lengths are only read"""
    q, k_pool, v_pool = pools(3, 2, 2)
    given = q, k_pool, v_pool, torch.tensor([[2, 1]]), torch.tensor([6])
    before = [tensor.clone() for tensor in given]
    call(probe, *given)
    names = "q", "k_pool", "v_pool", "block_tables", "seq_lens"
    for name, now, was in zip(names, given, before, strict=True):
        same_numbers(probe, now, was, "changes-the-pool", what=f"{name} afterwards")


def nothing_is_copied_together(probe: Probe) -> None:
    """128 tokens in 32 blocks, and no tensor of yours as large as the history"""
    q, k_pool, v_pool = pools(40, 4, 2, width=16)
    ids = torch.randperm(40, generator=torch.Generator().manual_seed(4))[:32].tolist()
    with LargestMade(k_pool, v_pool) as made:
        came = call(probe, q, k_pool, v_pool, [ids], [128])
    same_numbers(probe, came, dense(q[0], k_pool, v_pool, ids, 128)[None], "other-blocks-read")
    probe.cases += 1
    history = 128 * 2 * 16
    if made.numbers >= history // 4:
        probe.fail(
            f"tensors of a block's size: its keys are {BLOCK * 2 * 16} numbers, for 4 query heads {BLOCK * 4 * 16}",
            f"one of {made.numbers:,} numbers; the keys of all {len(ids)} blocks are {history:,}",
            "copied-together",
        )


def any_shapes(probe: Probe) -> None:
    """any block size, heads and head_dim; NaN in every slot that is nobody's"""
    for heads, kv_heads, width, size, lengths in (
        (9, 3, 64, 16, [40, 16, 0, 1]),
        (3, 3, 8, 5, [5, 6, 21]),
        (8, 1, 16, 1, [3]),
        (14, 2, 80, 3, [10, 2]),
    ):
        q, k_pool, v_pool = pools(20, heads, kv_heads, batch=len(lengths), width=width, size=size)
        ids = torch.randperm(20, generator=torch.Generator().manual_seed(size)).tolist()
        tables = [[ids.pop() for _ in range(-(-n // size))] for n in lengths]
        owned = torch.zeros(20 * size, dtype=torch.bool)
        for table, n in zip(tables, lengths, strict=True):
            owned[[table[p // size] * size + p % size for p in range(n)]] = True
        for pool in (k_pool, v_pool):
            pool.view(-1, kv_heads, width)[~owned] = torch.nan
        most = max(map(len, tables)) + 1
        padded = [table + [NOWHERE] * (most - len(table)) for table in tables]
        with probe.on_error(IndexError, slip="other-shapes"):
            compare(probe, q, k_pool, v_pool, padded, lengths, {}, "other-shapes")
