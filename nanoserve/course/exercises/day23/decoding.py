"""Stages of task 23.3: what goes into a decode step, and what is made of it."""

from numbers import Integral

import torch

from nanoserve.course.exercises.day23.trial import Trial
from nanoserve.course.probe import Probe, named
from nanoserve.engine import Engine


def a_request_gets_a_token_in_each_step(probe: Probe) -> None:
    """a request gets a token in each step, made from its last one"""
    trial = Trial(probe)
    a = trial.submit("A", [40, 10], 5)
    with (
        probe.on_error(ValueError, slip="no-time-axis", match=r"not \(\d,\)"),
        probe.on_error(ValueError, slip="one-row-for-all", match=r"not \(1, 3\)"),
        probe.on_error(ValueError, slip="a-row-a-request", match=r"not \(1, 1\)"),
        probe.on_error(ValueError, slip="rows-of-idle-slots", match="zip"),
        probe.on_error(TypeError, slip="ids-of-another-type", match="the model takes ids"),
    ):
        try:
            trial.step()
        except IndexError as error:
            if a.tokens:
                raise
            probe.fail("no error", named(error), "no-first-token")
    [came] = trial.tokens(a)
    if any(isinstance(token, torch.Tensor) for token in came):
        probe.fail("A.tokens of ints", f"A.tokens: {came}", "tensors-for-ids")
    if not all(isinstance(token, Integral) for token in came):
        probe.fail("A.tokens of ints", f"A.tokens: {came}", "floats-for-ids")
    if came == [11] and a.state != "running":
        probe.fail("A goes on, with 1 token of 5", f"A.state {a.state!r}", "leaves-too-early")
    giveaways = {"token-not-kept": [[11]], "prompt-fed-again": [[11, 11]], "a-row-of-logits": [[11, 1]]}
    probe.equal([came], [[11, 12]], "other-second-token", giveaways)
    trial.step()
    giveaways = {"first-token-fed": [[11, 12, 12]]}
    probe.equal(trial.tokens(a), [[11, 12, 13]], "other-third-token", giveaways)
    probe.equal(probe.record("A.run.prompt", lambda: a.run.prompt), [40, 10], "prompt-grows")


def the_newest_token_goes_in(probe: Probe) -> None:
    """the newest token goes in, whatever its number: after 63 comes 0"""
    trial = Trial(probe)
    a = trial.submit("A", [61], 9)
    for _ in range(3):
        trial.step()
    probe.equal(trial.tokens(a), [[62, 63, 0, 1]], "not-the-newest", {"largest-token-fed": [[62, 63, 0, 0]]})


def who_waits_is_left_alone(probe: Probe) -> None:
    """who waits for a slot is left alone"""
    trial = Trial(probe)
    for name, start in zip("ABC", (10, 20, 30), strict=True):
        trial.submit(name, [start], 9)
    line = [trial.submit(name, [40], 9) for name in "DE"]
    trial.step()
    scheduler = trial.engine.scheduler
    waiting = probe.record("scheduler.waiting", lambda: [request.id for request in scheduler.waiting])
    probe.equal(waiting, ["D", "E"], "waiting-changed")
    probe.equal(
        probe.record("list(scheduler.requests)", lambda: list(scheduler.requests)), list("ABCDE"), "waiting-changed"
    )
    probe.equal(trial.tokens(*line), [[], []], "waiting-changed")
    probe.equal(trial.engine.stats.preemptions, 0, "waiting-changed")


def each_row_belongs_to_its_slot(probe: Probe) -> None:
    """each row belongs to its slot, and one pass of the model serves them all"""
    trial = Trial(probe)
    requests = [trial.submit(name, [start], 9) for name, start in zip("ABC", (10, 20, 30), strict=True)]
    with probe.on_error(IndexError, slip="no-first-token", match="list index out of range"):
        trial.step()
    probe.equal(trial.tokens(*requests), [[11, 12], [21, 22], [31, 32]], "rows-mixed")
    passes = probe.record("passes of the model over `slots`", lambda: trial.model.steps)
    probe.equal(passes, 1, "model-runs-again", {"another-cache": 0})


