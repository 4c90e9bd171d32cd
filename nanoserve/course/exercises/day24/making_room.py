"""Stages of task 24.2: who is preempted, and how many."""

from nanoserve.course.exercises.day23.scene import Named
from nanoserve.course.exercises.day24.scene import Shortage
from nanoserve.course.probe import Probe


def _three_full(probe: Probe) -> tuple[Shortage, Named, Named, Named]:
    """A, B and C have a full block each, and there are no others."""
    scene = Shortage(probe, 3, 3)
    return scene, *(scene.runs(name, slot, 4, 5) for slot, name in enumerate("ABC"))


def nobody_goes_while_there_is_room(probe: Probe) -> None:
    """nobody goes while there is room, and the room is taken"""
    scene = Shortage(probe, 2, 3)
    a, b = scene.runs("A", 0, 4, 5), scene.runs("B", 1, 3, 5)  # A needs a block, and one is free
    scene.makes_room()
    probe.equal(scene.running(), {0: a, 1: b}, "without-need")
    probe.equal(_blocks(scene), {"A": 2, "B": 1}, "never-reserves")


def the_newest_goes(probe: Probe) -> None:
    """the newest goes, whatever its slot and its size, and the others have their room"""
    scene = Shortage(probe, 5, 10)  # five blocks are due, and four are free
    a, b = scene.runs("A", 1, 4, 5), scene.runs("B", 4, 4, 5)
    c, d, e = scene.runs("C", 2, 8, 5), scene.runs("D", 0, 4, 5), scene.runs("E", 3, 4, 5)
    everyone = {1: a, 4: b, 2: c, 0: d, 3: e}

    def without(*slots: int) -> dict[int, Named]:
        return {slot: request for slot, request in everyone.items() if slot not in slots}

    scene.makes_room()
    giveaways = {
        "oldest-goes": without(1),
        "highest-slot-goes": without(4),
        "biggest-goes": without(2),
        "lowest-slot-goes": without(0),
        "all-go": {},
        "nobody-goes": everyone,
    }
    probe.equal(scene.running(), without(3), "other-victim", giveaways)
    probe.equal(_blocks(scene), {"A": 2, "B": 2, "C": 3, "D": 2}, "not-asked-again")


def as_often_as_it_takes(probe: Probe) -> None:
    """one may not be enough"""
    scene, a, b, _ = _three_full(probe)  # without C one block is free, and A and B need one each
    scene.makes_room()
    probe.equal(scene.running(), {0: a}, "too-many-go", {"one-only": {0: a, 1: b}})


def they_line_up_by_their_age(probe: Probe) -> None:
    """several line up by their age, before all that never ran"""
    scene, _, b, c = _three_full(probe)
    d = scene.waits("D", 3, 5)
    scene.makes_room()
    probe.equal(scene.waiting(), [b, c, d], "line-mixed", {"newest-first": [c, b, d]})


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
