"""The learner's cache in the stages of task 21.3, and beside it contiguous ones that are given the same tensors."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isclose
from random import Random

import torch

from nanoserve.cache import NaiveKVCache
from nanoserve.course.exercises.day21.seen import Launch, Seen, watched
from nanoserve.course.probe import Probe
from nanoserve.pool import KVPool

LAYERS, KV_HEADS, WIDTH, BLOCK_SIZE = 3, 2, 8, 4


@dataclass(frozen=True)
class Done:
    """One layer's part of a step: its queries and keys, what came, what should have, and what was seen.

    Attributes:
        scaled: what comes when the scores are scaled once more.
    """

    q: torch.Tensor
    k: torch.Tensor
    came: object
    right: torch.Tensor
    scaled: torch.Tensor
    seen: Seen


class Beside:
    """The learner's cache, and beside it contiguous ones that are given the same tensors."""

    def __init__(
        self,
        probe: Probe,
        kernel: bool | None = True,
        pool: KVPool | None = None,
        name: str = "cache",
        on_gpu: bool = False,
    ) -> None:
        """`on_gpu`: without a GPU, the tensors say that they lie on one."""
        self.probe, self.name = probe, name
        if pool is None:
            probe.calls.clear()
        self.pool = new_pool() if pool is None else pool
        line = f"{name} = {probe.subject.__name__}(pool); {name}.kernel = {kernel}"
        self.cache = probe.record(line, probe.subject, self.pool, shows_result=False)
        self.cache.kernel = kernel
        self.says_gpu = on_gpu and not self.pool.k.is_cuda
        self.witness, self.scaled = NaiveKVCache(), NaiveKVCache()

    def attend(self, layer: int, num_tokens: int) -> Done:
        """One layer's part of a step."""
        kv_heads, width = self.pool.k.shape[3:]
        draw = torch.Generator().manual_seed(1000 * self.witness.seq_len + layer)
        q, k, v = (
            torch.randn(1, heads, num_tokens, width, generator=draw).to(self.pool.k.device)
            for heads in (2 * kv_heads, kv_heads, kv_heads)
        )
        right, scaled = self.witness.attend(layer, q, k, v), self.scaled.attend(layer, q * width**-0.5, k, v)
        line = f"{self.name}.attend({layer}, q, k, v)  # {num_tokens} token{'s' * (num_tokens > 1)}, q {tuple(q.shape)}"
        line += ", all tensors say that they lie on a GPU" * self.says_gpu
        with watched(self.pool, self.says_gpu) as seen:
            came = self.probe.record(line, self.cache.attend, layer, q, k, v, shows_result=False)
        return Done(q, k, came, right, scaled, seen)

    def prompt(self, num_tokens: int, slip: str = "wrong-prompt") -> None:
        """A step of several tokens, in all layers."""
        told = {"slip": "prompt-through-the-kernel", "match": "q must be|query heads|batch of"}
        for layer in range(len(self.pool.k)):
            with self.probe.on_error(ValueError, **told):
                done = self.attend(layer, num_tokens)
            if done.seen.launches:
                self.probe.fail("no launch of the kernel for a prompt", "a launch", told["slip"])
            self._stored_once()
            same_output(self.probe, done.came, done.right, slip, {})

    def decode(self, slip: str = "") -> Seen:
        """A step of one token, in all layers, told with `slip` if that is given; what was seen in the last of them."""
        return [self.decode_layer(layer, slip) for layer in range(len(self.pool.k))][-1]

    def decode_layer(self, layer: int, slip: str = "") -> Seen:
        """The same in one layer."""
        with _refusals(self.probe):
            done = self.attend(layer, 1)
        seen = done.seen
        if not seen.launches:
            self.probe.fail("one launch of the kernel", "none", "still-the-gather")
        if seen.copies:
            came = f"a copy, by {', '.join(dict.fromkeys(seen.copies))}"
            self.probe.fail("no copy of the pool's keys and values", came, "gather-still-called")
        self._stored_once()
        batch, heads, _, width = done.right.shape
        slips = {
            "token-axis-missing": (batch, heads, width),
            "axes-swapped": (batch, 1, heads, width),
            "scaled-twice": done.scaled,
        }
        reason = slip or self._reason(layer, seen.launches[-1], done.k)
        same_output(self.probe, done.came, done.right, reason, {} if slip else slips)
        return seen

    def _stored_once(self) -> None:
        if self.cache.table.num_tokens > self.witness.seq_len:
            told = (
                f"{tokens} tokens in the block table" for tokens in (self.witness.seq_len, self.cache.table.num_tokens)
            )
            self.probe.fail(*told, "stored-twice")

    def _reason(self, layer: int, launch: Launch, k: torch.Tensor) -> str:
        """Why a result may be wrong, from what the kernel was given."""
        held, table = self.witness.seq_len, self.cache.table
        if launch.memories == (("v", layer), ("k", layer)):
            return "keys-and-values-swapped"
        if None in launch.memories:
            return "not-the-pool"
        if launch.memories != (("k", layer), ("v", layer)):
            return "another-layer"
        if table.num_tokens < held:
            return "not-stored"
        block, offset = table.position(held - 1)
        if not torch.equal(launch.k[block, offset], k[0, :, 0]):
            if torch.equal(self.pool.v[layer, block, offset], k[0, :, 0]):
                return "stored-the-wrong-way-round"
            stored = torch.equal(self.pool.k[layer, block, offset], k[0, :, 0])
            return "stored-after" if stored else "not-stored"
        if launch.lengths[0] != held:
            return "length-short" if launch.lengths[0] == held - 1 else "wrong-length"
        given = launch.tables[0][: len(table.block_ids)]
        if given != table.block_ids:
            return "an-old-table" if given == table.block_ids[: len(given)] else "wrong-table"
        return "wrong-attention" if isclose(launch.scale, k.shape[3] ** -0.5) else "another-scale"


