"""Keys and values that can be told apart: each number says whose it is, so that a verdict can say what came."""

from collections.abc import Mapping

import torch

from nanoserve.course.probe import Probe

HEADS, WIDTH = 2, 4
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
    probe.cases += 1
    if torch.equal(came, expected):
        return
    different = (came != expected).flatten(2).any(2)
    # The first token that is missing says more than one that is where none should be.
    missing = [(abs(expected[block, offset, 0, 0]), block, offset) for block, offset in different.nonzero().tolist()]
    block, offset = min((place for place in missing if place[0]), default=min(missing))[1:]
    place = f"{name}[{block}, {offset}], slot {block * came.shape[1] + offset}: "
    right, wrong = _described(expected[block, offset]), _described(came[block, offset])
    probe.fail(place + right, place + wrong, _named(came, slip, slips))


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
        slips: for each more precise reason, the tensor, or the shape, by which it gives itself away.
    """
    probe.cases += 1
    if not isinstance(came, torch.Tensor):
        kind = "None" if came is None else f"a {type(came).__name__}"
        probe.fail(f"{what}, {tuple(expected.shape)}", kind, "no-return" if came is None else "not-a-tensor")
    if came.shape != expected.shape:
        probe.fail(f"{what}, {tuple(expected.shape)}", f"{tuple(came.shape)}", _named(came, slip, slips))
    if torch.equal(came, expected):
        return
    head, position = (came != expected).any(3)[0].nonzero()[0].tolist()
    place = f"{what}[0, {head}, {position}]: "
    right, (wrong, its_head) = _owner(expected[0, head, position])[0], _owner(came[0, head, position])
    if its_head not in (head, -1):
        wrong += f", head {its_head}"
    probe.fail(place + right, place + wrong, _named(came, slip, slips))


def _named(came: torch.Tensor, slip: str, slips: Mapping[str, torch.Tensor | tuple]) -> str:
    for name, giveaway in slips.items():
        if isinstance(giveaway, torch.Tensor) and giveaway.shape == came.shape and torch.equal(giveaway, came):
            return name
        if isinstance(giveaway, tuple) and giveaway == tuple(came.shape):
            return name
    return slip


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
