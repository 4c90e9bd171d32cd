"""What Day 18 brings of its own: the walk that is recorded and drawn, and the planted fault."""

from functools import partial

import pytest
import torch

from benchmarks.cases import poisoned
from nanoserve.attention import blockwise_attention, fold, gathered_attention
from nanoserve.course.exercises.day18.planted import suspect_fold, suspect_start
from nanoserve.course.exercises.day18.recording import recorded
from nanoserve.course.exercises.day18.walk_view import WalkView


def walked(head=0):
    """Ten tokens in blocks of four, and the walk as one head saw it."""
    inputs = poisoned(4, 2, 8, 4, [10])
    with recorded(blockwise_attention, inputs[2], head) as turns:
        out = blockwise_attention(*inputs)
    return inputs, turns, out


@pytest.mark.parametrize("head", range(4))
def test_a_walk_is_recorded_block_by_block_in_the_tables_order(head):
    (_, _, _, tables, _), turns, _ = walked(head)
    assert [turn.block_id for turn in turns] == tables[0, :3].tolist()
    assert [len(turn.scores) for turn in turns] == [4, 4, 2]


def test_recording_changes_no_result_and_leaves_nothing_behind():
    inputs, _, out = walked()
    torch.testing.assert_close(out, blockwise_attention(*inputs), rtol=0, atol=0)
    assert blockwise_attention.__globals__["fold"] is fold


def test_an_error_in_the_walk_ends_the_recording_too():
    with pytest.raises(ZeroDivisionError), recorded(blockwise_attention, torch.zeros(1, 1, 1, 1)):
        1 / 0  # noqa: B018
    assert blockwise_attention.__globals__["fold"] is fold


def test_the_shares_are_those_of_the_softmax_over_what_was_read():
    (q, k_pool, _, tables, _), turns, _ = walked()
    keys = k_pool[tables[0, :3], :, 0].flatten(0, 1)[:10]
    view = WalkView(turns, ["a"] * 10, len(k_pool), 4)
    for step, read in ((1, 4), (2, 8), (3, 10)):
        expected = (keys[:read] @ q[0, 0] * 8**-0.5).softmax(0)
        torch.testing.assert_close(torch.tensor(view.shares(step)), expected)


def test_the_drawing_says_which_block_is_read_and_what_comes_later():
    (_, k_pool, _, tables, _), turns, _ = walked()
    first, second, third = tables[0, :3].tolist()
    svg = WalkView(turns, ["a"] * 10, len(k_pool), 4).svg(2)
    assert f"block {first}, entry 0: read<" in svg
    assert f"block {second}, entry 1: read now<" in svg
    assert f"block {third}, entry 2: later<" in svg
    assert f"after block {second}" in svg
    assert f"after block {third}" not in svg


def test_a_walk_without_fold_is_told_in_words(capsys):
    with recorded(gathered_attention, torch.zeros(1, 1, 1, 1)) as turns:
        gathered_attention(*poisoned(4, 2, 8, 4, [10]))
    WalkView(turns, ["a"] * 10, 5, 4)._ipython_display_()
    assert "called no function of the name `fold`" in capsys.readouterr().out


