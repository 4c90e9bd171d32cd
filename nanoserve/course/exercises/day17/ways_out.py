"""Stages of task 17.3: a stream of tokens that gives its blocks back, whichever way it ends."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import torch

from nanoserve.cache import KVPool, PagedKVCache
from nanoserve.course.exercises.day17.stand_in import ScriptedModel
from nanoserve.course.probe import Probe

_PROMPT, _SCRIPT = [5, 6, 7], (11, 12, 13, 14, 15, 16)


class _Cache(PagedKVCache):
    """A cache that counts how often it is freed."""

    frees = 0

    def free(self) -> None:
        self.frees += 1
        super().free()


class _Run:
    """One stream of the learner's over a pool of 24 blocks of 2, read step by step."""

    def __init__(
        self,
        probe: Probe,
        num_new: int = 4,
        eos: tuple[int, ...] = (),
        fail_at: int | None = None,
        neighbour: int = 0,
        error: type[BaseException] = RuntimeError,
    ) -> None:
        self.probe = probe
        self.model = ScriptedModel(_SCRIPT, fail_at, error)
        self.pool = KVPool.for_model(self.model, 24, 2)
        if neighbour:
            PagedKVCache(self.pool).table.append(neighbour)
        self.cache = _Cache(self.pool)
        probe.calls.clear()
        line = f"stream = decode(model, cache, {_PROMPT}, {num_new}, {set(eos) or '{}'}, argmax)"
        self.prompt = list(_PROMPT)
        arguments = (self.model, self.cache, self.prompt, num_new, frozenset(eos), _argmax)
        self.stream = probe.record(line, probe.subject, *arguments, shows_result=False)
        if not isinstance(self.stream, Iterator):
            probe.fail("an iterator, as a generator function gives", f"a {type(self.stream).__name__}", "not-a-stream")

    @property
    def used(self) -> int:
        return self.pool.allocator.num_used

    def next(self, times: int = 1) -> list[int]:
        return [self.probe.record("next(stream)", next, self.stream, None) for _ in range(times)]

    def rest(self) -> list[int]:
        return self.probe.record("list(stream)", lambda: list(islice(self.stream, 12)))

    def close(self) -> None:
        try:
            self.probe.record("stream.close()", getattr(self.stream, "close", lambda: None), shows_result=False)
        except RuntimeError as error:
            with suppress(BaseException):  # to its end, or Python complains once more when it is dropped
                list(islice(self.stream, 12))
            self.probe.fail("a stream that ends", f"RuntimeError: {error}", "goes-on-when-closed")

    def must(self, holds: bool, expected: str, came: str, slip: str) -> None:
        """One case."""
        self.probe.cases += 1
        if not holds:
            self.probe.fail(expected, came, slip)

    def must_be_out(self, when: str, slip: str) -> None:
        """One case: the pool has all of its blocks back."""
        self.must(not self.used, f"0 blocks in use {when}", f"{self.used} still in use", slip)


def the_tokens_come(probe: Probe) -> None:
    """num_new tokens come, without the prompt"""
    expected = [11, 12, 13, 14]
    giveaways = {
        "one-token-short": expected[:-1],
        "one-token-more": [*expected, 15],
        "prompt-repeated": _PROMPT + expected,
        "last-token-twice": [*expected, 14],
        "first-token-again": [11, 11, 12, 13],
    }
    probe.equal(_Run(probe).rest(), expected, "other-tokens", giveaways)
    run = _Run(probe, num_new=0)
    probe.equal(run.rest(), [], "none-is-none")
    run.must(not run.model.steps, "no step of the model", f"{len(run.model.steps)}", "none-is-none")


def a_step_feeds_what_is_new(probe: Probe) -> None:
    """the prompt goes in once, then one token a step"""
    run = _Run(probe)
    run.rest()
    fed, held = [ids for ids, _ in run.model.steps], [tokens for _, tokens in run.model.steps]
    giveaways = {
        "whole-text-again": [_PROMPT + list(_SCRIPT[:done]) for done in range(4)],
        "a-step-for-nothing": [_PROMPT, [11], [12], [13], [14]],
        "prompt-again": [_PROMPT] * 4,
    }
    probe.equal(fed, [_PROMPT, [11], [12], [13]], "other-steps", giveaways)
    words = "a cache that holds {} tokens before the steps".format
    run.must(held == [0, 3, 4, 5], words([0, 3, 4, 5]), words(held), "freed-each-step")
    run.must(run.prompt == _PROMPT, f"the caller's prompt as it was, {_PROMPT}", f"{run.prompt}", "changes-the-prompt")


