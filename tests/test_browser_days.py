"""Each day in JupyterLab, as a learner goes through it: every task answered wrongly, Run All, then answered rightly.

Here the code is half-way, and the run must go on all the same, up to what is to be seen of it. What comes behind that
room then stands on the reference, as in the days that nbval runs to their end.
"""

import ast
import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator, expect

from nanoserve.course.tasks import Task, all_tasks
from tests.browser import BROWSER, OpenNotebook, open_notebook
from tests.test_misuse import misspells, written

sys.path.insert(0, str(Path(__file__).parents[1] / "notebooks"))
import build

pytestmark = pytest.mark.skipif(
    BROWSER is None and not os.environ.get("CI"), reason="no Chromium here: install it to test the browser too"
)
# Day 14 has a file of its own, where it is played with at length.
OTHER_DAYS = [source for source in build.sources() if not source.stem.startswith("day14")]
RAISED = re.compile(r"raised (Name|Attribute)Error at line \d+ of ")


@pytest.mark.parametrize("source", OTHER_DAYS, ids=lambda source: source.stem)
def test_a_day_runs_on_with_misspelt_answers_takes_the_right_ones_and_its_views_can_be_moved(source, tmp_path):
    day = source.stem.split("_")[0].removeprefix("day")
    tasks = [task for task in all_tasks().values() if task.id.startswith(f"{day}.")]
    right = {
        task.id: cell.source for task in tasks for cell in build.assemble(source, solved=True).cells if asks(cell, task)
    }
    with open_notebook(misspelt(up_to_see(build.assemble(source)), tasks, right), tmp_path) as notebook:
        notebook.run_all()
        for task in tasks:
            expect(verdict(notebook, task)).to_contain_text(RAISED)
        for kind in ("error", "stderr"):
            expect(notebook.page.locator(f'[data-mime-type="application/vnd.jupyter.{kind}"]')).to_have_count(0)
        every_view_moves(notebook, at_least=0 if day == "21" else 1)  # Day 21's pictures stand still
        for task in tasks:
            cell = notebook.cell_by_text(f"check('{task.id}'")
            notebook.replace_source(cell, right[task.id])
            notebook.run_cell(cell)
            expect(verdict(notebook, task)).to_contain_text("Passed")
        assert notebook.console_errors == []


def asks(cell: nbformat.NotebookNode, task: Task) -> bool:
    """Whether it is the cell where the task is to be written."""
    return cell.cell_type == "code" and f'check("{task.id}"' in cell.source


def up_to_see(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook without the rooms behind *See*."""
    [prove] = [place for place, cell in enumerate(notebook.cells) if re.search("^## Prove$", cell.source, re.M)]
    notebook.cells = notebook.cells[:prove]
    return notebook


def misspelt(notebook: nbformat.NotebookNode, tasks: list[Task], right: dict[str, str]) -> nbformat.NotebookNode:
    """The notebook with a name misspelt in every answer."""
    for task in tasks:
        [cell] = [cell for cell in notebook.cells if asks(cell, task)]
        tree = ast.parse(right[task.id])
        misspells(written(task, tree)[0])
        cell.source = ast.unparse(tree)
    return notebook


def verdict(notebook: OpenNotebook, task: Task) -> Locator:
    cell = notebook.cell_by_text(f"check('{task.id}'")
    return notebook.output_of(cell).locator(".nanoserve-verdict")


def every_view_moves(notebook: OpenNotebook, at_least: int) -> None:
    views = notebook.page.locator(".jp-Cell-outputArea:has(.pool-live):has(.noUi-handle)")
    assert views.count() >= at_least
    for number in range(views.count()):
        view, handle = views.nth(number), views.nth(number).locator(".noUi-handle").first
        at_its_start = float(handle.get_attribute("aria-valuenow")) == float(handle.get_attribute("aria-valuemin"))
        before = view.locator(".pool-live").first.inner_html()
        handle.press("ArrowRight" if at_its_start else "ArrowLeft")
        notebook.page.wait_for_function(
            "([view, before]) => view.querySelector('.pool-live').innerHTML !== before",
            arg=[view.element_handle(), before],
        )
