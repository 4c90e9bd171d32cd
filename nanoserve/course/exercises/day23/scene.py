"""A scheduler of the learner's over slots that keep the books and hold no tensors, and what the verdict tells of it."""

from collections.abc import Sequence

import torch

from nanoserve.allocator import BlockAllocator
from nanoserve.arguments import RunArguments
from nanoserve.block_table import BlockTable
from nanoserve.course.probe import Probe, kind
from nanoserve.course.view.state import plural
from nanoserve.request import Request
from nanoserve.slots import Slots

BLOCK_SIZE = 4


class Named(Request):
    """A request that a verdict shows by its id."""

    def __repr__(self) -> str:
        return self.id


class Books(Slots):
    """Slots without keys and values."""

    def __init__(self, num_slots: int, num_blocks: int) -> None:
        allocator = BlockAllocator(num_blocks, BLOCK_SIZE)
        super().__init__(num_slots, num_blocks * BLOCK_SIZE, torch.device("cpu"), allocator)

    def seat(self, slot: int, num_tokens: int) -> None:
        """Let a sequence of so many tokens be in a slot."""
        self.tables[slot] = BlockTable(self.allocator)
        self._grow(slot, num_tokens)
        self.lengths[slot] = num_tokens


class Scene:
    """The learner's scheduler, with requests that run and others that wait.

    Args:
        probe: whose subject it is.
        num_slots, num_blocks: of 4 tokens each.
    """

    def __init__(self, probe: Probe, num_slots: int, num_blocks: int) -> None:
        self.probe, self.slots = probe, Books(num_slots, num_blocks)
        self.scheduler = probe.subject(self.slots)
        self.requests: dict[str, Named] = {}
        probe.calls[:] = [f"{num_slots} slots over {num_blocks} blocks of {BLOCK_SIZE} tokens"]

    def waits(self, name: str, num_prompt: int, num_new: int, tokens: Sequence[int] = ()) -> Named:
        """Let a request wait."""
        request = self._add(name, num_prompt, num_new, tokens)
        so_far = f", {len(tokens)} of them there before it was preempted" if tokens else ""
        told = f"{plural(num_prompt, 'prompt token')}, at most {plural(num_new, 'new one')}"
        self.probe.calls.append(f"{name} waits: {told}{so_far}")
        return request

    def runs(self, name: str, slot: int, num_prompt: int, num_new: int, tokens: Sequence[int] = (7,)) -> Named:
        """Let a request run, with its first token there or more; all that run are made before those that wait."""
        request = self._add(name, num_prompt, num_new, tokens)
        self.scheduler.waiting.remove(request)
        self.scheduler.running[slot] = request
        request.slot, request.state = slot, "running"
        self.slots.seat(slot, num_prompt + len(tokens) - 1)
        blocks = self.slots.tables[slot].block_ids
        said = f" and {len(tokens)} tokens said" if len(tokens) > 1 else ""
        self.probe.calls.append(f"{name} runs in slot {slot}, with {plural(len(blocks), 'block')}{said}")
        return request

    def next_in_line(self) -> list[Named]:
        """The learner's answer, as a list."""
        line = list(self.scheduler.waiting)
        came = self.probe.record("scheduler.next_in_line()", self.scheduler.next_in_line)
        if came is None:
            self.probe.fail("a list of requests", "None", "none-for-a-list")
        if not hasattr(came, "__len__"):  # the engine asks whether it is empty
            self.probe.fail("a list of requests", f"a {type(came).__name__}", "no-list")
        if not isinstance(came, Sequence):
            self.probe.fail("a list of requests", kind(came), "another-collection")
        if came is self.scheduler.waiting:
            self.probe.fail("a list of its own", "`self.waiting` itself", "the-line-itself")
        strangers = [request for request in came if isinstance(request, Request) and request not in line]
        if strangers:
            runs = any(request in self.scheduler.running.values() for request in strangers)
            slip = "runs-already" if runs else "kept-from-before"
            self.probe.fail(f"some of {line}", f"{list(came)}, not all of them of this line", slip)
        return list(came)

    def leaves(self, request: Named, state: str) -> None:
        """Let a request leave by the learner's own method."""
        line = f'scheduler.leave({request.id}, "{state}")'
        self.probe.record(line, self.scheduler.leave, request, state, shows_result=False)

    def _add(self, name: str, num_prompt: int, num_new: int, tokens: Sequence[int]) -> Named:
        run = RunArguments([1] * num_prompt, num_new, frozenset(), lambda logits: int(logits.argmax()))
        request = self.requests[name] = Named(name, run, list(tokens))
        self.scheduler.add(request)
        return request