def each_token_comes_as_soon_as_it_is_there(probe: Probe) -> None:
    """each token comes as soon as it is there"""
    run = _Run(probe)
    run.must(not run.model.steps, "no step before the first token is asked for", "one step", "runs-unasked")
    run.next()
    steps = len(run.model.steps)
    slip = "one-token-late" if steps == 2 else "collects-first"
    run.must(steps == 1, "one step of the model before the first token", f"{steps} of them", slip)
    run.rest()


def an_eos_is_the_last_token(probe: Probe) -> None:
    """any eos ends the text, as its last token"""
    for eos, slip in ((12, "eos-ignored"), (13, "one-eos-of-several")):
        expected = list(_SCRIPT[: _SCRIPT.index(eos) + 1])
        came = _Run(probe, eos=(eos,) if eos == 12 else (2, 13)).rest()
        probe.equal(came, expected, slip, {"eos-swallowed": expected[:-1]})


def a_text_that_ends_gives_its_blocks_back(probe: Probe) -> None:
    """a text that ends gives its blocks back"""
    at_eos = _Run(probe, eos=(12,))
    at_eos.rest()
    full = _Run(probe)
    full.rest()
    full.must_be_out("after the last token", "never-freed" if at_eos.used else "only-at-eos")
    probe.calls[:] = [probe.calls[0].replace("{}", "{12}"), "list(stream) → [11, 12]"]
    at_eos.must_be_out("after an eos", "not-at-eos")


def an_error_gives_the_blocks_back(probe: Probe) -> None:
    """an error in the forward pass gives the blocks back, and goes on to the caller"""
    left_early = _Run(probe)
    left_early.next()
    left_early.close()
    for step in (1, 0):
        run = _Run(probe, fail_at=step)
        try:
            run.rest()
        except RuntimeError:
            probe.cases += 1
        else:
            probe.fail("RuntimeError: the forward pass fails", "no error", "error-swallowed")
        slip = "free-after-the-loop" if left_early.used else "only-when-closed"
        run.must_be_out("after the error", slip if step else "prefill-outside")


def ctrl_c_gives_the_blocks_back(probe: Probe) -> None:
    """Ctrl-C in the forward pass gives the blocks back too"""
    run = _Run(probe, fail_at=1, error=KeyboardInterrupt)
    with suppress(KeyboardInterrupt):
        run.rest()
    run.must_be_out("after the KeyboardInterrupt", "only-some-errors")


def next_token_chooses(probe: Probe) -> None:
    """`next_token` chooses each token, whatever it chooses"""
    model, cache = ScriptedModel(_SCRIPT), _Cache(KVPool.for_model(ScriptedModel(), 24, 2))
    choices = iter((21, 22, 0))
    line = f"stream = decode(model, cache, {_PROMPT}, 3, {{}}, choose)"
    arguments = (model, cache, list(_PROMPT), 3, frozenset(), lambda logits: next(choices))
    stream = probe.record(line, probe.subject, *arguments, shows_result=False)
    came = probe.record("list(stream)", lambda: list(islice(stream, 12)))
    probe.equal(came, [21, 22, 0], "zero-dropped", {"ignores-next-token": list(_SCRIPT[:3])})


def a_reader_who_leaves_gives_the_blocks_back(probe: Probe) -> None:
    """a reader who leaves early gives the blocks back"""
    for tokens in (2, 1):
        run = _Run(probe)
        run.next(tokens)
        run.close()
        run.must_be_out("after close()", "except-exception" if tokens == 2 else "first-token-outside")


def the_others_keep_their_blocks(probe: Probe) -> None:
    """other sequences of the pool keep their blocks"""
    run = _Run(probe, neighbour=4)
    run.rest()
    run.must(run.used == 2, "2 blocks in use: the other sequence's", f"{run.used} in use", "frees-the-pool")


def the_cache_is_freed_once(probe: Probe) -> None:
    """the cache is freed once, on every way out"""
    finished, at_eos, closed, failed = _Run(probe), _Run(probe, eos=(12,)), _Run(probe), _Run(probe, fail_at=1)
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
        run.must(run.cache.frees < 2, "one cache.free()", f"{run.cache.frees} of them", "freed-twice")


def the_blocks_are_back_before_the_last_token(probe: Probe) -> None:
    """the last token is handed over when the blocks are back"""
    run = _Run(probe)
    run.next(4)
    run.must_be_out("once the last token is out", "last-token-first")
    run = _Run(probe, eos=(12,))
    run.next(2)
    run.must_be_out("once the eos is out", "eos-first")


def _argmax(logits: torch.Tensor) -> int:
    return int(logits.argmax())
