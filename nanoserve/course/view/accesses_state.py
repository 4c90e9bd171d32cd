"""What a launch did to its tensors, element by element, for the picture of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from nanoserve.course.view.state import plural

if TYPE_CHECKING:
    from nanoserve.course.kernels.launch import Run

Program = tuple[int, int, int]


@dataclass
class Touched:
    """What happened to one tensor: for each element, the programs that read it and those that wrote it."""

    shape: tuple[int, ...]
    reads: dict[int, list[Program]] = field(default_factory=dict)
    writes: dict[int, list[Program]] = field(default_factory=dict)
    outside: dict[int, list[Program]] = field(default_factory=dict)

    @property
    def main(self) -> dict[int, list[Program]]:
        """What its cells show: who wrote, where anybody did, and else who read."""
        return self.writes or self.reads


def touched(run: "Run") -> dict[str, Touched]:
    """What a launch did to each of its tensors, by their names; views are told of as if they were contiguous."""
    tensors = {name: Touched(tuple(tensor.shape)) for name, tensor in run.tensors.items()}
    for access in run.accesses:
        one = tensors[access.tensor]
        for element in access.elements.tolist():
            into = one.reads if access.kind == "read" else one.writes
            if access.outside and not 0 <= element < prod(one.shape):
                into = one.outside
            programs = into.setdefault(element, [])
            if access.program not in programs:
                programs.append(access.program)
    return tensors


def programs_of(run: "Run") -> list[Program]:
    """Every program of the grid, in the order in which the interpreter runs them."""
    return list(product(*map(range, (*run.grid, 1, 1)[:3])))


def describe_accesses(run: "Run", program: Program | None = None) -> str:
    """The picture in one sentence."""
    tensors = touched(run)
    if program is not None:
        did = [
            f"{verb} {plural(len(mine), 'element')} of {name}"
            for verb, of in (("reads", "reads"), ("writes", "writes"))
            for name, one in tensors.items()
            if (mine := [element for element, programs in getattr(one, of).items() if program in programs])
        ]
        beyond = [name for name, one in tensors.items() if any(program in each for each in one.outside.values())]
        did += [f"goes outside {name}" for name in beyond]
        return (
            f"program {short_name(program)} {' and '.join([', '.join(did[:-1]), did[-1]]) if did[1:] else ''.join(did)}"
        )
    if run.error is not None:
        return f"{type(run.error).__name__}: {run.error}"
    if run.races:
        return run.races[0]
    written = [
        f"{len(one.writes)} of {prod(one.shape)} elements of {name} are written"
        for name, one in tensors.items()
        if one.writes
    ]
    return f"{plural(prod(run.grid), 'program')}: {' and '.join(written) or 'nothing is written'}"


def short_name(program: Iterable[int]) -> str:
    """A program's number, or its numbers along as many axes as there are."""
    x, y, z = program
    return str(x) if not (y or z) else f"{x},{y}" if not z else f"{x},{y},{z}"
