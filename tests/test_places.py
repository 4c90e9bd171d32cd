"""The notebooks wherever they are opened: by ear, on a page where nothing runs, and in a narrow dark window."""

import ast
import os
import re
from html.parser import HTMLParser
from itertools import combinations

import pytest
from matplotlib import pyplot as plt
from nbformat.v4 import new_code_cell

from nanoserve.course.verdict import Verdict
from nanoserve.course.view.plots import describe_plot
from nanoserve.course.view.theme import contrast
from nanoserve.course.waiting import waits_of
from tests.browser import BROWSER, open_notebook
from tests.test_notebooks import SOURCES, build, given_out
from tests.test_pool_colours import EYES, ciede2000, in_the_dark, lab

each_day = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
# What GitHub and an untrusted JupyterLab leave of a cell's HTML, of all that a verdict could need; no style is sure.
KEPT = {"b", "code", "div", "pre", "span", "table", "td", "th", "tr"}
LONGEST_ALT = 1000  # letters; who listens to it cannot skim
WRITES = {"text", "annotate"}  # the methods of axes that put words into a plot
# Of areas, which have words in them or a neighbour beside them; all else needs 3:1 on white, as a line does.
AREAS = {"#ffffff", "#56b4e9", "#d3d7dd"}


def outputs(source, bars=True):
    """The outputs of each cell that has any; on request, without the bars of those that take their time."""
    cells = [cell for cell in given_out(source).cells if cell.get("outputs")]
    if bars:
        return [(cell.id, cell.outputs) for cell in cells]
    first = {cell.id: set(cell.outputs[0].get("data", {})) == {build.WIDGET} for cell in cells}
    return [(cell.id, cell.outputs[1:] if first[cell.id] and waits_of(cell.source) else cell.outputs) for cell in cells]


@each_day
def test_every_picture_says_in_words_what_is_to_be_seen(source):
    for cell, shown in outputs(source):
        for output in shown:
            if "image/png" in output.get("data", {}):
                alt = output.metadata.get("image/png", {}).get("alt", "")
                assert 10 < len(alt) <= LONGEST_ALT, f"{cell}: {alt!r}"


@each_day
def test_every_view_has_its_still_picture_beside_it_and_no_words_in_its_place(source):
    for cell, shown in outputs(source, bars=False):
        kinds = [set(output.get("data", {})) for output in shown]
        beside = [set(), *kinds, set()]
        for place, kind in enumerate(kinds):
            if build.WIDGET in kind:
                assert kind == {build.WIDGET}, f"{cell}: without its model, a view's other forms would be shown"
                assert "image/png" in beside[place] | beside[place + 2], cell
        assert "VBox(" not in str(shown)


@each_day
def test_a_notebook_that_is_not_trusted_loses_nothing(source):
    for cell, shown in outputs(source):
        for output in shown:
            data = output.get("data", {})
            assert not data.keys() & {"image/svg+xml", "application/javascript"}, cell
            if "text/html" in data:
                assert_survives(data["text/html"], data["text/plain"])
    for cell in given_out(source).cells:
        if cell.cell_type == "markdown":
            assert not re.search(r"<(svg|style|script|iframe)\b|\bstyle=", cell.source), cell.id


def test_a_verdict_survives_with_all_that_it_says():
    verdict = Verdict(
        "1.1 · A task",
        "not yet",
        "One of `free` and 2 < 3.",
        "Go on.",
        stage="the second stage",
        calls=("a = f(1)", "a.g()"),
        expected="[1, 2]",
        came="<b>nothing</b>",
        slip="a slip",
        look="at `g`",
        printed="a line\nand another",
    )
    assert_survives(verdict.html(), verdict.text())


def assert_survives(html, plain):
    """The HTML has only elements that are kept everywhere, and their words are those of the plain text."""
    seen, words = set(), []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: seen.add(tag)
    parser.handle_data = words.append
    parser.feed(html)
    assert seen <= KEPT
    assert letters("".join(words)) == letters(plain.replace("`", ""))


def letters(words):
    """Without the white space and the colons that set off the plain text's lines."""
    return re.sub(r"[\s:]+", "", words)


def test_a_plot_is_told_by_its_title_its_axes_and_its_legend():
    figure, panels = plt.subplots(1, 2)
    for axes in panels:
        axes.plot([1, 2], label="cached")
        axes.axhline(1)
        axes.set(xlabel="tokens", ylabel="milliseconds\na token")
    panels[0].set_title("Time grows")
    panels[1].set_yticks([0, 1], ["none", "1 block"])
    panels[1].text(0, 0, "the least")
    plt.close(figure)
    assert describe_plot(figure) == (
        "Plot. Time grows. Across: tokens. Up: milliseconds a token. Shown: cached. "
        "Up: milliseconds a token, none, 1 block. Written: the least."
    )