def new_pool(layers: int = LAYERS, block_size: int = BLOCK_SIZE, heads: int = KV_HEADS, width: int = WIDTH) -> KVPool:
    """A pool with NaN in it, whose blocks come out in another order than they lie."""
    pool = KVPool(layers, 24, block_size, heads, width, device="cuda" if torch.cuda.is_available() else "cpu")
    pool.k.fill_(torch.nan)
    pool.v.fill_(torch.nan)
    pool.allocator.free_all(Random(21).sample(pool.allocator.allocate_for(24 * block_size), 24))
    return pool


@contextmanager
def _refusals(probe: Probe) -> Iterator[None]:
    """What the kernel refuses, by its likely causes."""
    with (
        probe.on_error(ValueError, slip="query-shape", match="q must be|KV heads evenly|for a batch of [2-9]"),
        probe.on_error(ValueError, slip="table-without-a-batch", match="block_tables must be"),
        probe.on_error(AttributeError, slip="list-for-a-tensor", match="'(list|tuple|int|BlockTable)' object has no"),
        probe.on_error(ValueError, slip="whole-pool", match=r"q must be.*, \(\d+, \d+, \d+, \d+, \d+\)"),
    ):  # the last of them is asked first
        yield


def same_output(
    probe: Probe, came: object, right: torch.Tensor, slip: str, slips: dict[str, torch.Tensor | tuple[int, ...]]
) -> None:
    """One case: the attention over all that the layer holds; of a difference, the shape is told, or the first head."""
    if not isinstance(came, torch.Tensor):
        kind = "None" if came is None else f"a {type(came).__name__}"
        probe.fail(f"a tensor of shape {tuple(right.shape)}", kind, "no-return")
    if came.device != right.device:
        probe.fail(f"a tensor on {right.device}, as the query", f"one on {came.device}", "another-device")
    if came.dtype != right.dtype:
        probe.fail(f"a tensor of {right.dtype}, as the query", f"one of {came.dtype}", "another-dtype")

    def told(out: torch.Tensor) -> str:
        if came.shape != right.shape:
            return f"a tensor of shape {tuple(out.shape)}"
        head, token = (~torch.isclose(came, right, rtol=1e-4, atol=1e-5)).any(3)[0].nonzero()[0].tolist()
        return f"head {head} of token {token}: {', '.join(f'{number:.4f}' for number in out[0, head, token, :4])}, …"

    probe.equal(came, right, slip, slips, same=_fits, told=told)


def _fits(came: torch.Tensor, giveaway: torch.Tensor | tuple[int, ...]) -> bool:
    if isinstance(giveaway, tuple):
        return tuple(came.shape) == giveaway
    return came.shape == giveaway.shape and torch.allclose(came, giveaway, rtol=1e-4, atol=1e-5)
