"""Stages of task 18.2: attention goes over the blocks of a table where they lie."""

from collections.abc import Sequence

import torch
from torch.overrides import TorchFunctionMode

from nanoserve.course.exercises.day18.numbers import same_numbers
from nanoserve.course.probe import Probe

NOWHERE = 2**20  # a block id that no pool has
_BLOCK, _WIDTH = 4, 2


def one_full_block(probe: Probe) -> None:
    """one full block, one head: softmax(q · keys · scale) · values"""
    q, k_pool, v_pool = _pools(2, 1, 1)
    keys, values = k_pool[1].transpose(0, 1), v_pool[1].transpose(0, 1)
    weights = (keys @ q[0][:, :, None]).squeeze(-1) * _WIDTH**-0.5
    slips = {
        "no-scale": _attention(q[0], keys, values, scale=1.0),
        "scaled-by-the-wrong-power": _attention(q[0], keys, values, scale=_WIDTH**-1),
        "never-divided": (weights - weights.amax()).exp() @ values[0],
        "keys-for-values": _attention(q[0], keys, keys),
        "values-for-keys": _attention(q[0], values, values),
        "entry-for-id": _attention(q[0], k_pool[0].transpose(0, 1), v_pool[0].transpose(0, 1)),
    }
    _compare(probe, q, k_pool, v_pool, [[1]], [4], {name: out[None] for name, out in slips.items()}, "other-attention")


def query_heads_in_groups(probe: Probe) -> None:
    """four query heads share two KV heads: 0 and 1 read the first, 2 and 3 the second"""
    q, k_pool, v_pool = _pools(2, 4, 2)
    keys, values = k_pool[1].transpose(0, 1), v_pool[1].transpose(0, 1)  # (2, 4, width)
    slips = {
        "neighbouring-head": _attention(q[0], keys.repeat(2, 1, 1), values.repeat(2, 1, 1)),
        "values-of-the-neighbouring-head": _attention(q[0], keys.repeat_interleave(2, 0), values.repeat(2, 1, 1)),
        "first-head-for-all": _attention(q[0], keys[[0] * 4], values[[0] * 4]),
    }
    giveaways = {name: out[None] for name, out in slips.items()}
    with probe.on_error(RuntimeError, IndexError, slip="heads-do-not-fit"):
        _compare(probe, q, k_pool, v_pool, [[1]], [4], giveaways, "other-heads")


def three_blocks_in_the_tables_order(probe: Probe) -> None:
    """three full blocks, scattered"""
    q, k_pool, v_pool = _pools(5, 2, 1)
    table = [4, 0, 2]

    def over(ids: Sequence[int]) -> torch.Tensor:
        return _dense(q[0], k_pool, v_pool, ids, _BLOCK * len(ids))[None]

    each = torch.stack([over([block_id]) for block_id in table])
    slips = {
        "entry-for-id": over([0, 1, 2]),
        "first-block-only": over(table[:1]),
        "last-block-only": over(table[-1:]),
        "last-block-missing": over(table[:-1]),
        "mean-of-the-blocks": each.mean(0),
        "sum-of-the-blocks": each.sum(0),
        "divided-in-every-block": _divided_in_every_block(q[0], k_pool, v_pool, table)[None],
    }
    _compare(probe, q, k_pool, v_pool, [table], [12], slips, "other-blocks-read")


def the_rest_of_the_last_block(probe: Probe) -> None:
    """ten tokens in three blocks: behind the tenth lies another's"""
    q, k_pool, v_pool = _pools(5, 2, 1)
    table = [4, 0, 2]
    own = _dense(q[0], k_pool, v_pool, table, 10)
    slips = {
        "stale-slots": _dense(q[0], k_pool, v_pool, table, 12)[None],
        "last-block-missing": _dense(q[0], k_pool, v_pool, table, 8)[None],
        "id-order": _dense(q[0], k_pool, v_pool, sorted(table), 10)[None],
        "one-short": _dense(q[0], k_pool, v_pool, table, 9)[None],
    }
    _compare(probe, q, k_pool, v_pool, [table], [10], slips, "other-tokens")
    for pool in (k_pool, v_pool):  # and now what lies there is no number
        pool[2, 2:] = torch.nan
    _compare(probe, q, k_pool, v_pool, [table], [10], {}, "nan-behind-the-end", out=own[None])


def several_sequences(probe: Probe) -> None:
    """two sequences of 6 and 4 tokens; a table's unused entries name no block"""
    q, k_pool, v_pool = _pools(5, 2, 1, batch=2)
    tables, lengths = [[3, 0, NOWHERE], [1, NOWHERE, NOWHERE]], [6, 4]
    first = _dense(q[0], k_pool, v_pool, [3, 0], 6)
    both = _dense(q[1], k_pool, v_pool, [3, 0], 6)
    slips = {
        "first-table-for-all": torch.stack([first, both]),
        "first-query-for-all": torch.stack([first, _dense(q[0], k_pool, v_pool, [1], 4)]),
        "first-sequence-only": torch.stack([first, torch.zeros_like(first)]),
        "carried-over": torch.stack([first, _carried_over(q, k_pool, v_pool)]),
    }
    with probe.on_error(IndexError, slip="beyond-the-table"):
        _compare(probe, q, k_pool, v_pool, tables, lengths, slips, "other-sequence")


