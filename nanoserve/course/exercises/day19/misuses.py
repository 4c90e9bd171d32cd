"""What is no Triton: what a first launch raises, in Days 19 to 21, and what only the compiler refuses, in Day 19."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from nanoserve.course.kernels.launch import Run
from nanoserve.course.probe import Probe, named

# Of what only the interpreter takes, a part of the compiler's message.
REFUSED = {
    "global variable": "plain-global",
    "Boolean value": "if-on-a-vector",
    "multiple comparison": "comparisons-in-a-chain",
    "must be of type tl.constexpr": "no-constexpr",
    "": "not-compiled",
}


# What PyTorch and Triton say to a tile that is taken for a tensor.
_TORCHS = (
    "must be Tensor, not|expected Tensor as|invalid combination of arguments|'tensor' object has no attribute"
    "|torch.dtype|builtin_function_or_method.*'scalar'|keyword argument '(keep)?dim'|name 'torch'"
)


@contextmanager
def no_triton(probe: Probe, indexed: str = "indexed") -> Iterator[None]:
    """Inside the block, what Python or PyTorch has, and a kernel has not, is told as a slip.

    Args:
        indexed: the slip when something was indexed, or gone through, that is no list.
    """
    try:
        with (
            probe.on_error(ValueError, slip="no-constexpr", match="must be of type tl.constexpr"),
            probe.on_error(TypeError, AttributeError, NameError, slip="torch-in-a-kernel", match=_TORCHS),
            probe.on_error(TypeError, slip="matrix-product", match=r"operand type\(s\) for @"),
            probe.on_error(IndexError, slip="shape-of-a-pointer", match="list index out of range"),
        ):
            yield
    except TypeError as error:
        line = getattr(error, "learners_line", None)
        if "not iterable" not in str(error) or (line and f"`{probe.subject.__name__}`" not in line):
            raise  # it is the line of the kernel that calls the learner's function
        shape = not line or re.search(r"tl\.(zeros|full)\(", line)  # `tl.zeros` raises where no line is known
        probe.fail("no error", named(error), "shape-without-brackets" if shape else indexed)


@contextmanager
def raised(probe: Probe, block_at_a_scalar: str, indexed: str = "indexed") -> Iterator[None]:
    """Inside the block, Triton's errors about types are told as slips.

    Args:
        block_at_a_scalar: the slip when a block of values is stored at a single pointer.
        indexed: as for `no_triton`.
    """
    with (
        probe.on_error(ValueError, slip=block_at_a_scalar, match="if pointer argument is not a block"),
        probe.on_error(ValueError, slip="block-for-a-mask", match="Mask argument cannot be block"),
        no_triton(probe, indexed),
    ):
        yield


def writers(run: Run) -> set[int]:
    """The programs that wrote anything, by their place along the grid's first axis."""
    return {access.program[0] for access in run.accesses if access.kind == "write" and access.elements.size}


def fails_unless_dealt_out(probe: Probe, run: Run) -> None:
    """One case, of a launch with as much work for each program: each writes its part, and nobody writes another's.

    Not even with equal values, which would be right, and slow.

    Raises:
        Mismatch: two programs write one element, or one writes more than another.
    """
    probe.cases += 1
    owners: dict[tuple[str, int], int] = {}
    for access in run.accesses:
        if access.kind != "write":
            continue
        for element in access.elements.tolist():
            first = owners.setdefault((access.tensor, element), access.program[0])
            if first != access.program[0]:
                came = f"programs {first} and {access.program[0]} both write element {element} of `{access.tensor}`"
                probe.fail("each element is written by one program", came, "everyone-copies-all")
    written = Counter(owners.values())
    most, least = (choose(range(run.grid[0]), key=lambda program: written[program]) for choose in (max, min))
    if written[most] > written[least]:
        came = f"program {most} writes {written[most]}, and program {least} writes {written[least]}"
        probe.fail("each program writes as many elements as another", came, "work-not-shared")
