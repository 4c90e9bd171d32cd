"""Inputs of task 18.2's stages, what right and wrong walks over them give, and a learner's walk beside them."""

from collections.abc import Sequence

import torch
from torch.overrides import TorchFunctionMode

from nanoserve.course.exercises.day18.numbers import same_numbers
from nanoserve.course.probe import Probe, kind

BLOCK, WIDTH = 4, 2  # tokens in a block, and numbers in a head, unless a stage says otherwise
NOWHERE = 2**20  # a block id that no pool has


class LargestMade(TorchFunctionMode):
    """How many numbers the largest tensor holds that was made meanwhile, views of the pools left out."""

    def __init__(self, *pools: torch.Tensor) -> None:
        super().__init__()
        self.pools = {pool.untyped_storage().data_ptr() for pool in pools}
        self.numbers = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in self.pools:
            self.numbers = max(self.numbers, result.numel())
        return result


def pools(
    num_blocks: int, heads: int, kv_heads: int, batch: int = 1, width: int = WIDTH, size: int = BLOCK
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values that tell every head, block and token from every other."""
    draw = torch.Generator().manual_seed(100 * num_blocks + 10 * heads + kv_heads)
    q = torch.randn(batch, heads, width, generator=draw)
    return q, *(torch.randn(num_blocks, size, kv_heads, width, generator=draw) for _ in range(2))


def attention(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    """One softmax over all tokens: q is (heads, width), keys and values (heads, tokens, width)."""
    scores = (keys.double() @ q.double()[:, :, None]).squeeze(-1) * (q.shape[1] ** -0.5 if scale is None else scale)
    return (scores.softmax(-1)[:, None] @ values.double()).squeeze(1).float()


def dense(
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
    return attention(q, keys, values, scale)


def divided_in_every_block(
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


def carried_over(q: torch.Tensor, k_pool: torch.Tensor, v_pool: torch.Tensor) -> torch.Tensor:
    """The second sequence's attention, when what `fold` kept of the first is still there: one softmax over both."""
    scores, values = [], []
    for row, (table, num_tokens) in enumerate((([3, 0], 6), ([1], 4))):
        keys, held = (torch.cat([pool[i, :, 0] for i in table])[:num_tokens] for pool in (k_pool, v_pool))
        scores.append(q[row] @ keys.T * q.shape[2] ** -0.5)
        values.append(held)
    return torch.cat(scores, dim=1).softmax(-1) @ torch.cat(values)


def call(
    probe: Probe,
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    tables: list[list[int]] | torch.Tensor,
    lengths: list[int] | torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """The learner's attention over these blocks, if it is a tensor of the queries' shape, device and dtype."""
    probe.calls.clear()
    tables, lengths = (torch.as_tensor(given) for given in (tables, lengths))
    shown = str(tables.tolist()).replace(str(NOWHERE), "unused")
    shown = shown if len(shown) < 60 else str(tuple(tables.shape))
    line = (
        f"out = blockwise_attention(q, k_pool, v_pool, block_tables, seq_lens{'' if scale is None else f', {scale}'})"
        f"\n  # q {tuple(q.shape)}, pools {tuple(k_pool.shape)}, block_tables {shown}, seq_lens {lengths.tolist()}"
    )
    extra = () if scale is None else (scale,)
    with probe.on_error(NameError, slip="fold-unknown", match="'fold' is not defined"):
        came = probe.record(line, probe.subject, q, k_pool, v_pool, tables, lengths, *extra, shows_result=False)
    if not isinstance(came, torch.Tensor):
        what = "None" if came is None else kind(came)
        probe.fail(f"a tensor of shape {tuple(q.shape)}", what, "no-return" if came is None else "not-a-tensor")
    if came.shape != q.shape:
        probe.fail(f"a tensor of shape {tuple(q.shape)}", f"one of {tuple(came.shape)}", "wrong-shape")
    if came.device != q.device:
        probe.fail(f"a tensor on {q.device}", f"one on {came.device}", "another-device")
    if came.dtype != q.dtype:
        probe.fail(f"a tensor of {q.dtype}, as the queries", f"one of {came.dtype}", "another-dtype")
    return came


def compare(
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
    came = call(probe, q.clone(), k_pool.clone(), v_pool.clone(), tables, lengths, scale)
    if out is None:
        rows = zip(q, tables, lengths, strict=True)
        out = torch.stack([dense(row, k_pool, v_pool, table, n, scale) for row, table, n in rows])
    same_numbers(probe, came, out, slip, slips)
