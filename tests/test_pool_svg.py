"""The picture, read back from its XML: nothing outside its box, nothing over anything else, every block once."""

import re
from dataclasses import dataclass, replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanoserve.course.view.shapes import WIDTH
from nanoserve.course.view.state import HeldBlock, PoolEvent, PoolSequence, PoolState
from nanoserve.course.view.svg import draw_pool
from nanoserve.course.view.theme import hue_of
from tests.test_pool_state import pool_states
from tests.test_pool_text import advance

SVG = "{http://www.w3.org/2000/svg}"
WORDS = [
    "Paged",
    " attention",
    "\n\n",
    " internationalization",
    " 你好世界朋友们",
    "👩\u200d👩\u200d👧\u200d👦👍🏽👍🏽👍🏽👍🏽",
    "naïve",
    "<b>&",
    "\x00",
]
SIX = PoolState(
    6,
    16,
    (PoolSequence.of("B", [3, 4], 20, 16), PoolSequence.of("C", [5], 16, 16), PoolSequence.of("D", [2, 1], 30, 16)),
    free=(0,),
    peak=6,
    focus="D",
    events=(
        PoolEvent("take", "D", "D takes 30 tokens: blocks 2 1"),
        PoolEvent("error", "", "allocate_for(99) raised KVCacheExhausted: " + "very full " * 30),
    ),
    step=1,
)


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: "Box", slack: float = 0.6) -> bool:
        return (
            self.left - slack <= other.left
            and other.right <= self.right + slack
            and self.top - slack <= other.top
            and other.bottom <= self.bottom + slack
        )

    def meets(self, other: "Box") -> bool:
        return (
            min(self.right, other.right) - max(self.left, other.left) > 0.6
            and min(self.bottom, other.bottom) - max(self.top, other.top) > 0.6
        )


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def groups(tree: ElementTree.Element, look: str) -> list[ElementTree.Element]:
    return [group for group in tree.iter(f"{SVG}g") if group.get("class") == look]


def rect_box(rect: ElementTree.Element) -> Box:
    x, y, width, height = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
    return Box(x, y, x + width, y + height)


def text_box(text: ElementTree.Element) -> Box:
    """Where a text stands: its own `textLength`, or else the widths that FreeType reads from the font."""
    x, y, size = (float(text.get(name)) for name in ("x", "y", "font-size"))
    look = text.get("class").split()
    face = "DejaVuSansMono" if "mono" in look else "DejaVuSans-Bold" if "bold" in look else "DejaVuSans"
    exact = text.get("textLength")
    width = float(exact) if exact else size * sum(advance(char, face) for char in text.text)
    left = {"start": x, "middle": x - width / 2, "end": x - width}[text.get("text-anchor", "start")]
    return Box(left, y - 0.74 * size, left + width, y + 0.2 * size)


def check_geometry(svg: str) -> None:
    tree = parse(svg)
    width, height = map(float, tree.get("viewBox").split()[2:])
    page = Box(0, 0, width, height)
    texts = {text: text_box(text) for text in tree.iter(f"{SVG}text")}
    for text, box in texts.items():
        assert page.holds(box, 0), text.text
    for shape in tree.iter(f"{SVG}rect"):
        assert page.holds(rect_box(shape), 0)
    for look in ("block", "slot"):
        for group in groups(tree, look):
            frame = rect_box(next(group.iter(f"{SVG}rect")))
            for text in group.iter(f"{SVG}text"):
                assert frame.holds(texts[text]), (look, text.text)
            for shape in group.iter(f"{SVG}rect"):
                assert frame.holds(rect_box(shape))
    boxes = list(texts.items())
    for place, (text, box) in enumerate(boxes):
        for other, other_box in boxes[place + 1 :]:
            assert not box.meets(other_box), (text.text, other.text)
    blocks = groups(tree, "block")
    frames = [rect_box(next(group.iter(f"{SVG}rect"))) for group in blocks]
    inside = {text for group in blocks for text in group.iter(f"{SVG}text")}
    around = [box for text, box in boxes if text not in inside]
    around += [rect_box(mark) for strip in groups(tree, "strip") for mark in strip.iter(f"{SVG}rect")]
    assert not any(frame.meets(box) for frame in frames for box in around)
    assert not any(a.meets(b) for place, a in enumerate(frames) for b in frames[place + 1 :])


