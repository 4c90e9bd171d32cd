"""Stages of task 17.3: the tokens of a stream, each as soon as it is there."""

import torch

from nanoserve.course.exercises.day17.run import PROMPT, SCRIPT, Run
from nanoserve.course.probe import Probe


def the_tokens_come(probe: Probe) -> None:
    """num_new tokens come, without the prompt"""
    expected = [11, 12, 13, 14]
    giveaways = {
        "one-token-short": expected[:-1],
        "one-token-more": [*expected, 15],
        "prompt-repeated": PROMPT + expected,
        "last-token-twice": [*expected, 14],
        "first-token-again": [11, 11, 12, 13],
    }
    probe.equal(Run(probe).rest(), expected, "other-tokens", giveaways)
    run = Run(probe, num_new=0)
    probe.equal(run.rest(), [], "none-is-none")
    run.must(not run.model.steps, "no step of the model", f"{len(run.model.steps)}", "none-is-none")


def a_step_feeds_what_is_new(probe: Probe) -> None:
    """the prompt goes in once, then one token a step"""
    run = Run(probe)
    run.rest()
    fed, held = [ids for ids, _ in run.model.steps], [tokens for _, tokens in run.model.steps]
    giveaways = {
        "whole-text-again": [PROMPT + list(SCRIPT[:done]) for done in range(4)],
        "a-step-for-nothing": [PROMPT, [11], [12], [13], [14]],
        "prompt-again": [PROMPT] * 4,
    }
    probe.equal(fed, [PROMPT, [11], [12], [13]], "other-steps", giveaways)
    words = "a cache that holds {} tokens before the steps".format
    run.must(held == [0, 3, 4, 5], words([0, 3, 4, 5]), words(held), "freed-each-step")
    run.must(run.prompt == PROMPT, f"the caller's prompt as it was, {PROMPT}", f"{run.prompt}", "changes-the-prompt")


def next_token_chooses(probe: Probe) -> None:
    """`next_token` chooses each token, whatever it chooses"""
    choices = iter((21, 22, 0))

    def choose(logits: torch.Tensor) -> int:
        return next(choices)

    came = Run(probe, num_new=3, next_token=choose).rest()
    probe.equal(came, [21, 22, 0], "zero-dropped", {"ignores-next-token": list(SCRIPT[:3])})


def each_token_comes_as_soon_as_it_is_there(probe: Probe) -> None:
    """each token comes as soon as it is there"""
    run = Run(probe)
    run.must(not run.model.steps, "no step before the first token is asked for", "one step", "runs-unasked")
    run.next()
    steps = len(run.model.steps)
    slip = "one-token-late" if steps == 2 else "collects-first"
    run.must(steps == 1, "one step of the model before the first token", f"{steps} of them", slip)
    run.rest()


def an_eos_is_the_last_token(probe: Probe) -> None:
    """any eos ends the text, as its last token"""
    for eos, slip in ((12, "eos-ignored"), (13, "one-eos-of-several")):
        expected = list(SCRIPT[: SCRIPT.index(eos) + 1])
        came = Run(probe, eos=(eos,) if eos == 12 else (2, 13)).rest()
        probe.equal(came, expected, slip, {"eos-swallowed": expected[:-1]})
