"""Stages of task 23.3: who is complete leaves at once, and the caller hears of it."""

from nanoserve.course.exercises.day23.trial import Trial
from nanoserve.course.probe import Probe


def who_is_complete_leaves_at_once(probe: Probe) -> None:
    """who is complete leaves in that very step, and `step` says so"""
    trial = Trial(probe)
    a, b = trial.submit("A", [10], 3), trial.submit("B", [20], 9)
    trial.step()
    finished = trial.step()
    state = probe.record("A.state", lambda: a.state)
    if state != "finished":
        trial.step()
        slip = {"finished": "a-step-late", "aborted": "leaves-as-aborted"}.get(a.state, "never-leaves")
        probe.fail("'finished', with 3 tokens of 3", f"{state!r}, and a step later {a.state!r}", slip)
    probe.equal(trial.tokens(a, b), [[11, 12, 13], [21, 22, 23]], "token-after-the-end")
    free = probe.record("slots.free_slots()", trial.slots.free_slots)
    probe.equal(free, [0, 2], "slot-not-given-back", {"others-leave-too": [0, 1, 2]})
    running = probe.record("list(scheduler.running)", lambda: list(trial.engine.scheduler.running))
    probe.equal(running, [1], "still-among-those-that-run")
    giveaways = {"finished-not-told": [], "all-told": ["A", "B"], "ids-told": ["a str"]}
    probe.equal(finished, ["A"], "others-told", giveaways)


def a_prompts_token_may_be_the_last(probe: Probe) -> None:
    """who is complete with the token of its prompt leaves before it decodes"""
    trial = Trial(probe)
    a = trial.submit("A", [10], 1)
    trial.submit("B", [20], 9)
    finished = trial.step()
    probe.equal(trial.tokens(a), [[11]], "goes-on-after-its-prompt")
    probe.equal(finished, ["A"], "told-no-more")


def an_eos_ends_a_text(probe: Probe) -> None:
    """an eos ends a text before its last token is due"""
    trial = Trial(probe)
    a = trial.submit("A", [10], 9, eos_token_id=13)
    for _ in range(3):
        trial.step()
    probe.equal(trial.tokens(a), [[11, 12, 13]], "other-end", {"eos-ignored": [[11, 12, 13, 14]]})
    probe.equal(probe.record("A.state", lambda: a.state), "finished", "eos-not-the-end")


def several_leave_in_one_step(probe: Probe) -> None:
    """several leave in one step, and the others stay"""
    trial = Trial(probe)
    a, b, c = (trial.submit(name, [start], num) for name, start, num in (("A", 10, 2), ("B", 20, 2), ("C", 30, 9)))
    finished = trial.step()
    states = probe.record("A.state, B.state, C.state", lambda: [a.state, b.state, c.state])
    giveaways = {"one-leaves-a-step": ["finished", "running", "running"]}
    probe.equal(states, ["finished", "finished", "running"], "others-leave-too", giveaways)
    probe.equal(sorted(finished), ["A", "B"], "last-one-told-only", {"first-one-told-only": ["A"]})
