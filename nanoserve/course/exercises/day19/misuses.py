"""What is no Triton: what a first launch raises, in Days 19 to 21, and what only the compiler refuses."""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from nanoserve.course.kernels.accesses import name_program
from nanoserve.course.kernels.launch import Run
from nanoserve.course.kernels.package import jit_function, pack
from nanoserve.course.probe import Probe, named

# Of what only the interpreter takes, a part of the compiler's message: in all three days, and in Day 19.
NO_PYTHON = {
    "is not string": "print-without-a-text",
    "Did you forget to add @triton.jit": "host-function",
    "Unsupported function referenced": "torch-in-a-kernel",
}
REFUSED = NO_PYTHON | {
    "global variable": "plain-global",
    "Boolean value": "if-on-a-vector",
    "multiple comparison": "comparisons-in-a-chain",
    "must be of type tl.constexpr": "no-constexpr",
    "": "not-compiled",
}

# What Python, PyTorch and Triton say to a tile that is taken for something else.
_SAID = {
    "no-constexpr": "must be of type tl.constexpr",
    "torch-in-a-kernel": (
        "must be Tensor, not|expected Tensor as|invalid combination of arguments|'tensor' object has no attribute"
        "|torch.dtype|builtin_function_or_method.*'scalar'|keyword argument '(keep)?dim'|has no attribute 'to_ir'"
        r"|numpy.ndarray' object has no|attribute 'to_tensor'|name '(torch|np|numpy|math)' is|'str' .* 'scalar'"
    ),
    "matrix-product": r"operand type\(s\) for @",
    "shape-of-a-pointer": r"list index out of range|has no len\(\)",
    "unknown-function": "module 'triton.language' has no attribute",
    "made-bf16": "'get_bf16'",
    "print-without-a-text": "is not string",
    "one-number-wanted": "only (0-dimensional|size-1|length-1) arrays",
    "axis-out-of-bounds": r"axis .* out of bounds|(max|min)imum\(\) (got|missing)",
    "no-pointer": "Unsupported ptr type",
    "no-mask": "Mask must have boolean",
}
# What beside a pointer it refuses.
_ADDED = {
    "float-in-a-pointer": r"triton\.language\.b?float",
    "pointer-for-a-number": r"(triton\.language\.u?int|point)",
}
_KINDS = AssertionError, AttributeError, IndexError, NameError, TypeError, ValueError


@contextmanager
def no_triton(probe: Probe, indexed: str = "indexed") -> Iterator[None]:
    """Inside the block, what Python or PyTorch has, and a kernel has not, is told as a slip.

    Args:
        indexed: the slip when something was indexed, or gone through, that is no list.
    """
    try:
        with ExitStack() as told:
            for slip, words in (_SAID | {indexed: "unsupported tensor index"}).items():
                told.enter_context(probe.on_error(*_KINDS, slip=slip, match=words))
            for slip, operand in _ADDED.items():  # an error of a type of Triton's
                words = rf"invalid operands of type pointer<\w+> and {operand}"
                told.enter_context(probe.on_error(Exception, slip=slip, match=words))
            yield
    except NameError as error:
        name = re.search(r"name '(\w+)' is not defined", str(error))
        if not name or name[1] not in jit_function(probe.subject).fn.__globals__:
            raise
        probe.fail("no error", named(error), "outside-the-kernel")
    except TypeError as error:
        line = getattr(error, "learners_line", None)
        if "not iterable" not in str(error) or (line and f"`{probe.subject.__name__}`" not in line):
            raise  # it is the line of the kernel that calls the learner's function
        shape = not line or re.search(r"tl\.(zeros|full)\(", line)  # `tl.zeros` raises where no line is known
        probe.fail("no error", named(error), "shape-without-brackets" if shape else indexed)


@contextmanager
def returned(probe: Probe, driver: str, none: str, other: str) -> Iterator[None]:
    """Inside the block, an error in the kernel that calls the learner's function is told as one of what came back.

    Args:
        driver: the name of that kernel.
        none, other: the slip when it was nothing, and when it was something else than it should be.
    """
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        uncalled = re.match(rf"{probe.subject.__name__}\(\) (missing|takes|got)", str(error))  # it has other arguments
        if uncalled or f"`{driver}`" not in (getattr(error, "learners_line", None) or ""):
            raise
        probe.fail("no error", named(error), none if "None" in str(error) else other)


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


def keeps_its_pointers(probe: Probe, *pointers: str) -> None:
    """One case: the kernel calls its first arguments as the stub does, for what it did is told by these names.

    Raises:
        Mismatch: it does not.
    """
    probe.cases += 1
    names = list(inspect.signature(jit_function(probe.subject).fn).parameters)[: len(pointers)]
    if tuple(names) != pointers:
        probe.calls.append(f"def {probe.subject.__name__}({', '.join(names)}, …)")
        probe.fail(", ".join(pointers), ", ".join(names), "pointers-renamed")


def only_writes(probe: Probe, run: Run, *outputs: str) -> None:
    """One case: a kernel's inputs are only read.

    Raises:
        Mismatch: it wrote to another tensor than these.
    """
    probe.cases += 1
    for access in run.accesses:
        if access.kind != "read" and access.elements.size and access.tensor not in outputs:
            came = f"{name_program(access.program)} writes element {access.elements[0]} of `{access.tensor}`"
            probe.fail(f"nothing written but {' and '.join(f'`{name}`' for name in outputs)}", came, "input-written")


def unwritten(run: Run, out: str) -> str:
    """The slip of a launch that has left its output as it was."""
    added = any(access.tensor == out and access.kind != "write" for access in run.accesses)
    return "added-to-the-output" if added else "nothing-stored"


def masked_by_and(probe: Probe) -> str:
    """The slip of a kernel that has an `and` in it, "" of another: of two masks Python's `and` takes one alone."""
    package = pack(probe.subject)
    source = package.functions[package.kernel].source
    joined = (node.op for node in ast.walk(ast.parse(source)) if isinstance(node, ast.BoolOp))
    return "and-between-masks" if any(isinstance(op, ast.And) for op in joined) else ""


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
