"""The benchmark of continuous batching, rehearsed: every part runs, and all ways to serve give the same texts."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.serving import Workload

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "continuous.py"
COMMITTED = SCRIPT.parent / "results" / "continuous.json"


def test_a_rehearsal_runs_every_part_and_all_ways_give_the_same_texts(tmp_path):
    command = [sys.executable, SCRIPT, "--rehearse", "--out", tmp_path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "continuous-rehearsal.json").read_text())
    requests = results["workload"]["requests"]
    assert {row["same_texts"] for row in results["serving"].values()} == {requests}
    assert len(results["serving"]) == 5
    assert [row["rows"] for row in results["projections"]] == [1, 2, 4, 8, 16, 32]
    assert all(seconds > 0 for seconds in results["profile"].values())
    memory = results["memory"]
    assert memory["paged"]["in_flight"] > memory["contiguous"]["in_flight"]  # of the same bytes
    assert memory["contiguous"]["used_of_allocated"] < memory["paged"]["used_of_allocated"]
    assert memory["paged"]["used_of_allocated"] <= memory["most_used_of_allocated"]


def test_the_bound_on_filled_blocks_counts_each_step_of_each_request():
    workload = Workload([[0] * 14, [0] * 3], [3, 2])
    # Of 14 tokens and 3 new ones: 15 and then 16 tokens stand in one block. Of 3 and 2: 4 in one.
    assert workload.most_used_of_allocated == (15 + 16 + 4) / 48


def test_what_the_readme_says_of_the_committed_figures_is_so():
    results = json.loads(COMMITTED.read_text(encoding="utf-8"))
    assert {row["same_texts"] for row in results["serving"].values()} == {results["workload"]["requests"]}
    assert results["profile"]
