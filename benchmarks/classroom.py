"""Measures what a learner waits for: the first cell, each verdict, and a view's answer to a click.

    python benchmarks/classroom.py    about two minutes on a 2-core CPU; leave the machine alone meanwhile

It prints a table and writes `benchmarks/results/classroom.json`.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TRITON_INTERPRET", "1")  # before anything imports Triton, as the set-up cell does

from nanoserve import BlockAllocator
from nanoserve.course.checking import examine
from nanoserve.course.tasks import all_tasks
from nanoserve.course.view.watch import watch
from nanoserve.course.view.widget import PoolPanel

SETUP = "from nanoserve.course import check, ready, watch, yours; ready()"


def seconds(run: Callable[[], object], rounds: int) -> float:
    """The median of so many runs."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return median(times)


def first_cell() -> float:
    """A fresh process up to "nanoserve is ready", what Python itself takes to start included."""
    return seconds(lambda: subprocess.run([sys.executable, "-c", SETUP], cwd=ROOT, check=True, capture_output=True), 5)


def verdicts() -> dict[str, dict[str, float]]:
    """Of each task: the first verdict on the right answer in this process, and the median of three more."""
    told = {}
    for task in all_tasks().values():
        right = task.stand_in()
        start = time.perf_counter()
        assert examine(task, right).passed
        first = time.perf_counter() - start
        told[task.id] = {"first": first, "later": seconds(partial(examine, task, right), 3)}
    return told


def click(blocks: int) -> float:
    """One step of the slider over a pool of so many blocks: from the event to the new picture."""
    view = watch(BlockAllocator(blocks, 16))
    for _ in range(16):
        view.allocator.allocate_for(blocks)
    panel = PoolPanel(view)
    return seconds(lambda: panel._step(-1), 9)


def main() -> None:
    """Measure everything, print it, and write it down."""
    from tqdm import tqdm

    steps = {"first cell": first_cell, "verdicts": verdicts, "click at 64 blocks": lambda: click(64)}
    steps |= {"click at 512 blocks": lambda: click(512)}
    found = {name: step() for name, step in tqdm(steps.items(), unit="part")}
    print(f"first cell              {found['first cell']:6.2f} s")
    for name in ("click at 64 blocks", "click at 512 blocks"):
        print(f"{name:<24}{found[name] * 1e3:6.0f} ms")
    for task, times in found["verdicts"].items():
        print(f"verdict of {task}         {times['first']:6.2f} s the first time, then {times['later']:.2f} s")
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "date": str(date.today())}
    path = ROOT / "benchmarks" / "results" / "classroom.json"
    path.write_text(json.dumps({"machine": machine, "unit": "seconds", **found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
