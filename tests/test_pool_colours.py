"""Which colours can be told apart, counted: by every eye, in both themes."""

import re
from itertools import combinations

import numpy as np
import pytest

from nanoserve.course import verdict
from nanoserve.course.exercises.day21.pictures import COLOURS
from nanoserve.course.view import widget
from nanoserve.course.view.theme import OWNERS, colours, contrast

THEMES = ("light", "dark")
PAPERS = {"white": "#FFFFFF", "JupyterLab, dark": "#111111", "VS Code, dark": "#1E1E1E", "GitHub, dark": "#0D1117"}

# What an eye without one kind of cones sees of linear RGB: Machado, Oliveira and Fernandes, "A Physiologically-based
# Model for Simulation of Color Vision Deficiency", IEEE TVCG 15 (2009), table 1, severity 1.
EYES = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(colour: str, eye: str = "all cones") -> np.ndarray:
    """A colour in CIELAB (D65), as an eye sees it."""
    srgb = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(EYES[eye]) @ linear, 0, 1)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    share = np.array(to_xyz) @ seen / (0.95047, 1, 1.08883)
    x, y, z = np.where(share > 216 / 24389, np.cbrt(share), (24389 / 27 * share + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def ciede2000(one: np.ndarray, other: np.ndarray) -> float:
    """The distance of two colours: 1 can just be seen. Sharma, Wu and Dalal, Color Research & Application 30 (2005)."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(mean**7 / (mean**7 + 25**7))
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0
    h = h1 + turn / 2 if c1 * c2 else h1 + h2
    l, c = (l1 + l2) / 2, (c1 + c2) / 2  # noqa: E741
    cosines = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.2, 4, -63))
    t = 1 + sum(weight * np.cos(np.radians(times * h + shift)) for weight, times, shift in cosines)
    lightness = (l2 - l1) / (1 + 0.015 * (l - 50) ** 2 / np.sqrt(20 + (l - 50) ** 2))
    chroma = (c2 - c1) / (1 + 0.045 * c)
    hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * c * t)
    around_blue = 60 * np.exp(-((((h % 360) - 275) / 25) ** 2))
    rotation = -2 * np.sqrt(c**7 / (c**7 + 25**7)) * np.sin(np.radians(around_blue))
    return float(np.sqrt(lightness**2 + chroma**2 + hue**2 + rotation * chroma * hue))


def in_the_dark(colour: str) -> str:
    """What JupyterLab's dark theme makes of a plot's colour, by the filter that a live view brings along."""
    [share] = re.findall(r"invert\(([\d.]+)\) hue-rotate\(180deg\)", widget._STYLE)
    half_turn = [[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]]  # W3C, Filter Effects, at 180°
    srgb = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    turned = np.clip(np.array(half_turn) @ (srgb + float(share) * (1 - 2 * srgb)), 0, 1)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in turned)


@pytest.mark.parametrize(
    ("one", "other", "distance"),  # of Sharma's test data
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, -0.001, 2.49), (50, 0.0011, -2.49), 4.7461),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_distances_are_those_of_the_published_pairs(one, other, distance):
    assert ciede2000(np.array(one), np.array(other)) == pytest.approx(distance, abs=1e-4)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("shape", "least"), [("badge", 10), ("slot", 4)])
def test_any_two_owners_can_be_told_apart_by_any_eye(shape, least, theme, eye):
    """The scratch block, the last, has a badge, and no token in its slots."""
    hues = range(len(OWNERS) + (shape == "badge"))
    seen = {hue: lab(colours(theme)[f"{shape}{hue}"], eye) for hue in hues}
    near = {pair: ciede2000(seen[pair[0]], seen[pair[1]]) for pair in combinations(hues, 2)}
    assert min(near.values()) >= least, sorted(near.items(), key=lambda item: item[1])[:3]


@pytest.mark.parametrize("theme", THEMES)
def test_an_owners_letter_can_be_read_on_its_colour_and_its_line_be_seen_on_the_paper(theme):
    look = colours(theme)
    for hue in range(len(OWNERS) + 1):
        assert contrast(look[f"on{hue}"], look[f"badge{hue}"]) >= 4.5
        assert contrast(look[f"line{hue}"], look["paper"]) >= 3


def test_the_programs_of_day_21_can_be_told_apart_and_named_on_their_colours():
    assert all(contrast(colour, {"white": "#ffffff", "black": "#000000"}[words]) >= 4.5 for colour, words in COLOURS)
    for (one, _), (other, _) in combinations(COLOURS, 2):
        assert min(ciede2000(lab(one, eye), lab(other, eye)) for eye in EYES) >= 10, (one, other)


@pytest.mark.parametrize("colour", ["#0072b2", "#d55e00", "#009e73"])
def test_what_the_text_calls_blue_or_orange_is_so_in_a_dark_plot_too(colour):
    (_, *before), (_, *after) = lab(colour), lab(in_the_dark(colour))
    turn = np.degrees(np.arctan2(*before[::-1]) - np.arctan2(*after[::-1]))
    assert abs((turn + 180) % 360 - 180) < 15


@pytest.mark.parametrize("paper", PAPERS)
def test_a_verdicts_bar_and_sign_can_be_seen_on_every_page_and_its_words_have_the_pages_own_colour(paper):
    for status, colour in verdict._COLOUR.items():
        assert contrast(colour, PAPERS[paper]) >= 3, status
        html = verdict.Verdict("1.1 · A task", status, "It is so.", "Go on.", stage="a stage", slip="a slip").html()
        assert re.findall(r"(?<![-\w])color:([^;\"]+)", html) == ["var(--jp-ui-font-color1,inherit)", colour]
        assert f'<span style="color:{colour}">{verdict.SIGN[status]}</span>' in html
