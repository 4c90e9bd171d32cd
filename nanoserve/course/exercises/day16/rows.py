"""Keys and values that can be told apart: each number says whose it is, so that a verdict can say what came."""

from collections.abc import Mapping

import torch

from nanoserve.course.probe import Probe, in_16_bits, kind

HEADS, WIDTH = 2, 5  # unlike one another, and unlike the block size of 4, so that each has its own place in a shape
_LAYER, _TOKEN, _HEAD = 4096, 64, 8  # what a number holds of each; an empty slot holds 0


def keys(tokens: range, layer: int = 0, heads: int = HEADS) -> torch.Tensor:
    """The keys of these tokens, (1, heads, T, WIDTH)."""
    places = [torch.arange(heads), torch.arange(tokens.start, tokens.stop), torch.arange(WIDTH)]
    head, token, dim = torch.meshgrid(*places, indexing="ij")
    return (1 + layer * _LAYER + token * _TOKEN + head * _HEAD + dim).float().unsqueeze(0)


def values(tokens: range, layer: int = 0, heads: int = HEADS) -> torch.Tensor:
    """The values of these tokens, (1, heads, T, WIDTH)."""
    return -keys(tokens, layer, heads)


def empty(num_blocks: int, block_size: int = 4, heads: int = HEADS) -> torch.Tensor:
    """One layer's blocks with nothing in them."""
    return torch.zeros(num_blocks, block_size, heads, WIDTH)


def laid(memory: torch.Tensor, slots: list[int], new: torch.Tensor) -> torch.Tensor:
    """A copy of `memory` with each token of `new` in its slot: what `write_by_slot` should do, one by one."""
    memory = memory.clone()
    for token, slot in enumerate(slots):
        memory[slot // memory.shape[1], slot % memory.shape[1]] = new[0, :, token]
    return memory


def same_memory(
    probe: Probe,
    came: torch.Tensor,
    expected: torch.Tensor,
    slip: str,
    slips: Mapping[str, torch.Tensor],
    name: str = "memory",
) -> None:
    """One case: a layer's blocks hold this and nothing else; of a difference, the first slot is told."""

    def told(rows: torch.Tensor) -> str:
        block, offset = _first_difference(came, expected)
        return f"{name}[{block}, {offset}], slot {block * came.shape[1] + offset}: {_described(rows[block, offset])}"

    _not_rounded(probe, came, expected, name)
    probe.equal(came, expected, slip, slips, same=torch.equal, told=told)


def same_history(
    probe: Probe,
    came: object,
    expected: torch.Tensor,
    slip: str,
    slips: Mapping[str, torch.Tensor | tuple],
    what: str = "keys",
) -> None:
    """One case: a sequence's keys or values; of a difference, the shape is told, or the first position.

    Args:
        slips: for each more precise reason, the tensor, or the shape, by which it gives itself away; a range in a
            shape stands for each of its numbers.
    """
    if not isinstance(came, torch.Tensor):
        told = ("None", "no-return") if came is None else (kind(came), "not-a-tensor")
        probe.fail(f"{what}, {tuple(expected.shape)}", *told)
    if came.device != expected.device:
        probe.fail(f"{what} on {expected.device}", f"{what} on {came.device}", "other-device")
    if came.shape != expected.shape and slip in ("wrong-tokens", "wrong-history"):
        slip = "wrong-shape"
    _not_rounded(probe, came, expected, what)
    if came.dtype != expected.dtype:
        probe.fail(f"{what} of {expected.dtype}", f"{what} of {came.dtype}", "other-dtype")

    def told(held: torch.Tensor) -> str:
        if came.shape != expected.shape:
            return f"{what}, {tuple(held.shape)}"
        head, position = (came != expected).any(3)[0].nonzero()[0].tolist()
        owner, its_head = _owner(held[0, head, position])
        return f"{what}[0, {head}, {position}]: {owner}" + ("" if its_head in (head, -1) else f", head {its_head}")

    probe.equal(came, expected, slip, slips, same=_fits, told=told)


def _not_rounded(probe: Probe, came: torch.Tensor, expected: torch.Tensor, name: str) -> None:
    """Fail where all is in its place, but in 16 bits; the first number that differs is told, and the dtypes."""
    if not in_16_bits(came, expected):
        return
    place = tuple([*(came != expected).nonzero().tolist(), [0] * came.ndim][0])
    where = f"{name}[{', '.join(map(str, place))}]"
    probe.fail(*(f"{where}: {tensor[place]}, {tensor.dtype}" for tensor in (expected, came)), "rounded")


def _fits(came: torch.Tensor, giveaway: torch.Tensor | tuple) -> bool:
    if isinstance(giveaway, torch.Tensor):
        return torch.equal(came, giveaway)
    sizes = [size if isinstance(size, range) else (size,) for size in giveaway]
    return came.ndim == len(sizes) and all(n in size for n, size in zip(came.shape, sizes, strict=True))


def _first_difference(came: torch.Tensor, expected: torch.Tensor) -> tuple[int, int]:
    """Block and offset of the first token that is missing, which says more than one that is where none should be."""
    different = (came != expected).flatten(2).any(2).nonzero().tolist()
    missing = [(abs(expected[block, offset, 0, 0]), block, offset) for block, offset in different]
    return min((place for place in missing if place[0]), default=min(missing))[1:]


def _described(rows: torch.Tensor) -> str:
    """Whose numbers lie in a slot, (heads, WIDTH)."""
    owners = [_owner(row) for row in rows]
    names, heads = {name for name, _ in owners}, [head for _, head in owners]
    if len(names) == 1 and heads in ([-1] * len(rows), [*range(len(rows))]):
        return names.pop()
    told = []
    for head, (name, its_head) in enumerate(owners):
        told.append(f"head {head} has {name}" + ("" if its_head in (head, -1) else f", head {its_head}"))
    return "; ".join(told)


def _owner(row: torch.Tensor) -> tuple[str, int]:
    """Whose numbers these are, and of which head; -1 where they are of none."""
    if not row.any():
        return "nothing", -1
    numbers = [abs(number) - 1 for number in row.tolist()]
    if [number % _HEAD for number in numbers] != list(range(WIDTH)) or len({n // _HEAD for n in numbers}) > 1:
        return "numbers of several tokens", -1
    layer, rest = divmod(int(numbers[0]), _LAYER)
    token, rest = divmod(rest, _TOKEN)
    name = f"token {token}'s {'key' if row[0] > 0 else 'value'}" + (f" of layer {layer}" if layer else "")
    return name, rest // _HEAD
