"""`launch` does what `kernel[grid](…)` does on a GPU, in a process of its own, and tells what the kernel touched."""

import atexit
import builtins
import inspect
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from tempfile import mkdtemp
from typing import Any

import torch

from nanoserve.course.kernels.accesses import Access
from nanoserve.course.kernels.jobs import Answer, CompileJob, RunJob, Told, Window, shown
from nanoserve.course.kernels.package import Package, jit_function, pack
from nanoserve.course.kernels.process import ProcessDied, Server
from nanoserve.course.limits import OutOfTime

_TYPES = {
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "i1",
}


@dataclass(frozen=True)
class Run:
    """What a launch did.

    Attributes:
        call: the launch as one would write it, with the tensors by their names.
        grid: how many programs along each axis.
        tensors: the tensor arguments by their names, as the kernel left them.
        accesses: every load and store, in the order in which they came; the last one may end outside.
        races: one sentence for each tensor whose outcome hangs on which program comes first.
        printed: the first lines that the kernel printed.
        seconds: that the programs took.
        error: what the kernel raised, with the `learners_line`; None when it ran to its end.
    """

    call: str
    grid: tuple[int, ...]
    tensors: Mapping[str, torch.Tensor]
    accesses: list[Access]
    races: list[str]
    printed: str
    seconds: float
    error: BaseException | None

    def __repr__(self) -> str:
        return f"<{self.call}: {self.error or 'done'}>"


def launch(
    kernel: Any, grid: tuple[int, ...], *args: Any, seconds: float = 10.0, keeps: bool = True, **constants: Any
) -> Run:
    """Run a kernel in Triton's interpreter, in a process of its own, and copy what it wrote into the tensors given.

    An error does not end the notebook: it is printed, with the kernel's line, and kept in the run.

    Args:
        kernel: what `@triton.jit` made.
        grid: how many programs along each of up to three axes.
        args, constants: the kernel's arguments, by place and by name.
        seconds: how long it may take.
        keeps: whether to keep a list of what was read and written; a large launch goes faster without.
    """
    run = try_launch(kernel, grid, args, constants, seconds=seconds, keeps=keeps)
    bound = _bind(kernel, args, constants)
    for name, value in bound.items():
        if isinstance(value, torch.Tensor):
            value.copy_(run.tensors[shown(name)])
    for words in (run.printed.rstrip(), *run.races):
        if words:
            print(words)
    if run.error is not None:
        line = f"\n  at {run.error.learners_line}" if run.error.learners_line else ""
        print(f"{type(run.error).__name__}: {run.error}{line}")
    return run


def try_launch(
    kernel: Any,
    grid: tuple[int, ...],
    args: tuple,
    constants: Mapping[str, Any],
    *,
    others: Mapping[str, Any] | None = None,
    seconds: float = 3.0,
    keeps: bool = True,
) -> Run:
    """The same with nothing printed and the tensors given left as they are.

    Args:
        args, constants: as for `launch`; a tensor may also be given as a `Window`.
        others: jit functions that stand in for those that the kernel calls by these names.

    Raises:
        TypeError: no kernel, or not its arguments.
        RuntimeError: Triton does not run here; the message says what to change.
    """
    bound = _bind(kernel, args, constants)
    windows = {name: value.first for name, value in bound.items() if isinstance(value, Window)}
    bound |= {name: bound[name].tensor for name in windows}
    tensors = {name: _on_host(value) for name, value in bound.items() if isinstance(value, torch.Tensor)}
    job = RunJob(pack(kernel, others), tuple(grid), bound | tensors, windows, seconds, keeps)
    try:
        answer = _interpreter().do(job, seconds)
    except TimeoutError:
        answer = Answer(tensors, [], [], "", seconds, Told("OutOfTime", f"longer than {seconds:g} seconds", None))
    except ProcessDied:
        words = "the process that ran the kernel died; what it wrote is lost"
        answer = Answer(tensors, [], [], "", 0.0, Told("ProcessDied", words, None))
    told = {shown(name): tensor for name, tensor in answer.tensors.items()}
    call = _call(job.package, grid, bound)
    return Run(
        call, job.grid, told, answer.accesses, answer.races, answer.printed, answer.seconds, raised(answer.error)
    )


def compiled(
    kernel: Any,
    capability: tuple[int, int],
    *args: Any,
    others: Mapping[str, Any] | None = None,
    num_warps: int = 4,
    **constants: Any,
) -> Any:
    """What Triton's compiler makes of a kernel for GPUs of one compute capability; no GPU is needed.

    Args:
        args, constants: as for a launch.

    Returns:
        An `ahead.Compiled`: registers, spilled bytes, shared memory, PTX.

    Raises:
        Exception: what the compiler raised, with the `learners_line`.
    """
    bound = {
        name: f"*{_TYPES[value.dtype]}" if isinstance(value, torch.Tensor) else value
        for name, value in _bind(kernel, args, constants).items()
    }
    answer = _compiler().do(CompileJob(pack(kernel, others), capability, bound, num_warps), seconds=60)
    if isinstance(answer, Told):
        raise raised(answer)
    return answer


def raised(told: Told | None) -> BaseException | None:
    """An error of another process, to be raised in this one: of Python's own type where it has one."""
    if told is None:
        return None
    kind = OutOfTime if told.kind == "OutOfTime" else getattr(builtins, told.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        kind = type(told.kind, (Exception,), {})
    try:
        error = kind(told.words) if told.words else kind()
    except TypeError:  # a type that is made from more than words, as UnicodeDecodeError
        error = type(told.kind, (Exception,), {})(told.words)
    error.learners_line = told.line
    return error


def start() -> str:
    """Start both processes; "" when kernels can be run here, otherwise one sentence that says what to change."""
    _compiler()
    return _interpreter().greeting()


@cache
def _interpreter() -> Server:
    return Server("nanoserve.course.kernels.interpret", {"TRITON_INTERPRET": "1"})


@cache
def _compiler() -> Server:
    folder = mkdtemp(prefix="nanoserve-triton-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Server("nanoserve.course.kernels.compiling", {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": folder})


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in the host's memory with the strides it has: a plain copy of a view would close its gaps."""
    if tensor.device.type == "cpu":
        return tensor.detach()
    memory = tensor.untyped_storage().cpu()
    return tensor.new_empty(0, device="cpu").set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())


def _bind(kernel: Any, args: tuple, constants: Mapping[str, Any]) -> dict[str, Any]:
    """Every argument by its name."""
    bound = inspect.signature(jit_function(kernel).fn).bind(*args, **constants)
    bound.apply_defaults()
    return dict(bound.arguments)


def _call(package: Package, grid: tuple[int, ...], bound: Mapping[str, Any]) -> str:
    """The launch as a line of Python, the tensors by their names and constants, which are upper case, with theirs."""
    words = [
        shown(name) if isinstance(value, torch.Tensor) else f"{name}={value}" if name.isupper() else repr(value)
        for name, value in bound.items()
    ]
    return f"{package.kernel}[{tuple(grid)}]({', '.join(words)})"
