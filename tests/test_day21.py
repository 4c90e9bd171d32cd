"""What Day 21 brings of its own: shares seen and drawn, the split step, the planted fault, and the measured tables."""

import json
import math
from random import Random

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from nanoserve import KVPool, NaiveKVCache, gathered_attention, paged_attention
from nanoserve.cache import PagedKVCache
from nanoserve.course.exercises.day21 import bandwidth
from nanoserve.course.exercises.day21.pictures import draw_programs, draw_shares
from nanoserve.course.exercises.day21.planted import suspect_shares
from nanoserve.course.exercises.day21.seen import watched
from nanoserve.course.exercises.day21.shares import shares_of
from nanoserve.course.exercises.day21.split import ragged_step, split_attention
from nanoserve.course.tasks import find
from nanoserve.kernels.combine import combine_kernel
from nanoserve.kernels.paged_decode import my_tokens
from tests.answers import day21


def test_the_engines_own_shares_are_whole_tiles_in_order():
    assert shares_of(my_tokens, 37, 3, 8) == [range(16), range(16, 32), range(32, 37)]
    assert [len(share) for share in shares_of(my_tokens, 37, 7, 8)] == [8, 8, 8, 8, 5, 0, 0]


@pytest.mark.parametrize("splits", [1, 3])
def test_a_split_step_is_the_softmax_over_all_tokens(splits):
    step = ragged_step([20, 0, 7])
    exact = gathered_attention(*(tensor.double() for tensor in step[:3]), *step[3:])
    came = split_attention(my_tokens, combine_kernel, *step, splits=splits, tile=4)
    torch.testing.assert_close(came.double(), exact, rtol=1e-5, atol=1e-6)


def test_a_split_step_uses_the_learners_functions_and_not_the_engines():
    step = ragged_step([20])
    exact = gathered_attention(*step)
    for splits, *functions in ((1, day21.takes_one_tile, combine_kernel), (2, my_tokens, day21.takes_the_mean)):
        came = split_attention(*functions, *step, splits=splits, tile=16)
        assert not torch.allclose(came, exact, atol=1e-3)


def made_cache():
    """A cache that holds three tokens in its one layer, and what a fourth brings."""
    cache = PagedKVCache(KVPool(1, 4, 2, 1, 4))
    cache.kernel = True
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, 4, 4, generator=draw) for heads in (2, 1, 1))
    cache.store(0, k[:, :, :3], v[:, :, :3])
    witness = NaiveKVCache()
    witness.append(0, k[:, :, :3], v[:, :, :3])
    last = q[:, :, 3:], k[:, :, 3:], v[:, :, 3:]
    return cache, last, witness.attend(0, *last)


def test_a_step_that_is_watched_launches_once_and_comes_out_right():
    cache, last, right = made_cache()
    with watched(cache.pool) as seen:
        came = cache.attend(0, *last)
    torch.testing.assert_close(came, right)
    [launch] = seen.launches
    assert (launch.memories, launch.lengths, launch.tables) == ((("k", 0), ("v", 0)), [4], [[0, 1]])
    assert (seen.copies, seen.to_host) == ([], [])
    assert seen.made == ["(1,)", "(2,)", "(1,)"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.tensor([1, 2]),
        lambda: torch.as_tensor([1, 2]),
        lambda: torch.LongTensor([1, 2]),
        lambda: torch.IntTensor([1, 2]),
        lambda: torch.from_numpy(np.arange(2)),
        lambda: torch.ones(1).new_tensor([1, 2]),
    ],
)
def test_a_tensor_made_from_the_hosts_numbers_is_seen_however_it_is_made(make):
    with watched(KVPool(1, 4, 2, 1, 4)) as seen:
        torch.arange(2) + 3
        torch.zeros(2)[0] = 1.0
    assert seen.made == []
    with watched(KVPool(1, 4, 2, 1, 4)) as seen:
        make()
    assert seen.made == ["(2,)"]


def test_tensors_that_say_they_lie_on_a_gpu_take_the_kernel_and_come_out_right():
    cache, last, right = made_cache()
    cache.kernel = None
    with watched(cache.pool, says_gpu=True) as seen:
        assert last[0].is_cuda
        assert last[0].device.type == "cuda"
        came = cache.attend(0, *last)
    assert len(seen.launches) == 1
    torch.testing.assert_close(came, right)


@pytest.mark.parametrize(("block_id", "length"), [(2**40, 1), (-1, 1), (0, 3)])
def test_an_index_outside_the_pool_does_no_harm_when_it_is_watched(block_id, length):
    pool = KVPool(1, 4, 2, 1, 4)
    with watched(pool) as seen:
        out = paged_attention(
            torch.ones(1, 2, 4), pool.k[0], pool.v[0], torch.tensor([[block_id]]), torch.tensor([length])
        )
    assert out.isnan().all()
    assert len(seen.launches) == 1


