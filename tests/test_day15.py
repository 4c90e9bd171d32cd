"""Day 15's arrows, read back from their XML: they start and end where the block table says. And its planted fault."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanoserve import BlockAllocator, BlockTable
from nanoserve.course.exercises.day15.planted import SuspectTable
from nanoserve.course.view.png import to_png
from nanoserve.course.view.route_widget import follow_position
from nanoserve.course.view.watch import watch
from tests.answers import day14
from tests.test_pool_svg import SVG, Box, groups, parse, rect_box, text_box


def scene(num_blocks=8, block_size=4, num_tokens=20, order=(4, 6, 1, 7, 0, 3, 5, 2), others=6, make=BlockAllocator):
    """A's tokens t0, t1 … in a scattered pool, behind B's."""
    allocator = make(num_blocks, block_size)
    allocator.allocate_for(num_blocks * block_size)
    allocator.free_all(order)
    view = watch(allocator)
    for label, length in (("B", others), ("A", num_tokens)):
        table = BlockTable(allocator)
        view.follow(label, table, [f"t{p}" if label == "A" else f"b{p}" for p in range(length)])
        table.append(length)
    return view


def arrows(tree):
    """Start and tip of both arrows: the first point of the line, and of the head."""
    for arrow in groups(tree, "arrow"):
        line, head = (
            [tuple(map(float, point)) for point in re.findall(r"([\d.]+) ([\d.]+)", path.get("d"))]
            for path in arrow.iter(f"{SVG}path")
        )
        yield line[0], head[0]


def marked(tree):
    """The boxes of the token, the entry and the slot that are marked, in this order."""
    return [rect_box(rect) for rect in tree.iter(f"{SVG}rect") if rect.get("class") == "here"]


def below(box: Box) -> tuple[float, float]:
    return (box.left + box.right) / 2, box.bottom


def above(box: Box) -> tuple[float, float]:
    return (box.left + box.right) / 2, box.top


def words_in(tree, box):
    return [text.text for text in tree.iter(f"{SVG}text") if box.holds(text_box(text))]


def check_route(view, p):
    table, size = view.tables["A"], view.allocator.block_size
    tree = parse(follow_position(view, "A", p).svg())
    token, entry, slot = marked(tree)
    (start, into_table), (out_of_table, tip) = arrows(tree)
    for came, expected in (
        (start, below(token)),
        (into_table, above(entry)),
        (out_of_table, below(entry)),
        (tip, above(slot)),
    ):
        assert came == pytest.approx(expected, abs=1.1)
    block_id, offset = table.position(p)
    assert words_in(tree, entry) == [f"entry {p // size}", f"block {block_id}"]
    titles = [
        (rect_box(group.find(f"{SVG}rect")), group.find(f"{SVG}title").text)
        for group in groups(tree, "slot")
        if group.find(f"{SVG}title").text == f"t{p}"
    ]
    assert [title for box, title in titles if token.holds(box) or slot.holds(box)] == [f"t{p}", f"t{p}"]
    number = str(block_id * size + offset)
    [under_the_slot] = [
        text
        for text in tree.iter(f"{SVG}text")
        if text.text == number and text_box(text).top > slot.bottom and "ink" in text.get("class")
    ]
    assert float(under_the_slot.get("x")) == pytest.approx((slot.left + slot.right) / 2, abs=0.1)


@pytest.mark.parametrize("p", range(20))
def test_the_arrows_go_from_the_token_by_its_entry_to_its_slot(p):
    check_route(scene(), p)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_in_a_pool_of_any_shape_too(data):
    num_blocks, block_size = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 16))
    order = data.draw(st.permutations(range(num_blocks)))
    num_tokens = data.draw(st.integers(1, num_blocks * block_size))
    check_route(scene(num_blocks, block_size, num_tokens, order, others=0), data.draw(st.integers(0, num_tokens - 1)))


@pytest.mark.parametrize("answer", [right.answer for right in day14.RIGHT if right.task == "14.4"])
def test_over_an_allocator_that_a_learner_wrote(answer):
    for p in (0, 17, 19):
        check_route(scene(make=answer), p)


@pytest.mark.parametrize(("num_blocks", "block_size"), [(8, 4), (3, 16), (20, 1), (10, 7)])
@pytest.mark.parametrize("theme", ["light", "dark", "auto"])
def test_no_text_leaves_the_page_or_lies_over_another(num_blocks, block_size, theme):
    length = num_blocks * block_size
    view = scene(num_blocks, block_size, length, range(num_blocks), others=0)
    tree = parse(follow_position(view, "A", length - 1).svg(theme=theme))
    page = Box(0, 0, *map(float, tree.get("viewBox").split()[2:]))
    boxes = [text_box(text) for text in tree.iter(f"{SVG}text")]
    assert all(page.holds(box) for box in boxes)
    assert not any(a.meets(b) for place, a in enumerate(boxes) for b in boxes[place + 1 :])


def test_no_arrow_crosses_a_text():
    for p in range(20):
        tree = parse(follow_position(scene(), "A", p).svg())
        texts = [(text.text, text_box(text)) for text in tree.iter(f"{SVG}text")]
        for arrow in groups(tree, "arrow"):
            path = next(arrow.iter(f"{SVG}path")).get("d")
            points = [tuple(map(float, point)) for point in re.findall(r"([\d.]+) ([\d.]+)", path)]
            for (x, y), (to_x, to_y) in pairwise(points):
                line = Box(min(x, to_x) - 1, min(y, to_y) - 1, max(x, to_x) + 1, max(y, to_y) + 1)
                assert [words for words, box in texts if line.meets(box)] == [], (p, line)


def test_the_picture_says_what_the_table_says():
    view = scene()
    told = follow_position(view, "A", 17).svg()
    assert ElementTree.fromstring(told).get("aria-label") == (
        "A's position 17 belongs to entry 4 of the block table, which is block 6; "
        "there it has offset 1, so slot 25 of the pool."
    )
    for line in ("17 // 4 = 4", "block_ids[4] = 6", "17 % 4 = 1", "6 × 4 + 1 = 25"):  # noqa: RUF001
        assert f">{line}</text>" in told


def test_the_same_route_gives_the_same_bytes():
    first, second = (follow_position(scene(), "A", 17).svg(theme="light") for _ in range(2))
    assert first == second
    assert to_png(first) == to_png(second)


def test_the_route_stays_as_it_was_when_the_sequence_goes():
    view = scene()
    routes = follow_position(view, "A", 17)
    before = routes.svg(3)
    view.tables["A"].free()
    assert routes.svg(3) == before


def test_a_position_outside_the_sequence_is_the_tables_own_error():
    with pytest.raises(IndexError, match="position 20 is outside a sequence of length 20"):
        follow_position(scene(), "A", 20)


@pytest.mark.parametrize(("block_size", "steps"), [(4, [6, 4]), (1, [6, 1]), (4, [5, 1, 6])])
def test_the_picture_shows_what_the_planted_table_does_wrong(block_size, steps):
    allocator = BlockAllocator(12, block_size)
    view = watch(allocator)
    suspect = SuspectTable(allocator)
    view.follow("A", suspect)
    for step in steps:
        suspect.append(step)
    lost = suspect.num_tokens - len(suspect.block_ids) * block_size
    assert lost > 0
    assert [event.kind for event in view.events[:-1]] == ["take", "append"][: len(steps) - 1]
    assert view.events[-1].kind == "fault"
    assert f"; {lost} token{'s' if lost > 1 else ''} of A without a slot" in view.events[-1].text


@pytest.mark.parametrize("prompt", range(1, 9))
def test_the_planted_table_is_right_for_a_prompt_and_then_token_by_token(prompt):
    table, suspect = BlockTable(BlockAllocator(8, 4)), SuspectTable(BlockAllocator(8, 4))
    for step in (prompt, *[1] * 20):
        suspect.append(step)
        table.append(step)
        assert (suspect.block_ids, suspect.num_tokens) == (table.block_ids, table.num_tokens)


def test_the_slider_moves_the_arrows(monkeypatch):
    shown = []
    monkeypatch.setattr(
        "nanoserve.course.view.route_widget.show_picture", lambda svg, words, live: shown.append(live())
    )
    routes = follow_position(scene(), "A", 17)
    routes._ipython_display_()
    picture, slider = shown[0].children
    assert routes.svg(17) in picture.value
    slider.value = 2
    assert routes.svg(2) in picture.value
    assert "Position 2 → slot 14" in picture.value
