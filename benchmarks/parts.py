"""The parts of `gpu_check.py`: each prints a table and leaves its figures in the run's results."""

import itertools
import time
from typing import TYPE_CHECKING

import torch
from transformers import LlamaConfig

from benchmarks.cases import poisoned
from benchmarks.clock import side_by_side
from benchmarks.contenders import Point, Step
from nanoserve import KVPool, Llama, PagedKVCache, gathered_attention, paged_attention

if TYPE_CHECKING:
    from benchmarks.gpu_check import Check

# Layers, hidden size, MLP size, query heads, KV heads, head dimension, vocabulary; the weights are random.
MODELS = {
    "SmolLM2-135M": (30, 576, 1536, 9, 3, 64, 49152),
    "Llama-3.2-1B": (16, 2048, 8192, 32, 8, 64, 128256),
}
TINY = {"tiny": (2, 48, 40, 3, 1, 16, 61)}
# One rounding of the result, and in half precision the weights', are what the sums in fp32 leave.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def bandwidth(check: "Check") -> float:
    """Bytes a second of a large copy on the device, read and written."""
    source = torch.empty(2**16 if check.rehearse else 2**31, dtype=torch.int8, device=check.device).random_(0, 100)
    target = torch.empty_like(source)
    seconds = side_by_side({"copy": lambda: target.copy_(source)}, check.device)["copy"]
    rate = 2 * source.numel() / seconds
    check.results["copy_bytes_per_second"] = rate
    check.say(f"copy bandwidth: {rate / 1e12:.3f} TB/s")
    return rate


def correctness(check: "Check") -> None:
    """The matrix of shapes in each type against float64, in pools with NaN in every stale slot."""
    heads, few_heads = [(3, 3), (9, 3), (32, 8), (7, 1), (32, 2)], [(9, 3), (32, 8)]
    dims, few_dims, block_sizes, splits = [64, 80, 96, 128], [64, 80], [1, 3, 16, 24, 544], [1, 7, None]
    lengths = [0, 1, 15, 16, 17, 700, 1500]
    if check.rehearse:
        heads, few_heads, few_dims, block_sizes, splits, lengths = [], [(9, 3)], [64, 80], [3, 16], [1, 2], [0, 1, 17]
    shapes = [(torch.float16, *shape) for shape in itertools.product(heads, dims, block_sizes)]
    others = [torch.float32]
    if check.rehearse or torch.cuda.get_device_capability() >= (8, 0):
        others.append(torch.bfloat16)
    shapes += itertools.product(others, few_heads, few_dims, block_sizes)  # each shape is a compile of its own
    worst: dict[str, float] = {}
    wrong: list[str] = []
    cases = 0
    for dtype, (num_heads, num_kv_heads), dim, block_size in shapes:
        if not check.left(share=4.5):
            break
        sizes = num_heads, num_kv_heads, dim, block_size
        inputs = q, k, v, tables, seq_lens = poisoned(*sizes, lengths, dtype=dtype, device=check.device, seed=cases)
        exact = gathered_attention(q.double(), k.double(), v.double(), tables, seq_lens)
        for split in splits:
            came = paged_attention(*inputs, num_splits=split).double()
            error = ((came - exact).abs().max() / exact.abs().max()).item()
            worst[str(dtype)] = max(worst.get(str(dtype), 0.0), error)
            cases += 1
            if not error <= TOLERANCE[dtype]:  # NaN is not
                wrong.append(f"{dtype}, (heads, KV heads, dim, block size) {sizes}, {split} splits: {error}")
    planned = len(shapes) * len(splits)
    check.results["correctness"] = {"planned": planned, "cases": cases, "wrong": wrong, "largest_error": worst}
    check.say(f"correctness: {cases - len(wrong)} of {cases} cases right, of {planned} planned")
    for name, error in worst.items():
        check.say(f"  {name}: an error of {error:.1e} of the largest value, at most")
    for line in wrong[:10]:
        check.say(f"  wrong: {line}")