def a_sequence_of_no_tokens(probe: Probe) -> None:
    """an idle row of no tokens gives zeros, and its neighbour is none the worse"""
    q, k_pool, v_pool = _pools(3, 2, 1, batch=2)
    own = _dense(q[1], k_pool, v_pool, [2], 3)
    slips = {
        "nothing-by-nothing": torch.stack([torch.full_like(own, torch.nan), own]),
        "ends-at-an-empty-one": torch.zeros(2, *own.shape),
    }
    with probe.on_error(IndexError, TypeError, ValueError, RuntimeError, slip="empty-refused"):
        _compare(probe, q, k_pool, v_pool, [[NOWHERE], [2]], [0, 3], slips, "other-empty")


def a_scale_of_the_callers(probe: Probe) -> None:
    """a scale that the caller gives takes the place of 1 / sqrt(head_dim)"""
    q, k_pool, v_pool = _pools(3, 2, 1)
    slips = {
        "scale-ignored": _dense(q[0], k_pool, v_pool, [1, 2], 7)[None],
        "scale-and-root": _dense(q[0], k_pool, v_pool, [1, 2], 7, 0.25 * _WIDTH**-0.5)[None],
    }
    _compare(probe, q, k_pool, v_pool, [[1, 2]], [7], slips, "other-scale", scale=0.25)


def scores_far_below_zero(probe: Probe) -> None:
    """scores of -200 and below: the maximum may not begin at 0"""
    q, k_pool, v_pool = torch.ones(1, 1, _WIDTH), torch.full((2, _BLOCK, 1, _WIDTH), -150.0), _pools(2, 1, 1)[2]
    k_pool += torch.arange(2 * _BLOCK).view(2, _BLOCK, 1, 1)
    nan = torch.full((1, 1, _WIDTH), torch.nan)
    slips = {"starts-at-0": nan, "vanishes": torch.zeros(1, 1, _WIDTH)}
    _compare(probe, q, k_pool, v_pool, [[1, 0]], [7], slips, "other-low-scores")


def the_pool_stays_as_it_is(probe: Probe) -> None:
    """queries, keys and values are only read"""
    q, k_pool, v_pool = _pools(3, 2, 2)
    before = q.clone(), k_pool.clone(), v_pool.clone()
    _call(probe, q, k_pool, v_pool, [[2, 1]], [6])
    for name, now, was in zip(("q", "k_pool", "v_pool"), (q, k_pool, v_pool), before, strict=True):
        same_numbers(probe, now, was, "changes-the-pool", what=f"{name} afterwards")


