"""Stages of task 13.1: what a step brings is kept, behind what was there, layer by layer."""

from numbers import Integral

import torch

from nanoserve.course.exercises.day13.asking import as_the_base
from nanoserve.course.exercises.day13.steps import append, expect, join, step
from nanoserve.course.probe import Probe, kind, show


def the_first_step_comes_back(probe: Probe) -> None:
    """the first step comes back as it was given"""
    cache = probe.new("cache")
    k, v = step(0, 3)
    keys, values = append(probe, cache, 0, k, v)
    expect(probe, keys, k, "altered", {"swapped": v, "last-token-only": k[:, :, -1:], "batch-dropped": k[0]})
    expect(probe, values, v, "altered", {"values-are-keys": k})


def two_caches_are_apart(probe: Probe) -> None:
    """two caches know nothing of one another"""
    one, other = probe.new("one"), probe.another("other")
    append(probe, one, 0, *step(0, 2))
    k, v = step(50, 2)
    keys, _ = append(probe, other, 0, k, v)
    expect(probe, keys, k, "shared-between-caches", {})


def the_second_stands_behind_the_first(probe: Probe) -> None:
    """the second step stands behind the first"""
    cache = probe.new("cache")
    (k0, v0), (k1, v1) = step(0, 1), step(1, 1)
    append(probe, cache, 0, k0, v0)
    keys, values = append(probe, cache, 0, k1, v1)
    along = {name: join(k0, k1, dim=dim) for name, dim in (("along-batch", 0), ("along-heads", 1), ("along-width", 3))}
    with probe.on_error(AttributeError, slip="seq-len-of-something-else", match="'shape'"):
        kept = cache.seq_len == 2
    if callable(getattr(probe.subject, "seq_len", None)):
        probe.fail("seq_len to be read as a number", "a method, which must be called", "seq-len-not-a-property")
    lost = {"stored-not-returned" if kept else "overwritten": k1, "first-only": k0}
    expect(probe, keys, join(k0, k1), "wrong-history", along | lost | {"newest-first": join(k1, k0)})
    giveaways = {"values-forgotten": v1, "values-are-keys": join(k0, k1), "along-width": join(v0, v1, dim=3)}
    giveaways |= {"keys-before-values": join(k0, v1), "values-before-keys": join(v0, k1)}
    expect(probe, values, join(v0, v1), "wrong-history", giveaways)


def every_step_is_kept(probe: Probe) -> None:
    """the third step finds the first two"""
    cache = probe.new("cache")
    steps = [step(token, 1) for token in range(3)]
    for k, v in steps:
        keys, _ = append(probe, cache, 0, k, v)
    first, second, third = (k for k, _ in steps)
    giveaways = {"not-stored": join(first, third), "two-steps-only": join(second, third)}
    expect(probe, keys, join(first, second, third), "wrong-history", giveaways)


def several_tokens_may_follow(probe: Probe) -> None:
    """a step may bring several tokens, also behind others"""
    cache = probe.new("cache")
    (k0, v0), (k1, v1) = step(0, 2), step(2, 3)
    append(probe, cache, 0, k0, v0)
    keys, values = append(probe, cache, 0, k1, v1)
    giveaways = {"chunk-replaces": k1, "one-token-a-step": join(k0, k1[:, :, -1:])}
    expect(probe, keys, join(k0, k1), "wrong-history", giveaways)
    expect(probe, values, join(v0, v1), "wrong-history", {})


def layers_are_apart(probe: Probe) -> None:
    """each layer has a history of its own"""
    cache = probe.new("cache")
    (k0, v0), (k1, v1) = step(0, 2, layer=0), step(0, 2, layer=1)
    append(probe, cache, 0, k0, v0)
    keys, _ = append(probe, cache, 1, k1, v1)
    expect(probe, keys, k1, "wrong-history", {"one-history": join(k0, k1), "first-layer-always": k0})
    (k2, v2) = step(2, 1, layer=0)
    keys, _ = append(probe, cache, 0, k2, v2)
    expect(probe, keys, join(k0, k2), "wrong-history", {"last-layer-only": join(k1, k2), "layers-mixed": k2})


def seq_len_counts_tokens(probe: Probe) -> None:
    """seq_len is the number of tokens held"""
    cache = probe.new("cache")
    came = cache.seq_len
    if not isinstance(came, Integral):
        probe.fail("0, an int", f"{show(came)}, {kind(came)}", "seq-len-no-int")
    probe.equal(came, 0, "seq-len-at-start")
    for layer in range(2):
        append(probe, cache, layer, *step(0, 3, layer))
    probe.equal(cache.seq_len, 3, "seq-len-off", {"seq-len-stays": 0, "counts-every-layer": 6, "counts-steps": 1})
    append(probe, cache, 0, *step(3, 1))
    probe.equal(cache.seq_len, 4, "seq-len-off", {"lags-behind": 3})


def the_dtype_is_kept(probe: Probe) -> None:
    """bfloat16 stays bfloat16"""
    cache = probe.new("cache")
    k, v = step(0, 2, dtype=torch.bfloat16)
    keys, _ = append(probe, cache, 0, k, v)
    expect(probe, keys, k, "wrong-history", {})
    later, _ = step(2, 1, dtype=torch.bfloat16)
    keys, _ = append(probe, cache, 0, later, later + 0.5)
    expect(probe, keys, join(k, later), "wrong-history", {})


def a_freed_cache_is_empty(probe: Probe) -> None:
    """after free the cache starts anew"""
    cache = probe.new("cache")
    for layer in range(2):
        append(probe, cache, layer, *step(0, 3, layer))
    cache.free()
    probe.equal(cache.seq_len, 0, "not-freed")
    k, v = step(50, 2)
    keys, _ = append(probe, cache, 0, k, v)
    expect(probe, keys, k, "not-freed", {})


def a_whole_run(probe: Probe) -> None:
    """a prompt, then token by token, through three layers"""
    cache = probe.new("cache")
    held = {layer: ([], []) for layer in range(3)}
    start = 0
    for num_tokens in (5, 1, 1, 4, 1):
        for layer, (all_keys, all_values) in held.items():
            k, v = step(start, num_tokens, layer)
            all_keys.append(k)
            all_values.append(v)
            keys, values = append(probe, cache, layer, k, v)
            expect(probe, keys, join(*all_keys), "whole-run", {})
            expect(probe, values, join(*all_values), "whole-run", {})
        start += num_tokens
        probe.equal(cache.seq_len, start, "whole-run")


def a_model_can_ask(probe: Probe) -> None:
    """what the model asks of it, `positions` and `attend`, is as in the base class"""
    as_the_base(probe, probe.new("cache"))


def nothing_is_forgotten(probe: Probe) -> None:
    """a long text is kept from its first token on"""
    cache = probe.new("cache")
    steps = [step(first, 60) for first in range(0, 300, 60)]
    with probe.on_error(RuntimeError, IndexError, slip="room-is-full"):
        for k, v in steps:
            came = append(probe, cache, 0, k, v)
    for held, new in zip(came, zip(*steps, strict=True), strict=True):
        expect(probe, held, join(*new), "wrong-history", {"window": join(*new)[:, :, -held.shape[2] :]})
