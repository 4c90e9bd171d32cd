"""What is no Triton, in every task of Day 19: what a first launch raises, and what only the compiler refuses."""

from collections.abc import Iterator
from contextlib import contextmanager

from nanoserve.course.kernels.launch import Run
from nanoserve.course.probe import Probe

# Of what only the interpreter takes, a part of the compiler's message.
REFUSED = {
    "global variable": "plain-global",
    "Boolean value": "if-on-a-vector",
    "multiple comparison": "comparisons-in-a-chain",
    "": "not-compiled",
}


@contextmanager
def raised(probe: Probe, block_at_a_scalar: str) -> Iterator[None]:
    """Inside the block, Triton's errors about types are told as slips.

    Args:
        block_at_a_scalar: the slip when a block of values is stored at a single pointer.
    """
    with (
        probe.on_error(ValueError, slip=block_at_a_scalar, match="if pointer argument is not a block"),
        probe.on_error(ValueError, slip="no-constexpr", match="must be of type tl.constexpr"),
        probe.on_error(AttributeError, slip="torch-in-a-kernel", match="builtin_function_or_method.*'scalar'"),
    ):
        yield


def fails_if_shared(probe: Probe, run: Run) -> None:
    """One case: no two programs of a launch write the same element, not even with equal values.

    Raises:
        Mismatch: two do.
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
