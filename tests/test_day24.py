"""What Day 24 brings of its own: engines of a learner's own parts, the numbers of its questions, the planted fault."""

from dataclasses import replace

import pytest

import nanoserve
from nanoserve import Engine, KVPool, PagedSlotKVCache, Scheduler, SlotKVCache, Slots
from nanoserve.course.checking import examine
from nanoserve.course.exercises.day23.stand_in import CountingModel
from nanoserve.course.exercises.day23.traffic import feed
from nanoserve.course.exercises.day24.planted import SuspectScheduler
from nanoserve.course.exercises.day24.traffic import engine_of, over_pages, over_rows, put_together
from nanoserve.course.exercises.day24.trial import Prefiller
from nanoserve.course.tasks import find
from nanoserve.course.view.timeline import Timeline
from nanoserve.course.view.timeline_svg import Bar, slot_bars
from tests.answers.day24 import ALIKE


class Own(nanoserve.Slots):
    """A learner's slots: whether they were asked is counted."""

    asked = 0

    def reserve_step(self):
        self.asked += 1
        return super().reserve_step()


def run(engine, lengths, prompt=(1, 2, 3, 4)):
    timeline = Timeline(engine)
    requests = [engine.submit(list(prompt), num_new) for num_new in lengths]
    engine.run()
    return timeline, requests


def test_the_references_books_need_no_class_of_their_own():
    assert over_pages(Slots) is PagedSlotKVCache
    assert over_rows(Slots) is SlotKVCache


@pytest.mark.parametrize("over", [over_pages, over_rows])
def test_a_learners_books_stand_over_either_memory(over):
    model = CountingModel()
    memory = (KVPool.for_model(model, 20, 4), 2) if over is over_pages else (model, 2, 16)
    engine = put_together(model, over(Own)(*memory), Scheduler, Engine)
    _, requests = run(engine, (8, 5, 3))
    assert [request.tokens for request in requests] == [list(range(5, 5 + num_new)) for num_new in (8, 5, 3)]
    assert engine.slots.asked == engine.stats.steps


def test_an_engine_is_made_of_the_classes_that_were_given():
    class OwnScheduler(Scheduler):
        pass

    class OwnEngine(Engine):
        pass

    engine = engine_of(CountingModel(), 2, 8, Own, OwnScheduler, OwnEngine)
    assert (type(engine), type(engine.scheduler)) == (OwnEngine, OwnScheduler)
    assert isinstance(engine.slots, Own)
    assert isinstance(engine.slots, PagedSlotKVCache)
    assert engine.stats.blocks_free == 8


def test_the_small_picture_shows_one_preemption():
    timeline, _ = run(engine_of(CountingModel(), 2, 3, block_size=4), (9, 9), prompt=(1, 2))
    assert set(slot_bars(timeline.steps)) == {Bar(1, "B", 0, 2, preempted=True), Bar(0, "A", 0, 8), Bar(0, "B", 8, 13)}


def test_the_question_of_the_day_has_the_answer_that_is_told():
    engine = engine_of(CountingModel(), 3, 6, block_size=4)
    timeline, _ = run(engine, (8, 8, 8))
    assert [bar for bar in slot_bars(timeline.steps) if bar.preempted] == [Bar(2, "C", 0, 4, preempted=True)]
    assert engine.stats.recomputed_tokens == 8


def test_the_planted_scheduler_throws_the_long_text_out_again_and_again_and_breaks_nothing_else():
    arrivals = [(2 * number, 6, 10) for number in range(24)]
    arrivals.insert(3, (5, 6, 44))
    stats, waits, victims = {}, {}, {}
    for scheduler in (SuspectScheduler, Scheduler):
        engine = engine_of(CountingModel(), 6, 11, scheduler=scheduler)
        timeline = Timeline(engine)
        requests = feed(engine, arrivals)
        assert all(request.tokens == list(range(2, 2 + request.run.max_new_tokens)) for request in requests)
        assert engine.slots.allocator.num_used == 1
        stats[scheduler] = engine.stats
        waits[scheduler] = sum(len(step.waiting) for step in timeline.steps)
        victims[scheduler] = [bar.label for bar in slot_bars(timeline.steps) if bar.preempted]
    suspect, ours = stats[SuspectScheduler], stats[Scheduler]
    assert victims[SuspectScheduler] == ["D"] * 7
    assert len(set(victims[Scheduler])) == 7
    assert (suspect.steps, suspect.preemptions) == (ours.steps, ours.preemptions)
    assert suspect.recomputed_tokens > 4 * ours.recomputed_tokens
    assert waits[SuspectScheduler] < waits[Scheduler]


def test_the_prefiller_fails_when_it_is_told_to_and_remembers_the_pads():
    model = Prefiller()
    engine = engine_of(model, 2, 8)
    engine.submit([1], 3)
    engine.submit([1, 2, 3], 3)
    model.prefill_fails = True
    with pytest.raises(RuntimeError, match="planted"):
        engine.step()
    model.prefill_fails = False
    engine.run()
    assert model.pads == [2, 0]


@pytest.mark.parametrize("wrong", ALIKE, ids=lambda wrong: f"{wrong.task}-{wrong.answer.__name__}")
def test_another_way_into_a_slip_is_told_the_same(wrong):
    verdict = examine(replace(find(wrong.task), seconds=60), wrong.answer)
    assert (verdict.status, verdict.slip_id) == ("not yet", wrong.slip), verdict.text()
