"""Stages of task 23.1: who comes in, and in which order."""

from nanoserve.course.exercises.day23.scene import Scene
from nanoserve.course.probe import Probe


def nobody_waits_and_nobody_comes(probe: Probe) -> None:
    """nobody waits, and nobody comes"""
    probe.equal(Scene(probe, 2, 8).next_in_line(), [], "somebody-from-nowhere")


def all_that_fit_come_in_their_order(probe: Probe) -> None:
    """all that fit come, the oldest first"""
    scene = Scene(probe, 4, 20)
    a, b, c = (scene.waits(name, length, 5) for name, length in (("A", 9), ("B", 2), ("C", 5)))
    giveaways = {
        "one-at-a-time": [a],
        "newest-first": [c, b, a],
        "shortest-first": [b, c, a],
        "ids-for-requests": ["A", "B", "C"],
    }
    probe.equal(scene.next_in_line(), [a, b, c], "other-requests", giveaways)


def the_line_stays_as_it_is(probe: Probe) -> None:
    """the line stays as it is: `start` takes them out of it, once their prompts are through the model"""
    scene = Scene(probe, 4, 20)
    line = [scene.waits("A", 3, 5), scene.waits("B", 3, 5)]
    scene.next_in_line()
    probe.equal(list(scene.scheduler.waiting), line, "takes-them-out")


def there_is_a_slot_for_each(probe: Probe) -> None:
    """there is a slot for each that comes"""
    scene = Scene(probe, 2, 20)
    line = [scene.waits(name, 3, 5) for name in "ABCD"]
    giveaways = {"slots-ignored": line, "all-or-nobody": []}
    probe.equal(scene.next_in_line(), line[:2], "one-too-many", giveaways)


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