@settings(max_examples=100)
@given(pool_states(), st.booleans(), st.data())
def test_nothing_is_clipped_and_nothing_overlaps(state, room_for_text, data):
    kinds = st.sampled_from(["take", "append", "free", "error", "fault"])
    events = data.draw(
        st.lists(st.builds(PoolEvent, kinds, st.sampled_from("AB?"), st.text("Wil 0", max_size=150)), max_size=5)
    )
    step = data.draw(st.integers(0, len(events)))
    check_geometry(draw_pool(replace(state, room_for_text=room_for_text, events=tuple(events), step=step)))


@pytest.mark.parametrize("num_blocks", [1, 2, 4, 6, 8, 12, 13, 20, 30, 64, 65, 256, 257, 1024, 5000])
@pytest.mark.parametrize("block_size", [1, 16])
def test_a_pool_of_any_size_is_drawn_and_every_block_once(num_blocks, block_size):
    state = PoolState(
        num_blocks, block_size, (PoolSequence.of("A", [0], 1, block_size),), tuple(range(1, num_blocks)), 1
    )
    svg = draw_pool(state)
    drawn = [re.match(r"block (\d+):", group.find(f"{SVG}title").text)[1] for group in groups(parse(svg), "block")]
    assert drawn == [str(block_id) for block_id in range(min(num_blocks, 1024))]
    assert ("3,976 more blocks" in svg) == (num_blocks == 5000)


