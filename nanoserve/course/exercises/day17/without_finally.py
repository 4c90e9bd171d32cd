"""A learner's own function, with what its `finally` does moved behind the block: to see what the word is worth."""

import ast
import inspect
import textwrap
from collections.abc import Callable

from nanoserve.generation import decode


def without_finally(function: Callable) -> tuple[Callable, str]:
    """The same function less its `finally`, and its source.

    Where it has none to take away (a context manager does the same), or cannot be read, the reference's `decode`
    stands in for it.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        unguard = _Unguard()
        tree = ast.fix_missing_locations(unguard.visit(tree))
        if not unguard.found:
            raise ValueError("there is no finally")
        namespace = dict(function.__globals__)
        exec(compile(tree, "<without finally>", "exec"), namespace)
        return namespace[function.__name__], _shown(tree)
    except Exception:
        if function is decode:
            raise
        return without_finally(decode)


class _Unguard(ast.NodeTransformer):
    """Writes `try: body finally: end` as `body` and, behind it, `end`."""

    found = False

    def visit_Try(self, node: ast.Try) -> list[ast.stmt]:
        self.generic_visit(node)
        if not node.finalbody:
            return [node]
        self.found = True
        end, node.finalbody = node.finalbody, []
        return [*([node] if node.handlers else [*node.body, *node.orelse]), *end]


def _shown(tree: ast.Module) -> str:
    """The source of its function, less the docstring and the types."""
    [function] = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    if ast.get_docstring(function):
        function.body = function.body[1:]
    for argument in function.args.args:
        argument.annotation = None
    function.returns = None
    return ast.unparse(function)