def test_a_copy_of_the_pool_and_one_to_the_host_are_seen_and_views_are_not():
    pool = KVPool(1, 4, 2, 1, 4)
    with watched(pool) as seen:
        pool.k[0].view(-1, 4)[3:].transpose(0, 1)
    assert (seen.copies, seen.to_host) == ([], [])
    with watched(pool) as seen:
        pool.k[0].index_select(0, torch.arange(2))
        int(torch.ones(1))
    assert (seen.copies, seen.to_host) == (["index_select"], ["__int__"])


def test_the_suspects_parts_are_right_and_its_log_sum_exps_are_to_base_2():
    torch.manual_seed(0)
    scores, values = torch.randn(3, 8), torch.randn(3, 8, 4)
    parts, lse = suspect_shares(scores, values)
    torch.testing.assert_close(parts, (scores.softmax(1)[:, :, None] * values).sum(1))
    torch.testing.assert_close(lse * math.log(2), scores.logsumexp(1))


@pytest.mark.parametrize("seed", range(3))
def test_the_pictures_take_any_number_of_programs_and_shares(seed, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    rng = Random(seed)
    draw_programs({"one": 1, "some": rng.randrange(500), "none": 0}, rng.randrange(1, 140))
    tokens = rng.randrange(1, 30)
    table = rng.sample(range(8), -(-tokens // 4))
    draw_shares({2: [range(tokens), range(tokens, tokens)]}, 8, table, 4, 8)
    *_, above, below = plt.gcf().axes
    plt.close("all")
    assert {text.get_text() for text in below.texts} >= {str(token) for token in range(tokens)}
    assert [text.get_text() for text in above.texts if text.get_text()] == ["program 0"]


def results(gpu, date, **more):
    point = {"model": "Llama-3.2-1B", "batch": 8, "block_size": 16, "seconds": {"kernel": 1, "sdpa": 2, "gather": 3}}
    points = [point | {"context": context} for context in (4096, 128)] + [point | {"batch": 1, "context": 1}]
    return {"gpu": gpu, "date": date, "copy_bytes_per_second": 1e12, "timings": {"points": points}} | more


def test_the_newest_results_of_a_gpu_are_found_and_a_rehearsals_are_not(tmp_path):
    assert bandwidth.committed(tmp_path) is None
    assert bandwidth.committed(tmp_path / "missing") is None
    files = [results("T4", "2026-01-02"), results("H200", "2026-03-01"), results("rehearsal", "2026-09-09")]
    files += [results("A100", "2026-08-08", timings=None), {"machine": {"date": "2026-10-10"}}]
    for number, file in enumerate(files):
        (tmp_path / f"{number}.json").write_text(json.dumps(file))
    found = bandwidth.committed(tmp_path)
    assert found["gpu"] == "H200"
    contexts, seconds = bandwidth.by_context(found, "Llama-3.2-1B", 8)
    assert (contexts, seconds) == ([128, 4096], {"kernel": [1, 1], "sdpa": [2, 2], "gather": [3, 3]})


def test_the_three_ways_that_are_timed_give_the_same_result(monkeypatch):
    ways = []
    monkeypatch.setattr(bandwidth, "_seconds", lambda run, device: ways.append(run()) or 6.0)
    seconds = bandwidth.attention_seconds(4, 2, 16, 2, [32, 48], "cpu", least_bytes=3 * 4 * 2 * 32 * 2 * 16)
    assert seconds == {way: [2.0, 3.0] for way in ("kernel", "sdpa", "gather")}  # three layers, and then two
    for kernel, sdpa, gather in (ways[:3], ways[3:]):
        torch.testing.assert_close(kernel, gather, rtol=2e-3, atol=2e-3)
        torch.testing.assert_close(sdpa, gather)


def test_a_copys_rate_counts_what_is_read_and_what_is_written(monkeypatch):
    monkeypatch.setattr(bandwidth, "_seconds", lambda run, device: 2.0)
    assert bandwidth.copy_rate("cpu") == 2**26


def test_a_stub_holds_an_attribute_of_the_class_and_a_stand_in_that_lacks_nothing_is_the_reference():
    task = find("21.3")
    assert task.stub().splitlines()[:2] == ['class PagedKVCache(yours("16.3")):', "    kernel = None"]
    assert task.stand_in() is PagedKVCache
    assert not hasattr(find("16.3").stand_in(), "kernel")
