"""Steps that a learner's cache is given, and the words for what it gives back."""

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
    elif came.shape == expected.shape and came.dtype != expected.dtype:
        slip = "dtype-changed"
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


def join(*parts: torch.Tensor, dim: int = 2) -> torch.Tensor:
    return torch.cat(parts, dim=dim)
