"""Stages of task 17.3: the blocks come back, whichever way a stream ends."""

from collections.abc import Callable
from contextlib import suppress

import torch

from nanoserve.course.exercises.day17.run import SCRIPT, Run
from nanoserve.course.probe import Probe


def a_text_that_ends_gives_its_blocks_back(probe: Probe) -> None:
    """a text that ends gives its blocks back"""
    at_eos = Run(probe, eos=(12,))
    at_eos.rest()
    full = Run(probe)
    full.rest()
    full.must_be_out("after the last token", "never-freed" if at_eos.used else "only-at-eos")
    probe.calls[:] = [probe.calls[0].replace("{}", "{12}"), "list(stream) → [11, 12]"]
    at_eos.must_be_out("after an eos", "not-at-eos")


def an_error_gives_the_blocks_back(probe: Probe) -> None:
    """an error in the forward pass gives the blocks back, and goes on to the caller"""
    left_early = Run(probe)
    left_early.next()
    left_early.close()
    for step in (1, 0):
        run = Run(probe, fail_at=step)
        try:
            run.rest()
        except RuntimeError:
            probe.cases += 1
        else:
            probe.fail("RuntimeError: the forward pass fails", "no error", "error-swallowed")
        slip = "free-after-the-loop" if left_early.used else "only-when-closed"
        run.must_be_out("after the error", slip if step else "prefill-outside")


def an_error_in_next_token_gives_the_blocks_back(probe: Probe) -> None:
    """an error in `next_token` gives the blocks back, and goes on to the caller"""
    for turn in (1, 0):
        run = Run(probe, next_token=_fails_at(turn))
        try:
            run.rest()
        except RuntimeError:
            probe.cases += 1
        else:
            probe.fail("RuntimeError: next_token fails", "no error", "error-swallowed")
        run.must_be_out("after the error", "next-token-outside")


def an_error_thrown_in_gives_the_blocks_back(probe: Probe) -> None:
    """an error that is thrown in at a `yield` gives the blocks back, and goes on to the caller"""
    run = Run(probe)
    run.next()
    if not hasattr(run.stream, "throw"):  # an iterator that is no generator: nothing waits in it
        return
    try:
        came = probe.record("stream.throw(ValueError())", run.stream.throw, ValueError("planted: thrown in"))
        probe.fail("ValueError: thrown in", f"the next token, {came}", "throw-swallowed")
    except StopIteration:
        probe.fail("ValueError: thrown in", "the end of the stream", "throw-swallowed")
    except ValueError:
        probe.cases += 1
    run.must_be_out("after the error", "throw-leaks")


def ctrl_c_gives_the_blocks_back(probe: Probe) -> None:
    """Ctrl-C in the forward pass gives the blocks back too"""
    run = Run(probe, fail_at=1, error=KeyboardInterrupt)
    with suppress(KeyboardInterrupt):
        run.rest()
    run.must_be_out("after the KeyboardInterrupt", "only-some-errors")


def a_reader_who_leaves_gives_the_blocks_back(probe: Probe) -> None:
    """a reader who leaves early gives the blocks back"""
    for tokens in (2, 1):
        run = Run(probe)
        run.next(tokens)
        run.close()
        run.must_be_out("after close()", "except-exception" if tokens == 2 else "first-token-outside")


def the_others_keep_their_blocks(probe: Probe) -> None:
    """other sequences of the pool keep their blocks"""
    run = Run(probe, neighbour=4)
    run.rest()
    run.must(run.used == 2, "2 blocks in use: the other sequence's", f"{run.used} in use", "frees-the-pool")


def the_cache_is_freed_once(probe: Probe) -> None:
    """the cache is freed once, on every way out"""
    finished, at_eos, closed, failed = Run(probe), Run(probe, eos=(12,)), Run(probe), Run(probe, fail_at=1)
    finished.rest()
    at_eos.rest()
    closed.next()
    closed.close()
    try:
        failed.rest()
    except RuntimeError:
        probe.cases += 1
    for way, run in (("the last token", finished), ("an eos", at_eos), ("close()", closed), ("an error", failed)):
        probe.calls[:] = [probe.calls[0], f"… and then {way}"]
        slip = "freed-twice" if run.cache.frees else "not-through-the-cache"
        run.must(run.cache.frees == 1, "one cache.free()", f"{run.cache.frees} of them", slip)


def the_blocks_are_back_before_the_last_token(probe: Probe) -> None:
    """the last token is handed over when the blocks are back"""
    run = Run(probe)
    run.next(4)
    run.must_be_out("once the last token is out", "last-token-first")
    run = Run(probe, eos=(12,))
    run.next(2)
    run.must_be_out("once the eos is out", "eos-first")


def _fails_at(turn: int) -> Callable[[torch.Tensor], int]:
    choices = iter(SCRIPT[:turn])

    def fails(logits: torch.Tensor) -> int:
        token = next(choices, None)
        if token is None:
            raise RuntimeError("planted: next_token fails")
        return token

    return fails
