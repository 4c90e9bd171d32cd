"""Day 21's measurements: how fast this machine copies, attention on its GPU, or what somebody measured on one."""

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F

import nanoserve
from nanoserve import KVPool

RESULTS = Path(nanoserve.__file__).parents[1] / "benchmarks" / "results"
WAYS = ("kernel", "sdpa", "gather")


def copy_rate(device: str) -> float:
    """Bytes a second of a large copy, read and written."""
    source = torch.zeros(2**30 if device == "cuda" else 2**26, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / _seconds(lambda: target.copy_(source), device)


def attention_seconds(
    num_heads: int,
    num_kv_heads: int,
    dim: int,
    batch: int,
    contexts: list[int],
    device: str = "cuda",
    least_bytes: int = 2**28,
) -> dict[str, list[float]]:
    """Seconds of one layer's attention in fp16 on this machine's GPU, by way and then by context.

    Args:
        contexts: tokens of each sequence, multiples of 16.
        least_bytes: of keys and values to go through in turn, as a model's layers do: less than a GPU's cache holds
            would be read from there.
    """
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for context in contexts:
        blocks = batch * context // 16
        layers = max(1, least_bytes // (4 * batch * context * num_kv_heads * dim))
        q = torch.randn(batch, num_heads, dim, dtype=torch.float16, device=device)
        pool = KVPool(layers, blocks, 16, num_kv_heads, dim, torch.float16, device)
        pool.k.normal_()
        pool.v.normal_()
        tables = torch.randperm(blocks, device=device).view(batch, -1)
        lengths = torch.full((batch,), context, device=device)
        pieces = [torch.stack([_gathered(k, tables) for k in memory]) for memory in (pool.k, pool.v)]
        runs = {
            "kernel": partial(_each_layer, partial(_kernel, q, tables, lengths), pool.k, pool.v),
            "sdpa": partial(_each_layer, partial(_attend, q), *pieces),
            "gather": partial(_each_layer, partial(_gather, q, tables), pool.k, pool.v),
        }
        for way in WAYS:
            seconds[way].append(_seconds(runs[way], device) / layers)
    return seconds


def committed(folder: Path = RESULTS) -> dict | None:
    """The newest results of a GPU that came with the course, as `benchmarks/gpu_check.py` wrote them; None without."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    on_gpus = [results for results in files if results.get("gpu", "rehearsal") != "rehearsal"]  # others lie there too
    measured = [results for results in on_gpus if results.get("timings")]
    return max(measured, key=lambda results: results["date"], default=None)


def by_context(results: Mapping, model: str, batch: int, block_size: int = 16) -> tuple[list[int], dict]:
    """Of committed results, the contexts measured and the seconds of each way, as `attention_seconds` gives them."""
    points = [
        point
        for point in results["timings"]["points"]
        if (point["model"], point["batch"], point["block_size"]) == (model, batch, block_size)
    ]
    points.sort(key=lambda point: point["context"])
    seconds = {way: [point["seconds"][way] for point in points] for way in WAYS}
    return [point["context"] for point in points], seconds


def _each_layer(attend: Callable, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The last layer's result."""
    for k, v in zip(keys, values, strict=True):
        out = attend(k, v)
    return out


def _kernel(
    q: torch.Tensor, tables: torch.Tensor, lengths: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    from nanoserve import paged_attention  # needs Triton

    return paged_attention(q, k, v, tables, lengths)


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q.unsqueeze(2), k, v, enable_gqa=True).squeeze(2)


def _gather(q: torch.Tensor, tables: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return _attend(q, _gathered(k, tables), _gathered(v, tables))


def _gathered(memory: torch.Tensor, tables: torch.Tensor) -> torch.Tensor:
    """(batch, num_kv_heads, context, dim), of sequences that fill their blocks."""
    pages = memory.view(len(memory), -1).index_select(0, tables.flatten())
    return pages.view(len(tables), -1, *memory.shape[2:]).transpose(1, 2)


def _seconds(run: Callable[[], object], device: str) -> float:
    if device == "cuda":
        from triton.testing import do_bench_cudagraph  # Python's launches are not in the figure

        return do_bench_cudagraph(run, rep=20) / 1e3
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
