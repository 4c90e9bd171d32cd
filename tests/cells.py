"""A learner's code as a notebook makes it, for the tests of what is said to it."""

from importlib import import_module
from textwrap import dedent

import nanoserve
from nanoserve.course.checking import yours
from nanoserve.course.tasks import find

FIRST = find("14.1")


def from_source(source: str, name: str = "BlockAllocator", reference: object = nanoserve.BlockAllocator):
    """A class as a notebook makes it: from a cell's text, whose lines a traceback can show.

    What the modules of the reference and its bases import is there, as the notebook has imported it.
    """
    import linecache

    source = dedent(source)
    linecache.cache["<cell>"] = (len(source), None, source.splitlines(keepends=True), "<cell>")
    scope = {}
    for cls in reversed(getattr(reference, "__mro__", [reference])):
        scope |= vars(import_module(cls.__module__))
    scope |= {"nanoserve": nanoserve, "yours": yours, "Base": FIRST.stand_in(), "__name__": "__main__"}
    exec(compile(source, "<cell>", "exec"), scope)
    return scope[name]


def stub_of(task):
    return from_source(task.stub(), task.name, task.reference)
