"""An engine of the learner's over four slots and the counting model, whose requests are preempted by hand."""

import torch

from nanoserve.course.exercises.day23.stand_in import CountingModel
from nanoserve.course.probe import Probe
from nanoserve.engine import Engine
from nanoserve.paged_slots import PagedSlotKVCache
from nanoserve.pool import KVPool
from nanoserve.prefill import PrefillCache
from nanoserve.request import Request
from nanoserve.slots import Slots


class Prefiller(CountingModel):
    """The counting model, with an eye on prefills.

    Attributes:
        prefill_fails: a prefill raises, once its keys and values are there.
        pads: what the latest prefill was told of its pads.
        prefills: how many there were.
    """

    prefill_fails = False
    pads: list[int] | None = None
    prefills = 0

    def __call__(self, input_ids: torch.Tensor, cache: PrefillCache | Slots) -> torch.Tensor:
        """The logits of each row's last token, (batch, 1, vocab_size)."""
        logits = super().__call__(input_ids, cache)
        if isinstance(cache, PrefillCache):
            self.pads = list(cache.pad_lens)
            self.prefills += 1
            if self.prefill_fails:
                raise RuntimeError("planted: the prefill fails")
        return logits


class Trial:
    """A learner's engine with 4 slots, and what the verdict tells of it.

    Args:
        probe: whose subject the engine is.
        engine: another class in its place.
    """

    def __init__(self, probe: Probe, engine: type[Engine] | None = None) -> None:
        self.probe, self.model = probe, Prefiller()
        self.slots = PagedSlotKVCache(KVPool.for_model(self.model, 32, 4), 4)
        self.engine = (engine or probe.subject)(self.model, self.slots)
        self.scheduler = self.engine.scheduler
        probe.calls[:] = ["engine = Engine(model, slots)  # 4 slots; the model says `last token + 1`"]

    def submit(self, name: str, prompt: list[int], num_new: int, **settings: object) -> Request:
        """Put a request in line."""
        told = "".join(f", {key}={value}" for key, value in settings.items())
        line = f"{name} = engine.submit({prompt}, {num_new}{told})"
        submit = self.engine.submit
        return self.probe.record(line, lambda: submit(prompt, num_new, request_id=name, **settings), shows_result=False)

    def admit(self) -> None:
        """Let the learner's engine admit who waits."""
        self.probe.record("engine._admit()", self.engine._admit, shows_result=False)

    def step(self) -> None:
        """One step of the engine."""
        self.probe.record("engine.step()", self.engine.step, shows_result=False)

    def preempt(self, request: Request) -> None:
        """Take a request's blocks."""
        line = f"engine.scheduler.preempt({request.id})"
        self.probe.record(line, self.scheduler.preempt, request, shows_result=False)

    def preempted(self, name: str = "A", **settings: object) -> Request:
        """A request that has said three tokens and lost its blocks."""
        request = self.submit(name, [40, 10], 9, **settings)
        self.step()
        self.step()
        self.preempt(request)
        return request

    def tokens(self, *requests: Request) -> list[list[int]]:
        """Their texts so far."""
        names = ", ".join(f"{request.id}.tokens" for request in requests)
        return self.probe.record(names, lambda: [list(request.tokens) for request in requests])

    def running(self) -> list[str]:
        """The ids of those that run, oldest first: any free slot is as good as another."""
        line = "[request.id for each that runs]"
        return self.probe.record(line, lambda: [request.id for request in self.scheduler.running.values()])

    def lengths(self, *requests: Request) -> list[int]:
        """How many tokens the slots of these requests hold."""
        names = ", ".join(request.id for request in requests)
        line = f"[slots.lengths[request.slot] for {names}]"
        return self.probe.record(line, lambda: [self.slots.lengths[request.slot] for request in requests])

    def recomputed(self) -> int:
        """The engine's counter of tokens computed again."""
        return self.probe.record("engine.stats.recomputed_tokens", lambda: self.engine.stats.recomputed_tokens)

    def stored(self, request: Request) -> list[int]:
        """The ids whose keys and values lie in a request's blocks: to this model, a token's key is its id."""

        def read() -> list[int]:
            table = self.slots.tables[request.slot]
            keys = self.slots.pool.k[0].flatten()
            return [int(keys[table.slot(p)]) for p in range(self.slots.lengths[request.slot])]

        return self.probe.record(f"the tokens stored in the slot of {request.id}", read)