def slots_may_be_idle_or_taken_again(probe: Probe) -> None:
    """slots may be idle, and may be taken again"""
    trial = Trial(probe)
    trial.submit("A", [10], 2)
    b, c = trial.submit("B", [20], 9), trial.submit("C", [30], 9)
    trial.step()
    trial.step()  # A has left, and slot 0 is idle
    giveaways = {
        "logits-by-place": [[21, 22, 1], [31, 32, 23]],
        "tokens-by-place": [[21, 22, 33], [31, 32, 1]],
    }
    probe.equal(trial.tokens(b, c), [[21, 22, 23], [31, 32, 33]], "slots-by-age", giveaways)
    d = trial.submit("D", [50], 9)  # the newest, in the lowest slot
    trial.step()
    expected = [[21, 22, 23, 24], [31, 32, 33, 34], [51, 52]]
    by_slot = [[21, 22, 23, 52], [31, 32, 33, 24], [51, 34]]  # the rows of slots 0, 1, 2 for the oldest to the newest
    probe.equal(trial.tokens(b, c, d), expected, "slots-by-age", {"two-orders": by_slot})
    running = probe.record("list(scheduler.running)", lambda: list(trial.engine.scheduler.running))
    probe.equal(running, [1, 2, 0], "running-sorted")


def what_was_stored_is_counted(probe: Probe) -> None:
    """what a step stored is counted, once"""
    trial = Trial(probe)
    trial.submit("A", [40, 10], 5)
    trial.submit("B", [20], 5)
    trial.step()
    came = probe.record("slots.lengths", lambda: list(trial.slots.lengths))
    probe.equal(came, [3, 2, 0], "other-lengths", {"not-advanced": [2, 1, 0], "advanced-twice": [4, 3, 0]})


def each_chooses_by_its_own_rule(probe: Probe) -> None:
    """each chooses by its own rule: its temperature, and its own seed"""
    settings = [{}, {"temperature": 1.0, "seed": 3}, {"temperature": 1.0, "seed": 4}]

    def texts(engine: type[Engine]) -> list[list[int]]:
        trial = Trial(probe, engine)
        requests = [
            trial.submit(name, [start], 4, **each)
            for name, start, each in zip("ABC", (10, 20, 30), settings, strict=True)
        ]
        for _ in range(3):
            trial.step()
        return trial.tokens(*requests)

    expected = texts(Engine)
    probe.equal(texts(probe.subject), expected, "another-rule", {"always-the-likeliest": _likeliest(expected)})


def _likeliest(texts: list[list[int]]) -> list[list[int]]:
    """The first token as it came from the prompt, and then one more each time."""
    return [[(text[0] + more) % 64 for more in range(len(text))] for text in texts]


def steps_and_tokens_are_counted(probe: Probe) -> None:
    """steps and tokens are counted"""
    trial = Trial(probe)
    trial.submit("A", [10], 4)
    trial.submit("B", [20], 4)
    trial.step()
    trial.step()
    stats = trial.engine.stats
    came = stats.steps, stats.tokens
    probe.calls.append(f"engine.stats → steps {came[0]}, tokens {came[1]}")
    giveaways = {"steps-not-counted": (0, 6), "prefills-counted-only": (2, 2), "idle-slots-counted": (2, 8)}
    giveaways |= {"tokens-not-counted": (2, 0), "each-token-a-step": (4, 6)}
    probe.equal(came, (2, 6), "other-counts", giveaways, told="steps {0[0]}, tokens {0[1]}".format)


def a_step_that_failed_has_not_happened(probe: Probe) -> None:
    """a step whose forward pass raised has not happened, and can be taken again"""
    trial = Trial(probe)
    a = trial.submit("A", [10], 5)
    trial.step()
    before = list(trial.slots.lengths), trial.engine.stats.steps
    trial.model.fails = True
    probe.raises(RuntimeError, trial.step, slips={None: "failure-swallowed"})
    came = list(trial.slots.lengths), trial.engine.stats.steps
    giveaways = {"advanced-too-early": ([3, 0, 0], 1), "step-counted-too-early": ([2, 0, 0], 2)}
    told = "slots.lengths {0[0]}, steps {0[1]}".format
    probe.equal(came, before, "counted-too-early", giveaways, told=told)
    trial.model.fails = False
    trial.step()
    probe.equal(trial.tokens(a), [[11, 12, 13]], "lost-in-the-failure")
