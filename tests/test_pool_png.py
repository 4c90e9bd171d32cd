"""The file form: a PNG of the same drawing, the same bytes each time, with no font of the machine's own."""

import struct

import numpy as np
import pytest
from matplotlib import image

from nanoserve.course.view.png import to_png
from nanoserve.course.view.shapes import WIDTH
from nanoserve.course.view.state import PoolSequence, PoolState
from nanoserve.course.view.svg import draw_pool
from tests.test_pool_svg import SIX, parse


def pixels(png: bytes, path) -> np.ndarray:
    path.write_bytes(png)
    return image.imread(path)[..., :3]


def test_a_png_is_the_drawing_at_the_asked_scale():
    svg = draw_pool(SIX, "light")
    width, height = struct.unpack(">II", to_png(svg, scale=2)[16:24])
    assert (width, height) == (2 * WIDTH, round(2 * float(parse(svg).get("height"))))


def test_the_same_drawing_gives_the_same_bytes():
    assert to_png(draw_pool(SIX, "light")) == to_png(draw_pool(SIX, "light"))


@pytest.mark.parametrize(("theme", "paper"), [("light", 1.0), ("dark", 17 / 255)])
def test_a_theme_colours_the_paper(theme, paper, tmp_path):
    assert pixels(to_png(draw_pool(SIX, theme), 1), tmp_path / "pool.png")[2, 2] == pytest.approx(paper, abs=0.01)


def test_letters_that_the_font_lacks_take_no_more_room_than_they_were_given(tmp_path):
    def slots(text):
        sequence = PoolSequence.of("A", [0], 1, 4, [text])
        return pixels(to_png(draw_pool(PoolState(8, 4, (sequence,)), "light"), 1), tmp_path / "pool.png")

    plain, wide = slots("a"), slots("👩\u200d👩\u200d👧\u200d👦👍🏽" * 9)
    changed = np.argwhere((plain != wide).any(-1))
    left, right = changed[:, 1].min(), changed[:, 1].max()
    assert len(changed) > 50
    assert 22 + 10 <= left < right <= 22 + 10 + 70  # the first slot of the first block
