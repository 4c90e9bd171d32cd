"""Stages of task 24.2: who is preempted, and how many."""

from nanoserve.course.exercises.day23.scene import Named
from nanoserve.course.exercises.day24.scene import Shortage
from nanoserve.course.probe import Probe


def _three_full(probe: Probe) -> tuple[Shortage, Named, Named, Named]:
    """A, D and B have a full block each, and there are no others; who is older, their ids do not say."""
    scene = Shortage(probe, 3, 3)
    return scene, *(scene.runs(name, slot, 4, 5) for slot, name in enumerate("ADB"))


def nobody_goes_while_there_is_room(probe: Probe) -> None:
    """nobody goes while there is room, and the room is taken"""
    scene = Shortage(probe, 2, 3)
    a, b = scene.runs("A", 0, 4, 5), scene.runs("B", 1, 3, 5)  # A needs a block, and one is free
    scene.makes_room()
    probe.equal(scene.running(), {0: a, 1: b}, "without-need")
    probe.equal(_blocks(scene), {"A": 2, "B": 1}, "never-reserves")


def the_newest_goes(probe: Probe) -> None:
    """the newest goes, whatever its slot, its size and its id, and the others have their room"""
    scene = Shortage(probe, 6, 12)  # six blocks are due, and five are free
    places = {"D": (1, 4), "B": (5, 4), "E": (2, 8), "F": (4, 4), "A": (0, 4), "C": (3, 4)}  # slot and tokens
    everyone = {slot: scene.runs(name, slot, length, 5) for name, (slot, length) in places.items()}

    def without(*slots: int) -> dict[int, Named]:
        return {slot: request for slot, request in everyone.items() if slot not in slots}

    scene.makes_room()
    giveaways = {
        "oldest-goes": without(1),
        "highest-slot-goes": without(5),
        "biggest-goes": without(2),
        "last-id-goes": without(4),
        "lowest-slot-goes": without(0),
        "all-go": {},
        "nobody-goes": everyone,
    }
    probe.equal(scene.running(), without(3), "other-victim", giveaways)
    probe.equal(_blocks(scene), {"D": 2, "B": 2, "E": 3, "F": 2, "A": 2}, "not-asked-again")


def as_often_as_it_takes(probe: Probe) -> None:
    """one may not be enough"""
    scene, a, d, _ = _three_full(probe)  # without B one block is free, and A and D need one each
    scene.makes_room()
    probe.equal(scene.running(), {0: a}, "too-many-go", {"one-only": {0: a, 1: d}})


def the_newest_goes_whatever_it_has_said(probe: Probe) -> None:
    """the newest goes, though its text is the longer one"""
    scene = Shortage(probe, 2, 3)
    a, _ = scene.runs("A", 0, 4, 5), scene.runs("B", 1, 6, 5, tokens=[7, 8, 9])
    scene.makes_room()
    probe.equal(scene.running(), {0: a}, "shortest-goes")


def many_may_have_to_go(probe: Probe) -> None:
    """many may have to go"""
    scene = Shortage(probe, 24, 24)
    for slot in range(24):
        scene.runs(f"R{slot}", slot, 4, 5)
    probe.calls[1:] = ["R0 to R23 run, each with a full block of its own, and no other is free"]
    scene.makes_room()
    came = probe.record("len(scheduler.running)", lambda: len(scene.scheduler.running))
    probe.equal(came, 12, "only-so-many-tries")


def they_line_up_by_their_age(probe: Probe) -> None:
    """several line up by their age, before all that never ran"""
    scene, _, d, b = _three_full(probe)
    c = scene.waits("C", 3, 5)
    scene.makes_room()
    giveaways = {"newest-first": [b, d, c], "by-their-ids": [b, c, d]}
    probe.equal(scene.waiting(), [d, b, c], "line-mixed", giveaways)
    states = probe.record("D.state, B.state", lambda: (d.state, b.state))
    probe.equal(states, ("waiting", "waiting"), "preempted-by-hand")


def the_last_one_goes_too(probe: Probe) -> None:
    """the last one goes too, when others hold the rest of the pool"""
    scene = Shortage(probe, 2, 3)
    scene.runs("A", 0, 4, 5)
    scene.slots.allocator.allocate_for(8)
    probe.calls.append("somebody else takes the other 2 blocks of the pool")
    scene.makes_room()
    probe.equal(scene.running(), {}, "last-one-kept")


def each_is_counted_once(probe: Probe) -> None:
    """each is counted, once"""
    scene, *_ = _three_full(probe)
    scene.makes_room()
    came = probe.record("scheduler.preemptions", lambda: scene.scheduler.preemptions)
    probe.equal(came, 2, "counted-again")


def _blocks(scene: Shortage) -> dict[str, int]:
    """How many blocks each one has that runs."""
    running, tables = scene.scheduler.running, scene.slots.tables
    line = "{name: blocks of each that runs}"
    return scene.probe.record(line, lambda: {r.id: len(tables[slot].block_ids) for slot, r in running.items()})
