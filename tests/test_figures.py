"""The committed pictures are what their code draws."""

import sys
from pathlib import Path

import pytest

from nanoserve.course.png import to_png
from nanoserve.course.pool_svg import draw_pool

FIGURES = Path(__file__).resolve().parents[1] / "figures"
sys.path.insert(0, str(FIGURES))
import draw  # noqa: E402


@pytest.mark.parametrize("name", draw.FIGURES)
def test_a_committed_figure_is_what_its_code_draws(name, tmp_path):
    view = draw.FIGURES[name]()
    for kind in ("svg", "png"):
        view.save(tmp_path / f"{name}.{kind}")
        assert (tmp_path / f"{name}.{kind}").read_bytes() == (FIGURES / f"{name}.{kind}").read_bytes(), "make figures"


@pytest.mark.parametrize("name", draw.FIGURES)
def test_a_figure_drawn_twice_gives_the_same_bytes(name):
    first, second = (draw_pool(draw.FIGURES[name]().state(), "light") for _ in range(2))
    assert first == second
    assert to_png(first) == to_png(second)


def test_no_committed_figure_is_without_its_code():
    assert {path.stem for path in FIGURES.glob("*.[sp][vn]g")} == set(draw.FIGURES)
