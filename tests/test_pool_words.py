"""Every word in every picture can be read: in both themes, on whatever it lies, and with nothing drawn across it."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nanoserve import BlockAllocator, BlockTable
from nanoserve.course.exercises.day20.picture import program_picture
from nanoserve.course.view.accesses import draw_accesses
from nanoserve.course.view.moments import Moments
from nanoserve.course.view.reservations import Reservations
from nanoserve.course.view.route_widget import follow_position
from nanoserve.course.view.state import PoolEvent, PoolSequence, PoolState
from nanoserve.course.view.svg import draw_pool
from nanoserve.course.view.theme import contrast
from nanoserve.course.view.timeline_svg import draw_timelines
from nanoserve.course.view.watch import watch
from tests.test_day23 import recorded
from tests.test_kernel_view import COPY, a_run, access
from tests.test_pool_svg import SIX, SVG, Box, rect_box, text_box

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "figures"))
from gather import gather
from memory_wall import memory_wall
from online_softmax import online_softmax
from serving import serving


def pool(num_blocks, **changes):
    """A pool that all the letters of the palette share, and a broken one."""
    held = num_blocks // 8
    owners = [
        PoolSequence.of(letter, range(place * held, (place + 1) * held), 16 * held - 9, 16)
        for place, letter in enumerate("ABCDEFG")
    ]
    events = tuple(PoolEvent(kind, "A", f"A is in an event, {kind}") for kind in ("take", "append", "free", "fault"))
    return replace(
        PoolState(num_blocks, 16, tuple(owners), tuple(range(7 * held, num_blocks)), 7 * held, events=events, step=4),
        **changes,
    )


def followed(position, theme):
    allocator = BlockAllocator(8, 4)
    view, table, other = watch(allocator), BlockTable(allocator), BlockTable(allocator)
    view.follow("A", table, ["It", "has", "words", "of", "its", "own", "here", ",", "for", "the", "slots"])
    view.follow("B", other)
    table.append(5)
    other.append(3)
    table.append(6)
    return follow_position(view, "A", position).svg(theme=theme)


def timeline(at, theme, num_slots=2, **settings):
    return draw_timelines({"": recorded(num_slots=num_slots, **settings)[0]}, at, theme)


TOUCHED = (*COPY[:3], access(1, "write", "y", 1), access(1, "read", "x", 4, outside=True))
PICTURES = {
    **{f"pool of {n} blocks": lambda theme, n=n: draw_pool(pool(n), theme) for n in (8, 16, 64, 256, 320)},
    "pool with a text": lambda theme: draw_pool(
        replace(SIX, sequences=(PoolSequence.of("G", [1, 2], 20, 16, ["word"] * 20), *SIX.sequences[:1])), theme
    ),
    "broken pool": lambda theme: draw_pool(pool(16, free=(1, 15)), theme),
    "route": lambda theme: followed(6, theme),
    "moments": lambda theme: Moments({"first": SIX, "then": replace(SIX, free=())}).svg(theme),
    "timeline": lambda theme: timeline(2, theme),
    "timeline with a preemption": lambda theme: timeline(None, theme, lengths=(9, 9), num_blocks=4),
    "timeline of narrow bars": lambda theme: timeline(
        40, theme, lengths=(2, 3) * 20 + (70,), num_slots=3, num_blocks=60
    ),
    "accesses": lambda theme: draw_accesses(a_run(*TOUCHED), None, theme),
    "accesses of one program": lambda theme: draw_accesses(a_run(*TOUCHED), (1, 0, 0), theme),
    "reservations": lambda theme: Reservations([300, 900], 1024, lambda lengths, most: 0.5, 46_080).svg(theme=theme),
    "one program": program_picture,
    "gather": gather,
    "memory wall": memory_wall,
    "online softmax": online_softmax,
    "serving": serving,
}


def fills(tree):
    """Class -> its fill, as the drawing's own style sheet has it."""
    rules = re.findall(r"\.pool-\w+ \.(\w+)\{([^}]*)\}", tree.find(f"{SVG}style").text)
    return {name: fill[1] for name, rule in rules if (fill := re.search(r"fill:([^;]+)", rule))}


def grounds(text, below, fill):
    """The colours under a text's begin, middle and end: each that of the last shape painted there."""
    y = (text.top + text.bottom) / 2
    spots = [Box(x, y, x, y) for x in (text.left + 1, (text.left + text.right) / 2, text.right - 1)]
    return {next(fill[look] for look, box in reversed(below) if box.holds(spot, 0)) for spot in spots}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PICTURES)
def test_every_word_stands_out_from_what_it_lies_on(name, theme):
    tree = ElementTree.fromstring(PICTURES[name](theme))
    fill, below, faint = fills(tree), [], []
    for shape in tree.iter():
        look = shape.get("class", "").split()
        if shape.tag == f"{SVG}rect" and fill[look[0]] != "none":
            below.append((look[0], rect_box(shape)))
        elif shape.tag == f"{SVG}text":
            for ground in grounds(text_box(shape), below, fill):
                if contrast(fill[look[0]], ground) < 4.5:
                    faint.append((shape.text, look[0], ground, round(contrast(fill[look[0]], ground), 2)))
    assert not faint


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_drawn_over_a_word_and_no_edge_runs_through_one(name):
    tree = ElementTree.fromstring(PICTURES[name]("light"))
    painted = [shape for shape in tree.iter() if shape.tag in (f"{SVG}rect", f"{SVG}text")]
    covered = []
    for place, text in enumerate(painted):
        if text.tag != f"{SVG}text":
            continue
        box = text_box(text)
        for later in painted[place + 1 :]:
            if later.tag == f"{SVG}rect" and box.meets(rect_box(later)) and not only_around(later, box):
                covered.append((text.text, later.get("class")))
    assert not covered


def only_around(shape, box):
    """A frame without a fill that has the whole text inside."""
    return shape.get("class") in ("here", "broken") and rect_box(shape).holds(box)
