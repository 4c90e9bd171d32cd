"""Day 13's picture: requests in their reservations, to scale, by whatever function the learner wrote."""

from xml.etree import ElementTree

import pytest

from nanoserve import used_share
from nanoserve.course.exercises.day13.published import MEASURED
from nanoserve.course.view.reservations import Reservations

SVG = "{http://www.w3.org/2000/svg}"
LENGTHS = [100, 25, 50, 75, 100, 10]


def groups(svg, look):
    return [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if group.get("class") == look]


def widths(group):
    return [float(rect.get("width")) for rect in group.iter(f"{SVG}rect")]


@pytest.mark.parametrize("max_len", [100, 200, 1000])
def test_each_bar_is_as_full_as_its_request_is_long(max_len):
    drawn = groups(Reservations(LENGTHS, max_len, used_share, 1024).svg(), "reservation")
    assert len(drawn) == 5
    for group, length in zip(drawn, LENGTHS, strict=False):
        _, reserved, used = widths(group)
        assert used / reserved == pytest.approx(length / max_len, abs=1e-4)


def test_the_days_share_is_what_the_learners_function_says_of_all_requests():
    asked = []

    def share(lengths, max_len):
        asked.append((lengths, max_len))
        return 0.123

    day, *paper = groups(Reservations(LENGTHS, 200, share, 1024).svg(400), "share")
    assert asked == [(LENGTHS, 400)]
    assert day.find(f"{SVG}title").text == "this day's 6 requests: 12.3%"
    assert [group.find(f"{SVG}title").text for group in paper] == [f"{name}: {s:.1%}" for name, s in MEASURED.items()]
    for group, share_of in zip(paper, MEASURED.values(), strict=True):
        whole, part = widths(group)
        assert part / whole == pytest.approx(share_of, abs=1e-4)


def test_the_words_count_the_bytes_that_are_reserved_and_used():
    view = Reservations([64, 32], 128, used_share, 2**20)
    assert view.words() == "2 requests reserve 128 tokens each: 256 MiB, of which 96 MiB ever hold keys and values"
    assert view.words() in view.svg()


def test_the_length_of_a_bar_is_told_beside_it_or_in_it_where_it_fills_its_place():
    full, short, *_ = groups(Reservations(LENGTHS, 100, used_share, 1).svg(), "reservation")
    assert [list(group.iter(f"{SVG}text"))[1].get("text-anchor") for group in (full, short)] == ["end", None]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_can_be_saved(tmp_path, theme):
    view = Reservations(LENGTHS, 200, used_share, 1024)
    view.save(tmp_path / "picture.svg", theme)
    view.save(tmp_path / "picture.png", theme)
    assert (tmp_path / "picture.svg").read_text() == view.svg(theme=theme)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_slider_redraws_by_the_learners_function():
    box = Reservations(LENGTHS, 200, used_share, 1024)._live()
    picture, slider = box.children
    assert (slider.min, slider.value, slider.max) == (100, 200, 800)
    slider.value = 800
    assert "Reservations of 800 tokens" in picture.value
    assert f"{used_share(LENGTHS, 800):.1%}" in picture.value
