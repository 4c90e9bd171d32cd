"""A scheduler of the learner's whose requests run out of blocks."""

from nanoserve.course.exercises.day23.scene import Named, Scene
from nanoserve.course.probe import named


class Shortage(Scene):
    """Day 23's scene, with the calls of a step that finds too few blocks."""

    def preempts(self, name: str) -> Named:
        """Let one who runs be preempted by the learner's own method."""
        request = self.requests[name]
        self.probe.record(f"scheduler.preempt({name})", self.scheduler.preempt, request, shows_result=False)
        return request

    def makes_room(self) -> None:
        """Let the learner's scheduler make room for the next step."""
        with self.probe.on_error(KeyError, slip="taken-out-first"):
            try:
                self.probe.record("scheduler.make_room()", self.scheduler.make_room, shows_result=False)
            except (StopIteration, IndexError) as error:
                if self.scheduler.running:
                    raise
                self.probe.fail("no error", named(error), "nobody-left-to-go")

    def running(self) -> dict[int, Named]:
        """Who runs, by slot, oldest first."""
        return self.probe.record("scheduler.running", lambda: dict(self.scheduler.running))

    def waiting(self) -> list[Named]:
        """Who waits, the next one first."""
        return self.probe.record("list(scheduler.waiting)", lambda: list(self.scheduler.waiting))