def plots(source):
    """Of each cell with a plot the colours that it names, and those of its words among them."""
    for cell in build.assemble(source).cells:
        if cell.cell_type == "code" and "plt.show()" in cell.source:
            calls = [call for call in ast.walk(ast.parse(cell.source)) if isinstance(call, ast.Call)]
            given = [word for call in calls if getattr(call.func, "attr", "") in WRITES for word in call.keywords]
            words = {ast.unparse(word.value).strip("'") for word in given if word.arg == "color"}
            yield set(re.findall(r"#[0-9a-f]{6}", cell.source)), {colour for colour in words if colour[0] == "#"}


@each_day
@pytest.mark.parametrize(("seen", "least"), [(str, 10), (in_the_dark, 8)], ids=["on white", "in the dark"])
def test_a_plots_colours_stand_out_from_its_paper_and_from_one_another_for_every_eye(source, seen, least):
    for named, words in plots(source):
        for colour in named - AREAS:
            assert contrast(seen(colour), seen("#ffffff")) >= (4.5 if colour in words else 3), colour
        for one, other in combinations(sorted(named - words), 2):
            assert min(ciede2000(lab(seen(one), eye), lab(seen(other), eye)) for eye in EYES) >= least, (one, other)


PLOT = """\
from matplotlib import pyplot as plt
plt.subplots(figsize=(9, 2))
plt.show()"""
BEYOND_ITS_CELL = """
() => [...document.querySelectorAll('.jp-OutputArea')].flatMap(cell => {
  const scrolls = part =>
    part !== cell && (getComputedStyle(part).overflowX !== 'visible' || scrolls(part.parentElement));
  return [...cell.querySelectorAll('*')]
    .filter(part => part.getBoundingClientRect().right > cell.getBoundingClientRect().right + 1)
    .filter(part => !scrolls(part.parentElement))
    .map(part => part.outerHTML.slice(0, 80));
})
"""
CONTROLS = "button, select, input, [role=slider], [contenteditable=true]"
FOCUS = """
() => {
  const look = part => { const style = getComputedStyle(part);
                         return [style.outline, style.backgroundColor, style.borderColor, style.boxShadow].join() };
  const at = document.activeElement, focused = look(at);
  at.blur();
  const plain = look(at);
  at.focus();
  return {place: controls.indexOf(at), seen: focused !== plain};
}
"""


@pytest.mark.skipif(
    BROWSER is None and not os.environ.get("CI"), reason="no Chromium here: install it to test the browser too"
)
def test_a_narrow_dark_window_cuts_nothing_off_and_all_of_a_view_is_within_reach_of_the_keys(tmp_path):
    """The beginning of Day 14, as far as its first task, and a plot behind it."""
    [source] = build.sources("day14")
    notebook = build.assemble(source)
    first_task = next(place for place, cell in enumerate(notebook.cells) if "check(" in cell.source)
    notebook.cells = [*notebook.cells[: first_task + 1], new_code_cell(PLOT)]
    with open_notebook(notebook, tmp_path) as opened:
        page = opened.page
        page.set_viewport_size({"width": 900, "height": 1000})
        opened.menu("Settings", "Theme", "JupyterLab Dark")
        page.locator("body[data-jp-theme-light='false']").wait_for(state="attached")
        opened.run_all()
        page.locator(".jp-RenderedImage img >> visible=true").wait_for()
        assert page.evaluate(BEYOND_ITS_CELL) == []
        plot = page.locator(".jp-RenderedImage img >> visible=true")
        assert plot.evaluate("plot => getComputedStyle(plot).filter").startswith("invert")

        view = opened.output_of(opened.cell_by_text("picture = watch(example)"))
        assert view.locator(".pool-live svg").get_attribute("role") == "img"
        controls = view.locator(CONTROLS)
        controls.first.focus()
        page.evaluate(
            "([view, what]) => window.controls = [...view.querySelectorAll(what)]",
            [view.element_handle(), CONTROLS],
        )
        reached = []
        while len(reached) < 20 and (now := page.evaluate(FOCUS))["place"] >= 0:
            assert now["seen"], controls.nth(now["place"]).evaluate("part => part.outerHTML")
            reached.append(now["place"])
            page.keyboard.press("Tab")
        assert reached == list(range(controls.count()))
        assert opened.console_errors == []
