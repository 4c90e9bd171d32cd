"""Stages of task 24.3: who comes in, and with what they run."""

from nanoserve.allocator import KVCacheExhausted
from nanoserve.course.exercises.day24.trial import Trial
from nanoserve.course.probe import Probe
from nanoserve.engine import Engine


def nobody_waits(probe: Probe) -> None:
    """nobody waits, and the model is left alone"""
    trial = Trial(probe)
    with probe.on_error(ValueError, slip="nobody-prefilled", match=r"max\(\)"):
        trial.admit()
    probe.equal(trial.running(), [], "nobody-prefilled")


def a_prompt_comes_in(probe: Probe) -> None:
    """a prompt comes in, and the next token comes out"""
    trial = Trial(probe)
    a = trial.submit("A", [40, 10], 5)
    with (
        probe.on_error(IndexError, slip="other-positions-asked", match="dimension 1 with size 1"),
        probe.on_error(TypeError, slip="ids-of-another-type", match="the model takes ids"),
        probe.on_error(ValueError, slip="more-slots-than-requests", match="argument 2 is shorter"),
    ):
        trial.admit()
    if trial.model.pads is None:
        probe.fail("a prefill of A", "no prefill", "nobody-comes-in")
    giveaways = {"token-lost": [[]], "newest-cut-off": [[41]], "handed-out-twice": [[11, 11]]}
    giveaways |= {"decoded-too": [[11, 12]]}
    probe.equal(trial.tokens(a), [[11]], "other-first-token", giveaways)
    probe.equal(trial.running(), ["A"], "not-started")
    [slot] = trial.scheduler.running
    came = probe.record("A.slot, A.state, len(waiting)", lambda: (a.slot, a.state, len(trial.scheduler.waiting)))
    probe.equal(came, (slot, "running", 0), "started-by-hand")
    probe.equal(trial.lengths(a), [2], "not-admitted", {"advanced-too": [3]})
    steps = probe.record("engine.stats.steps", lambda: trial.engine.stats.steps)
    probe.equal(steps, 0, "counted-as-a-step")


def prompts_of_any_length_come_together(probe: Probe) -> None:
    """prompts of any length come together, in one prefill"""
    trial = Trial(probe)
    requests = [
        trial.submit(name, prompt, 5) for name, prompt in zip("BCA", ([10], [20, 21, 30], [40, 50]), strict=True)
    ]
    trial.admit()
    giveaways = {"order-turned": ["A", "C", "B"], "ordered-by-id": ["A", "B", "C"]}
    probe.equal(trial.running(), ["B", "C", "A"], "not-all-come-in", giveaways)
    giveaways = {"padded-behind": [[1], [31], [1]]}
    probe.equal(trial.tokens(*requests), [[11], [31], [51]], "rows-mixed", giveaways)
    pads = probe.record("the prefill's pad_lens", lambda: trial.model.pads)
    probe.equal(pads, [2, 0, 1], "pads-not-told", {"a-prefill-each": [0]})
    prefills = probe.record("prefills of the model", lambda: trial.model.prefills)
    probe.equal(prefills, 1, "prefilled-again")
    probe.equal(trial.lengths(*requests), [1, 3, 2], "other-lengths", {"pads-stored": [3, 3, 3]})


def as_many_as_fit(probe: Probe) -> None:
    """five wait for four slots, and four come in"""
    trial = Trial(probe)
    for number, name in enumerate("ABCDE"):
        trial.submit(name, [10 * number], 5)
    with probe.on_error(ValueError, KVCacheExhausted, slip="whole-line"):
        trial.admit()
    probe.equal(trial.running(), ["A", "B", "C", "D"], "whole-line")


def beside_one_who_runs(probe: Probe) -> None:
    """one comes in beside one who runs"""
    trial = Trial(probe)
    a = trial.submit("A", [40, 10], 5)
    trial.admit()
    b = trial.submit("B", [20], 5)
    with probe.on_error(ValueError, slip="slot-is-taken", match="must be free"):
        trial.admit()
    probe.equal(trial.tokens(a, b), [[11], [21]], "slot-is-taken")


def each_chooses_by_its_own_rule(probe: Probe) -> None:
    """each chooses by its own rule"""

    def texts(engine: type[Engine]) -> list[list[int]]:
        trial = Trial(probe, engine)
        a = trial.submit("A", [40, 10], 5, temperature=1.0, seed=3)
        b = trial.submit("B", [20], 5, temperature=1.0, seed=4)
        trial.admit()
        return trial.tokens(a, b)

    expected = texts(Engine)
    probe.equal(texts(probe.subject), expected, "one-rule-for-all")


def who_is_complete_leaves_at_once(probe: Probe) -> None:
    """whose only token came out of its prompt leaves at once"""
    trial = Trial(probe)
    trial.submit("A", [10], 1)
    trial.submit("B", [20], 5)
    with probe.on_error(IndexError, slip="accepted-before-started"):
        trial.admit()
    probe.equal(trial.running(), ["B"], "others-left", {"complete-and-still-there": ["A", "B"]})