def timings(check: "Check", rate: float) -> None:
    """The kernel over batch, context and block size, beside the others, in the same run."""
    batches, contexts, block_sizes = [1, 8, 32, 128, 256], [128, 1024, 4096, 16384, 32768], [16, 32, 64]
    models, dtype, most, cold = MODELS, torch.float16, 20 * 2**30, 2**28
    if check.rehearse:
        batches, contexts, block_sizes, models, dtype, most, cold = [1, 2], [32], [16], TINY, torch.float32, 2**22, 0
    else:
        most = min(most, torch.cuda.mem_get_info()[0] // 4)
    memory = tuple(torch.randn(most // 2 // dtype.itemsize, dtype=dtype, device=check.device) for _ in range(4))
    rows = []
    check.say(
        f"\n{'shape':14}{'batch':>6}{'context':>8}{'block':>6}{'kernel':>10}{'of copy':>9}{'sdpa':>9}{'gather':>9}"
    )
    points = [(model, *sizes) for model, *sizes in itertools.product(models, block_sizes, contexts, batches)]
    for model, block_size, context, batch in points:
        point = Point(*models[model][3:6], batch, context, block_size)
        if point.kv_bytes(dtype.itemsize) > most or not check.left(share=2.5):
            continue
        layers = max(1, min(16, cold // point.kv_bytes(dtype.itemsize)))
        step = Step(point, memory, layers)
        runs = {"kernel": step.kernel, "sdpa": step.sdpa, "gather": step.gather}
        seconds = {name: total / layers for name, total in side_by_side(runs, check.device).items()}
        share = point.kv_bytes(dtype.itemsize) / seconds["kernel"] / rate
        sizes = {"model": model, "batch": batch, "context": context, "block_size": block_size, "layers": layers}
        rows.append(sizes | {"seconds": seconds, "share_of_copy": share})
        ratios = [f"{seconds[name] / seconds['kernel']:8.2f}x" for name in ("sdpa", "gather")]
        place = f"{model:14}{batch:6}{context:8}{block_size:6}"
        check.say(f"{place}{seconds['kernel'] * 1e6:8.1f}us{share:9.1%}{''.join(ratios)}")
    check.results["timings"] = {"dtype": str(dtype), "planned": len(points), "points": rows}
    slower = [row for row in rows if row["seconds"]["kernel"] > row["seconds"]["gather"]]
    check.say(f"{len(rows)} of {len(points)} points measured; slower than gather and SDPA at {len(slower)} of them")
    large = [row["share_of_copy"] for row in rows if row["batch"] >= 32 and row["context"] >= 4096]
    if large:
        check.say(f"from batch 32 and context 4096 on: {min(large):.1%} of the copy bandwidth at least")
    flex(check, memory, models)


def flex(check: "Check", memory: tuple[torch.Tensor, ...], models: dict) -> None:
    """FlexAttention over pages at two points, or the reason why not."""
    rows: list[dict[str, object]] = []
    for batch, context in [(8, 4096), (32, 4096)]:
        row: dict[str, object] = {"batch": batch, "context": context, "block_size": 64}
        try:
            if check.rehearse:
                raise RuntimeError("FlexAttention is compiled, which a rehearsal leaves out")
            step = Step(Point(*models["Llama-3.2-1B"][3:6], batch, context, 64), memory, layers=1)
            run = step.flex()
            difference = (run() - step.kernel()).abs().max().item()
            seconds = side_by_side({"kernel": step.kernel, "flex": run}, check.device)
            row |= {"seconds": seconds, "largest_difference": difference}
            check.say(
                f"FlexAttention over pages, batch {batch}: {seconds['flex'] / seconds['kernel']:.2f}x the kernel's time"
            )
        except Exception as error:  # it is experimental, and changes from torch to torch: the rest goes on without
            row["not_run"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            check.say(f"FlexAttention over pages, batch {batch}: not run ({row['not_run']})")
        rows.append(row)
    check.results["flex"] = rows


@torch.inference_mode()
def decode_steps(check: "Check") -> None:
    """Whole decode steps of one sequence, with the gather and with the kernel, tokens compared; and peak memory."""
    contexts, steps, models, dtype = [1024, 8192], 16, MODELS, torch.float16
    if check.rehearse:
        contexts, steps, models, dtype = [20], 3, TINY, torch.float32
    rows = []
    check.say(f"\n{'model':14}{'context':>8}{'gather':>12}{'kernel':>12}  peak memory")
    for name, context in itertools.product(models, contexts):
        if not check.left(share=0.3):
            continue
        torch.manual_seed(0)
        layers, hidden, mlp, heads, kv_heads, dim, vocabulary = models[name]
        config = LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            intermediate_size=mlp,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=dim,
            max_position_embeddings=context + steps,
            tie_word_embeddings=True,
        )
        with torch.device(check.device):
            model = Llama(config).to(dtype)
        prompt = torch.randint(vocabulary, (1, context), device=check.device)
        row: dict[str, object] = {"model": name, "context": context}
        for way in ("gather", "kernel"):
            if not check.rehearse:
                torch.cuda.reset_peak_memory_stats()
            pool = KVPool.for_model(model, -(-(context + steps) // 16))
            cache = PagedKVCache(pool)
            cache.kernel = way == "kernel"
            token = model(prompt, cache)[0, -1].argmax()
            tokens, seconds = [], []
            for _ in range(steps):
                start = time.perf_counter()
                token = model(token.view(1, 1), cache)[0, -1].argmax()
                tokens.append(token.item())  # waits for the device
                seconds.append(time.perf_counter() - start)
            row[way] = {"seconds": sorted(seconds)[steps // 2], "tokens": tokens}
            if not check.rehearse:
                row[way]["peak_bytes"] = torch.cuda.max_memory_allocated()
        row["same_tokens"] = row["gather"]["tokens"] == row["kernel"]["tokens"]
        rows.append(row)
        times = [f"{row[way]['seconds'] * 1e3:10.2f}ms" for way in ("gather", "kernel")]
        peak = [f"{row[way].get('peak_bytes', 0) / 2**20:,.0f} MiB" for way in ("gather", "kernel")]
        check.say(f"{name:14}{context:8}{''.join(times)}  {' and '.join(peak)}, same tokens: {row['same_tokens']}")
    check.results["decode_steps"] = rows
