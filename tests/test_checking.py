"""What `check` says, and that it neither raises nor hangs, whatever it is given."""

import re
import sys
from dataclasses import replace

import pytest

from nanoserve.course import checking
from nanoserve.course.checking import CheckFailed, check, examine, yours
from nanoserve.course.tasks import all_tasks, find
from tests.cells import FIRST, from_source, stub_of


@pytest.fixture(autouse=True)
def _nothing_passed_yet(monkeypatch):
    monkeypatch.setattr(checking, "_passed", {})
    monkeypatch.setattr(checking, "_lent", {})
    monkeypatch.delenv("NANOSERVE_STRICT", raising=False)


@pytest.mark.parametrize("task", all_tasks().values(), ids=lambda task: task.id)
def test_a_stub_is_not_started_and_the_reference_stands_in(task, capsys):
    stand_in = check(task.id, stub_of(task))
    said = capsys.readouterr().out
    assert "Not started" in said
    assert "goes on with the reference's" in said
    if task.writes:  # what else stands in is the reference itself, which test_checkers.py tries
        assert examine(task, stand_in).passed


@pytest.mark.parametrize("task", all_tasks().values(), ids=lambda task: task.id)
def test_the_solution_passes_and_goes_on(task, capsys):
    solution = from_source(task.solution(), task.name, task.reference)
    assert check(task.id, solution) is solution
    assert "Passed" in capsys.readouterr().out
    assert yours(task.id) is solution


def test_what_was_built_on_a_task_that_is_checked_again_is_forgotten(capsys):
    for task in ("14.1", "14.2", "14.3"):
        check(task, from_source("from collections.abc import Iterable\n" + find(task).solution()))
    mine = yours("14.1")
    check("14.2", stub_of(find("14.2")))
    assert yours("14.1") is mine
    assert not issubclass(yours("14.3"), mine)


def test_a_print_in_every_call_keeps_the_verdict_short():
    chatty = from_source("""
        class BlockAllocator(Base):
            def allocate(self):
                print(self._free)
                return super().allocate()
    """)
    assert examine(FIRST, chatty).printed.count("\n") == 12


@pytest.mark.parametrize(
    "loop",
    [
        "while True:\n            pass",
        "while True:\n            try:\n                len([])\n            except Exception:\n                pass",
        "while True:\n            try:\n                len([])\n            except:\n                pass",
    ],
)
def test_an_endless_loop_is_stopped_and_its_line_is_told(loop):
    endless = from_source(f"class BlockAllocator(Base):\n    def allocate(self):\n        {loop}\n")
    verdict = examine(replace(FIRST, seconds=0.3), endless)
    assert verdict.status == "out of time"
    assert "longer than 0.3 seconds and was stopped at line" in verdict.headline
    assert "`" not in "".join(text for _, text, is_code in verdict._rows() if is_code)


def test_an_endless_loop_is_stopped_where_its_turn_has_no_line_of_its_own():
    """Between two turns of this one stands a jump that belongs to no line."""
    endless = """
        class BlockAllocator(Base):
            def allocate(self):
                import itertools
                for block in itertools.cycle([1, 2]):
                    if block in self._allocated: self.free(block)
    """
    verdict = examine(replace(FIRST, seconds=0.3), from_source(endless))
    assert re.search(r"stopped at line [45] of `allocate`: `", verdict.headline), verdict.text()


def test_a_print_storm_is_kept_short_and_is_not_let_through(capsys):
    chatty = from_source("""
        class BlockAllocator(Base):
            def allocate(self):
                print("allocating " * 1000)
                return super().allocate()
    """)
    verdict = examine(FIRST, chatty)
    assert verdict.passed
    assert len(verdict.printed) < 1300
    assert verdict.printed.startswith("allocating")
    assert capsys.readouterr().out == ""
    assert sys.stdout is not None


@pytest.mark.parametrize(
    "body",
    [
        "def __init__(self): pass",
        "def __init__(self, *args): raise SystemExit",
        "def __init__(self, *args): raise KeyboardInterrupt",
        "def __init__(self, *args): self.__init__(*args)",
        "def __getattr__(self, name): raise RuntimeError(name)",
        "def __repr__(self): raise ValueError",
        "allocate = None",
        "allocate = property(lambda self: 1 / 0)",
        "__slots__ = ()",
    ],
)
def test_a_strange_class_gets_a_verdict_and_never_an_error(body, capsys):
    strange = from_source(f"class BlockAllocator:\n    {body}\n")
    returned = check("14.1", strange)
    assert examine(FIRST, returned).passed
    assert "✓" not in capsys.readouterr().out


