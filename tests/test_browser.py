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


def test_a_wrong_answer_is_told_and_a_right_one_passes(day14):
    cell = day14.cell_by_text('check("14.1"')
    stub = day14.source('check("14.1"')
    assert stub.count("raise NotImplementedError") == 2
    for allocate, says in ((FORGETS_TO_BOOK, "Not yet"), (ALLOCATE, "Passed")):
        answer = stub
        for body in (allocate, FREE):
            answer = answer.replace("raise NotImplementedError", body, 1)
        day14.replace_source(cell, answer)
        day14.run_cell(cell)
        expect(verdict(day14, cell)).to_contain_text(says)


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
