"""Stages of task 24.2: one who runs gives everything back but its text."""

from nanoserve.course.exercises.day24.scene import Shortage
from nanoserve.course.probe import Probe


def _busy(probe: Probe) -> Shortage:
    """A and B run, C waits."""
    scene = Shortage(probe, 3, 8)
    scene.runs("A", 0, 3, 5)
    scene.runs("B", 2, 6, 5)
    scene.waits("C", 3, 5)
    return scene


def slot_and_blocks_come_back(probe: Probe) -> None:
    """its slot and its blocks come back"""
    scene = _busy(probe)
    with probe.on_error(KeyError, slip="slot-forgotten-first", match="^None$"):
        scene.preempts("B")
    came = probe.record("slots.free_slots()", scene.slots.free_slots), scene.slots.allocator.num_used
    giveaways = {"nothing-released": ([1], 3), "blocks-kept": ([1, 2], 3)}
    told = "free slots {0[0]}, blocks in use: {0[1]}".format
    probe.equal(came, ([1, 2], 1), "other-released", giveaways, told=told)
    a, b = scene.requests["A"], scene.requests["B"]
    probe.equal(scene.running(), {0: a}, "others-stopped", {"still-running": {0: a, 2: b}})


def it_waits_at_the_front(probe: Probe) -> None:
    """it waits at the front of the line"""
    scene = _busy(probe)
    b, c = scene.preempts("B"), scene.requests["C"]
    giveaways = {"at-the-back": [c, b], "in-no-line": [c]}
    probe.equal(scene.waiting(), [b, c], "other-line", giveaways)
    with probe.on_error(AttributeError, slip="line-is-no-deque", match="popleft"):
        probe.record("scheduler.start([B], [1])", scene.scheduler.start, [b], [1], shows_result=False)


def it_waits_like_any_other(probe: Probe) -> None:
    """it is a request that waits, like any other"""
    scene = _busy(probe)
    b = scene.preempts("B")
    giveaways = {"still-called-running": "running", "called-preempted": "preempted"}
    probe.equal(probe.record("B.state", lambda: b.state), "waiting", "called-gone", giveaways)
    probe.equal(probe.record("B.slot", lambda: b.slot), None, "slot-kept")
    known = probe.record("list(scheduler.requests)", lambda: list(scene.scheduler.requests))
    probe.equal(sorted(known), ["A", "B", "C"], "forgotten")


def prompt_and_text_stay(probe: Probe) -> None:
    """its prompt and its text so far stay as they are"""
    scene = _busy(probe)
    b = scene.preempts("B")
    came = probe.record("len(B.run.prompt)", lambda: len(b.run.prompt)), probe.record("B.tokens", lambda: b.tokens)
    giveaways = {"text-thrown-away": (6, []), "text-in-the-prompt": (7, [])}
    told = "{0[0]} prompt tokens and new ones {0[1]}".format
    probe.equal(came, (6, [7]), "text-changed", giveaways, told=told)
    asked = probe.record("B.run.max_new_tokens", lambda: b.run.max_new_tokens)
    probe.equal(asked, 5, "asks-for-another-number")


def it_is_counted(probe: Probe) -> None:
    """it is counted"""
    scene = _busy(probe)
    for name, so_far, slip in (("B", 1, "other-count"), ("A", 2, "counts-from-the-start")):
        scene.preempts(name)
        came = probe.record("scheduler.preemptions", lambda: scene.scheduler.preemptions)
        probe.equal(came, so_far, slip, {"not-counted": 0})
