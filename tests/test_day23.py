"""What Day 23 brings of its own: the timeline that is recorded from any engine, its picture, and the planted fault."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

import nanoserve
from nanoserve import Engine, Scheduler, SlotKVCache
from nanoserve.course.checking import examine
from nanoserve.course.exercises.day23.planted import SuspectScheduler
from nanoserve.course.exercises.day23.stand_in import CountingModel
from nanoserve.course.exercises.day23.traffic import engine_over, feed, lengths_of
from nanoserve.course.tasks import find
from nanoserve.course.view.svg import draw_pool
from nanoserve.course.view.theme import hue_of
from nanoserve.course.view.timeline import Timeline
from nanoserve.course.view.timeline_panel import Timelines
from nanoserve.course.view.timeline_svg import Bar, draw_timelines, slot_bars, waiting_bars, words
from tests.answers.day23 import ALIKE

LENGTHS = (9, 3, 6)


class Static(Scheduler):
    def next_in_line(self):
        return [] if self.running else super().next_in_line()


def engine(num_slots=2, num_blocks=8, scheduler=Scheduler, model=None):
    return engine_over(model or CountingModel(), num_slots, num_blocks, scheduler, block_size=4)


def recorded(lengths=LENGTHS, prompt=(10,), **settings):
    made = engine(**settings)
    timeline = Timeline(made)
    requests = [made.submit(list(prompt), num_new) for num_new in lengths]
    made.run()
    return timeline, requests


def groups(svg, kind):
    svg_names = "{http://www.w3.org/2000/svg}"
    found = [group for group in ElementTree.fromstring(svg).iter(f"{svg_names}g") if group.get("class") == kind]
    return [group.find(f"{svg_names}title").text for group in found]


def letters_in(svg, kind):
    svg_names = "{http://www.w3.org/2000/svg}"
    found = [group for group in ElementTree.fromstring(svg).iter(f"{svg_names}g") if group.get("class") == kind]
    return [words.text for group in found for words in group.iter(f"{svg_names}text")]


def test_a_bar_is_a_stay_in_a_slot():
    timeline, _ = recorded()
    assert set(slot_bars(timeline.steps)) == {Bar(0, "A", 0, 8), Bar(1, "B", 0, 2), Bar(1, "C", 2, 7)}
    assert waiting_bars(timeline.steps) == [Bar(0, "C", 0, 2)]


def test_static_batching_leaves_a_slot_idle_until_the_longest_is_done():
    timeline, _ = recorded(scheduler=Static)
    assert set(slot_bars(timeline.steps)) == {Bar(0, "A", 0, 8), Bar(1, "B", 0, 2), Bar(0, "C", 8, 13)}
    assert words({"static": timeline}) == "static: 13 steps of 2 slots: 15 of 26 rows gave a token, 58%"


def test_a_stay_that_ends_in_the_line_was_a_preemption():
    timeline, requests = recorded((9, 9), num_blocks=4)
    preempted = [bar for bar in slot_bars(timeline.steps) if bar.preempted]
    assert preempted == [Bar(1, "B", 0, 7, preempted=True)]
    assert [len(request.tokens) for request in requests] == [9, 9]
    assert words({"": timeline}).endswith("1 preemption")
    assert any(
        "then it is preempted" in title for title in groups(draw_timelines({"": timeline}, theme="light"), "bar")
    )


def test_a_step_that_raised_leaves_no_mark():
    model = CountingModel()
    made = engine(model=model)
    timeline = Timeline(made)
    made.submit([10], 5)
    made.step()
    model.fails = True
    with pytest.raises(RuntimeError, match="planted"):
        made.step()
    model.fails = False
    made.run()
    assert len(timeline.steps) == made.stats.steps == 4


def test_a_request_is_called_by_its_own_id_where_it_has_a_name():
    made = engine()
    timeline = Timeline(made)
    made.submit([10], 3, request_id="Ada")
    made.submit([10], 3)
    made.run()
    assert timeline.steps[0].running == {0: "Ada", 1: "A"}


def test_the_pool_follows_the_steps():
    timeline, _ = recorded(prompt=(10, 11, 12))
    first, last = timeline.pool(1), timeline.pool(8)
    assert [(s.label, s.num_tokens) for s in first.sequences] == [("scratch", 0), ("A", 4), ("B", 4)]
    assert [(s.label, s.num_tokens) for s in last.sequences] == [("scratch", 0), ("A", 11)]
    assert first.faults == last.faults == {}
    assert first.events[0].text == "2 of 2 slots decode; A B came in"
    assert timeline.pool(3).events[2].text == "2 of 2 slots decode; B left; C came in"


def test_contiguous_slots_have_a_timeline_too():
    model = CountingModel()
    made = Engine(model, SlotKVCache(model, 2, max_len=16))
    timeline = Timeline(made)
    for num_new in LENGTHS:
        made.submit([10], num_new)
    made.run()
    assert len(timeline.steps) == 8
    assert [sequence.label for sequence in timeline.pool(1).sequences] == ["A", "B"]


def test_a_scheduler_of_the_learners_own_is_recorded():
    class Own(nanoserve.Scheduler):
        def next_in_line(self):
            return super().next_in_line()[:1]

    timeline, _ = recorded(scheduler=Own)
    assert timeline.steps[0].running == {0: "A"}
    assert timeline.steps[1].running == {0: "A", 1: "B"}


def test_the_picture_has_a_bar_for_each_stay_and_the_same_steps_give_the_same_bytes():
    timeline, _ = recorded()
    svg = draw_timelines({"": timeline}, at=3, theme="light")
    assert sorted(groups(svg, "bar")) == [
        "A in slot 0, steps 1 to 8",
        "B in slot 1, steps 1 to 2",
        "C in slot 1, steps 3 to 7",
    ]
    assert groups(svg, "wait") == ["C waits, number 1 in line, steps 1 to 2"]
    assert svg == draw_timelines({"": recorded()[0]}, at=3, theme="light")
    assert svg != draw_timelines({"": timeline}, at=4, theme="light")


def test_a_box_in_the_line_has_its_whole_label_or_none():
    shown = []
    for longest in (80, 150):
        made = engine(num_slots=1, num_blocks=60)
        timeline = Timeline(made)
        for name, num_new in (("first", 2), ("second", 2), (None, longest)):
            made.submit([10], num_new, request_id=name)
        made.run()
        svg = draw_timelines({"": timeline}, theme="light")
        assert len(groups(svg, "wait")) == 3  # "second" for a step; "A" for two, in two places
        shown.append(letters_in(svg, "wait"))
    assert shown == [["A", "A"], []]


def test_the_scratch_block_has_a_colour_of_its_own_and_no_tokens():
    timeline, _ = recorded()
    assert hue_of("scratch") not in {hue_of(chr(letter)) for letter in range(ord("A"), ord("Z") + 1)}
    assert groups(draw_pool(timeline.pool(1), "light"), "block")[0] == "block 0: scratch, 0 of 4 places filled"


def test_timelines_share_one_scale():
    pictures = Timelines({"static": recorded(scheduler=Static)[0], "continuous": recorded()[0]})
    svg_names = "{http://www.w3.org/2000/svg}"
    bars = [group for group in ElementTree.fromstring(pictures.svg(theme="light")).iter(f"{svg_names}g")]
    widths = {
        group.find(f"{svg_names}rect").get("width")
        for group in bars
        if group.get("class") == "bar" and group.find(f"{svg_names}title").text.startswith("A ")
    }
    assert len(widths) == 1


def test_an_engine_that_has_not_run_says_so(capsys):
    Timeline(engine())._ipython_display_()
    assert capsys.readouterr().out == "no decode step yet\n"


def test_the_planted_scheduler_starves_the_one_who_needs_most_and_breaks_nothing_else():
    arrivals = [(3 * number, 6, 14) for number in range(18)]
    arrivals.insert(4, (10, 56, 10))
    waited = {}
    for scheduler in (SuspectScheduler, Scheduler):
        made = engine_over(CountingModel(), 5, 12, scheduler)
        timeline = Timeline(made)
        requests = feed(made, arrivals)
        assert all(request.tokens == list(range(2, 2 + request.run.max_new_tokens)) for request in requests)
        assert made.slots.allocator.num_used == 1
        waited[scheduler] = [sum(label in step.waiting for step in timeline.steps) for label in "ABCDEFGHIJKLMNOPQRS"]
    assert waited[SuspectScheduler].index(max(waited[SuspectScheduler])) == 4
    assert max(waited[SuspectScheduler]) > 5 * max(waited[Scheduler])
    assert sum(waited[SuspectScheduler]) < sum(waited[Scheduler])


def test_lengths_have_the_spread_that_was_asked_for():
    assert lengths_of(5, 16, 0) == [16] * 5
    lengths = lengths_of(2000, 16, 0.5)
    mean = sum(lengths) / 2000
    deviation = (sum((length - mean) ** 2 for length in lengths) / 2000) ** 0.5
    assert mean == pytest.approx(16, rel=0.05)
    assert deviation / mean == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("wrong", ALIKE, ids=lambda wrong: f"{wrong.task}-{wrong.answer.__name__}")
def test_another_way_into_a_slip_is_told_the_same(wrong):
    verdict = examine(replace(find(wrong.task), seconds=60), wrong.answer)
    assert (verdict.status, verdict.slip_id) == ("not yet", wrong.slip), verdict.text()
