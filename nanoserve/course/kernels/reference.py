"""A kernel of this package by its place: a task can name it where Triton is not there, or not imported yet."""

import ast
from importlib import import_module
from importlib.resources import files


class KernelReference:
    """What `@triton.jit` makes of a function in one of the package's modules, once somebody asks for it.

    Args:
        module: the module's full name.
        name: the function's name in it.
    """

    def __init__(self, module: str, name: str) -> None:
        self.module, self.__name__ = module, name

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise TypeError(f"{self.__name__} is a kernel: it is launched, not called")

    def load(self) -> object:
        """The jit function itself."""
        return getattr(import_module(self.module), self.__name__)

    def source(self) -> str:
        """Its source with the decorator, read from the file: nothing is imported."""
        package, *path = self.module.split(".")
        text = files(package).joinpath(*path[:-1], f"{path[-1]}.py").read_text(encoding="utf-8")
        [function] = [node for node in ast.parse(text).body if getattr(node, "name", None) == self.__name__]
        return "\n".join(text.splitlines()[function.decorator_list[0].lineno - 1 : function.end_lineno]) + "\n"