def walk_of(turn, run=1):
    """A walk that gives `turn` so many blocks at once; `turn` knows this module's `fold`."""

    def walk(q, k_pool, v_pool, block_tables, seq_lens):
        out, size, group = torch.zeros_like(q), k_pool.shape[1], q.shape[1] // k_pool.shape[2]
        for row, num_tokens in enumerate(seq_lens.tolist()):
            known = torch.full(q.shape[1:2], -1e30), torch.zeros(q.shape[1]), torch.zeros(q.shape[1:])
            for start in range(0, num_tokens, run * size):
                held = min(run * size, num_tokens - start)
                ids = block_tables[row, start // size :][: -(-held // size)]
                keys, values = (
                    pool[ids].flatten(0, 1)[:held].transpose(0, 1).repeat_interleave(group, 0)
                    for pool in (k_pool, v_pool)
                )
                known = turn((keys @ q[row][:, :, None]).squeeze(-1) * q.shape[2] ** -0.5, values, known)
            out[row] = known[2] / known[1][:, None]
        return out

    return walk


def by_position(scores, values, known):
    return fold(scores, values, *known)


def by_keyword(scores, values, known):
    return fold(values=values, scores=scores, **dict(zip(("largest", "total", "mixed"), known, strict=True)))


def some_heads_at_a_time(heads):
    def turn(scores, values, known):
        parts = zip(*(part.split(heads) for part in (scores, values, *known)), strict=True)
        return tuple(map(torch.cat, zip(*(fold(*part) for part in parts), strict=True)))

    return turn


def seen(walk, head):
    inputs = poisoned(4, 2, 8, 4, [10])
    with recorded(walk, inputs[2], head) as turns:
        out = walk(*inputs)
    torch.testing.assert_close(out, blockwise_attention(*inputs))
    return WalkView(turns, ["a"] * 10, len(inputs[2]), 4)


@pytest.mark.parametrize("head", [0, 3])
@pytest.mark.parametrize(
    "walk",
    [
        walk_of(by_position),
        walk_of(by_keyword),
        torch.no_grad()(walk_of(by_position)),
        partial(walk_of(by_position)),
        torch.no_grad()(partial(torch.no_grad()(blockwise_attention))),
    ],
    ids=["plain", "keywords", "decorated", "partial", "all of it"],
)
def test_a_walk_is_drawn_however_it_is_wrapped_and_calls_fold(walk, head, capsys):
    view = seen(walk, head)
    assert view.missing() is None
    assert view.words().startswith("3 of 3 blocks read")
    assert "after block" in view.svg()


@pytest.mark.parametrize("head", [0, 3])
@pytest.mark.parametrize(
    "walk",
    [
        walk_of(some_heads_at_a_time(2)),
        walk_of(some_heads_at_a_time(1)),
        walk_of(by_position, run=3),
        walk_of(by_position, run=2),
    ],
    ids=["a group", "one head", "three blocks", "two blocks"],
)
def test_a_walk_in_other_pieces_is_told_in_one_line(walk, head, capsys):
    seen(walk, head)._ipython_display_()
    told = capsys.readouterr().out
    assert told.count("\n") == 1
    assert "one call of `fold` a block" in told


def test_a_walk_that_is_no_function_is_told_in_one_line(capsys):
    class Walk:
        def __call__(self, *inputs):
            return blockwise_attention(*inputs)

    seen(Walk(), 0)._ipython_display_()
    assert "could be watched" in capsys.readouterr().out


def by_blocks(fold_, known, scores, values):
    for start in range(0, scores.shape[1], 4):
        known = fold_(scores[:, start : start + 4], values[:, start : start + 4], *known)
    return known[2] / torch.where(known[1] == 0, 1, known[1])[:, None]


@pytest.mark.parametrize("masked", [0, 3, 4, 8])
def test_the_suspect_is_right_at_ordinary_scores_with_a_window_and_without(masked):
    torch.manual_seed(0)
    scores, values = torch.randn(2, 12), torch.randn(2, 12, 3)
    scores[:, :masked] = -torch.inf
    expected = (scores.softmax(-1)[:, None] @ values)[:, 0]
    torch.testing.assert_close(by_blocks(suspect_fold, suspect_start(2, 3), scores, values), expected)


def test_the_suspect_falls_silent_where_a_masked_block_comes_before_low_scores():
    torch.manual_seed(0)
    scores, values = torch.randn(2, 12) - 200, torch.randn(2, 12, 3)
    right = (scores.softmax(-1)[:, None] @ values)[:, 0]
    torch.testing.assert_close(by_blocks(suspect_fold, suspect_start(2, 3), scores, values), right)
    scores[:, :4] = -torch.inf
    assert not by_blocks(suspect_fold, suspect_start(2, 3), scores, values).any()
    start = torch.full((2,), -1e30), torch.zeros(2), torch.zeros(2, 3)
    right = (scores.softmax(-1)[:, None] @ values)[:, 0]
    torch.testing.assert_close(by_blocks(fold, start, scores, values), right)
