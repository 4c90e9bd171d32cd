"""Day 14 as a learner meets it: opened in JupyterLab, run, answered wrongly and rightly, and its pool played with."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser import BROWSER, OpenNotebook, open_notebook

sys.path.insert(0, str(Path(__file__).parents[1] / "notebooks"))
import build

pytestmark = [
    pytest.mark.skipif(
        BROWSER is None and not os.environ.get("CI"), reason="no Chromium here: install it to test the browser too"
    ),
    pytest.mark.xdist_group("day 14 in a browser"),  # one open notebook serves them all
]

FORGETS_TO_BOOK = "return self._free.pop()"
ALLOCATE = """\
if not self._free:
            raise KVCacheExhausted("asked for 1 block, but none is free")
        block_id = self._free.pop()
        self._allocated.add(block_id)
        self.peak_used = max(self.peak_used, self.num_used)
        return block_id"""
FREE = """\
self._require_allocated([block_id])
        self._allocated.remove(block_id)
        self._free.append(block_id)"""


@pytest.fixture(scope="module")
def day14(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenNotebook]:
    (source,) = build.sources("day14")
    with open_notebook(build.assemble(source), tmp_path_factory.mktemp("browser")) as notebook:
        notebook.run_all()
        yield notebook


@pytest.fixture(autouse=True)
def no_complaints(day14: OpenNotebook) -> Iterator[None]:
    yield
    assert day14.console_errors == []


def verdict(notebook: OpenNotebook, cell: Locator) -> Locator:
    return notebook.output_of(cell).locator(".nanoserve-verdict")


def test_day_14_runs_to_its_end_as_it_is_first_opened(day14):
    for task in ("14.1", "14.2", "14.3", "14.4"):
        expect(verdict(day14, day14.cell_by_text(f'check("{task}"'))).to_contain_text("Not started")
    for kind in ("error", "stderr"):
        expect(day14.page.locator(f'[data-mime-type="application/vnd.jupyter.{kind}"]')).to_have_count(0)


def answer(notebook: OpenNotebook, allocate: str) -> None:
    """Write task 14.1, with this body of `allocate`, and run it."""
    cell = notebook.cell_by_text('check("14.1"')
    before, between, behind = notebook.source('check("14.1"').split("raise NotImplementedError")
    notebook.replace_source(cell, f"{before}{allocate}{between}{FREE}{behind}")
    notebook.run_cell(cell)


@pytest.mark.parametrize(
    ("allocate", "says"),
    [
        ("free = self._free\n        raise NotImplementedError", "Not yet: a stub is left at line"),
        (FORGETS_TO_BOOK, "Not yet."),
        ("return self._fre.pop()", "Your code raised AttributeError at line"),
        ("while not self._free: pass\n        while True: self._free", "was stopped at line"),
        (f"for i in range(300): print('looking at', i)\n        {ALLOCATE}", "looking at 0"),
        (ALLOCATE, "Passed"),
    ],
)
def test_an_answer_is_told_what_it_is(day14, allocate, says):
    answer(day14, allocate)
    told = verdict(day14, day14.cell_by_text('check("14.1"'))
    expect(told).to_contain_text(says)
    assert told.bounding_box()["height"] < 600  # it fits into the window, whatever was printed
    expect(day14.output_of(day14.cell_by_text('check("14.1"')).locator(".jp-OutputArea-child")).to_have_count(1)


def test_a_cell_that_is_run_twice_passes_twice(day14):
    for _ in range(2):
        day14.run_cell(day14.cell_by_text('check("14.1"'))
        expect(verdict(day14, day14.cell_by_text('check("14.1"'))).to_contain_text("Passed")


def grid(pool: Locator) -> Locator:
    """The words that each block of the picture carries, in the grid's order."""
    return pool.locator(".pool-live svg g.block > title")


def owners(*letters: str) -> list[re.Pattern]:
    return [re.compile(rf"^block {block_id}: {letter}\b") for block_id, letter in enumerate(letters)]


def test_the_pool_follows_the_buttons_and_the_steps(day14):
    pool = day14.output_of(day14.cell_by_text("pool = watch(allocator)"))
    expect(grid(pool)).to_have_text(owners("free", "D", "D", "B", "B", "C"))
    pool.get_by_role("button", name="Free").click()
    expect(grid(pool)).to_have_text(owners("free", "D", "D", "free", "free", "C"))
    pool.get_by_role("button", name="Allocate").click()
    expect(grid(pool)).to_have_text(owners("free", "D", "D", "E", "E", "C"))
    pool.get_by_title("one event back").click()
    expect(grid(pool)).to_have_text(owners("free", "D", "D", "free", "free", "C"))


def test_the_live_pool_takes_the_place_of_its_still_picture(day14):
    pool = day14.output_of(day14.cell_by_text("pool = watch(allocator)"))
    expect(pool.locator(".pool-live svg")).to_be_visible()
    expect(pool.locator("img")).to_have_count(1)
    expect(pool.locator("img")).to_be_hidden()


def test_after_a_restart_in_the_middle_the_notebook_goes_on_from_the_setup(day14):
    """What was passed is forgotten with the kernel; the tasks below go on with the reference's."""
    day14.menu("Kernel", "Restart Kernel and Clear Outputs of All Cells…")
    day14.page.get_by_role("button", name="Confirm Kernel Restart").click()
    expect(day14.page.locator(".jp-Notebook .jp-Cell-outputArea .jp-OutputArea-child")).to_have_count(0)
    setup, pool = day14.cell_by_text("# Set-up"), day14.cell_by_text("pool = watch(allocator)")
    day14.run_cell(setup)
    expect(day14.output_of(setup)).to_contain_text("nanoserve is ready.")
    day14.run_cell(pool)
    expect(day14.output_of(pool)).to_contain_text("has no value yet: run the cell above that makes it")
    guard = day14.cell_by_text('check("14.2"')
    day14.run_cell(guard)
    expect(verdict(day14, guard)).to_contain_text("Not started")
    answer(day14, ALLOCATE)
    first = verdict(day14, day14.cell_by_text('check("14.1"'))
    expect(first).to_contain_text("NameError: name 'KVCacheExhausted' is not defined")
    expect(first).to_contain_text("Is it made in a cell above? Then run that one first.")
    day14.run_all()
    expect(first).to_contain_text("Passed")
    expect(day14.output_of(pool).locator(".pool-live svg")).to_be_visible()
    while "Cannot send" in day14.console_errors:  # JupyterLab's own, of widgets whose kernel has gone
        day14.console_errors.remove("Cannot send")
