"""Day 19's planted fault, what a task's stages are built from, and the day where there is no Triton."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from nbclient import NotebookClient

from nanoserve.course.kernels.day import MISSING
from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.tasks import all_tasks, find

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "notebooks"))
import build  # noqa: E402

WITHOUT = "import sys\nsys.modules['triton'] = None\n"
# As on a Mac: nothing finds it, and nobody has chosen how it would run.
WITHOUT_FINDING = """
import importlib.machinery as machinery
find = machinery.PathFinder.find_spec
hides = lambda cls, name, *more: None if name.partition(".")[0] == "triton" else find(name, *more)
machinery.PathFinder.find_spec = classmethod(hides)
"""


def gathered(name, pool, block_id):
    from nanoserve.course.kernels.launch import try_launch

    kernel = KernelReference(f"nanoserve.course.exercises.day19.{name[0]}", name[1])
    table, out = torch.tensor([block_id], dtype=torch.int32), torch.full((16, 80), torch.nan)
    return try_launch(kernel, (1,), (pool, table, out, 16, 16), {"DIM": 80, "DIM_PAD": 128, "TILE": 16})


def test_the_suspect_is_right_in_a_small_pool_and_wraps_round_in_a_large_one():
    pytest.importorskip("triton")
    from nanoserve.course.kernels.jobs import Window

    suspect, reference = ("planted", "suspect_kernel"), ("reference", "gather_kernel")
    pool = torch.randn(4, 16, 80)
    for kernel in (suspect, reference):
        assert torch.equal(gathered(kernel, pool, 3).tensors["out"], pool[3])
    far = 2**31 // (16 * 80) + 1
    window = Window(pool[:1], far * 16 * 80)
    assert torch.equal(gathered(reference, window, far).tensors["out"], pool[0])
    assert str(gathered(suspect, window, far).error).startswith("program 0 reads element -")


def test_the_tasks_of_a_kernel_can_be_listed_and_told_without_triton():
    code = f"{WITHOUT}from nanoserve.course.tasks import all_tasks, find\n" + (
        "assert {'14.1', '19.1', '19.3'} <= set(all_tasks())\nprint(find('19.1').stub())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.startswith("@triton.jit\ndef copy_kernel("), done.stderr


def test_listing_the_tasks_imports_nothing_that_is_slow_or_may_be_absent():
    code = "import sys\nfrom nanoserve.course.tasks import all_tasks\nall_tasks()\n" + (
        "print({'triton', 'transformers', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_stub_and_solution_of_a_kernel_come_from_its_file():
    for task in all_tasks().values():
        if isinstance(task.reference, KernelReference):
            assert task.stub().splitlines()[0] == task.solution().splitlines()[0] == "@triton.jit"
            assert task.solution() in Path(ROOT, *task.reference.__module__.split(".")).with_suffix(".py").read_text()
    assert "raise NotImplementedError" in find("19.2").stub()


def test_a_kernel_that_was_not_started_is_told_so():
    pytest.importorskip("triton")
    from nanoserve.course.checking import examine
    from tests.answers.day19 import not_started

    assert examine(find("19.1"), not_started).status == "not started"


@pytest.mark.parametrize("day", ["day19", "day20", "day21"])
def test_without_triton_one_line_says_so_and_the_rest_of_the_notebook_does_nothing(day):
    [source] = build.sources(day)
    notebook = build.assemble(source)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(WITHOUT_FINDING))
    variables = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    NotebookClient(notebook, timeout=60).execute(env=variables)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    printed = [output.text for output in outputs if output.output_type != "display_data"]  # bars, hidden again
    assert printed == ["nanoserve is ready.\n", f"{MISSING}\n"]


def test_the_canary_says_what_to_change(monkeypatch, capsys):
    from nanoserve.course.kernels import day

    class Shell:
        input_transformers_cleanup: list = []  # noqa: RUF012

    monkeypatch.setattr(day, "find_spec", lambda name: object())
    monkeypatch.setattr(day, "start", lambda: "Triton 3.6.0 and NumPy 2.4.6 do not work together")
    monkeypatch.setattr(day, "get_ipython", lambda: Shell)
    day.triton_day()
    assert capsys.readouterr().out == "Triton 3.6.0 and NumPy 2.4.6 do not work together\n"
    [nothing] = Shell.input_transformers_cleanup
    assert nothing(["x = 1\n"]) == []
