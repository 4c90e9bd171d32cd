"""Measures continuous batching on SmolLM2 against transformers, and pages against contiguous rows.

    python benchmarks/continuous.py             a quarter of an hour on a 2-core CPU
    python benchmarks/continuous.py --rehearse  the same with a small random model and short requests, in seconds

Everything that is compared is timed in turns in one run, with medians, and must give the same tokens. It writes
`benchmarks/results/continuous.json`.
"""

import argparse
import json
import os
import platform
import random
import sys
from collections.abc import Callable
from copy import deepcopy
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import torch
import torch.nn.functional as F
import transformers
from transformers import LlamaForCausalLM

from benchmarks.clock import side_by_side
from benchmarks.serving import AT_ONCE, BLOCK_SIZE, Workload
from nanoserve import KVPool, Llama, PagedSlotKVCache, PrefillCache, SlotKVCache, load_model
from nanoserve.course.small_llama import small_llamas
from nanoserve.model import project
from nanoserve.slots import Slots
from nanoserve.weights import find_checkpoint

CPU = torch.device("cpu")
# Kind of work -> the operators that do it, by the profiler's names.
WORK = {
    "products with the weights": ("aten::mm", "aten::addmm"),
    "attention": ("aten::_scaled_dot_product_flash_attention_for_cpu", "aten::bmm", "aten::_softmax"),
    "copies out of the blocks": ("aten::index_select",),
    "writes into the blocks": ("aten::index_copy_",),
}


def machine() -> dict[str, object]:
    """What this was measured on."""
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__}
        | {"transformers": transformers.__version__},
        "date": str(date.today()),
    }


def serving(model: Llama, theirs: LlamaForCausalLM, workload: Workload, rounds: int) -> dict[str, object]:
    """New tokens a second of each way to serve the workload, and whether all of them gave the same."""
    changed = deepcopy(theirs)  # by continuous batching
    ways: dict[str, Callable[[], list[list[int]]]] = {
        "run_continuous, paged": lambda: workload.ours(model, workload.blocks(model)),
        "run_continuous, contiguous": lambda: workload.ours(model, workload.rows(model)),
        "transformers' generate, one by one": lambda: workload.one_by_one(theirs),
        "transformers' generate, padded": lambda: workload.padded(theirs),
        "transformers' continuous batching": lambda: workload.their_continuous(changed),
    }
    texts: dict[str, list[list[int]]] = {}

    def kept(name: str) -> Callable[[], None]:
        return lambda: texts.update({name: ways[name]()})

    seconds = side_by_side({name: kept(name) for name in ways}, CPU, rounds)
    tokens = sum(workload.counts)
    expected = texts["transformers' generate, one by one"]
    rows = {}
    for name in ways:
        same = sum(text == other for text, other in zip(texts[name], expected, strict=True))
        speedup = seconds[name] / seconds["run_continuous, paged"]
        rows[name] = {"tokens_per_second": tokens / seconds[name], "ours_is_faster": speedup, "same_texts": same}
        print(
            f"{name:36}{tokens / seconds[name]:8.1f} tokens/s{speedup:7.2f}x{same:5} of {len(expected)} texts the same"
        )
    return rows


def profiled(model: Llama, workload: Workload) -> dict[str, float]:
    """Seconds that one run over pages spends in each kind of work, by torch's profiler, which takes some itself."""
    slots = workload.blocks(model)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        workload.ours(model, slots)
    seconds = dict.fromkeys((*WORK, "everything else"), 0.0)
    for event in profile.key_averages():
        kind = next((kind for kind, names in WORK.items() if event.key in names), "everything else")
        seconds[kind] += event.self_cpu_time_total / 1e6
    whole = sum(seconds.values())
    print(f"\nwhere the {whole:.1f} s of a run over pages go:")
    for kind, spent in seconds.items():
        print(f"{kind:28}{spent:8.2f} s{spent / whole:6.0%}")
    return seconds


