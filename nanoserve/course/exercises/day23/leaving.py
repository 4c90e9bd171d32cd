"""Stages of task 23.2: who leaves gives everything back."""

from collections import deque

from nanoserve.course.exercises.day23.scene import Scene
from nanoserve.course.probe import Probe, kind


def _busy(probe: Probe) -> Scene:
    """A and B run, C and D wait."""
    scene = Scene(probe, 3, 8)
    scene.runs("A", 0, 3, 5)
    scene.runs("B", 2, 6, 5)
    scene.waits("C", 3, 5)
    scene.waits("D", 3, 5)
    return scene


def who_is_finished_runs_no_more(probe: Probe) -> None:
    """who is finished runs no more"""
    scene = _busy(probe)
    a, scheduler = scene.requests["A"], scene.scheduler
    with (
        probe.on_error(KeyError, slip="slot-cleared-first", match="^None$"),
        probe.on_error(ValueError, slip="taken-for-waiting", match="not in"),
    ):
        scene.leaves(a, "finished")
    state, slot = probe.record("A.state, A.slot", lambda: (a.state, a.slot))
    probe.equal(state, "finished", "state-stays")
    probe.equal(slot, None, "slot-stays")
    running = probe.record("scheduler.running", lambda: dict(scheduler.running))
    probe.equal(running, {2: scene.requests["B"]}, "other-running", {"still-running": {0: a, 2: scene.requests["B"]}})
    known = probe.record("list(scheduler.requests)", lambda: list(scheduler.requests))
    probe.equal(sorted(known), list("BCD"), "others-forgotten", {"still-known": list("ABCD")})


def slot_and_blocks_come_back(probe: Probe) -> None:
    """its slot and its blocks come back"""
    scene = _busy(probe)
    scene.leaves(scene.requests["B"], "finished")
    slots = scene.slots
    came = probe.record("slots.free_slots()", slots.free_slots), slots.allocator.num_used
    giveaways = {"never-released": ([1], 3), "blocks-stay": ([1, 2], 3), "slot-stays-taken": ([1], 1)}
    told = "free slots {0[0]}, blocks in use: {0[1]}".format
    probe.equal(came, ([1, 2], 1), "too-much-released", giveaways, told=told)


def the_others_stay(probe: Probe) -> None:
    """the others keep their slots, and the line its order"""
    scene = _busy(probe)
    scene.leaves(scene.requests["A"], "finished")
    came = probe.record("slots.lengths", lambda: list(scene.slots.lengths))
    probe.equal(came, [0, 0, 6], "another-is-released", {"length-stays": [3, 0, 6]})
    waiting = probe.record("scheduler.waiting", lambda: list(scene.scheduler.waiting))
    probe.equal(waiting, [scene.requests["C"], scene.requests["D"]], "line-changed")


def who_waits_can_leave(probe: Probe) -> None:
    """who waits can leave too: it has no slot"""
    scene = _busy(probe)
    c, d, e = scene.requests["C"], scene.requests["D"], scene.waits("E", 3, 5)
    with (
        probe.on_error(KeyError, slip="no-slot-to-release", match="^None$"),
        probe.on_error(ValueError, slip="not-in-the-line", match="not in"),
    ):
        scene.leaves(d, "aborted")
    waiting = probe.record("scheduler.waiting", lambda: scene.scheduler.waiting)
    giveaways = {
        "still-waiting": [c, d, e],
        "first-in-line-leaves": [d, e],
        "last-in-line-leaves": [c, d],
        "line-put-together-again": [e, c],
    }
    probe.equal(list(waiting), [c, e], "other-line", giveaways)
    if not isinstance(waiting, deque):
        probe.fail("a deque, as before", kind(waiting), "line-is-no-deque")
    probe.equal(probe.record("D.state", lambda: d.state), "aborted", "always-finished")


def an_abort_gives_everything_back(probe: Probe) -> None:
    """an abort gives everything back as well"""
    scene = _busy(probe)
    with probe.on_error(ValueError, slip="taken-for-waiting", match="not in"):
        scene.leaves(scene.requests["B"], "aborted")
    came = probe.record("slots.free_slots()", scene.slots.free_slots), scene.slots.allocator.num_used
    told = "free slots {0[0]}, blocks in use: {0[1]}".format
    probe.equal(came, ([1, 2], 1), "only-when-finished", told=told)


def release_is_enough_for_tomorrow(probe: Probe) -> None:
    """`_release` alone gives back slot and blocks, and no more: the request is not gone"""
    scene = _busy(probe)
    b, scheduler, slots = scene.requests["B"], scene.scheduler, scene.slots
    with probe.on_error(KeyError, slip="release-takes-a-request", match="^B$"):
        probe.record("scheduler._release(B)", scheduler._release, b, shows_result=False)
    came = probe.record("slots.free_slots()", slots.free_slots), slots.allocator.num_used, b.slot
    told = "free slots {0[0]}, blocks in use: {0[1]}, B.slot: {0[2]}".format
    probe.equal(came, ([1, 2], 1, None), "release-half-done", {"release-does-nothing": ([1], 3, 2)}, told=told)
    running = probe.record("scheduler.running", lambda: dict(scheduler.running))
    probe.equal(running, {0: scene.requests["A"]}, "release-half-done")
    came = probe.record("B.state, list(scheduler.requests)", lambda: (b.state, list(scheduler.requests)))
    probe.equal(came, ("running", list("ABCD")), "release-too-much")
    probe.equal(probe.record("scheduler.preemptions", lambda: scheduler.preemptions), 0, "release-counts")


def the_text_stays_with_its_request(probe: Probe) -> None:
    """the text stays with its request, and what was asked for"""
    scene = _busy(probe)
    a = scene.requests["A"]
    scene.leaves(a, "finished")
    probe.equal(probe.record("A.tokens", lambda: a.tokens), [7], "text-thrown-away")
    probe.equal(probe.record("A.run.prompt", lambda: a.run.prompt), [1, 1, 1], "prompt-changed")
