"""Days 23 and 24: continuous batching. Requests come and go between the steps of one batch."""

from collections.abc import Hashable, Iterable, Iterator
from itertools import count

import torch
from tqdm.auto import tqdm

from nanoserve.allocator import KVCacheExhausted
from nanoserve.arguments import TokenIds, run_arguments
from nanoserve.model import Llama
from nanoserve.prefill import PrefillCache, left_pad
from nanoserve.request import Request
from nanoserve.scheduler import Scheduler
from nanoserve.slots import Slots
from nanoserve.stats import EngineStats


class Engine:
    """Runs requests together: in each step everyone who runs gets a token, who is done leaves, and who fits comes in.

    When the model raises, in a prefill or a decode step, that has not happened: who was to come in waits, who runs
    keeps slot and tokens, and `step` may be called again. `abort` takes out a request that makes it raise each time.
    (A Ctrl-C in between two lines of the books themselves may leave them uneven: make a new engine then.)

    Args:
        model: the model.
        slots: a `SlotKVCache` or a `PagedSlotKVCache`, idle, and for this engine alone.

    Raises:
        TypeError: `slots` is something else.
        ValueError: the slots are another model's, are not idle, or were freed.
    """

    def __init__(self, model: Llama, slots: Slots) -> None:
        if not isinstance(slots, Slots):
            raise TypeError(f"slots must be a SlotKVCache or a PagedSlotKVCache, got {type(slots).__name__}")
        slots.require_fit(model)
        if slots.tables:
            raise ValueError(f"slots {list(slots.tables)} hold sequences: give the engine slots of its own, all idle")
        self.model = model
        self.slots = slots
        self.scheduler = Scheduler(slots)
        self._numbers = count()
        self._finished: list[Request] = []  # and not returned by a step yet
        self._steps = self._tokens = self._recomputed = 0
        self._in_step = False
        self._leaving: list[Request] = []  # aborted while a step ran

    def submit(
        self,
        prompt_ids: TokenIds,
        max_new_tokens: int,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        eos_token_id: int | Iterable[int] | None = None,
        request_id: Hashable | None = None,
    ) -> Request:
        """Put a request at the end of the line; its `tokens` grow as the engine is stepped.

        Args:
            prompt_ids, max_new_tokens, temperature, top_k, top_p, seed, eos_token_id: as `generate` takes them.
            request_id: any name that no request here has; a number by default.

        Raises:
            ValueError: an argument that `generate` refuses too, an id that is taken, or a request that could never fit;
                the others go on.
        """
        run = run_arguments(self.model, prompt_ids, max_new_tokens, temperature, top_k, top_p, seed, eos_token_id)
        if request_id is None:
            request_id = next(number for number in self._numbers if number not in self.scheduler.requests)
        request = Request(request_id, run)
        self.scheduler.add(request)
        if request.is_complete:  # no token was asked for
            self.scheduler.leave(request, "finished")
        return request

    def step(self) -> list[Request]:
        """Admit who fits, give everyone who runs a token, and return those that have finished.

        Raises:
            KVCacheExhausted: nobody runs, and the first in line does not fit beside what others took from the pool.
            RuntimeError: it was called from inside of a step.
        """
        if self._in_step:
            raise RuntimeError("this engine is in a step already: a step cannot be taken from inside of another")
        self._in_step = True
        try:
            self._admit()
            self.scheduler.make_room()
            if self.scheduler.running:
                self._decode()
            elif self.scheduler.waiting and not self._finished:
                allocator, first = self.slots.allocator, self.scheduler.waiting[0]
                raise KVCacheExhausted(
                    f"request {first.id!r} needs room for {first.stored_soon} tokens; free: {allocator.num_free} of "
                    f"{allocator.num_blocks} blocks of {allocator.block_size}, and others hold the rest"
                )
        finally:
            self._in_step = False
            while self._leaving:
                self._take_out(self._leaving.pop())
        finished, self._finished = self._finished, []
        return finished

    def abort(self, request_id: Hashable) -> bool:
        """Take a request out, whether it waits or runs, and say whether it was here. Its tokens so far stay with it.

        From inside of a step, as when a stream is collected as garbage there, it leaves when the step is over.
        """
        request = self.scheduler.requests.get(request_id)
        if request is None:
            return False
        if self._in_step:
            self._leaving.append(request)
        else:
            self._take_out(request)
        return True

    def run(self, progress: bool = False) -> None:
        """Step until all requests are finished, with a bar that counts them if asked."""
        with tqdm(total=len(self.scheduler.requests), unit="request", disable=not progress) as bar:
            while self.scheduler.requests:
                bar.update(len(self.step()))

    def stream(self, request: Request) -> Iterator[int]:
        """A request's tokens, each as soon as it is there; the engine is stepped, for all, when the next one is not.

        A stream that has begun and is closed, dropped or ended by an exception aborts its request.

        Raises:
            ValueError: the request is another engine's.
        """
        if request.is_here and self.scheduler.requests.get(request.id) is not request:
            raise ValueError(f"request {request.id!r} was submitted to another engine: ask that one for its stream")
        try:
            for position in count():
                while position == len(request.tokens) and request.is_here:
                    self.step()
                if position == len(request.tokens):
                    return
                yield request.tokens[position]
        finally:
            if request.is_here:
                self.abort(request.id)

    @property
    def stats(self) -> EngineStats:
        """How the engine stands now."""
        slots, scheduler, allocator = self.slots, self.scheduler, self.slots.allocator
        return EngineStats(
            steps=self._steps,
            tokens=self._tokens,
            preemptions=scheduler.preemptions,
            recomputed_tokens=self._recomputed,
            waiting=len(scheduler.waiting),
            running=len(scheduler.running),
            blocks_free=allocator.num_free,
            blocks_used=allocator.num_used,
            blocks_peak=allocator.peak_used,
            used_tokens=slots.used_tokens,
            allocated_tokens=slots.allocated_tokens,
            reserved_tokens=slots.reserved_tokens,
        )

    def _take_out(self, request: Request) -> None:
        if request.is_here:
            self.scheduler.leave(request, "aborted")

    def _admit(self) -> None:
        """Prefill the next in line together, with all that a preempted one has said so far, and let them run."""
        batch = self.scheduler.next_in_line()
        if not batch:
            return
        input_ids, pad_lens = left_pad([request.token_ids for request in batch])
        prefill = PrefillCache(pad_lens)
        logits = self.model(input_ids.to(self.model.device), prefill)
        tokens = self._choose(batch, logits[:, -1])
        slots = self.slots.free_slots()[: len(batch)]
        self.slots.admit(slots, prefill, pad_lens)
        self.scheduler.start(batch, slots)
        self._recomputed += sum(len(request.token_ids) - 1 for request in batch if request.tokens)
        self._accept(batch, tokens)

    def _decode(self) -> None:
        """One decode step for all that run."""
        running = self.scheduler.running
        input_ids = [0] * self.slots.num_slots  # any id does for an idle slot
        for slot, request in running.items():
            input_ids[slot] = request.tokens[-1]
        logits = self.model(torch.tensor(input_ids, device=self.model.device).unsqueeze(1), self.slots)
        batch = list(running.values())
        tokens = self._choose(batch, logits[list(running), -1])
        self.slots.advance()
        self._steps += 1
        self._accept(batch, tokens)

    @staticmethod
    def _choose(batch: list[Request], logits: torch.Tensor) -> list[int]:
        """Each request's next token, by its own rule and its row of (batch, vocab_size)."""
        tokens = []
        for request, row in zip(batch, logits.cpu(), strict=True):  # one copy for all
            try:
                tokens.append(request.choose(row))
            except Exception as error:  # say the logits are NaN
                error.add_note(f"while the next token of request {request.id!r} was chosen: abort it to go on without")
                raise
        return tokens

    def _accept(self, batch: list[Request], tokens: list[int]) -> None:
        """Give each request its token; who is complete leaves at once."""
        for request, token in zip(batch, tokens, strict=True):
            request.tokens.append(token)
            self._tokens += 1
            if request.is_complete:
                self.scheduler.leave(request, "finished")
                self._finished.append(request)
