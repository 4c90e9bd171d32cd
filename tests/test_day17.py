"""What Day 17 brings of its own: moments side by side, a function less its `finally`, the planted fault."""

import re
from itertools import islice
from xml.etree import ElementTree

import pytest
import torch

from nanoserve import BlockAllocator, BlockTable, KVPool, PagedKVCache
from nanoserve.course.checking import examine
from nanoserve.course.exercises.day17.planted import suspect_decode
from nanoserve.course.exercises.day17.stand_in import ScriptedModel
from nanoserve.course.exercises.day17.without_finally import without_finally
from nanoserve.course.tasks import find
from nanoserve.course.view.moments import Moments
from nanoserve.course.view.watch import watch
from nanoserve.generation import decode
from nanoserve.sampling import warp

PROMPT, SCRIPT = [1, 2, 3], [4, 5, 6, 7]


def run(decode_, tokens, num_new=4, fail_at=None):
    """Read so many tokens, hang up, and give back the tokens and the blocks that are still out."""
    model = ScriptedModel(SCRIPT, fail_at)
    pool = KVPool.for_model(model, 8, 2)
    stream = decode_(model, PagedKVCache(pool), PROMPT, num_new, frozenset(), lambda logits: int(logits.argmax()))
    read = list(islice(stream, tokens))
    stream.close()
    return read, pool.allocator.num_used


def three_states():
    allocator = BlockAllocator(4, 4)
    view = watch(allocator)
    table = BlockTable(allocator)
    view.follow("A", table, ["one", " two", " three", " four", " five"])
    table.append(5)
    full = view.state()
    table.free()
    return {"A is there": full, "A is gone": view.state()}


def test_moments_stand_side_by_side_and_a_block_keeps_its_height():
    root = ElementTree.fromstring(Moments(three_states()).svg("light"))
    svg = "{http://www.w3.org/2000/svg}"
    blocks = [group for group in root.iter(f"{svg}g") if group.get("class") == "block"]
    corners = [(float(box.get("x")), float(box.get("y"))) for box in (block.find(f"{svg}rect") for block in blocks)]
    assert len(corners) == 8
    assert len({x for x, _ in corners[:4]}) == 1
    assert corners[4][0] > corners[0][0] + 400
    assert [y for _, y in corners[:4]] == [y for _, y in corners[4:]]


def test_moments_show_the_captions_the_texts_and_the_counts():
    svg = Moments(three_states()).svg("light")
    shown = re.findall(r">([^<>]+)</text>", svg)
    assert {"A is there", "A is gone", "one", "·five"} <= set(shown)
    assert "2 of 4 blocks in use, 5 tokens" in shown
    assert "0 of 4 blocks in use, 0 tokens" in shown
    assert "A holds blocks 0 1 with 5 tokens" in Moments(three_states()).words()


def test_moments_drawn_twice_give_the_same_bytes():
    assert Moments(three_states()).svg() == Moments(three_states()).svg()


def test_moments_of_nothing_or_of_a_large_pool_are_refused():
    with pytest.raises(ValueError, match="at most 8 blocks"):
        Moments({})
    with pytest.raises(ValueError, match="at most 8 blocks"):
        Moments({"large": watch(BlockAllocator(9, 4)).state()})


def test_without_its_finally_a_stream_gives_the_same_tokens_and_leaks_when_its_reader_leaves():
    leaky, source = without_finally(decode)
    assert run(leaky, 4) == run(decode, 4) == (SCRIPT, 0)
    assert run(leaky, 2) == (SCRIPT[:2], 2)
    assert run(decode, 2) == (SCRIPT[:2], 0)
    assert "finally" not in source
    assert source.startswith("def decode(model, cache, prompt, num_new, eos, next_token):")


def test_a_stream_that_has_no_finally_to_lose_is_stood_in_for_by_the_reference():
    def guarded_otherwise(model, cache, prompt, num_new, eos, next_token):
        return decode(model, cache, prompt, num_new, eos, next_token)

    for odd in (guarded_otherwise, print):
        assert without_finally(odd)[1] == without_finally(decode)[1]


def test_an_except_beside_the_finally_stays():
    def both(numbers):
        try:
            numbers.append(1 / numbers[0])
        except ZeroDivisionError:
            numbers.append(0)
        finally:
            numbers.append("end")

    leaky, source = without_finally(both)
    numbers = [0]
    leaky(numbers)
    assert numbers == [0, 0, "end"]
    assert "except" in source


@pytest.mark.parametrize(("tokens", "leaked"), [(1, 2), (2, 0), (3, 0), (4, 0)])
def test_the_planted_stream_leaks_on_one_way_out_alone(tokens, leaked):
    assert run(suspect_decode, tokens) == (SCRIPT[:tokens], leaked)


def test_the_planted_stream_leaks_when_its_first_step_fails():
    model = ScriptedModel(SCRIPT, fail_at=0)
    pool = KVPool.for_model(model, 8, 2)
    stream = suspect_decode(model, PagedKVCache(pool), PROMPT, 4, frozenset(), lambda logits: 0)
    with pytest.raises(RuntimeError, match="planted"):
        next(stream)
    assert pool.allocator.num_used == 2


@pytest.mark.parametrize("ids", [[1, 2], [[1], [2]]])
def test_the_scripted_model_takes_one_sequence_and_stores_nothing_else(ids):
    model = ScriptedModel(SCRIPT)
    cache = PagedKVCache(KVPool.for_model(model, 8, 2))
    with pytest.raises(ValueError, match=re.escape("ids must be (1, T)")):
        model(torch.tensor(ids), cache)
    assert (model.steps, cache.seq_len) == ([], 0)


def test_double_precision_is_told_its_dtype_even_where_top_p_alone_brings_it():
    def in_double(logits, temperature=1.0, top_k=None, top_p=None):
        return warp(logits.double() if top_p else logits, temperature, top_k, top_p)

    assert examine(find("17.1"), in_double).slip_id == "other-dtype"
