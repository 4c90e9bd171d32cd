"""Inputs of the decode kernel, made to expose what a wrong one reads, and its launch over them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from nanoserve.attention import gathered_attention
from nanoserve.course.exercises.day19.misuses import no_triton, only_writes
from nanoserve.course.kernels.jobs import Window
from nanoserve.course.kernels.launch import Run
from nanoserve.course.kernels.trial import Outside, builds, tried, undefined
from nanoserve.course.probe import Probe

if TYPE_CHECKING:
    from nanoserve.course.kernels.ahead import Compiled

NOWHERE = 2**30  # a block id that no pool has


@dataclass(frozen=True)
class Inputs:
    """One decode step's attention.

    Attributes:
        q: (batch, num_heads, head_dim), with any strides over the first two.
        k, v: (num_blocks, block_size, num_kv_heads, head_dim), the same strides; NaN in slots that nobody owns.
        tables: (batch, blocks), int32; behind a sequence's last block stands no block's id.
        lengths: (batch,), int32.
        scale: of the scores.
        tile: tokens that a program fetches at a time.
        dot: with `tl.dot`.
        first_block: blocks that come before those of `k` and `v`, which are then a part of a larger pool.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    tables: torch.Tensor
    lengths: torch.Tensor
    scale: float = 0.5
    tile: int = 4
    dot: bool = False
    first_block: int = 0

    @property
    def group(self) -> int:
        return self.q.shape[1] // self.k.shape[2]

    def expected(self) -> torch.Tensor:
        """What is right, (batch, num_heads, head_dim), from float64."""
        floats = (tensor.double() for tensor in (self.q, self.k, self.v))
        return gathered_attention(*floats, self.tables - self.first_block, self.lengths, self.scale).float()

    def over(self, row: int, tokens: list[int]) -> torch.Tensor:
        """What comes out for one sequence if just these tokens were attended to, a token twice if it stands twice."""
        entries, offsets = torch.tensor(tokens) // self.k.shape[1], torch.tensor(tokens) % self.k.shape[1]
        keys, values = (pool[self.tables[row, entries], offsets] for pool in (self.k, self.v))
        alone = torch.arange(len(tokens), dtype=torch.int32)[None]
        length = torch.tensor([len(tokens)])
        return gathered_attention(self.q[[row]], keys[:, None], values[:, None], alone, length, self.scale)

    def with_kv_heads(self, kv_heads: list[int]) -> torch.Tensor:
        """What comes out if query head h read the KV head `kv_heads[h]`."""
        return replace(self, k=self.k[:, :, kv_heads], v=self.v[:, :, kv_heads]).expected()

    def arguments(self, out: torch.Tensor) -> tuple[tuple, dict[str, int | bool]]:
        """The kernel's arguments by place, and its constants.

        Args:
            out: what is written to, (batch, num_heads, head_dim), or (batch, num_heads, splits, head_dim).
        """
        pools = self.k, self.v
        if self.first_block:
            pools = (Window(pool, self.first_block * pool.stride(0)) for pool in pools)
        lse = undefined(*self.q.shape[:2], _splits(out))
        split_stride = out.stride(2) if out.ndim == 4 else 0
        outs = (*out.stride()[:2], split_stride)
        strides = (*self.q.stride()[:2], *self.k.stride()[:3], self.tables.stride(0), *outs)
        sizes = {"GROUP": self.group, "GROUP_PAD": _padded(self.group, self.dot)}
        sizes |= {"DIM": self.q.shape[2], "DIM_PAD": _padded(self.q.shape[2], self.dot)}
        tensors = (self.q, *pools, self.tables, self.lengths, out, lse)
        return (*tensors, self.scale, self.k.shape[1], *strides), sizes | {"TILE": self.tile, "DOT": self.dot}


def poisoned(
    num_heads: int,
    num_kv_heads: int,
    dim: int,
    block_size: int,
    lengths: list[int],
    *,
    dtype: torch.dtype = torch.float32,
    seed: int = 20,
    **more: object,
) -> Inputs:
    """Random keys and values in scattered blocks, and NaN in every slot that no sequence owns.

    Block 0 is nobody's. The first sequence's last block is the pool's last, so that who reads on behind it leaves the
    pool, and the longest sequence's row of the table ends with it.
    """
    draw = torch.Generator().manual_seed(seed)
    counts = [-(-length // block_size) for length in lengths]
    ids = [block + 1 for block in torch.randperm(sum(counts), generator=draw).tolist()]
    last = ids.index(sum(counts))
    ids[last], ids[counts[0] - 1] = ids[counts[0] - 1], ids[last]
    tables = torch.full((len(lengths), max(counts)), NOWHERE, dtype=torch.int32)
    pools = torch.full((2, sum(counts) + 1, block_size, num_kv_heads, dim), torch.nan, dtype=dtype)
    for row, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        own, ids = ids[:count], ids[count:]
        tables[row, :count] = torch.tensor(own, dtype=torch.int32)
        for token in range(length):
            slot = pools[:, own[token // block_size], token % block_size]
            slot.copy_(torch.randn(slot.shape, generator=draw))
    q = torch.randn(len(lengths), num_heads, dim, generator=draw).to(dtype)
    return Inputs(q, *pools, tables, torch.tensor(lengths, dtype=torch.int32), **more)


def attend(
    probe: Probe,
    inputs: Inputs,
    race: str,
    reads: Outside,
    writes: Outside,
    out: torch.Tensor | None = None,
) -> Run:
    """Launch the learner's kernel, a program for each sequence, KV head and split of `out`, which is NaN at first."""
    out = undefined(*inputs.q.shape, dtype=inputs.q.dtype) if out is None else out
    size, tile = inputs.k.shape[1], inputs.tile
    heads = f"{inputs.q.shape[1]} query heads, {inputs.k.shape[2]} KV heads"
    probe.calls.append(f"{heads}, lengths {inputs.lengths.tolist()}, blocks of {size}, tiles of {tile}")
    arguments, constants = inputs.arguments(out)
    grid = (len(inputs.q), inputs.k.shape[2], _splits(out))
    with (
        probe.on_error(NameError, slip="unknown-name", match="is not defined"),
        probe.on_error(ValueError, slip="wrong-shape", match="incompatible dimensions|to have shape"),
        no_triton(probe),
    ):
        run = tried(probe, grid, *arguments, **constants, race=race, reads=reads, writes=writes)
    only_writes(probe, run, "out", "lse")
    return run


def compile_it(probe: Probe, inputs: Inputs, capability: tuple[int, int], slips: dict[str, str]) -> "Compiled":
    """One case: the compiler takes the kernel as it would be launched over these inputs; what it made of it."""
    arguments, constants = inputs.arguments(torch.empty_like(inputs.q))
    return builds(probe, *arguments, **constants, capability=capability, slips=slips)


def _splits(out: torch.Tensor) -> int:
    return out.shape[2] if out.ndim == 4 else 1


def _padded(size: int, dot: bool) -> int:
    return max(16 if dot else 1, 1 << (size - 1).bit_length())
