"""Stages of task 24.3: when something raises on the way in, nobody came in."""

from typing import NoReturn

from nanoserve.course.exercises.day24.trial import Trial
from nanoserve.course.probe import Probe


def a_prefill_that_failed_has_not_happened(probe: Probe) -> None:
    """a prefill that raised has not happened, and can be tried again"""
    trial = Trial(probe)
    a = trial.preempted()
    trial.model.prefill_fails = True
    probe.raises(RuntimeError, trial.admit, slips={None: "failure-swallowed"})
    line, recomputed = [request.id for request in trial.scheduler.waiting], trial.engine.stats.recomputed_tokens
    came = line, trial.running(), recomputed
    giveaways = {
        "started-too-early": ([], ["A"], 0),
        "counted-before-it-happened": (["A"], [], 4),
        "out-of-the-line-too-early": ([], [], 0),
    }
    told = "waiting {0[0]}, running {0[1]}, recomputed {0[2]}".format
    probe.equal(came, (["A"], [], 0), "not-as-before", giveaways, told=told)
    state = probe.record("A.state, A.slot", lambda: (a.state, a.slot))
    probe.equal(state, ("waiting", None), "called-running-too-early")
    trial.model.prefill_fails = False
    trial.admit()
    probe.equal(trial.tokens(a), [[11, 12, 13, 14]], "lost-in-the-failure")


def nothing_is_stored_before_the_choice(probe: Probe) -> None:
    """the choice of a token raises, and no slot is taken"""
    trial = Trial(probe)
    a = trial.submit("A", [40, 10], 5)
    a.run = a.run._replace(next_token=_raise)
    probe.calls.append("A cannot choose: its next_token raises")
    probe.raises(RuntimeError, trial.admit, slips={None: "choice-swallowed"})
    free = probe.record("slots.free_slots()", trial.slots.free_slots)
    probe.equal(free, [0, 1, 2, 3], "stored-before-the-choice")


def nobody_runs_without_their_blocks(probe: Probe) -> None:
    """the device's memory runs out while the slots store, and nobody runs"""
    trial = Trial(probe)
    b = trial.submit("B", [20], 5)
    trial.admit()
    trial.submit("A", [40, 10], 5)
    trial.slots.admit = _raise
    probe.calls.append("slots.admit raises")
    probe.raises(RuntimeError, trial.admit, slips={None: "store-swallowed"})
    probe.equal(trial.running(), ["B"], "started-before-stored")
    probe.equal(trial.lengths(b), [1], "others-released")


def _raise(*args: object) -> NoReturn:
    raise RuntimeError("planted")
