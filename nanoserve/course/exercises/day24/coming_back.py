"""Stages of task 24.3: who comes in with a prompt, and who comes back with a text."""

from nanoserve.course.exercises.day24.trial import Trial
from nanoserve.course.probe import Probe
from nanoserve.engine import Engine


def nobody_waits(probe: Probe) -> None:
    """nobody waits, and the model is left alone"""
    trial = Trial(probe)
    with probe.on_error(ValueError, slip="nobody-prefilled", match=r"max\(\)"):
        trial.admit()
    probe.equal(trial.running(), {}, "nobody-prefilled")


def a_prompt_comes_in(probe: Probe) -> None:
    """a prompt comes in, and the next token comes out"""
    trial = Trial(probe)
    a = trial.submit("A", [40, 10], 5)
    trial.admit()
    probe.equal(trial.tokens(a), [[11]], "other-first-token", {"token-lost": [[]]})
    probe.equal(trial.running(), {0: "A"}, "not-started")
    lengths = probe.record("slots.lengths", lambda: list(trial.slots.lengths))
    probe.equal(lengths, [2, 0, 0, 0], "not-admitted")


def prompts_of_any_length_come_together(probe: Probe) -> None:
    """prompts of any length come together, in one prefill"""
    trial = Trial(probe)
    requests = [
        trial.submit(name, prompt, 5) for name, prompt in zip("ABC", ([10], [20, 21, 30], [40, 50]), strict=True)
    ]
    trial.admit()
    probe.equal(trial.tokens(*requests), [[11], [31], [51]], "rows-mixed")
    pads = probe.record("the prefill's pad_lens", lambda: trial.model.pads)
    probe.equal(pads, [2, 0, 1], "pads-not-told", {"a-prefill-each": [0]})
    lengths = probe.record("slots.lengths", lambda: list(trial.slots.lengths))
    probe.equal(lengths, [1, 3, 2, 0], "other-lengths", {"pads-stored": [3, 3, 3, 0]})


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
    probe.equal(trial.stored(0), [40, 10, 11, 12, 13], "other-stored", giveaways)


def what_is_computed_again_is_counted(probe: Probe) -> None:
    """what is computed again is counted, and apart from what is new"""
    trial = Trial(probe)
    trial.submit("A", [40, 10], 5)
    trial.admit()
    recomputed = probe.record("engine.stats.recomputed_tokens", lambda: trial.engine.stats.recomputed_tokens)
    probe.equal(recomputed, 0, "first-time-counted")
    trial = Trial(probe)
    trial.preempted()
    trial.admit()
    recomputed = probe.record("engine.stats.recomputed_tokens", lambda: trial.engine.stats.recomputed_tokens)
    giveaways = {"recompute-not-counted": 0, "newest-counted-too": 5, "prompt-not-counted": 2}
    probe.equal(recomputed, 4, "other-recompute", giveaways)
    tokens = probe.record("engine.stats.tokens", lambda: trial.engine.stats.tokens)
    probe.equal(tokens, 4, "recomputed-as-new")


def old_and_new_come_together(probe: Probe) -> None:
    """one comes back and one comes in, together"""
    trial = Trial(probe)
    a = trial.preempted()
    b = trial.submit("B", [1, 2, 20], 5)
    trial.admit()
    probe.equal(trial.tokens(a, b), [[11, 12, 13, 14], [21]], "together-mixed")
    recomputed = probe.record("engine.stats.recomputed_tokens", lambda: trial.engine.stats.recomputed_tokens)
    probe.equal(recomputed, 4, "all-or-nobody-counted")


def it_may_happen_again(probe: Probe) -> None:
    """it may happen to the same request again"""
    trial = Trial(probe)
    a = trial.preempted()
    trial.step()
    trial.preempt(a)
    trial.admit()
    probe.equal(trial.tokens(a), [[11, 12, 13, 14, 15, 16]], "second-time-wrong")
    probe.equal(trial.stored(0), [40, 10, 11, 12, 13, 14, 15], "prompt-grows")


def who_is_complete_leaves_at_once(probe: Probe) -> None:
    """whose only token came out of its prompt leaves at once"""
    trial = Trial(probe)
    trial.submit("A", [10], 1)
    trial.submit("B", [20], 5)
    with probe.on_error(IndexError, slip="accepted-before-started"):
        trial.admit()
    probe.equal(trial.running(), {1: "B"}, "others-left", {"complete-and-still-there": {0: "A", 1: "B"}})


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
