"""Which program of a kernel touched which element, and where two of them are in each other's way."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Program = tuple[int, int, int]


@dataclass(frozen=True)
class Access:
    """One load, store or atomic operation of one program, the masked-out lanes left out.

    Attributes:
        program: its ids along the three axes of the grid.
        kind: what it did.
        tensor: the argument that it touched.
        elements: (n,), places in the argument's memory, counted in its elements from where the argument begins.
        outside: it ends outside the argument's memory, and was not carried out.
    """

    program: Program
    kind: Literal["read", "write", "atomic"]
    tensor: str
    elements: np.ndarray
    outside: bool = False


@dataclass(frozen=True)
class Write:
    """What a store wrote: `at` are addresses and `bits` the values, both (n,)."""

    program: Program
    tensor: str
    first: int
    itemsize: int
    at: np.ndarray
    bits: np.ndarray


def name_program(program: Sequence[int]) -> str:
    """ "program 3", or "program (1, 0)" where the grid has more than one axis."""
    *rest, last = program[: max([1, *(axis + 1 for axis, place in enumerate(program) if place)])]
    return f"program ({', '.join(map(str, [*rest, last]))})" if rest else f"program {last}"


def races(writes: Sequence[Write], reads: Iterable[tuple[Program, np.ndarray]]) -> list[str]:
    """One sentence for each tensor whose outcome depends on which program, or which lane, comes first.

    The interpreter runs one program after the other and so hides it; on a GPU they run at the same time.

    Args:
        writes: every store.
        reads: (program, addresses) of every load.
    """
    if not writes:
        return []
    at = np.concatenate([write.at for write in writes])
    bits = np.concatenate([write.bits for write in writes])
    owner = np.repeat(np.arange(len(writes)), [len(write.at) for write in writes])
    order = np.argsort(at, kind="stable")
    at, bits, owner = at[order], bits[order], owner[order]
    told: dict[str, str] = {}
    for place in np.flatnonzero((at[1:] == at[:-1]) & (bits[1:] != bits[:-1])):
        one, other = writes[owner[place]], writes[owner[place + 1]]
        if one is not other and one.program == other.program:
            continue  # one store after the other: the later one stays
        who = f"{name_program(one.program)} and {name_program(other.program)} write"
        if one is other:
            who = f"two lanes of {name_program(one.program)} write"
        told.setdefault(one.tensor, f"{who} different values to {_element(one, at[place])}")
    for program, addresses in reads:
        found = np.searchsorted(at, addresses)
        for place in found[(found < len(at)) & (at[np.minimum(found, len(at) - 1)] == addresses)]:
            write = writes[owner[place]]
            if write.program != program:
                sentence = f"{name_program(program)} reads {_element(write, at[place])}, which"
                told.setdefault(write.tensor, f"{sentence} {name_program(write.program)} writes")
    return list(told.values())


def _element(write: Write, address: int) -> str:
    return f"element {(int(address) - write.first) // write.itemsize} of `{write.tensor}`"
