"""Stages of task 24.3: who comes back with a text."""

from nanoserve.course.exercises.day24.trial import Trial
from nanoserve.course.probe import Probe
from nanoserve.engine import Engine


def the_text_goes_on_where_it_was(probe: Probe) -> None:
    """who has lost its blocks comes back, and its text goes on where it was"""
    trial = Trial(probe)
    a = trial.preempted()
    trial.admit()
    giveaways = {
        "starts-again": [[11, 12, 13, 11]],
        "text-streamed-twice": [[11]],
        "newest-left-out": [[11, 12, 13, 13]],
        "no-next-token": [[11, 12, 13]],
    }
    probe.equal(trial.tokens(a), [[11, 12, 13, 14]], "other-next-token", giveaways)
    giveaways = {"prompt-lost": [11, 12, 13]}
    probe.equal(trial.stored(a), [40, 10, 11, 12, 13], "other-stored", giveaways)
    probe.equal(probe.record("A.run.prompt", lambda: a.run.prompt), [40, 10], "prompt-grows")


def what_is_computed_again_is_counted(probe: Probe) -> None:
    """what is computed again is counted, and apart from what is new"""
    trial = Trial(probe)
    trial.submit("A", [40, 10], 5)
    trial.admit()
    probe.equal(trial.recomputed(), 0, "first-time-counted", {"counted-after-the-token": 2})
    trial = Trial(probe)
    trial.preempted()
    trial.admit()
    giveaways = {"recompute-not-counted": 0, "newest-counted-too": 5, "prompt-not-counted": 2}
    probe.equal(trial.recomputed(), 4, "other-recompute", giveaways)
    tokens = probe.record("engine.stats.tokens", lambda: trial.engine.stats.tokens)
    probe.equal(tokens, 4, "recomputed-as-new")


def two_come_back_together(probe: Probe) -> None:
    """two come back together, and both are counted"""
    trial = Trial(probe)
    a, b = trial.submit("A", [40, 10], 9), trial.submit("B", [20], 9)
    trial.step()
    trial.step()
    trial.preempt(b)
    trial.preempt(a)
    trial.admit()
    probe.equal(trial.tokens(a, b), [[11, 12, 13, 14], [21, 22, 23, 24]], "together-mixed")
    probe.equal(trial.recomputed(), 7, "not-each-counted")


def old_and_new_come_together(probe: Probe) -> None:
    """one comes back and one comes in, together"""
    trial = Trial(probe)
    a = trial.preempted()
    b = trial.submit("B", [1, 2, 3, 4, 5, 6, 20], 5)
    trial.admit()
    probe.equal(trial.tokens(a, b), [[11, 12, 13, 14], [21]], "together-mixed")
    probe.equal(trial.recomputed(), 4, "all-or-nobody-counted", {"pads-counted": 6})


def it_may_happen_again(probe: Probe) -> None:
    """it may happen to the same request again"""
    trial = Trial(probe)
    a = trial.preempted()
    trial.step()
    trial.preempt(a)
    trial.admit()
    probe.equal(trial.tokens(a), [[11, 12, 13, 14, 15, 16]], "second-time-wrong")
    probe.equal(trial.stored(a), [40, 10, 11, 12, 13, 14, 15], "second-time-wrong")
    probe.equal(trial.recomputed(), 10, "first-time-forgotten")


def a_seed_draws_once_a_token(probe: Probe) -> None:
    """a seed draws once for each token, preempted or not"""

    def texts(engine: type[Engine]) -> tuple[list[int], list[int]]:
        trial = Trial(probe, engine)
        a = trial.preempted(temperature=1.0, seed=3)
        so_far = list(a.tokens)
        trial.step()
        return so_far, *trial.tokens(a)

    (first, whole), (came_first, came_whole) = texts(Engine), texts(probe.subject)
    probe.equal(came_first[0], first[0], "another-draw", {"always-the-likeliest": 11})
    probe.equal(came_whole, whole, "draws-again")
