"""Each day in JupyterLab: it runs to its end as it is first opened, and its views follow the learner's keys."""

import os
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from nanoserve.course.tasks import all_tasks
from tests.browser import BROWSER, OpenNotebook, open_notebook

sys.path.insert(0, str(Path(__file__).parents[1] / "notebooks"))
import build

pytestmark = pytest.mark.skipif(
    BROWSER is None and not os.environ.get("CI"), reason="no Chromium here: install it to test the browser too"
)
# Day 14 has a file of its own, where it is played with at length.
OTHER_DAYS = [source for source in build.sources() if not source.stem.startswith("day14")]


@pytest.mark.parametrize("source", OTHER_DAYS, ids=lambda source: source.stem)
def test_a_day_runs_as_it_is_first_opened_and_its_views_can_be_moved(source, tmp_path):
    with open_notebook(build.assemble(source), tmp_path) as notebook:
        notebook.run_all()
        day = source.stem.split("_")[0].removeprefix("day")
        every_task_is_not_started(notebook, day)
        every_view_moves(notebook, at_least=0 if day == "21" else 1)  # Day 21's pictures stand still
        assert notebook.console_errors == []


def every_task_is_not_started(notebook: OpenNotebook, day: str) -> None:
    for task in all_tasks():
        if task.startswith(f"{day}."):
            verdict = notebook.output_of(notebook.cell_by_text(f'check("{task}"')).locator(".nanoserve-verdict")
            expect(verdict).to_contain_text("Not started")
    for kind in ("error", "stderr"):
        expect(notebook.page.locator(f'[data-mime-type="application/vnd.jupyter.{kind}"]')).to_have_count(0)


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
