"""Every notebook, as a learner opens it and with every solution filled in, is what its source says, and runs.

A learner may have filled in the notebooks of this very checkout. So the tests look at what was committed, and run
what the source gives; whatever stands in `notebooks/` may differ from that, and is not touched.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import nbformat
import pytest

from nanoserve.course.tasks import all_tasks

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "notebooks"))
import build  # noqa: E402

SOURCES = build.sources()
each_day = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
each_state = pytest.mark.parametrize("solved", [False, True], ids=["as opened", "solved"])

built = cache(build.build)


def committed(source: Path) -> list[str]:
    """The notebook's text on disk and, in a git checkout, as it is staged: a learner may have changed the former."""
    path = f"notebooks/{source.stem}.ipynb"
    texts = [(ROOT / path).read_text(encoding="utf-8")]
    if shutil.which("git"):
        staged = subprocess.run(["git", "show", f":{path}"], cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
        texts += [staged.stdout] if staged.returncode == 0 else []
    return texts


def without_pictures(text: str) -> nbformat.NotebookNode:
    """A notebook less the bytes of its pictures, which follow the versions of the libraries that drew them.

    The outputs of a cell that nbval is told to ignore, such as timings, are left out too.
    """
    notebook = nbformat.reads(text, as_version=4)
    for cell in notebook.cells:
        if "nbval-ignore-output" in cell.metadata.get("tags", ()):
            cell.outputs = []
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = "a picture"
    return notebook


@each_day
def test_a_notebook_is_what_its_source_gives(source):
    fresh = without_pictures(built(source))
    assert fresh in [without_pictures(text) for text in committed(source)], (
        f"notebooks/{source.stem}.ipynb and its source differ: run `make notebooks`"
    )


def test_a_notebook_built_twice_gives_the_same_bytes():
    """One day stands for all: the others differ from it in nothing that the builder does."""
    assert build.build(SOURCES[0]) == built(SOURCES[0])


def test_what_is_printed_bit_by_bit_is_one_output_and_displays_stay_between():
    source = (
        "import time\nfrom IPython.display import display\nfor word in 'ab':\n    print(word, flush=True)\n"
        "    time.sleep(0.3)\ndisplay(1)\nprint('c')"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    outputs = build.execute(notebook).cells[0].outputs
    assert [output.get("text") for output in outputs] == ["a\nb\n", None, "c\n"]


@each_day
@each_state
def test_nbval_finds_no_difference(source, solved, tmp_path):
    notebook = tmp_path / source.with_suffix(".ipynb").name
    notebook.write_text(built(source, solved), encoding="utf-8")
    environment = os.environ | {"NANOSERVE_STRICT": "1" if solved else "0"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider", str(notebook)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert run.returncode == 0, run.stdout + run.stderr


@each_day
def test_every_code_cell_was_run_and_none_raised(source):
    for cell in nbformat.reads(built(source), as_version=4).cells:
        if cell.cell_type == "code":
            assert cell.execution_count, f"nbval compares nothing in a cell that was not run:\n{cell.source}"
            assert "raises-exception" not in cell.metadata.get("tags", []), (
                "nbval lets such a cell pass without an error"
            )
            assert all(output.output_type != "error" for output in cell.outputs)


@each_day
def test_a_notebook_holds_no_state_of_widgets_and_no_path_of_the_machine_that_built_it(source):
    text = built(source)
    assert "widgets" not in nbformat.reads(text, as_version=4).metadata
    for path in (str(ROOT), str(Path.home()), sys.prefix):
        assert path == "/" or path not in text


@each_day
def test_a_day_has_the_rooms_of_the_course_in_their_order(source):
    rooms = [
        "Setup",
        "Where we are",
        "Predict",
        "Build",
        "See",
        "Prove",
        "Measure",
        "Break",
        "In a real engine",
        "Recap",
    ]
    cells = nbformat.reads(built(source), as_version=4).cells
    headings = [
        line[3:]
        for cell in cells
        if cell.cell_type == "markdown"
        for line in cell.source.splitlines()
        if line.startswith("## ")
    ]
    assert headings == rooms


@each_day
def test_every_task_of_the_day_stands_in_its_notebook_with_a_folded_answer(source):
    day = source.stem.split("_")[0].removeprefix("day")
    tasks = [task for task in all_tasks().values() if task.id.startswith(f"{day}.")]
    assert tasks
    cells = nbformat.reads(built(source), as_version=4).cells
    for task in tasks:
        [place] = [i for i, cell in enumerate(cells) if cell.source.endswith(f'check("{task.id}", {task.name})')]
        assert "raise NotImplementedError" in cells[place].source
        assert cells[place + 1].source.startswith("<details><summary><b>Solution</b>")
        assert task.full_title in cells[place - 1].source


@each_day
def test_the_solved_notebook_passes_every_task(source):
    verdicts = [
        output.data["text/plain"]
        for cell in nbformat.reads(built(source, True), as_version=4).cells
        for output in cell.get("outputs", ())
        if "Passed" in output.get("data", {}).get("text/plain", "")
    ]
    day = source.stem.split("_")[0].removeprefix("day")
    assert len(verdicts) == sum(task.id.startswith(f"{day}.") for task in all_tasks().values())


def test_a_learners_work_in_the_notebooks_does_not_fail_the_comparison(monkeypatch):
    opened = (ROOT / "notebooks" / f"{SOURCES[0].stem}.ipynb").read_text(encoding="utf-8")
    filled = opened.replace("raise NotImplementedError", "return 0", 1)
    monkeypatch.setattr(sys.modules[__name__], "committed", lambda source: [filled, opened])
    test_a_notebook_is_what_its_source_gives(SOURCES[0])
    monkeypatch.setattr(sys.modules[__name__], "committed", lambda source: [filled])
    with pytest.raises(AssertionError, match="make notebooks"):
        test_a_notebook_is_what_its_source_gives(SOURCES[0])