def decode_step(model: Llama, history: int, rounds: int) -> dict[str, float]:
    """Milliseconds of one step of eight full slots: over pages that lie anywhere in the pool, and over rows."""
    pages_each = -(-(history + 1) // BLOCK_SIZE)
    pool = KVPool.for_model(model, AT_ONCE * pages_each + 1, BLOCK_SIZE)
    shuffled = pool.allocator.allocate_for(pool.allocator.num_blocks * BLOCK_SIZE)
    random.Random(0).shuffle(shuffled)
    pool.allocator.free_all(shuffled)
    config = model.config
    shape = AT_ONCE, config.num_key_value_heads, history, config.head_dim
    prefill = PrefillCache([0] * AT_ONCE)
    prefill.layers = [(torch.randn(shape), torch.randn(shape)) for _ in range(config.num_hidden_layers)]
    ids = torch.ones(AT_ONCE, 1, dtype=torch.long)

    def step_over(slots: Slots) -> Callable[[], object]:
        slots.admit(range(AT_ONCE), prefill, prefill.pad_lens)
        slots.reserve_step()
        return lambda: model(ids, slots)  # never counted, so each is the same step

    steps = {
        "paged": step_over(PagedSlotKVCache(pool, AT_ONCE)),
        "contiguous": step_over(SlotKVCache(model, AT_ONCE, 2 * history)),
        "reading the weights": lambda: [weight.sum() for weight in model.parameters()],
    }
    row = {name: 1e3 * seconds for name, seconds in side_by_side(steps, CPU, rounds).items()}
    row["paged_to_contiguous"] = row["paged"] / row["contiguous"]
    print(f"\na step of {AT_ONCE} slots with {history} tokens each, ms:", {k: round(v, 2) for k, v in row.items()})
    return row


def projections(model: Llama, rounds: int) -> list[dict[str, float]]:
    """Milliseconds of all the model's products with its weights, as `project` and as `F.linear`, by number of rows."""
    weights = [weight for weight in model.parameters() if weight.ndim == 2]
    table = []
    print("\nall products with the weights, ms:")
    for rows in (1, 2, 4, 8, 16, 32):
        inputs = {weight.shape[1]: torch.randn(rows, weight.shape[1]) for weight in weights}
        runs = {
            name: lambda multiply=multiply, inputs=inputs: [multiply(inputs[w.shape[1]], w) for w in weights]
            for name, multiply in (("project", project), ("F.linear", F.linear))
        }
        row = {name: 1e3 * seconds for name, seconds in side_by_side(runs, CPU, rounds).items()}
        print(f"{rows:3} rows", {name: round(ms, 1) for name, ms in row.items()})
        table.append({"rows": rows} | row)
    return table


def memory(model: Llama, workload: Workload, max_len: int, rounds: int) -> dict[str, object]:
    """How full the memory is, and what the same bytes serve as eight rows of `max_len`, and as pages for as many slots
    as there are requests."""
    num_tokens, requests = AT_ONCE * max_len, len(workload.prompts)
    make = {
        "contiguous": lambda: workload.rows(model, max_len),
        "paged": lambda: workload.blocks(model, requests, num_tokens),
    }
    runs = {name: lambda slots=slots: workload.ours(model, slots()) for name, slots in make.items()}
    seconds = side_by_side(runs, CPU, rounds)
    tokens = sum(workload.counts)
    rows: dict[str, object] = {"reserved_tokens": num_tokens, "most_used_of_allocated": workload.most_used_of_allocated}
    print(f"\nthe same {num_tokens} tokens of memory, filled at most {rows['most_used_of_allocated']:.1%} in pages:")
    for name, slots in make.items():
        row = workload.watched(model, slots()) | {"tokens_per_second": tokens / seconds[name]}
        rows[name] = row
        print(f"{name:12}", {key: round(value, 3) for key, value in row.items()})
    return rows


def main(arguments: list[str]) -> None:
    """Run all parts, print them, and write the file."""
    parser = argparse.ArgumentParser(description="Measure continuous batching on this machine's CPU.")
    parser.add_argument("--rehearse", action="store_true", help="with a small model, only to see it run")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON file")
    chosen = parser.parse_args(arguments)
    torch.manual_seed(0)
    if chosen.rehearse:
        model, theirs = small_llamas("cpu")
        sizes, rounds, history, max_len = (10, 20, 12), 1, 32, 64
    else:
        model, theirs = load_model(), LlamaForCausalLM.from_pretrained(find_checkpoint()).eval()
        theirs.generation_config.eos_token_id = None  # each text has the length that was asked for
        sizes, rounds, history, max_len = (32, 96, 64), 3, 512, 512
    workload = Workload.drawn(*sizes, vocab_size=model.config.vocab_size)
    asked = {"prompt_tokens": sum(map(len, workload.prompts)), "new_tokens": sum(workload.counts)}
    results: dict[str, object] = {
        "machine": machine(),
        "workload": {"requests": len(workload.prompts), "at_once": AT_ONCE, "block_size": BLOCK_SIZE} | asked,
    }
    print(results["machine"], "\n")
    results["serving"] = serving(model, theirs, workload, rounds)
    results["profile"] = profiled(model, workload)
    results["decode_step"] = decode_step(model, history, 10 * rounds + 1)
    results["projections"] = projections(model, 5 * rounds)
    results["memory"] = memory(model, workload, max_len, rounds)
    chosen.out.mkdir(parents=True, exist_ok=True)
    target = chosen.out / ("continuous-rehearsal.json" if chosen.rehearse else "continuous.json")
    target.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"\nwritten to {target}")


if __name__ == "__main__":
    main(sys.argv[1:])
