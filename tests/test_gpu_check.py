"""The GPU check, rehearsed on the CPU: every part runs, and what it writes can be read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from benchmarks.clock import side_by_side
from benchmarks.contenders import Point, Step
from nanoserve import gathered_attention

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu_check.py"


def test_a_rehearsal_runs_every_part_and_finds_the_kernels_right(tmp_path):
    command = [sys.executable, SCRIPT, "--rehearse", "--out", tmp_path]
    # From elsewhere, and without what this test's own process has set: a bare checkout.
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "rehearsal.json").read_text())
    assert results["correctness"]["cases"] == results["correctness"]["planned"] > 0
    assert results["correctness"]["wrong"] == []
    assert len(results["timings"]["points"]) == results["timings"]["planned"] > 0
    for point in results["timings"]["points"]:
        assert set(point["seconds"]) == {"kernel", "sdpa", "gather"}
    assert [row["same_tokens"] for row in results["decode_steps"]] == [True]
    assert all("not_run" in row for row in results["flex"])


def test_without_a_gpu_it_says_what_to_do(tmp_path):
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "try --rehearse" in done.stderr


def test_the_contenders_attend_to_the_same_numbers():
    point = Point(num_heads=6, num_kv_heads=2, dim=16, batch=3, context=40, block_size=16)
    memory = tuple(torch.randn(2 * 3 * 48 * 2 * 16) for _ in range(4))
    step = Step(point, memory, layers=2)
    exact = gathered_attention(step.q, step.k_pool[-1], step.v_pool[-1], step.tables, step.lengths)
    torch.testing.assert_close(step.kernel(), exact, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(step.gather(), exact, rtol=1e-5, atol=1e-5)
    for row, table in enumerate(step.tables):  # the contiguous cache, filled with what the pool holds
        for flat, pool in ((step.keys, step.k_pool), (step.values, step.v_pool)):
            flat[-1, row] = pool[-1][table].flatten(0, 1)[:40].transpose(0, 1)
    torch.testing.assert_close(step.sdpa(), exact, rtol=1e-5, atol=1e-5)


def test_runs_are_timed_in_turns_and_none_always_first():
    called = []
    runs = {name: (lambda name=name: called.append(name)) for name in "abc"}
    assert set(side_by_side(runs, torch.device("cpu"), rounds=3)) == set("abc")
    assert "".join(called) == "abc" + "abc" + "bca" + "cab"
