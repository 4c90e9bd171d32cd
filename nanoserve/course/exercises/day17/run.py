"""One stream of the learner's, read step by step over a small pool."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

import torch

from nanoserve.cache import KVPool, PagedKVCache
from nanoserve.course.exercises.day17.stand_in import ScriptedModel
from nanoserve.course.probe import Probe, kind

PROMPT, SCRIPT = [5, 6, 7], (11, 12, 13, 14, 15, 16)
MOST = 12  # tokens that a stream is read for at once


def argmax(logits: torch.Tensor) -> int:
    """The likeliest token: with a `ScriptedModel`, the script's next."""
    return int(logits.argmax())


class _Cache(PagedKVCache):
    """A cache that counts how often it is freed."""

    frees = 0

    def free(self) -> None:
        self.frees += 1
        super().free()


class Run:
    """One stream of the learner's over a pool of 24 blocks of 2, read step by step."""

    def __init__(
        self,
        probe: Probe,
        num_new: int = 4,
        eos: tuple[int, ...] = (),
        fail_at: int | None = None,
        neighbour: int = 0,
        error: type[BaseException] = RuntimeError,
        next_token: Callable[[torch.Tensor], int] = argmax,
    ) -> None:
        self.probe = probe
        self.model = ScriptedModel(SCRIPT, fail_at, error)
        self.pool = KVPool.for_model(self.model, 24, 2)
        if neighbour:
            PagedKVCache(self.pool).table.append(neighbour)
        self.cache = _Cache(self.pool)
        probe.calls.clear()
        line = f"stream = decode(model, cache, {PROMPT}, {num_new}, {set(eos) or '{}'}, {next_token.__name__})"
        self.prompt = list(PROMPT)
        arguments = (self.model, self.cache, self.prompt, num_new, frozenset(eos), next_token)
        self.stream = probe.record(line, probe.subject, *arguments, shows_result=False)
        if not isinstance(self.stream, Iterator):
            slip = "no-stream" if self.stream is None else "not-a-stream"
            came = "None" if self.stream is None else kind(self.stream)
            probe.fail("an iterator, as a generator function gives", came, slip)

    @property
    def used(self) -> int:
        return self.pool.allocator.num_used

    def next(self, times: int = 1) -> list[int]:
        return [self.probe.record("next(stream)", next, self.stream, None) for _ in range(times)]

    def rest(self) -> list[int]:
        return self.probe.record("list(stream)", lambda: list(islice(self.stream, MOST)))

    def close(self) -> None:
        try:
            self.probe.record("stream.close()", getattr(self.stream, "close", lambda: None), shows_result=False)
        except RuntimeError as error:
            with suppress(BaseException):  # to its end, or Python complains once more when it is dropped
                list(islice(self.stream, MOST))
            self.probe.fail("a stream that ends", f"RuntimeError: {error}", "goes-on-when-closed")

    def must(self, holds: bool, expected: str, came: str, slip: str) -> None:
        """One case."""
        self.probe.cases += 1
        if not holds:
            self.probe.fail(expected, came, slip)

    def must_be_out(self, when: str, slip: str) -> None:
        """One case: the pool has all of its blocks back."""
        self.must(not self.used, f"0 blocks in use {when}", f"{self.used} still in use", slip)
