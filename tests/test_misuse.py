"""Every task, answered as a tired engineer does: each answer is its solution with one thing done to it.

What is said must fit the mishap, whatever the task: it is short, calm and the learner's own line is in it.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec

import pytest

from nanoserve.course.checking import examine
from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.tasks import Task, all_tasks
from nanoserve.course.verdict import Verdict
from tests.cells import from_source

TASKS = list(all_tasks().values())
KERNELS = [task for task in TASKS if isinstance(task.reference, KernelReference)]
PLAIN = [task for task in TASKS if task not in KERNELS]
if not find_spec("triton"):
    TASKS = PLAIN
RETURNS_TENSORS = ("13.1", "16.2", "16.3", "17.1", "18.1", "18.2", "21.3", "22.1", "22.2", "22.4")

each_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
each_plain_task = pytest.mark.parametrize("task", PLAIN, ids=lambda task: task.id)


def written(task: Task, tree: ast.Module) -> list[ast.FunctionDef]:
    """What the learner writes."""
    names = task.writes or (task.name,)
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in names]


def answered(task: Task, mishap: Callable[[ast.FunctionDef], None], most: int = 99) -> Verdict:
    """What is said of the solution after the mishap in what is written, or in the first `most` of it."""
    tree = ast.parse(task.solution())
    for function in written(task, tree)[:most]:
        mishap(function)
    source = ast.unparse(ast.fix_missing_locations(tree))
    assert source != ast.unparse(ast.parse(task.solution()))
    verdict = examine(task, from_source(source, task.name, task.reference))
    assert_calm(verdict)
    return verdict


def assert_calm(verdict: Verdict) -> None:
    """It fits a screen, and shows no frames of ours, no addresses, no traceback."""
    text = verdict.text()
    assert len(text.splitlines()) <= 30, text
    assert max(map(len, text.splitlines())) <= 520, text
    assert not re.search(r"\b0x[0-9a-f]|Traceback|nanoserve/|\bat None\b", text), text


def begins_with(statements: str) -> Callable[[ast.FunctionDef], None]:
    """The mishap of statements before all others."""

    def mishap(function: ast.FunctionDef) -> None:
        place = 1 if ast.get_docstring(function) else 0
        function.body[place:place] = ast.parse(statements).body

    return mishap


class OnAnotherDevice(ast.NodeTransformer):
    """Every tensor that is returned, alone or in a tuple, is on `meta`, where nothing has numbers."""

    def visit_Return(self, node: ast.Return) -> ast.Return:
        move = "lambda x: tuple(map(move, x)) if isinstance(x, tuple) else x.to('meta') if hasattr(x, 'to') else x"
        [moved] = ast.parse(f"return (move := {move})(0)").body
        moved.value.args = [node.value]
        return moved


def stops_half_way(function: ast.FunctionDef) -> None:
    place = 1 if ast.get_docstring(function) else 0
    first = function.body[place]
    function.body[place:] = [first] if isinstance(first, ast.Assign) else [ast.Pass()]


def misspells(function: ast.FunctionDef) -> None:
    arguments = {argument.arg for argument in function.args.args} - {"self"}
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id in arguments and isinstance(node.ctx, ast.Load):
                node.id += "s"
                return
            own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
            if own and not arguments and isinstance(node.ctx, ast.Load):
                node.attr += "s"
                return


def wants_one_more(function: ast.FunctionDef) -> None:
    function.args.kwonlyargs.insert(0, ast.arg("extra"))
    function.args.kw_defaults.insert(0, None)


@each_task
def test_code_that_stops_half_way_does_not_pass(task):
    verdict = answered(task, stops_half_way)
    assert verdict.status in ("not yet", "raised")
    assert verdict.came
    assert verdict.slip or verdict.status == "raised"


@each_task
def test_a_misspelt_name_is_told_with_its_line(task):
    verdict = answered(task, misspells, most=1)
    assert verdict.status in ("raised", "not yet")
    assert re.search(r"raised (Name|Attribute)Error at line \d+ of `\w+`: `.+`\.", verdict.headline), verdict.text()


@each_task
def test_one_argument_more_is_told_beside_the_stubs(task):
    verdict = answered(task, wants_one_more)
    assert verdict.slip_id == "another-signature"
    assert "extra" in verdict.came
    assert "extra" not in verdict.expected


@each_task
def test_an_answer_that_leaves_the_program_leaves_the_notebook_running(task):
    verdict = answered(task, begins_with("raise SystemExit"))
    assert re.search(r"raised SystemExit at line \d+ of `\w+`: `raise SystemExit`\.", verdict.headline)


@each_plain_task
def test_an_endless_loop_is_stopped_at_its_line(task):
    examine(task, task.stand_in())  # so that what a stage imports is there
    verdict = answered(replace(task, seconds=0.5), begins_with("while True:\n    pass"))
    assert verdict.status == "out of time"
    assert re.search(r"stopped at line \d+ of `\w+`: `(while True:|pass)`\.", verdict.headline), verdict.text()


@each_plain_task
def test_a_recursion_without_end_is_told_as_such(task):
    verdict = answered(task, begins_with("def again():\n    return again() + 1\nagain()"))
    assert verdict.came.startswith("RecursionError")
    assert "`return again() + 1`" in verdict.headline


@each_plain_task
def test_a_print_storm_passes_and_stays_short(task):
    verdict = answered(replace(task, seconds=60), begins_with("for _ in range(40):\n    print('here ' * 100)"))
    assert verdict.passed, verdict.text()
    assert 0 < len(verdict.printed) < 1300


@each_plain_task
def test_a_question_to_the_keyboard_does_not_hang(task):
    verdict = answered(task, begins_with("input('what now? ')"))
    assert verdict.status == "raised"
    assert "`input('what now? ')`" in verdict.headline


@pytest.mark.parametrize("task", [task for task in PLAIN if task.id in RETURNS_TENSORS], ids=lambda task: task.id)
def test_tensors_on_another_device_are_told_as_such(task):
    verdict = answered(task, OnAnotherDevice().generic_visit)
    assert verdict.status == "not yet", verdict.text()
    assert "meta" in verdict.came.lower(), verdict.text()
