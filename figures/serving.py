"""What `benchmarks/continuous.py` measured: how fast the same requests are served, and what the same memory holds."""

import json
from pathlib import Path

from nanoserve.course.view.shapes import WIDTH, document, group, rect, text

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "continuous.json"
_LEFT, _RIGHT, _BARS, _ROW = 22, 588, 92, 36


def serving(theme: str = "light") -> str:
    """The figure as an SVG document."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    asked, machine, memory = results["workload"], results["machine"], results["memory"]
    where = f"{machine['processor']}, {machine['cores']} cores, fp32, SmolLM2-135M"
    together = f"{asked['requests']} requests of many lengths, {asked['at_once']} at a time; {where}"
    parts = [
        text(_LEFT, 38, "New tokens per second", 18, "ink", room=530, bold=True),
        text(_LEFT, 62, together, 13, "mute", room=530, least=9),
        *_speeds({name: row["tokens_per_second"] for name, row in results["serving"].items()}),
        text(_RIGHT, 38, "The same bytes of KV memory", 18, "ink", room=350, bold=True),
        text(_RIGHT, 62, f"room for {memory['reserved_tokens']:,} tokens; the mean step", 13, "mute", room=350),
        *_memory(memory),
    ]
    return document(parts, _BARS + 5 * _ROW + 10, "What continuous batching over pages gains", theme)


def _speeds(speeds: dict[str, float]) -> list[str]:
    """A bar for each way to serve the requests, as long as it is fast."""
    most = max(speeds.values())
    parts = []
    for row, (name, speed) in enumerate(speeds.items()):
        y, width = _BARS + row * _ROW, 200 * speed / most
        words = f"{name}: {speed:.1f} tokens per second"
        bar = rect(_LEFT + 262, y, width, _ROW - 10, "badge0" if row == 0 else "slot0", 3)
        label = text(_LEFT, y + 18, name, 13.5, "ink", room=256, bold=row == 0)
        parts.append(
            group("bar", [label, bar, text(_LEFT + 270 + width, y + 18, f"{speed:.0f}", 13.5, "ink", room=60)], words)
        )
    return parts


def _memory(memory: dict[str, dict[str, float]]) -> list[str]:
    """For rows and for pages: how many requests are in flight, and how much of the room holds tokens."""
    parts, room = [], WIDTH - 22 - _RIGHT
    for row, (name, label) in enumerate((("contiguous", "contiguous rows"), ("paged", "pages"))):
        y, seen = _BARS + row * 88, memory[name]
        told = f"{label}: {seen['in_flight']:.1f} requests in flight"
        share = seen["used_of_reserved"]
        parts += [
            text(_RIGHT, y + 16, told, 13.5, "ink", room=room, bold=name == "paged"),
            rect(_RIGHT, y + 26, room, 26, "free", 3),
            rect(_RIGHT, y + 26, room * share, 26, "badge0" if name == "paged" else "slot0", 3),
            text(_RIGHT + room * share + 8, y + 44, f"{share:.0%} holds tokens", 13, "ink", room=150),
        ]
    filled = f"blocks in use: {memory['paged']['used_of_allocated']:.1%} full"
    bound = f"{memory['most_used_of_allocated']:.1%} is possible"
    parts.append(text(_RIGHT, _BARS + 166, f"{filled}, and {bound}", 12, "mute", room=room))
    return parts
