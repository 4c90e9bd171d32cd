"""The picture of which program touched which element."""

import re
from xml.etree import ElementTree

import pytest
import torch

from nanoserve.course.kernels.accesses import Access
from nanoserve.course.kernels.launch import Run
from nanoserve.course.view.accesses import draw_accesses
from nanoserve.course.view.accesses_state import describe_accesses, programs_of
from nanoserve.course.view.accesses_widget import AccessView

SVG = "{http://www.w3.org/2000/svg}"


def access(program, kind, tensor, *elements, outside=False):
    return Access((program, 0, 0), kind, tensor, torch.tensor(elements).numpy(), outside)


def a_run(*accesses, grid=(2,), races=(), error=None, **shapes):
    tensors = {name: torch.zeros(shape) for name, shape in (shapes or {"x": (3,), "y": (3,)}).items()}
    return Run("copies[(2,)](x, y)", grid, tensors, list(accesses), list(races), "", 0.0, error)


COPY = (
    access(0, "read", "x", 0, 1),
    access(0, "write", "y", 0, 1),
    access(1, "read", "x", 2),
    access(1, "write", "y", 2),
)


def cells(run, program=None):
    """What each cell says when it is pointed at, and its classes."""
    root = ElementTree.fromstring(draw_accesses(run, program))
    groups = [group for group in root.iter(f"{SVG}g") if group.get("class") == "cell"]
    return {group.find(f"{SVG}title").text: [part.get("class", "") for part in group] for group in groups}


def test_each_element_is_a_cell_that_names_its_program():
    told = [f"{name}[{element}]: program {program}" for name in "xy" for element, program in enumerate([0, 0, 1])]
    assert list(cells(a_run(*COPY))) == told


def test_an_element_that_nobody_wrote_is_hatched_and_one_that_nobody_read_is_plain():
    drawn = cells(a_run(*COPY[:2]))
    assert "hatch" in drawn["y[2]: nobody"]
    assert "hatch" not in drawn["x[2]: nobody"]


def test_an_element_that_two_programs_wrote_is_marked():
    drawn = cells(a_run(access(0, "write", "y", 0), access(1, "write", "y", 0)))
    assert "broken" in drawn["y[0]: program 0 and 1"]


def test_reading_one_element_in_two_programs_is_no_fault():
    drawn = cells(a_run(access(0, "read", "x", 0), access(1, "read", "x", 0)))
    assert "broken" not in drawn["x[0]: program 0 and 1"]


def test_an_access_outside_is_drawn_where_it_happens():
    run = a_run(*COPY[:2], access(1, "read", "x", 2, 3, outside=True), error=IndexError("program 1 reads element 3"))
    drawn = cells(run)
    assert "band" in drawn["program 1 goes to element 3, outside x"]
    assert "x[2]: program 1" in drawn
    assert describe_accesses(run) == "IndexError: program 1 reads element 3"
    assert describe_accesses(run, (1, 0, 0)) == "program 1 reads 1 element of x and goes outside x"


def test_one_program_can_be_brought_out():
    drawn = cells(a_run(*COPY), (1, 0, 0))
    assert any(look.startswith("done") for look in drawn["y[2]: program 1"])
    assert any(look.startswith("void") for look in drawn["y[0]: program 0"])


def test_a_matrix_is_drawn_row_by_row_with_the_places_of_its_rows():
    svg = draw_accesses(a_run(access(0, "read", "pool", 4), pool=(2, 2, 2)))
    assert re.findall(r">(\[\d, \d\])<", svg) == ["[0, 0]", "[0, 1]", "[1, 0]", "[1, 1]"]


def test_a_grid_of_two_axes_names_programs_by_both():
    run = a_run(Access((1, 2, 0), "write", "y", torch.tensor([0]).numpy()), grid=(2, 3))
    assert len(programs_of(run)) == 6
    assert "y[0]: program 1,2" in cells(run)


def test_a_large_tensor_is_drawn_as_far_as_there_is_room():
    svg = draw_accesses(a_run(access(0, "read", "x", 0), x=(5000,)))
    assert "and more, not drawn" in svg
    assert len(svg) < 100_000


def test_the_same_run_gives_the_same_bytes_in_either_theme():
    for theme in ("light", "dark"):
        assert draw_accesses(a_run(*COPY), theme=theme) == draw_accesses(a_run(*COPY), theme=theme)
    with pytest.raises(ValueError, match="theme"):
        draw_accesses(a_run(*COPY), theme="sepia")


def test_the_slider_brings_out_each_program_and_all_of_them():
    picture, slider = AccessView(a_run(*COPY))._live().children
    first = picture.value
    slider.value = 2
    assert picture.value != first
    slider.value = 0
    assert picture.value == first
