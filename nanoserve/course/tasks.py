"""A task of the course, and the texts that are made from the reference: its stub and its solution.

Stub, solution and checker name the same methods with the same arguments because all three come from here.
"""

import ast
import inspect
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules

from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.probe import Probe


@dataclass(frozen=True)
class Slip:
    """What most likely went wrong, and where to look next."""

    hint: str
    look: str


@dataclass(frozen=True)
class Task:
    """One thing that a learner builds.

    Attributes:
        id: the day and the number in it, "14.2".
        title: what is built, in a few words.
        minutes: how long it takes someone who does it for the first time.
        difficulty: 1 to 5.
        reference: the engine's class, of which `writes` names methods, or the engine's function or kernel.
        stages: what is checked, one mechanism each, in order; a stage's docstring is its title.
        slips: every slip that the stages name.
        writes: the methods that the learner writes.
        given: methods of the reference that the stub holds ready, and attributes of the class with their values.
        later: methods that a later task writes; until then they do nothing.
        inherits: whether the learner's class is a subclass of the reference, which has all that is not to be written.
        extends: the task whose class this one goes on with.
        seconds: how long all stages together may run.
    """

    id: str
    title: str
    minutes: int
    difficulty: int
    reference: Callable
    stages: tuple[Callable[[Probe], None], ...]
    slips: Mapping[str, Slip]
    writes: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    inherits: bool = False
    extends: str = ""
    seconds: float = 5.0

    @property
    def name(self) -> str:
        """What the learner's class or function is called."""
        return self.reference.__name__

    @property
    def full_title(self) -> str:
        return f"{self.id} · {self.title}"

    def stand_in(self) -> Callable:
        """What a notebook goes on with where the learner's own does not pass: the reference as far as this task."""
        if isinstance(self.reference, KernelReference):
            return self.reference.load()
        if self.inherits or not inspect.isclass(self.reference):
            return self.reference
        members = {"__doc__": self.reference.__doc__, "__module__": self.reference.__module__}
        task: Task | None = self
        while task is not None:
            members = {name: vars(self.reference)[name] for name in task.given + task.writes} | members
            members = {name: _does_nothing for name in task.later} | members
            task = find(task.extends) if task.extends else None
        if members.keys() >= {name for name in vars(self.reference) if not name.startswith("__")}:
            return self.reference  # nothing is missing, and a `super()` in it works in no copy
        return type(self.name, self.reference.__bases__, members)

    def stub(self) -> str:
        """The cell that the learner fills in."""
        return self._source(_stub_of)

    def solution(self) -> str:
        """The same cell, filled in from the reference."""
        return self._source(_source_of)

    def answer(self) -> str:
        """Just what the learner had to write, for the fold under the task."""
        if not inspect.isclass(self.reference):
            return _source_of(self.reference)
        return "\n".join(_source_of(self._member(name)) for name in self.writes)

    def _member(self, name: str) -> Callable | property:
        return inspect.getattr_static(self.reference, name)

    def _source(self, body_of: Callable[[Callable], str]) -> str:
        if not inspect.isclass(self.reference):
            return body_of(self.reference)
        bases = [base.__name__ for base in self.reference.__bases__ if base is not object]
        if self.extends:
            bases = [f'yours("{self.extends}")']
        elif self.inherits:
            bases = [f"nanoserve.{self.name}"]
        head = f"class {self.name}({', '.join(bases)}):" if bases else f"class {self.name}:"
        parts = [] if self.extends else [f'"""{inspect.getdoc(self.reference).splitlines()[0]}"""\n']
        parts += [_given(name, self._member(name)) for name in self.given]
        parts += [_placeholder_of(self._member(name), self.id) for name in self.later]
        parts += [body_of(self._member(name)) for name in self.writes]
        return f"{head}\n" + textwrap.indent("\n".join(parts), "    ")


def load_slips(package: str) -> dict[str, Slip]:
    """The slips of a day, from the `slips.toml` beside its stages."""
    text = files(package).joinpath("slips.toml").read_text(encoding="utf-8")
    return {name: Slip(**slip) for name, slip in tomllib.loads(text).items()}


@cache
def all_tasks() -> dict[str, Task]:
    """Every task of the course by its id, in the order of the days."""
    package = import_module("nanoserve.course.exercises")
    days = sorted(module.name for module in iter_modules(package.__path__))
    modules = [import_module(f"{package.__name__}.{day}") for day in days]
    return {task.id: task for module in modules for task in module.TASKS}


def find(task_id: str) -> Task:
    """The task with this id.

    Raises:
        KeyError: there is none; the message lists the day's tasks.
    """
    tasks, task_id = all_tasks(), str(task_id)  # 14.1 is as good as "14.1"
    if task_id not in tasks:
        near = [other for other in tasks if other.split(".")[0] == task_id.split(".")[0]] or list(tasks)
        raise KeyError(f"there is no task {task_id!r}; there are {', '.join(near)}")
    return tasks[task_id]


def _given(name: str, member: object) -> str:
    return _source_of(member) if callable(member) or isinstance(member, property) else f"{name} = {member!r}\n"


def _source_of(member: Callable | property) -> str:
    if isinstance(member, KernelReference):
        return member.source()
    return textwrap.dedent(inspect.getsource(member.fget if isinstance(member, property) else member))


def _signature_of(member: Callable) -> list[str]:
    """The lines of a function from its `def` to the end of its docstring."""
    source = _source_of(member)
    [function] = ast.parse(source).body
    return source.splitlines()[: function.body[0].end_lineno]


def _stub_of(member: Callable) -> str:
    return "\n".join([*_signature_of(member), "    raise NotImplementedError", ""])


def _placeholder_of(member: Callable, task_id: str) -> str:
    day = task_id.split(".")[0]
    writer = next(task for task in all_tasks().values() if task.id.startswith(day) and member.__name__ in task.writes)
    return (
        f"def {member.__name__}{inspect.signature(member)}:\n    pass  # until task {writer.id}: nothing is refused\n"
    )


def _does_nothing(self: object, *args: object) -> None:
    """Stands where a later task's method will be."""
