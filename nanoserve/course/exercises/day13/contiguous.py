"""Stages of task 13.1: what a step brings is kept, behind what was there, layer by layer."""

from collections.abc import Mapping

import torch

from nanoserve.course.probe import Probe, Traced, in_16_bits, kind, show

HEADS, WIDTH = 2, 4


def step(first: int, num_tokens: int, layer: int = 0, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """Keys and values, (1, HEADS, num_tokens, WIDTH) each, of the tokens `first`, `first + 1`, …

    Each number says whose it is: its whole part is the token, 1000 more for each layer, and a value has half more than
    its key; so a checker can tell in words what came back.
    """
    token = torch.arange(first, first + num_tokens).view(1, 1, -1, 1) + 1000 * layer
    place = torch.arange(HEADS * WIDTH).view(1, HEADS, 1, WIDTH) / 64
    k = (token + place).to(dtype)
    return k, k + 0.5


def append(probe: Probe, cache: Traced, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple:
    """What `append` returned, once it is sure to be two things."""
    place, given = len(probe.calls), (k.clone(), v.clone())  # what is compared is out of the learner's reach
    try:
        with probe.on_error(RuntimeError, slip="truth-of-a-tensor", match="Boolean value of Tensor"):
            came = cache.append(layer, *given)
    finally:
        probe.calls[place] = _short(probe.calls[place], k)
    probe.cases += 1
    if came is None:
        probe.fail("keys and values", "None", "no-return")
    if not isinstance(came, tuple | list) or len(came) != 2:
        probe.fail("two tensors: the keys, and the values", show(came), "not-a-pair")
    if not all(isinstance(part, torch.Tensor) for part in came):
        probe.fail("two tensors: the keys, and the values", " and ".join(map(kind, came)), "not-tensors")
    if any(part.device != k.device for part in came):
        probe.fail(f"two tensors on {k.device}", " and ".join(f"one on {part.device}" for part in came), "other-device")
    if not all(map(torch.equal, given, (k, v))):
        probe.fail("k and v as they were given", "other numbers in them after the call", "changes-its-arguments")
    return came


def _short(line: str, k: torch.Tensor) -> str:
    """The line of a call to `append` with the step's tokens in it, and shapes alone of what came back."""
    given = show(k)
    step = f"k, v) of token{'s' if k.shape[2] > 1 else ''} {_tokens(k)}"
    return line.replace(f"{given}, {given})", step, 1).replace("a Tensor of shape ", "")


def expect(probe: Probe, came: torch.Tensor, expected: torch.Tensor, slip: str, slips: Mapping[str, object]) -> None:
    """One case: the very tensor. `slips` has, for each more precise reason, the tensor that gives it away."""
    probe.cases += 1
    if _same(came, expected):
        return
    for name, giveaway in slips.items():
        if _same(came, giveaway):
            slip = name
    if in_16_bits(came, expected):
        slip = "rounded"
    told = [_in_words(tensor) for tensor in (expected, came)]
    if told[0] == told[1]:  # the same tokens, by other numbers
        place = tuple((came != expected).nonzero()[0].tolist())
        told = [
            f"{words}; [{', '.join(map(str, place))}] is {tensor[place]}"
            for words, tensor in zip(told, (expected, came), strict=True)
        ]
    probe.fail(*told, slip)


def _same(came: torch.Tensor, expected: torch.Tensor) -> bool:
    return (came.shape, came.dtype) == (expected.shape, expected.dtype) and torch.equal(came, expected)


def _in_words(tensor: torch.Tensor) -> str:
    """Such as `keys of tokens 0 1 2, (1, 2, 3, 4)`; just the shape where that is another than a layer's."""
    shape = str(tuple(tensor.shape)) + ("" if tensor.dtype == torch.float32 else f" {tensor.dtype}")
    if tensor.ndim != 4 or tensor.shape[:2] != (1, HEADS) or tensor.shape[3] != WIDTH or not tensor.numel():
        return f"a tensor of shape {shape}"
    numbers = tensor[0, 0, :, 0].tolist()
    kinds = {"values" if number % 1 >= 0.5 else "keys" for number in numbers}
    layers = {int(number // 1000) for number in numbers}
    where = f" of layer {layers.pop()}" if len(layers) == 1 else ""
    return f"{' and '.join(sorted(kinds))}{where}, tokens {_tokens(tensor)}, shape {shape}"


def _tokens(tensor: torch.Tensor) -> str:
    tokens = [str(int(number % 1000)) for number in tensor[0, 0, :, 0].tolist()]
    return " ".join(tokens if len(tokens) <= 16 else [*tokens[:6], "…", tokens[-1]])


def _cat(*parts: torch.Tensor, dim: int = 2) -> torch.Tensor:
    return torch.cat(parts, dim=dim)


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
    along = {name: _cat(k0, k1, dim=dim) for name, dim in (("along-batch", 0), ("along-heads", 1), ("along-width", 3))}
    with probe.on_error(AttributeError, slip="seq-len-of-something-else", match="'shape'"):
        kept = cache.seq_len == 2
    lost = {"stored-not-returned" if kept else "overwritten": k1, "first-only": k0}
    expect(probe, keys, _cat(k0, k1), "wrong-history", along | lost | {"newest-first": _cat(k1, k0)})
    giveaways = {"values-forgotten": v1, "values-are-keys": _cat(k0, k1)}
    giveaways |= {"keys-before-values": _cat(k0, v1), "values-before-keys": _cat(v0, k1)}
    expect(probe, values, _cat(v0, v1), "wrong-history", giveaways)


def every_step_is_kept(probe: Probe) -> None:
    """the third step finds the first two"""
    cache = probe.new("cache")
    steps = [step(token, 1) for token in range(3)]
    for k, v in steps:
        keys, _ = append(probe, cache, 0, k, v)
    first, second, third = (k for k, _ in steps)
    giveaways = {"not-stored": _cat(first, third), "two-steps-only": _cat(second, third)}
    expect(probe, keys, _cat(first, second, third), "wrong-history", giveaways)


def several_tokens_may_follow(probe: Probe) -> None:
    """a step may bring several tokens, also behind others"""
    cache = probe.new("cache")
    (k0, v0), (k1, v1) = step(0, 2), step(2, 3)
    append(probe, cache, 0, k0, v0)
    keys, values = append(probe, cache, 0, k1, v1)
    giveaways = {"chunk-replaces": k1, "one-token-a-step": _cat(k0, k1[:, :, -1:])}
    expect(probe, keys, _cat(k0, k1), "wrong-history", giveaways)
    expect(probe, values, _cat(v0, v1), "wrong-history", {})


def layers_are_apart(probe: Probe) -> None:
    """each layer has a history of its own"""
    cache = probe.new("cache")
    (k0, v0), (k1, v1) = step(0, 2, layer=0), step(0, 2, layer=1)
    append(probe, cache, 0, k0, v0)
    keys, _ = append(probe, cache, 1, k1, v1)
    expect(probe, keys, k1, "wrong-history", {"one-history": _cat(k0, k1), "first-layer-always": k0})
    (k2, v2) = step(2, 1, layer=0)
    keys, _ = append(probe, cache, 0, k2, v2)
    expect(probe, keys, _cat(k0, k2), "wrong-history", {"last-layer-only": _cat(k1, k2), "layers-mixed": k2})


def seq_len_counts_tokens(probe: Probe) -> None:
    """seq_len is the number of tokens held"""
    cache = probe.new("cache")
    probe.equal(cache.seq_len, 0, "seq-len-at-start")
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
    expect(probe, keys, k, "wrong-history", {"dtype-changed": k.float()})


def a_freed_cache_is_empty(probe: Probe) -> None:
    """after free the cache starts anew"""
    cache = probe.new("cache")
    append(probe, cache, 0, *step(0, 3))
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
            expect(probe, keys, _cat(*all_keys), "whole-run", {})
            expect(probe, values, _cat(*all_values), "whole-run", {})
        start += num_tokens
        probe.equal(cache.seq_len, start, "whole-run")


def nothing_is_forgotten(probe: Probe) -> None:
    """a long text is kept from its first token on"""
    cache = probe.new("cache")
    steps = [step(first, 60) for first in range(0, 300, 60)]
    for k, v in steps:
        came = append(probe, cache, 0, k, v)
    for held, new in zip(came, zip(*steps, strict=True), strict=True):
        expect(probe, held, _cat(*new), "wrong-history", {"window": _cat(*new)[:, :, -held.shape[2] :]})
