"""Stages of task 17.3: the tokens of a stream, each as soon as it is there."""

import torch

from nanoserve.allocator import KVCacheExhausted
from nanoserve.course.exercises.day17.run import MOST, PROMPT, SCRIPT, Run
from nanoserve.course.probe import Probe


def the_tokens_come(probe: Probe) -> None:
    """num_new tokens come, without the prompt"""
    expected = [11, 12, 13, 14]
    giveaways = {
        "one-token-short": expected[:-1],
        "one-token-more": [*expected, 15],
        "prompt-repeated": PROMPT + expected,
        "prompt-in-pieces": list(SCRIPT[len(PROMPT) - 1 :]),
        "last-token-twice": [*expected, 14],
        "first-token-again": [11, 11, 12, 13],
    }
    with (
        probe.on_error(ValueError, slip="ids-too-deep", match=r"ids must be \(1, T\)"),
        probe.on_error(ValueError, slip="ids-without-a-batch", match=r"got \(\d+,\)"),
        probe.on_error(ValueError, slip="ids-as-floats", match="whole numbers"),
        probe.on_error(KVCacheExhausted, slip="runs-through-the-pool"),
        probe.on_error(RuntimeError, slip="next-of-nothing", match="raised StopIteration"),
    ):
        came = Run(probe).rest()
    if any(isinstance(token, torch.Tensor) for token in came):
        probe.fail(f"{expected}, as whole numbers", f"{came}", "yields-tensors")
    if len(came) < 3:
        giveaways["ends-too-soon"] = expected[: len(came)]
    probe.equal(came, expected, "does-not-stop" if len(came) == MOST else "other-tokens", giveaways)
    run = Run(probe, num_new=0)
    with probe.on_error(UnboundLocalError, slip="none-is-none"):
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
    choices, given = iter((21, 22, 0)), []

    def choose(logits: torch.Tensor) -> int:
        given.append(logits)
        return next(choices)

    run = Run(probe, num_new=3, next_token=choose)
    came = run.rest()
    probe.equal(came, [21, 22, 0], "zero-dropped", {"ignores-next-token": list(SCRIPT[:3])})
    row = (run.model.config.vocab_size,)
    odd = next((tuple(logits.shape) for logits in given if logits.shape != row), row)
    run.must(odd == row, f"logits of shape {row} for next_token", f"{odd}", "logits-not-a-row")
    right = torch.nn.functional.one_hot(torch.tensor(SCRIPT[:3]), *row).float()
    alike = torch.allclose(torch.stack(given).softmax(-1), right.softmax(-1))  # a constant on each changes no draw
    run.must(alike, "the model's logits for next_token", "other numbers", "logits-changed")


def each_token_comes_as_soon_as_it_is_there(probe: Probe) -> None:
    """each token comes as soon as it is there"""
    run = Run(probe)
    run.must(not run.model.steps, "no step before the first token is asked for", "one step", "runs-unasked")
    run.next()
    steps = len(run.model.steps)
    slip = "one-token-late" if steps == 2 else "collects-first"
    run.must(steps == 1, "one step of the model before the first token", f"{steps} of them", slip)
    run.must(run.cache.seq_len == 3, "3 tokens in `cache`", f"{run.cache.seq_len}", "another-cache")
    run.rest()


def two_streams_in_turns(probe: Probe) -> None:
    """two streams that are read in turns know nothing of one another"""
    one, other = Run(probe), Run(probe)
    one.next()
    other.next(2)
    one.next()
    fed = [ids for ids, _ in one.model.steps]
    one.rest()
    other.rest()
    probe.calls[:] = ["one, other = two streams", "next(one), next(other), next(other), next(one)"]
    probe.equal(fed, [PROMPT, [11]], "shared-between-streams")


def an_eos_is_the_last_token(probe: Probe) -> None:
    """any eos ends the text, as its last token"""
    for eos, slip in ((12, "eos-ignored"), (13, "one-eos-of-several")):
        expected = list(SCRIPT[: SCRIPT.index(eos) + 1])
        came = Run(probe, eos=(eos,) if eos == 12 else (2, 13)).rest()
        probe.equal(came, expected, slip, {"eos-swallowed": expected[:-1]})
