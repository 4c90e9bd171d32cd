"""What a teacher sees of a learner's notebooks."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from nanoserve.course.progress import NO_VERDICT, main, told, verdicts_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "notebooks"))
import build  # noqa: E402


def learners(day: str, solved: bool = True) -> nbformat.NotebookNode:
    """A day's notebook, in whose tasks the solutions stand or the stubs."""
    [source] = [source for source in build.sources() if source.stem.startswith(day)]
    return build.assemble(source, solved=solved)


def cell_of(notebook: nbformat.NotebookNode, task_id: str) -> nbformat.NotebookNode:
    return next(cell for cell in notebook.cells if f'check("{task_id}"' in cell.source)


def saved(notebook: nbformat.NotebookNode, folder: Path) -> Path:
    path = folder / "mine.ipynb"
    nbformat.write(notebook, path)
    return path


def test_each_task_is_told_for_itself(tmp_path):
    notebook = learners("day14")
    right = cell_of(notebook, "14.2").source
    cell_of(notebook, "14.2").source = right.replace("raise ValueError", "raise KeyError")
    cell_of(notebook, "14.3").source = "class BlockAllocator(:"  # a typo
    notebook.cells.insert(5, nbformat.v4.new_code_cell("class Mine:\n    raise SystemExit"))
    cell_of(notebook, "14.1").source = cell_of(notebook, "14.1").source.replace('check("14.1",', "check ( 14.1 ,")
    cell_of(notebook, "14.4").source = cell_of(learners("day14", solved=False), "14.4").source
    path = saved(notebook, tmp_path)
    before = path.read_bytes()
    found = verdicts_of(path)
    assert found == {"14.1": "passed", "14.2": "not yet", "14.3": NO_VERDICT, "14.4": "not started"}
    assert path.read_bytes() == before
    assert told({"mine": found}).splitlines()[0] == "mine    1 of 4   ✓ 14.1  → 14.2  ? 14.3  ○ 14.4"


def test_cells_that_no_task_stands_on_are_not_run(tmp_path):
    notebook = learners("day14")
    mark = tmp_path / "ran"
    notebook.cells.insert(3, nbformat.v4.new_code_cell(f"open({str(mark)!r}, 'w')\n1 / 0\n%matplotlib inline\n!ls"))
    assert set(verdicts_of(saved(notebook, tmp_path)).values()) == {"passed"}
    assert not mark.exists()


def test_a_helper_of_the_learners_own_is_there(tmp_path):
    notebook = learners("day14")
    cell = cell_of(notebook, "14.3")
    notebook.cells.insert(notebook.cells.index(cell), nbformat.v4.new_code_cell("def helper():\n    return 1"))
    cell.source = cell.source.replace('yours("14.2")):', 'yours("14.2")):\n    one = helper()\n', 1)
    assert "helper()" in cell.source
    cell.source = "%%time\n%matplotlib inline\n!echo\ndisplay(1)\n" + cell.source
    assert verdicts_of(saved(notebook, tmp_path))["14.3"] == "passed"


def test_a_cell_that_never_ends_takes_its_time_and_no_more(tmp_path):
    notebook = learners("day14")
    cell_of(notebook, "14.2").source += "\nimport time\ntime.sleep(10**6)"
    found = verdicts_of(saved(notebook, tmp_path), seconds=20)
    assert found == {"14.1": "passed", "14.2": "passed", "14.3": NO_VERDICT, "14.4": NO_VERDICT}


def test_a_cell_that_raises_before_its_check_gets_no_verdict(tmp_path):
    notebook = learners("day14")
    cell_of(notebook, "14.3").source = "raise SystemExit\n" + cell_of(notebook, "14.3").source
    assert [task for task, status in verdicts_of(saved(notebook, tmp_path)).items() if status != "passed"] == ["14.3"]


def test_a_kernel_is_checked_too(tmp_path):
    pytest.importorskip("triton")
    notebook = learners("day19")
    cell_of(notebook, "19.2").source = cell_of(learners("day19", solved=False), "19.2").source
    assert verdicts_of(saved(notebook, tmp_path)) == {"19.1": "passed", "19.2": "not started", "19.3": "passed"}


def test_several_learners_are_told_apart_and_other_notebooks_left_out(tmp_path, capsys):
    for name in ("ann", "bob"):
        (tmp_path / name).mkdir()
        saved(learners("day14", solved=name == "ann"), tmp_path / name)
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1")]), tmp_path / "bob" / "o.ipynb")
    assert main([str(tmp_path / "ann"), str(tmp_path / "bob")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines[:3]] == [
        [f"{tmp_path}/ann/mine", "4", "of", "4"],
        [f"{tmp_path}/bob/mine", "0", "of", "4"],
        ["all", "4", "of", "8"],
    ]


def test_files_that_are_no_notebooks_are_named_and_hide_nobody(tmp_path, capsys):
    (tmp_path / "a_folder.ipynb").mkdir()
    broken = ["no json", "[]", '{"cells": 3}', "[" * 100_000]
    for number, content in enumerate(broken):
        (tmp_path / f"broken_{number}.ipynb").write_text(content)
    saved(learners("day14"), tmp_path)
    assert main([str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert re.search("mine +4 of 4", said.out)
    for number in range(len(broken)):
        assert f"broken_{number}.ipynb is no notebook" in said.err


def test_a_folder_that_is_not_there_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main([str(tmp_path / "absent")])
    assert "absent is no notebook, and no folder of notebooks" in capsys.readouterr().err


def test_it_is_run_from_a_terminal(tmp_path):
    command = [sys.executable, "-m", "nanoserve.course"]
    usage = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert usage.returncode == 1
    assert "progress [FOLDER or NOTEBOOK ...]" in usage.stderr