@pytest.mark.parametrize(("num_blocks", "block_size"), [(8, 4), (3, 1), (6, 16), (18, 5), (32, 32)])
def test_a_token_never_leaves_its_slot(num_blocks, block_size):
    texts = WORDS * (num_blocks * block_size // len(WORDS) + 1)
    state = PoolState(num_blocks, block_size, (PoolSequence.of("A", range(num_blocks), 10**6, block_size, texts),), ())
    svg = draw_pool(state)
    check_geometry(svg)
    slots = groups(parse(svg), "slot")
    assert len(slots) == num_blocks * block_size
    assert "".join(slots[1].itertext()).startswith("·attention")  # the whole text is the slot's title
    for text in (text for slot in slots for text in slot.iter(f"{SVG}text")):
        assert text.get("textLength")


def header(state: PoolState) -> dict[str, str]:
    """Name -> value of the numbers at the top: two lines, each value over its name."""
    lines = [
        [text for text in parse(draw_pool(state)).iter(f"{SVG}text") if float(text.get("y")) == y] for y in (38, 62)
    ]
    values, names = ({text.get("x"): text.text for text in line} for line in lines)
    return {names[x]: values[x] for x in values if x != "22"}


def test_the_numbers_at_the_top_say_what_they_count():
    assert header(SIX) == {"free": "1", "used": "5", "peak": "6", "tokens in the used blocks": "66 of 80 slots"}


def test_a_lost_block_has_a_number_of_its_own_at_the_top():
    counted = header(replace(SIX, free=()))
    assert [*counted] == ["faults", "lost", "free", "used", "peak", "tokens in the used blocks"]
    assert (counted["lost"], counted["free"], counted["used"]) == ("1", "0", "5")


def test_large_numbers_have_commas_and_nothing_of_them_is_cut():
    sequence = PoolSequence.of("A", range(1000), 15_999, 16)
    state = PoolState(16_384, 16, (sequence,), tuple(range(1000, 16_384)), 12_345)
    svg = draw_pool(state)
    check_geometry(svg)
    assert header(state) == {
        "free": "15,384",
        "used": "1,000",
        "peak": "12,345",
        "tokens in the used blocks": "15,999 of 16,000 slots",
    }
    assert ">15,999 tokens, 1,000 blocks</text>" in svg


def test_filled_slots_are_told_from_free_ones():
    tree = parse(draw_pool(SIX))
    looks = {}
    for group in groups(tree, "block"):
        name = group.find(f"{SVG}title").text.split(":")[0]
        looks[name] = [rect.get("class") for rect in group.iter(f"{SVG}rect")]
    orange = hue_of("B")
    assert looks["block 4"].count(f"slot{orange}") == 4
    assert looks["block 4"].count(f"open{orange}") == 12
    assert looks["block 3"].count(f"slot{orange}") == 16


def test_each_block_shows_its_owners_letter():
    blocks = groups(parse(draw_pool(SIX)), "block")
    letters = [next(text.text for text in block.iter(f"{SVG}text")) for block in blocks]
    assert letters == ["block 0", "D", "D", "B", "B", "C"]


@pytest.mark.parametrize("num_blocks", [6, 64, 256])
def test_a_long_error_is_shortened(num_blocks):
    svg = draw_pool(replace(SIX, num_blocks=num_blocks, step=2))
    check_geometry(svg)
    assert svg.count("…</text>") >= 2  # in the caption and in the log


def test_a_block_handed_out_twice_shows_both_letters_and_says_so():
    state = PoolState(6, 16, (PoolSequence.of("A", [0, 1], 20, 16), PoolSequence.of("B", [1], 9, 16)), (2, 3, 4, 5))
    block = groups(parse(draw_pool(state)), "block")[1]
    assert {text.text for text in block.iter(f"{SVG}text")} == {"A", "B", "block 1", "handed out twice"}
    assert block.find(f"{SVG}path").get("class") == "hatch"
    assert "broken" in [rect.get("class") for rect in block.iter(f"{SVG}rect")]


def test_a_block_taken_without_known_tokens_is_drawn_as_taken():
    state = PoolState(6, 16, (PoolSequence("A", (HeldBlock(0),)),), (1, 2, 3, 4, 5), 1)
    block = groups(parse(draw_pool(state)), "block")[0]
    assert [text.text for text in block.iter(f"{SVG}text")] == ["A", "block 0", "taken"]
    assert "not known" in draw_pool(state)


@given(pool_states())
def test_the_same_state_gives_the_same_bytes(state):
    assert draw_pool(state) == draw_pool(replace(state))


def test_the_size_depends_on_the_pool_alone():
    empty = PoolState(6, 16, free=tuple(range(6)))
    assert parse(draw_pool(empty)).get("viewBox") == parse(draw_pool(SIX)).get("viewBox")
    assert parse(draw_pool(empty)).get("width") == str(WIDTH)


def test_the_picture_speaks():
    tree = parse(draw_pool(SIX))
    assert tree.get("role") == "img"
    assert tree.find(f"{SVG}title").text == "Pool of 6 blocks \u00d7 16 slots"
    assert "D holds blocks 2 1 with 30 tokens" in tree.find(f"{SVG}desc").text


def test_the_present_event_is_marked_and_those_to_come_are_pale():
    tree = parse(draw_pool(SIX))
    strip = groups(tree, "strip")[0]
    assert [rect.get("class") for rect in strip.iter(f"{SVG}rect")] == [f"done{hue_of('D')}", "here", "rest"]
    caption = next(groups(tree, "caption")[0].iter(f"{SVG}text"))
    assert caption.text == "step 1 of 2 · D takes 30 tokens: blocks 2 1"


def test_files_have_literal_colours_and_pages_have_both_themes():
    assert "var(" not in draw_pool(SIX, "light")
    assert "var(" not in draw_pool(SIX, "dark")
    assert draw_pool(SIX, "light") != draw_pool(SIX, "dark")
    assert "[data-jp-theme-light='false'] .pool-auto" in draw_pool(SIX)
    with pytest.raises(ValueError, match="sepia"):
        draw_pool(SIX, "sepia")


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
@pytest.mark.parametrize(
    "state", [SIX, replace(SIX, step=2), replace(SIX, free=(3,)), PoolState(64, 16, SIX.sequences)]
)
def test_every_class_that_is_drawn_has_a_rule(state, theme):
    tree = parse(draw_pool(state, theme))
    rules = set(re.findall(rf"\.pool-{theme} \.(\w+)\{{", tree.find(f"{SVG}style").text))
    shapes = [*tree.iter(f"{SVG}rect"), *tree.iter(f"{SVG}text"), *tree.iter(f"{SVG}path")]
    assert {look for shape in shapes for look in shape.get("class").split()} <= rules
