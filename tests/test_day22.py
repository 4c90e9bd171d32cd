"""Day 22's planted fault, the picture by which it is found, and the words of the pool view."""

import re
from dataclasses import replace

import pytest
import torch

from nanoserve import (
    BlockAllocator,
    BlockTable,
    KVPool,
    NaiveKVCache,
    PagedKVCache,
    PagedSlotKVCache,
    PrefillCache,
    left_pad,
)
from nanoserve.course.checking import examine
from nanoserve.course.exercises.day22.planted import SuspectSlots
from nanoserve.course.exercises.day22.write_map import places_written
from nanoserve.course.tasks import find
from nanoserve.course.view.state import describe
from nanoserve.course.view.svg import draw_pool
from nanoserve.course.view.watch import watch
from tests.answers.day22 import ALIKE
from tests.test_prefill import prompt_of


def one_step(model, slots_class, pool):
    """The slots after a text in slot 1 of 3 has decoded a token, and the places where that step wrote."""
    slots = slots_class(pool, 3)
    input_ids, pad_lens = left_pad([prompt_of(5)])
    prefill = PrefillCache(pad_lens)
    model(input_ids, prefill)
    slots.admit([1], prefill, pad_lens)
    assert slots.reserve_step()
    pool.k[:, -1] = torch.nan  # as fresh memory may be; nobody has the last block
    before = pool.k.clone()
    logits = model(torch.tensor([[0], [7], [0]]), slots)[1, -1]
    slots.advance()
    alone = model(torch.tensor([[*prompt_of(5), 7]]), NaiveKVCache())[0, -1]
    torch.testing.assert_close(logits, alone, atol=2e-4, rtol=1e-4)
    return slots, places_written(before, pool.k)


def test_the_suspect_is_right_in_a_fresh_pool(tiny):
    pool = KVPool.for_model(tiny, 6, block_size=4)
    slots, written = one_step(tiny, SuspectSlots, pool)
    assert slots.scratch == 0
    assert written == [(0, 0), slots.tables[1].position(5)]


def test_the_suspect_writes_over_the_first_key_of_whoever_has_block_0(tiny):
    for slots_class, harms in ((PagedSlotKVCache, False), (SuspectSlots, True)):
        pool = KVPool.for_model(tiny, 6, block_size=4)
        lodger = PagedKVCache(pool)
        tiny(torch.tensor([prompt_of(3)]), lodger)
        slots, written = one_step(tiny, slots_class, pool)
        idle = (lodger.table.block_ids[0], 0) if harms else (slots.scratch, 0)
        assert written == sorted([idle, slots.tables[1].position(5)])


@pytest.mark.parametrize(("word", "other"), [("place", "slot"), ("slot", "place")])
def test_where_a_slot_is_a_row_of_a_batch_the_pool_view_says_place(word, other):
    allocator = BlockAllocator(4, 4)
    view = watch(allocator, place=word)
    table = BlockTable(allocator)
    view.follow("A", table)
    for _ in range(5):
        table.append()
    state = view.state()
    drawn = re.sub("<style>.*</style>|<[^>]*>", " ", draw_pool(state, "light"))
    for told in (describe(state), view.events[-1].text, drawn):
        assert word in told
        assert other not in told


def test_the_scratch_block_holds_no_token_and_is_not_unknown():
    allocator = BlockAllocator(4, 4)
    view = watch(allocator)
    with view.sequence("scratch"):
        allocator.allocate()
    allocator.allocate_for(6)
    assert view.state().num_tokens == 6


@pytest.mark.parametrize("wrong", ALIKE, ids=lambda wrong: f"{wrong.task}-{wrong.answer.__name__}")
def test_another_way_into_a_slip_is_told_the_same(wrong):
    verdict = examine(replace(find(wrong.task), seconds=60), wrong.answer)
    assert (verdict.status, verdict.slip_id) == ("not yet", wrong.slip), verdict.text()
