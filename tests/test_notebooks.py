"""Every notebook is what its source says, and runs: as a learner opens it, and with every solution filled in.

A learner may have filled in the notebooks of this very checkout. So what is tested is the notebook as the course
gives it out: the file, or where a learner has changed it, what git has of it. Nothing in `notebooks/` is touched.
"""

import copy
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from nanoserve.course.tasks import all_tasks

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "notebooks"))
import build  # noqa: E402

SOURCES = build.sources()
each_day = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)


def committed(source: Path) -> list[str]:
    """The notebook's text on disk and, in a git checkout, as it is staged."""
    path = f"notebooks/{source.stem}.ipynb"
    texts = [(ROOT / path).read_text(encoding="utf-8")]
    if shutil.which("git"):
        staged = subprocess.run(["git", "show", f":{path}"], cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
        texts += [staged.stdout] if staged.returncode == 0 else []
    return texts


def without_outputs(notebook: nbformat.NotebookNode) -> tuple:
    return notebook.metadata, [(cell.id, cell.cell_type, cell.source, cell.metadata) for cell in notebook.cells]


def given_out(source: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs, as the course gives it out."""
    expected = without_outputs(build.assemble(source))
    for text in committed(source):
        notebook = nbformat.reads(text, as_version=4)
        if without_outputs(notebook) == expected:
            return notebook
    raise AssertionError(f"notebooks/{source.stem}.ipynb and its source differ: run `make notebooks`")


def solved(source: Path) -> nbformat.NotebookNode:
    """The same notebook with every solution filled in; only what the checks say may then differ."""
    notebook = copy.deepcopy(given_out(source))
    for cell, filled in zip(notebook.cells, build.assemble(source, solved=True).cells, strict=True):
        if cell.source != filled.source:
            cell.source = filled.source
            cell.metadata.tags = [*cell.metadata.tags, "nbval-ignore-output"]
    return notebook


@each_day
def test_a_notebook_is_what_its_source_gives(source):
    given_out(source)


# Every day is run as opened. Solved, Day 14 stands for all: they are run so in test_colab.py, and what a solution holds
# is the reference's own source.
@pytest.mark.parametrize(
    ("state", "source"),
    [(given_out, source) for source in SOURCES] + [(solved, source) for source in build.sources("day14")],
    ids=lambda value: value.stem if isinstance(value, Path) else value.__name__,
)
def test_nbval_finds_no_difference(state, source, tmp_path):
    notebook = tmp_path / f"{source.stem}.ipynb"
    nbformat.write(state(source), notebook)
    environment = os.environ | {"NANOSERVE_STRICT": "1" if state is solved else "0"}  # there a check must pass
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider", str(notebook)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert run.returncode == 0, run.stdout + run.stderr


SHORT = """\
# %% tags=["setup"]
# %% [markdown]
# {task 14.1}

# %% task="14.1"
# %%
import matplotlib.pyplot as plt
from nanoserve import BlockAllocator as Whole

pool = Whole(6, 16)
watch(pool)
pool.allocate_for(40)
# %%
watch(pool)
# %%
figure, axes = plt.subplots()
axes.plot([1, 4, 9], label="squares")
axes.legend()
plt.show()
"""


def test_a_notebook_built_twice_gives_the_same_bytes(tmp_path):
    """With all that a day's notebook is made of: a check, a view, a plot. A model's numbers are nbval's to compare."""
    source = tmp_path / "day99_short.py"
    source.write_text(SHORT)
    text = build.build(source)
    outputs = [output for cell in nbformat.reads(text, as_version=4).cells for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    assert build.build(source) == text


def test_what_is_printed_bit_by_bit_is_one_output_and_displays_stay_between():
    source = (
        "import time\nfrom IPython.display import display\nfor word in 'ab':\n    print(word, flush=True)\n"
        "    time.sleep(0.3)\ndisplay(1)\nprint('c')"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    outputs = build.execute(notebook).cells[0].outputs
    assert [output.get("text") for output in outputs] == ["a\nb\n", None, "c\n"]


@each_day
def test_every_code_cell_was_run_and_none_raised(source):
    for cell in given_out(source).cells:
        if cell.cell_type == "code":
            assert cell.execution_count, f"nbval compares nothing in a cell that was not run:\n{cell.source}"
            assert "raises-exception" not in cell.metadata.get("tags", []), "nbval passes it without an error too"
            assert all(output.output_type != "error" for output in cell.outputs)


@each_day
def test_a_notebook_holds_no_state_of_widgets_and_no_path_of_the_machine_that_built_it(source):
    notebook = given_out(source)
    assert "widgets" not in notebook.metadata
    ids = [
        out.data[build.WIDGET]["model_id"]
        for cell in notebook.cells
        for out in cell.get("outputs", ())
        if build.WIDGET in out.get("data", {})
    ]
    assert not any(ids)
    text = nbformat.writes(notebook)
    for path in (str(ROOT), str(Path.home()), sys.prefix):
        assert path == "/" or path not in text


@each_day
def test_a_day_has_the_rooms_of_the_course_in_their_order(source):
    rooms = "Setup|Where we are|Predict|Build|See|Prove|Measure|Break|In a real engine|Recap"
    cells = [cell for cell in build.assemble(source).cells if cell.cell_type == "markdown"]
    lines = [line for cell in cells for line in cell.source.splitlines()]
    assert [line[3:] for line in lines if line.startswith("## ")] == rooms.split("|")


@each_day
def test_every_task_of_the_day_stands_in_its_notebook_with_a_folded_answer(source):
    day = source.stem.split("_")[0].removeprefix("day")
    tasks = [task for task in all_tasks().values() if task.id.startswith(f"{day}.")]
    assert tasks
    cells = build.assemble(source).cells
    for task in tasks:
        [place] = [i for i, cell in enumerate(cells) if cell.source.endswith(f'check("{task.id}", {task.name})')]
        assert "raise NotImplementedError" in cells[place].source
        assert cells[place + 1].source.startswith("<details><summary><b>Solution</b>")
        assert task.full_title in cells[place - 1].source


def test_a_learners_work_in_the_notebooks_does_not_fail_the_comparison(monkeypatch):
    opened = (ROOT / "notebooks" / f"{SOURCES[0].stem}.ipynb").read_text(encoding="utf-8")
    filled = opened.replace("raise NotImplementedError", "return 0", 1)
    monkeypatch.setattr(sys.modules[__name__], "committed", lambda source: [filled, opened])
    given_out(SOURCES[0])
    monkeypatch.setattr(sys.modules[__name__], "committed", lambda source: [filled])
    with pytest.raises(AssertionError, match="make notebooks"):
        given_out(SOURCES[0])


@each_day
def test_a_notebook_uses_no_magic_and_no_shell(source):
    """A magic that does not exist prints an error and yet lets the run go on."""
    for cell in build.assemble(source).cells:
        if cell.cell_type == "code":
            assert not [line for line in cell.source.splitlines() if line.lstrip().startswith(("%", "!"))]


@each_day
def test_a_notebook_shows_no_file_that_may_be_missing_where_it_is_opened(source):
    """On Colab only the notebook itself is there: a picture must be one of its outputs."""
    for cell in build.assemble(source).cells:
        if cell.cell_type == "markdown":
            assert "<img" not in cell.source
            assert "](" not in cell.source.replace("](https://", "")
