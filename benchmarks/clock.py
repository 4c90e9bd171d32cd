"""Times several ways to do one thing beside each other: in turns, in one run, with medians."""

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch


def side_by_side(runs: Mapping[str, Callable[[], object]], device: torch.device, rounds: int = 7) -> dict[str, float]:
    """Median seconds of each run, every round in another order.

    On a GPU each is captured as a CUDA graph and its replays are timed by events, so that Python's launches are not in
    the figure: it is the kernels' own time. On a CPU each is called once a round.

    Args:
        runs: what to call, by name; on a GPU, without a copy to the host in it.
        device: where they run.
        rounds: how often each is timed.
    """
    timed = {name: _replayed(run) if device.type == "cuda" else _called(run) for name, run in runs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            seconds[name].append(timed[name]())
    return {name: median(times) for name, times in seconds.items()}


def _called(run: Callable[[], object]) -> Callable[[], float]:
    run()  # the first call pays for what is made once

    def seconds() -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return seconds


def _replayed(run: Callable[[], object], least: float = 2e-3) -> Callable[[], float]:
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # compiles, and lets libraries choose their workspaces, before the capture
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()

    def replay(times: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(times):
            graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / times

    times = max(1, min(50, int(least / replay(1))))
    return lambda: replay(times)
