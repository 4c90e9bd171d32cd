"""Day 24's planted fault. To find it, look at the timeline before you read on."""

from nanoserve.scheduler import Scheduler


class SuspectScheduler(Scheduler):
    """A scheduler with a shorter average wait than yours."""

    def make_room(self) -> None:
        """Preempt, as often as it takes, until all that run have room for one more token."""
        while not self.slots.reserve_step():
            tables = self.slots.tables
            slot = max(self.running, key=lambda slot: len(tables[slot].block_ids))
            self.preempt(self.running[slot])
