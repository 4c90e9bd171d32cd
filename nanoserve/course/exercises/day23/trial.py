"""An engine of the learner's over three slots and the counting model, and what the verdict tells of it."""

from nanoserve.course.exercises.day23.stand_in import CountingModel
from nanoserve.course.probe import Probe, kind
from nanoserve.engine import Engine
from nanoserve.paged_slots import PagedSlotKVCache
from nanoserve.pool import KVPool
from nanoserve.request import Request


class Trial:
    """A learner's engine with 3 slots, stepped by hand.

    Args:
        probe: whose subject the engine is.
        engine: another class in its place.
    """

    def __init__(self, probe: Probe, engine: type[Engine] | None = None) -> None:
        self.probe, self.model = probe, CountingModel()
        self.slots = PagedSlotKVCache(KVPool.for_model(self.model, 32, 4), 3)
        self.engine = (engine or probe.subject)(self.model, self.slots)
        probe.calls[:] = ["engine = Engine(model, slots)  # 3 slots; the model says `last token + 1`"]

    def submit(self, name: str, prompt: list[int], num_new: int, **settings: object) -> Request:
        """Put a request in line; several in a row are one line of the verdict, which has room for few."""
        told = "".join(f", {key}={value}" for key, value in settings.items())
        line = f"{name} = engine.submit({prompt}, {num_new}{told})"
        submit = self.engine.submit
        request = self.probe.record(
            line, lambda: submit(prompt, num_new, request_id=name, **settings), shows_result=False
        )
        *earlier, before, last = self.probe.calls
        if " = engine.submit(" in before:
            self.probe.calls[:] = [*earlier, f"{before}; {last}"]
        return request

    def step(self) -> object:
        """One step; the ids of those that it says have finished."""

        def step() -> object:
            finished = self.engine.step()
            if not isinstance(finished, list):
                return finished
            return [request.id if isinstance(request, Request) else kind(request) for request in finished]

        with (
            self.probe.on_error(RuntimeError, slip="changed-while-walking", match="changed size"),
            self.probe.on_error(AttributeError, slip="leaves-by-id", match="'str' object has no attribute 'slot'"),
        ):
            return self.probe.record("engine.step()", step)

    def tokens(self, *requests: Request) -> list[list[int]]:
        """Their texts so far."""
        names = ", ".join(f"{request.id}.tokens" for request in requests)
        return self.probe.record(names, lambda: [list(request.tokens) for request in requests])
