"""Day 21's measurements: how fast this machine copies, attention on its GPU, or what somebody measured on one."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
import torch.nn.functional as F

import nanoserve
from nanoserve import KVPool, gather_by_table

RESULTS = Path(nanoserve.__file__).parents[1] / "benchmarks" / "results"
WAYS = ("kernel", "sdpa", "gather")


def copy_rate(device: str) -> float:
    """Bytes a second of a large copy, read and written."""
    source = torch.zeros(2**30 if device == "cuda" else 2**26, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / _seconds(lambda: target.copy_(source), device)


def attention_seconds(
    num_heads: int, num_kv_heads: int, dim: int, batch: int, contexts: list[int]
) -> dict[str, list[float]]:
    """Seconds of one layer's attention in fp16 on this machine's GPU, by way and then by context."""
    from nanoserve import paged_attention

    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for context in contexts:
        q = torch.randn(batch, num_heads, dim, dtype=torch.float16, device="cuda")
        # Several layers, for one may fit the GPU's L2 cache, and would be read from there.
        layers = max(1, 2**28 // (4 * batch * context * num_kv_heads * dim))
        pool = KVPool(layers, batch * context // 16, 16, num_kv_heads, dim, torch.float16, "cuda")
        pool.k.normal_()
        pool.v.normal_()
        tables = torch.randperm(batch * context // 16, device="cuda").view(batch, -1)
        lengths = torch.full((batch,), context, device="cuda")
        shape = layers, batch, num_kv_heads, context, dim
        keys, values = (torch.randn(shape, dtype=torch.float16, device="cuda") for _ in range(2))

        def kernel(q=q, pool=pool, tables=tables, lengths=lengths) -> None:
            for k, v in zip(pool.k, pool.v, strict=True):
                paged_attention(q, k, v, tables, lengths)

        def sdpa(q=q, keys=keys, values=values) -> None:
            for k, v in zip(keys, values, strict=True):
                F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True)

        def gather(q=q, pool=pool, tables=tables, batch=batch, context=context) -> None:
            for memories in zip(pool.k, pool.v, strict=True):
                flat = (gather_by_table(memory, tables.flatten(), batch * context)[0] for memory in memories)
                k, v = (rows.unflatten(1, (batch, context)).transpose(0, 1) for rows in flat)
                F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True)

        for way, run in zip(WAYS, (kernel, sdpa, gather), strict=True):
            seconds[way].append(_seconds(run, "cuda") / layers)
    return seconds


def committed(folder: Path = RESULTS) -> dict | None:
    """The newest results of a GPU that came with the course, as `benchmarks/gpu_check.py` wrote them; None without."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    measured = [results for results in files if results["gpu"] != "rehearsal" and results.get("timings")]
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
