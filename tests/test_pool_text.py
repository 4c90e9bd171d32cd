"""Widths are an upper bound of the real font's, and what is shortened fits."""

from functools import cache
from pathlib import Path
from string import printable
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import get_data_path
from matplotlib.ft2font import FT2Font

from nanoserve.course.view.text import fit, show_token, text_width

ASCII = st.text([char for char in printable if " " <= char <= "~"])
FAMILY = "👩\u200d👩\u200d👧\u200d👦"


@cache
def advance(char: str, face: str) -> float:
    """A letter's width in ems, as FreeType reads it from the font."""
    font = FT2Font(str(Path(get_data_path(), "fonts", "ttf", f"{face}.ttf")))
    font.set_size(1000, 72)
    return font.load_char(ord(char)).linearHoriAdvance / 65536 / 1000


@given(ASCII, st.sampled_from([10.5, 12, 18]))
def test_no_text_is_wider_than_it_was_measured(words, size):
    faces = {"DejaVuSans": {}, "DejaVuSans-Bold": {"bold": True}, "DejaVuSansMono": {"mono": True}}
    for face, how in faces.items():
        assert sum(advance(char, face) for char in words) * size <= text_width(words, size, **how) + 0.01 * len(words)


@given(ASCII)
def test_a_measured_width_is_not_far_from_the_real_one(words):
    assert sum(advance(char, "DejaVuSans") for char in words) == pytest.approx(
        text_width(words, 1), abs=0.001 * len(words)
    )


@given(st.text(), st.floats(0, 300))
def test_a_shortened_text_fits_and_begins_like_the_whole(words, width):
    shown = fit(words, width, 11, mono=True)
    assert text_width(shown, 11, mono=True) <= width or not text_width(shown, 11, mono=True)
    assert shown == words or shown == "" or (shown.endswith("…") and words.startswith(shown[:-1]))


def test_a_text_that_fits_is_left_alone():
    assert fit("·attention", text_width("·attention", 11, mono=True), 11, mono=True) == "·attention"
    assert fit("·attention", text_width("·attention", 11, mono=True) - 0.1, 11, mono=True) == "·attenti…"


@pytest.mark.parametrize("letter", [FAMILY, "👍🏽", "e\u0301", "❤\ufe0f"])
def test_no_letter_is_cut_in_half(letter):
    for width in range(100):
        kept = fit(letter * 5, width, 11).removesuffix("…")
        assert len(kept) % len(letter) == 0


def test_white_space_is_made_visible():
    assert show_token(" attention") == "·attention"
    assert show_token("  two words") == "··two words"
    assert show_token("a\n\tb") == "a⏎⇥b"


@given(st.text())
def test_no_control_character_is_shown(text):
    assert all(category(char) != "Cc" for char in show_token(text))
