"""A kernel as text: what a process that does not share memory with this one needs to have the same kernel."""

import ast
import inspect
import linecache
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from nanoserve.course.kernels.reference import KernelReference


@dataclass(frozen=True)
class Function:
    """One jit function: its source from its decorator on, and the line of its cell or file where that begins."""

    name: str
    source: str
    first_line: int


@dataclass(frozen=True)
class Package:
    """A kernel with all that it names.

    Attributes:
        kernel: the name of the one that is launched.
        functions: the jit functions by the names they are called by.
        modules: name -> module, such as "tl" -> "triton.language".
        members: name -> module and the name in it, of what was imported from Triton by its own name.
        values: name -> int, float, bool, string or None.
        constants: the same for what is a `tl.constexpr`.
    """

    kernel: str
    functions: Mapping[str, Function]
    modules: Mapping[str, str]
    members: Mapping[str, tuple[str, str]]
    values: Mapping[str, Any]
    constants: Mapping[str, Any]


def pack(kernel: Any, others: Mapping[str, Any] | None = None) -> Package:
    """The kernel as text, with the jit functions and constants that its source names.

    Args:
        kernel: what `@triton.jit` made, or a reference to it.
        others: jit functions that take the place of what the kernel, or a function that it calls, names so.

    Raises:
        TypeError: it, or a function that it calls, is no jit function.
    """
    kernel, others = jit_function(kernel), {name: jit_function(other) for name, other in (others or {}).items()}
    package = Package(kernel.__name__, {}, {}, {}, {}, {})
    _add(package, package.kernel, kernel, others)
    return package


def jit_function(kernel: Any) -> Any:
    """The kernel, loaded if it was only named.

    Raises:
        TypeError: it is no jit function.
    """
    kernel = kernel.load() if isinstance(kernel, KernelReference) else kernel
    if not _is_jit(kernel):
        name = getattr(kernel, "__name__", type(kernel).__name__)
        raise TypeError(f"`{name}` is no kernel: the line `@triton.jit` is missing above its `def`")
    return kernel


def unpack(package: Package) -> Any:
    """The kernel again, made by this process's own Triton."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    namespace |= {name: import_module(module) for name, module in package.modules.items()}
    namespace |= {name: getattr(import_module(module), member) for name, (module, member) in package.members.items()}
    namespace |= package.values
    if package.constants:
        from triton.language import constexpr

        namespace |= {name: constexpr(value) for name, value in package.constants.items()}
    for name, function in package.functions.items():
        # Triton reads a function's source again, and a traceback shows it: both look it up by the file's name.
        file, text = f"<{name}>", "\n" * (function.first_line - 1) + function.source
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), namespace)
        namespace[name] = namespace[function.name]
    return namespace[package.kernel]


def _is_jit(value: Any) -> bool:
    return type(value).__module__.startswith("triton.runtime") and inspect.isfunction(getattr(value, "fn", None))


def _add(package: Package, called: str, kernel: Any, others: Mapping[str, Any]) -> None:
    """Put a jit function into the package, and all that its source names."""
    function = kernel.fn
    lines, first_line = inspect.getsourcelines(function)
    source = textwrap.dedent("".join(lines))
    package.functions[called] = Function(function.__name__, source, first_line)
    nodes = list(ast.walk(ast.parse(source)))
    if inner := [node.name for node in nodes if isinstance(node, ast.FunctionDef)][1:]:
        advice = "write it above, with a `@triton.jit` of its own"
        raise TypeError(
            f"`{inner[0]}` is defined inside of `{called}`, and Triton takes no function in another: {advice}"
        )
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    for name in sorted(used - set(function.__code__.co_varnames)):
        value = others.get(name, function.__globals__.get(name))
        if name in package.functions:
            continue
        if isinstance(value, ModuleType):
            package.modules[name] = value.__name__
        elif _is_jit(value) and not value.fn.__module__.startswith("triton."):
            _add(package, name, value, others)
        elif (getattr(value, "__module__", None) or "").startswith("triton.") and hasattr(value, "__name__"):
            package.members[name] = value.__module__, value.__name__
        elif type(value).__name__ == "constexpr":
            package.constants[name] = value.value
        elif name in function.__globals__ and isinstance(value, int | float | str | None):
            package.values[name] = value
        elif inspect.isfunction(value):
            raise TypeError(f"`{called}` calls `{name}`, which has no `@triton.jit` above its `def`")
        elif inspect.isbuiltin(value):
            raise TypeError(f"`{called}` calls `{name}` of {value.__module__}; a kernel calls Triton's own, from `tl.`")
