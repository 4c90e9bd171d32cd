"""Checks the kernels on one NVIDIA GPU against float64, times them against what else there is, and writes it all down.

    python benchmarks/gpu_check.py             under 8 minutes, no network, no model download
    python benchmarks/gpu_check.py --rehearse  the same on a CPU, in Triton's interpreter, with small sizes

It needs a checkout, torch, triton and transformers, and writes `benchmarks/results/<gpu>.json`.
"""

import argparse
import json
import os
import platform
import re
import sys
import time
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
if "--rehearse" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"

import torch
import transformers
import triton

from benchmarks.parts import bandwidth, correctness, decode_steps, timings


class Check:
    """One run: where it is, how large it may be, how long it may last, and what has come of it."""

    def __init__(self, rehearse: bool, minutes: float) -> None:
        self.rehearse = rehearse
        self.device = torch.device("cpu" if rehearse else "cuda")
        self.end = time.monotonic() + 60 * minutes
        name = "rehearsal" if rehearse else torch.cuda.get_device_name()
        self.results: dict[str, object] = {"gpu": name, "date": str(date.today()), "versions": _versions()}

    def left(self, share: float) -> bool:
        """Whether there is time for more of a part that should leave `share` minutes to the others."""
        return time.monotonic() < self.end - 60 * share

    def say(self, text: str) -> None:
        """Print a line now."""
        print(text, flush=True)


def _versions() -> dict[str, str]:
    modules = (torch, triton, transformers)
    versions = {module.__name__: module.__version__ for module in modules} | {"python": platform.python_version()}
    return versions | {"cuda": str(torch.version.cuda)}


def main(arguments: list[str]) -> None:
    """Run all parts, print the tables, and write the file after each part."""
    parser = argparse.ArgumentParser(description="Check and time the kernels on this machine's GPU.")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, in the interpreter, with small sizes")
    parser.add_argument("--minutes", type=float, default=7.0, help="time after which no new measurement begins")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON file")
    chosen = parser.parse_args(arguments)
    if not chosen.rehearse and not torch.cuda.is_available():
        parser.error("there is no CUDA GPU here: try --rehearse")
    torch.manual_seed(0)
    check = Check(chosen.rehearse, chosen.minutes)
    name = re.sub(r"[^a-z0-9]+", "-", str(check.results["gpu"]).lower()).strip("-")
    target = chosen.out / f"{name}.json"
    chosen.out.mkdir(parents=True, exist_ok=True)
    check.say(f"{check.results['gpu']}, {check.results['versions']}")

    rate = bandwidth(check)
    for part in (correctness, lambda check: timings(check, rate), decode_steps):
        part(check)
        target.write_text(json.dumps(check.results, indent=1) + "\n", encoding="utf-8")
    check.say(f"\nwritten to {target}")


if __name__ == "__main__":
    main(sys.argv[1:])
