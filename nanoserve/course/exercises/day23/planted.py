"""Day 23's planted fault. To find it, look at the timeline before you read on."""

from nanoserve.request import Request
from nanoserve.scheduler import Scheduler


class SuspectScheduler(Scheduler):
    """A scheduler with a shorter average wait than yours."""

    def next_in_line(self) -> list[Request]:
        """As many of those that wait as fit together."""
        batch: list[Request] = []
        for request in self.waiting:
            if not self.slots.can_admit([r.stored_soon for r in [*batch, request]]):
                continue
            batch.append(request)
        return batch

    def start(self, batch: list[Request], slots: list[int]) -> None:
        """Let them run, each in its slot."""
        for request in batch:
            self.waiting.remove(request)
        self.waiting.extendleft(reversed(batch))
        super().start(batch, slots)