def test_a_task_that_does_not_exist_is_told_with_those_that_do(capsys):
    assert check("14.9", dict) is dict
    assert check(["14.1"], dict) is dict
    assert capsys.readouterr().out.count("there are 14.1, 14.2, 14.3, 14.4") == 1


def test_a_task_may_be_named_by_a_number(capsys):
    mine = from_source(FIRST.solution())
    assert check(14.1, mine) is yours("14.1") is mine


def test_strict_turns_anything_but_a_pass_into_an_error(monkeypatch):
    monkeypatch.setenv("NANOSERVE_STRICT", "1")
    with pytest.raises(CheckFailed, match="Not started"):
        check("14.1", stub_of(FIRST))
    mine = from_source(FIRST.solution())
    assert check("14.1", mine) is mine


def test_a_task_that_no_longer_passes_gives_way_to_the_reference(capsys):
    mine = from_source(FIRST.solution())
    check("14.1", mine)
    check("14.1", stub_of(FIRST))
    assert yours("14.1") is not mine
    assert examine(FIRST, yours("14.1")).passed


@pytest.mark.parametrize("task", all_tasks().values(), ids=lambda task: task.id)
def test_the_reference_that_stands_in_for_a_stub_is_not_passed_for_the_learners(task, capsys):
    """The stub's cell has run; then the answer is written under a misspelt name, and the old name is checked."""
    lent = check(task.id, stub_of(task))
    check(task.id, lent)
    assert "is the reference's, and none of your own has taken its place" in capsys.readouterr().out


@pytest.mark.parametrize("task", [t for t in all_tasks().values() if t.writes], ids=lambda task: task.id)
def test_a_class_on_top_of_the_reference_that_writes_nothing_is_not_passed_for_the_learners(task, capsys):
    check(task.id, type(task.name, (task.reference,), {}))
    assert "✓" not in capsys.readouterr().out


@pytest.mark.parametrize("hook", ["__getattribute__", "__getattr__", "__eq__", "__subclasscheck__", "__call__"])
def test_a_class_that_raises_when_it_is_looked_at_gets_a_verdict(hook, capsys):
    def raises(*args):
        raise RuntimeError(hook)

    for task in ("14.1", "15.2", "23.1"):
        subject = type("Nasty", (type,), {hook: raises})(find(task).name, (), {})
        assert check(task, subject) is not subject
        said = capsys.readouterr().out
        assert said.startswith("→")


def test_going_back_to_a_task_says_which_ones_to_run_again(capsys):
    for task in ("14.1", "14.2", "14.3"):
        check(task, from_source("from collections.abc import Iterable\n" + find(task).solution()))
    assert "again" not in capsys.readouterr().out
    check("14.1", from_source(FIRST.solution()))
    assert "Run 14.2 and 14.3 again: what was built there stands on what was here before." in capsys.readouterr().out


def test_a_cell_run_twice_builds_on_the_task_before_and_not_on_itself(capsys):
    check("14.1", from_source(FIRST.solution()))
    cell = "from collections.abc import Iterable\n" + find("14.2").solution()
    for _ in range(2):
        again = check("14.2", from_source(cell))
        assert again.__mro__[1] is yours("14.1")
        assert len(again.__mro__) == 3


def test_a_stand_in_goes_only_as_far_as_its_task():
    pool = yours("14.1")(4, 16)
    pool.allocate()
    pool.free(0)
    pool.free_all = None
    assert not hasattr(type(pool), "allocate_for")
    with pytest.raises(KeyError):
        pool.free(0)  # no guard before task 14.2


def test_in_a_notebook_the_verdict_is_html_and_text(monkeypatch):
    shown = []
    monkeypatch.setattr(checking, "get_ipython", object)
    monkeypatch.setattr(checking, "display", shown.append)
    check("14.1", stub_of(FIRST))
    [verdict] = shown
    bundle = verdict._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert 'data-status="not started"' in bundle["text/html"]


def test_a_learners_text_cannot_break_the_verdicts_html():
    nasty = from_source("""
        class BlockAllocator(Base):
            def allocate(self):
                raise ValueError("<script>alert(1)</script> & `x`")
    """)
    html = examine(FIRST, nasty).html()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
