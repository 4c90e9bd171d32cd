"""The committed pictures are what their code draws."""

import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nanoserve.course.view.png import to_png

FIGURES = Path(__file__).resolve().parents[1] / "figures"
sys.path.insert(0, str(FIGURES))
import draw  # noqa: E402

drawn = cache(lambda name: draw.FIGURES[name]())
each_figure = pytest.mark.parametrize("name", draw.FIGURES)


@each_figure
def test_a_committed_figure_is_what_its_code_draws(name):
    assert (FIGURES / f"{name}.svg").read_text(encoding="utf-8") == drawn(name), "run `make figures`"
    assert (FIGURES / f"{name}.png").read_bytes() == to_png(drawn(name)), "run `make figures`"


@each_figure
def test_a_figure_drawn_twice_gives_the_same_bytes(name):
    assert draw.FIGURES[name]() == drawn(name)
    assert to_png(drawn(name)) == to_png(drawn(name))


@each_figure
def test_a_figure_lies_on_paper_of_its_own_in_literal_colours_and_says_in_words_what_it_shows(name):
    svg = drawn(name)
    root = ElementTree.fromstring(svg)
    paper = next(root.iter("{http://www.w3.org/2000/svg}rect"))
    assert paper.get("class") == "paper"
    assert [paper.get(side) for side in ("x", "y", "width", "height")] == [
        "0",
        "0",
        root.get("width"),
        root.get("height"),
    ]
    assert "var(" not in svg
    assert len(root.get("aria-label")) > 10


def test_no_committed_figure_is_without_its_code():
    assert {path.stem for path in FIGURES.glob("*.[sp][vn]g")} == set(draw.FIGURES)
