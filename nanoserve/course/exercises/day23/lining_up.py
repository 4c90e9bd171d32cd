"""Stages of task 23.1: who comes in, and in which order."""

from collections import deque

from nanoserve.course.exercises.day23.scene import Scene
from nanoserve.course.probe import Probe, kind


def nobody_waits_and_nobody_comes(probe: Probe) -> None:
    """nobody waits, and nobody comes"""
    probe.equal(Scene(probe, 2, 8).next_in_line(), [], "somebody-from-nowhere")


def all_that_fit_come_in_their_order(probe: Probe) -> None:
    """all that fit come, the oldest first"""
    scene = Scene(probe, 4, 20)
    b, c, a = (scene.waits(name, length, 5) for name, length in (("B", 9), ("C", 2), ("A", 5)))
    giveaways = {
        "one-at-a-time": [b],
        "newest-first": [a, c, b],
        "shortest-first": [c, a, b],
        "by-their-ids": [a, b, c],
        "ids-for-requests": ["B", "C", "A"],
    }
    probe.equal(scene.next_in_line(), [b, c, a], "other-requests", giveaways)


def the_line_stays_as_it_is(probe: Probe) -> None:
    """the line stays as it is: `start` takes them out of it, once their prompts are through the model"""
    scene = Scene(probe, 4, 20)
    a = scene.runs("A", 1, 4, 5)  # a block is due for it
    z = scene.runs("Z", 0, 3, 5)
    line = [scene.waits(name, 3, 5) for name in "BCDEF"]
    books = list(scene.slots.lengths), scene.slots.allocator.num_free
    scene.next_in_line()
    waiting = probe.record("scheduler.waiting", lambda: scene.scheduler.waiting)
    probe.equal(list(waiting), line, "takes-them-out" if len(waiting) < len(line) else "line-turned")
    if not isinstance(waiting, deque):
        probe.fail("a deque, as before", kind(waiting), "line-is-no-deque")
    running = probe.record("scheduler.running", lambda: list(scene.scheduler.running.items()))
    probe.equal(running, [(1, a), (0, z)], "running-changed")
    states = probe.record("state and slot of each", lambda: [(request.state, request.slot) for request in line])
    probe.equal(states, [("waiting", None)] * 5, "requests-changed")
    probe.equal(list(scene.scheduler.requests), list("AZBCDEF"), "requests-changed")
    told = "slots.lengths {0[0]}, blocks free: {0[1]}".format
    probe.equal((list(scene.slots.lengths), scene.slots.allocator.num_free), books, "slots-changed", told=told)


def asked_again_it_says_the_same(probe: Probe) -> None:
    """asked again, it says the same"""
    scene = Scene(probe, 4, 20)
    line = [scene.waits("A", 3, 5), scene.waits("B", 3, 5)]
    scene.next_in_line()
    probe.equal(scene.next_in_line(), line, "kept-on-the-scheduler")


def there_is_a_slot_for_each(probe: Probe) -> None:
    """there is a slot for each that comes"""
    scene = Scene(probe, 2, 20)
    line = [scene.waits(name, 3, 5) for name in "ABCD"]
    giveaways = {"slots-ignored": line, "all-or-nobody": []}
    probe.equal(scene.next_in_line(), line[:2], "one-too-many", giveaways)
    scene = Scene(probe, 6, 20)
    line = [scene.waits(name, 3, 5) for name in "ABCDEFG"]
    probe.equal(scene.next_in_line(), line[:6], "so-many-at-most")


def those_that_run_are_no_hindrance(probe: Probe) -> None:
    """somebody runs, and others come in beside them"""
    scene = Scene(probe, 3, 20)
    scene.runs("A", 1, 3, 5)
    line = [scene.waits(name, 3, 5) for name in "BCD"]
    giveaways = {"waits-for-all": [], "counts-taken-slots": line}
    probe.equal(scene.next_in_line(), line[:2], "last-slot-left", giveaways)


def there_are_blocks_for_all(probe: Probe) -> None:
    """there are blocks for all that come, together"""
    scene = Scene(probe, 3, 5)
    scene.runs("A", 0, 13, 3)
    scene.waits("B", 6, 2)
    probe.equal(scene.next_in_line(), [], "blocks-ignored")
    scene = Scene(probe, 4, 5)
    line = [scene.waits(name, 6, 2) for name in "ABC"]  # two blocks each
    probe.equal(scene.next_in_line(), line[:2], "each-as-if-alone")
    scene = Scene(probe, 4, 5)
    line = [scene.waits(name, length, 2) for name, length in (("A", 15), ("B", 2), ("C", 2))]  # 4, 1 and 1
    probe.equal(scene.next_in_line(), line[:2], "one-length-for-all")


def those_that_run_keep_room(probe: Probe) -> None:
    """those that run keep the room for their next token"""
    scene = Scene(probe, 3, 4)
    scene.runs("A", 0, 8, 5)  # two full blocks, and a third one for what it decodes next
    scene.waits("B", 5, 5)
    probe.equal(scene.next_in_line(), [], "next-blocks-forgotten")


def nobody_overtakes(probe: Probe) -> None:
    """nobody overtakes one that does not fit"""
    scene = Scene(probe, 4, 5)
    line = [scene.waits(name, length, 2) for name, length in (("A", 10), ("B", 10), ("C", 2))]
    probe.equal(scene.next_in_line(), line[:1], "overtakes")


def there_is_room_for_the_first_new_token(probe: Probe) -> None:
    """there is room for the first token that each decodes, and no more is asked for"""
    scene = Scene(probe, 4, 3)
    line = [scene.waits(name, 4, 5) for name in "AB"]  # a full block, and a second one for what is decoded
    probe.equal(scene.next_in_line(), line[:1], "prompt-only")
    scene = Scene(probe, 4, 4)
    line = [scene.waits(name, 2, 14) for name in "AB"]
    probe.equal(scene.next_in_line(), line, "reserves-it-all")
    scene = Scene(probe, 4, 2)
    line = [scene.waits(name, 4, 1) for name in "AB"]  # the prompt alone gives the only token
    probe.equal(scene.next_in_line(), line, "a-token-nobody-decodes")


def tokens_so_far_need_room_too(probe: Probe) -> None:
    """one that was preempted brings its tokens along"""
    scene = Scene(probe, 2, 3)
    scene.runs("A", 0, 5, 4)
    scene.waits("B", 2, 9, tokens=[7, 7, 7])
    probe.equal(scene.next_in_line(), [], "tokens-forgotten")
