"""In a process of its own: puts a kernel before Triton's compiler, which takes less than the interpreter does."""

from collections.abc import Mapping
from typing import Any

from triton.compiler.errors import CompilationError
from triton.runtime import cache

from nanoserve.course.kernels.ahead import Compiled, compile_for
from nanoserve.course.kernels.jobs import CompileJob, Told
from nanoserve.course.kernels.package import Package, unpack


def answer(job: CompileJob) -> Compiled | Told:
    """What the compiler made of the kernel, or what it has against it."""
    kernel = unpack(job.package)
    constants = {each.name: job.arguments[each.name] for each in kernel.params if each.is_constexpr}
    types = {name: _type(value) for name, value in job.arguments.items() if name not in constants}
    try:
        return compile_for(kernel, job.capability, types, constants, num_warps=job.num_warps)
    except Exception as error:
        return _told(error, job.package)


def canary() -> str:
    """Compiling needs no more than an import, and that went well."""
    # Triton hashes all of itself before it first compiles, and that takes longer than a kernel: once for all children.
    getattr(cache, "triton_key", str)()
    return ""


def _type(value: Any) -> str:
    """Triton's type of an argument: a tensor's is given, a number's is that which a launch takes it for."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    return "fp32"


def _told(error: Exception, package: Package) -> Told:
    """The innermost error, at the learner's line: a compilation error of the caller wraps that of the called."""
    line, words = None, str(error)
    while error is not None:
        if isinstance(error, CompilationError):
            line = _line(error, package.functions) or line
            words = error.error_message or words
        elif error.__cause__ is None:
            words = str(error)
        kind, error = type(error).__name__, error.__cause__
    return Told(kind, words, line)


def _line(error: CompilationError, functions: Mapping[str, Any]) -> str | None:
    if error.src is None or not hasattr(error.node, "lineno"):
        return None
    for function in functions.values():
        head = function.source.find(error.src)
        if head >= 0:  # the compiler's source begins at the `def`, behind the decorator
            above = function.first_line + function.source[:head].count("\n")
            text = error.src.splitlines()[error.node.lineno - 1].strip()
            return f"line {above + error.node.lineno - 1} of `{function.name}`: `{text}`"
    return None
