"""Days 23 and 24: who waits and who runs. Admission, preemption and leaving, over slots that keep the books."""

from collections import deque
from collections.abc import Hashable
from typing import Literal

from nanoserve.request import Request
from nanoserve.slots import Slots


class Scheduler:
    """First come, first served: a request is admitted after all that came before it, and preempted before them.

    So those that run are always older than those that wait, the oldest always goes on, and nobody starves.

    Args:
        slots: where requests run; all of them idle, and for this scheduler alone.

    Attributes:
        requests: all that wait or run, by id.
        waiting: those that hold nothing, oldest first.
        running: those in a slot, oldest first, by slot.
        preemptions: how often a request had to give its slot and blocks back.
    """

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.requests: dict[Hashable, Request] = {}
        self.waiting: deque[Request] = deque()
        self.running: dict[int, Request] = {}
        self.preemptions = 0

    def add(self, request: Request) -> None:
        """Put a request at the end of the line.

        Raises:
            ValueError: its id is taken, or no amount of waiting would make it fit.
        """
        if request.id in self.requests:
            raise ValueError(f"request id {request.id!r} is taken: that request is {self.requests[request.id].state}")
        if request.most_stored > self.slots.max_len:
            raise ValueError(
                f"{len(request.run.prompt)} prompt tokens and {request.run.max_new_tokens} new ones need room for "
                f"{request.most_stored}, and one sequence can have room for {self.slots.max_len}: "
                f"shorten the prompt, lower max_new_tokens or give the cache more memory"
            )
        self.requests[request.id] = request
        self.waiting.append(request)

    def next_in_line(self) -> list[Request]:
        """As many of those that wait as fit together. Nobody overtakes: the first that does not fit ends the list."""
        batch: list[Request] = []
        for request in self.waiting:
            if not self.slots.can_admit([r.stored_soon for r in [*batch, request]]):
                break
            batch.append(request)
        return batch

    def start(self, batch: list[Request], slots: list[int]) -> None:
        """Let the next in line run, each in its slot."""
        for slot, request in zip(slots, batch, strict=True):
            self.waiting.popleft()
            self.running[slot] = request
            request.slot, request.state = slot, "running"

    def make_room(self) -> None:
        """Preempt the newest, as often as it takes, until all that run have room for one more token."""
        while not self.slots.reserve_step():
            newest = next(reversed(self.running.values()))
            self.preempt(newest)

    def preempt(self, request: Request) -> None:
        """Take a request's blocks; it waits at the front, to be recomputed from its prompt and its tokens so far."""
        self._release(request)
        request.state = "waiting"
        self.waiting.appendleft(request)
        self.preemptions += 1

    def leave(self, request: Request, state: Literal["finished", "aborted"]) -> None:
        """Give back all that a request holds, whether it waits or runs, and forget it."""
        if request.slot is None:
            self.waiting.remove(request)
        else:
            self._release(request)
        request.state = state
        del self.requests[request.id]

    def _release(self, request: Request) -> None:
        """Give back the slot of a request that runs, and its blocks."""
        self.slots.release(request.slot)
        del self.running[request.slot]
        request.slot = None