def nothing_is_copied_together(probe: Probe) -> None:
    """128 tokens in 32 blocks, and no tensor of yours as large as the history"""
    q, k_pool, v_pool = _pools(40, 4, 2, width=16)
    ids = torch.randperm(40, generator=torch.Generator().manual_seed(4))[:32].tolist()
    with _LargestMade(k_pool, v_pool) as made:
        came = _call(probe, q, k_pool, v_pool, [ids], [128])
    same_numbers(probe, came, _dense(q[0], k_pool, v_pool, ids, 128)[None], "other-blocks-read")
    probe.cases += 1
    history = 128 * 2 * 16
    if made.numbers >= history // 4:
        probe.fail(
            f"tensors of a block's size: its keys are {_BLOCK * 2 * 16} numbers, for 4 query heads {_BLOCK * 4 * 16}",
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
        q, k_pool, v_pool = _pools(20, heads, kv_heads, batch=len(lengths), width=width, size=size)
        ids = torch.randperm(20, generator=torch.Generator().manual_seed(size)).tolist()
        tables = [[ids.pop() for _ in range(-(-n // size))] for n in lengths]
        owned = torch.zeros(20 * size, dtype=torch.bool)
        for table, n in zip(tables, lengths, strict=True):
            owned[[table[p // size] * size + p % size for p in range(n)]] = True
        for pool in (k_pool, v_pool):
            pool.view(-1, kv_heads, width)[~owned] = torch.nan
        most = max(map(len, tables)) + 1
        padded = [table + [NOWHERE] * (most - len(table)) for table in tables]
        _compare(probe, q, k_pool, v_pool, padded, lengths, {}, "other-shapes")


class _LargestMade(TorchFunctionMode):
    """How many numbers the largest tensor holds that was made meanwhile, views of the pools left out."""

    def __init__(self, *pools: torch.Tensor) -> None:
        super().__init__()
        self._pools = {pool.untyped_storage().data_ptr() for pool in pools}
        self.numbers = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in self._pools:
            self.numbers = max(self.numbers, result.numel())
        return result


def _pools(
    num_blocks: int, heads: int, kv_heads: int, batch: int = 1, width: int = _WIDTH, size: int = _BLOCK
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values that tell every head, block and token from every other."""
    draw = torch.Generator().manual_seed(100 * num_blocks + 10 * heads + kv_heads)
    q = torch.randn(batch, heads, width, generator=draw)
    return q, *(torch.randn(num_blocks, size, kv_heads, width, generator=draw) for _ in range(2))


def _attention(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    """One softmax over all tokens: q is (heads, width), keys and values (heads, tokens, width)."""
    scores = (keys.double() @ q.double()[:, :, None]).squeeze(-1) * (q.shape[1] ** -0.5 if scale is None else scale)
    return (scores.softmax(-1)[:, None] @ values.double()).squeeze(1).float()


def _dense(
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    table: Sequence[int],
    num_tokens: int,
    scale: float | None = None,
) -> torch.Tensor:
    """The attention of one sequence over its first tokens, (heads, width), token by token from its blocks."""
    size, group = k_pool.shape[1], len(q) // k_pool.shape[2]
    places = [(table[p // size], p % size) for p in range(num_tokens)]
    if not places:
        return torch.zeros_like(q)
    keys, values = (
        torch.stack([pool[place] for place in places], dim=1).repeat_interleave(group, 0) for pool in (k_pool, v_pool)
    )
    return _attention(q, keys, values, scale)


def _divided_in_every_block(
    q: torch.Tensor, k_pool: torch.Tensor, v_pool: torch.Tensor, table: Sequence[int]
) -> torch.Tensor:
    """What comes when the mix is divided by the total after each block, and goes on being summed."""
    largest, total, mixed = torch.full((len(q),), -1e30), torch.zeros(len(q)), torch.zeros_like(q)
    for block_id in table:
        scores = (k_pool[block_id, :, 0] @ q.T).T * q.shape[1] ** -0.5
        highest = torch.maximum(largest, scores.amax(-1))
        shrink, weights = (largest - highest).exp(), (scores - highest[:, None]).exp()
        largest, total = highest, total * shrink + weights.sum(-1)
        mixed = (mixed * shrink[:, None] + weights @ v_pool[block_id, :, 0]) / total[:, None]
    return mixed


def _carried_over(q: torch.Tensor, k_pool: torch.Tensor, v_pool: torch.Tensor) -> torch.Tensor:
    """The second sequence's attention, when the three numbers of the first are still there: one softmax over both."""
    scores, values = [], []
    for row, (table, num_tokens) in enumerate((([3, 0], 6), ([1], 4))):
        keys, held = (torch.cat([pool[i, :, 0] for i in table])[:num_tokens] for pool in (k_pool, v_pool))
        scores.append(q[row] @ keys.T * q.shape[2] ** -0.5)
        values.append(held)
    return torch.cat(scores, dim=1).softmax(-1) @ torch.cat(values)


def _call(
    probe: Probe,
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    tables: list[list[int]],
    lengths: list[int],
    scale: float | None = None,
) -> torch.Tensor:
    probe.calls.clear()
    shown = str(tables).replace(str(NOWHERE), "unused")
    shown = shown if len(shown) < 60 else f"{len(tables)} of {max(map(len, tables))} blocks"
    line = (
        f"out = blockwise_attention(q, k_pool, v_pool, block_tables, seq_lens{'' if scale is None else f', {scale}'})"
        f"\n  # q {tuple(q.shape)}, pools {tuple(k_pool.shape)}, block_tables {shown}, seq_lens {lengths}"
    )
    extra = () if scale is None else (scale,)
    arguments = q, k_pool, v_pool, torch.tensor(tables), torch.tensor(lengths), *extra
    came = probe.record(line, probe.subject, *arguments, shows_result=False)
    if not isinstance(came, torch.Tensor):
        kind = "None" if came is None else f"a {type(came).__name__}"
        probe.fail(f"a tensor of shape {tuple(q.shape)}", kind, "no-return" if came is None else "not-a-tensor")
    if came.shape != q.shape:
        probe.fail(f"a tensor of shape {tuple(q.shape)}", f"one of {tuple(came.shape)}", "wrong-shape")
    return came


def _compare(
    probe: Probe,
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    tables: list[list[int]],
    lengths: list[int],
    slips: dict[str, torch.Tensor],
    slip: str,
    scale: float | None = None,
    out: torch.Tensor | None = None,
) -> None:
    """One case: the attention of every sequence; `out` where it cannot be worked out from what lies in the pools."""
    came = _call(probe, q.clone(), k_pool.clone(), v_pool.clone(), tables, lengths, scale)
    if out is None:
        rows = zip(q, tables, lengths, strict=True)
        out = torch.stack([_dense(row, k_pool, v_pool, table, n, scale) for row, table, n in rows])
    same_numbers(probe, came, out, slip, slips)
