"""Task 19.2: each mechanism of a sum over rows, alone."""

import torch

from nanoserve.course.exercises.day19.misuses import (
    REFUSED,
    fails_unless_dealt_out,
    keeps_its_pointers,
    only_writes,
    raised,
    unwritten,
)
from nanoserve.course.kernels.accesses import Access
from nanoserve.course.kernels.launch import Run
from nanoserve.course.kernels.trial import Outside, builds, close, numbers, tried, undefined
from nanoserve.course.probe import Probe


def a_row_that_fits(probe: Probe) -> None:
    """One row, as long as a block."""
    keeps_its_pointers(probe, "x_ptr", "out_ptr")
    x = torch.tensor([[1.5, 2.0, 4.0, 8.25]])
    slips = {
        "no-turn": torch.zeros(1),
        "mean-for-sum": x.mean(1),
        "first-element": x[:, 0],
        "cut-to-whole-numbers": x.trunc().sum(1),
        "no-step": sum(x[0, start:].sum() for start in range(4)).reshape(1),
    }

    def outside(access: Access) -> str:
        return "row-stored" if access.kind == "write" else "beyond-the-row"

    with raised(probe, "block-for-a-sum", indexed="block-gone-through"):
        run = _tried(probe, x, 4, outside=outside)
    slips[unwritten(run, "out")] = undefined(1)
    _equal(probe, run, x, "wrong-sum", slips)


def the_compiler_takes_it(probe: Probe) -> None:
    """The compiler, which takes less than the interpreter, takes the kernel."""
    slips = {"oop-carried": "total-changes-its-type", "must all be ints": "float-for-turns"} | REFUSED
    builds(probe, torch.zeros(2, 8), torch.zeros(2), 8, 8, BLOCK=4, slips=slips)


def each_row_has_a_program(probe: Probe) -> None:
    """Three rows, each as long as a block."""
    x = _bits(3, 4)
    slips = {"first-row-only": torch.full((3,), 15.0), "sums-in-one-place": torch.tensor([15.0, torch.nan, torch.nan])}
    slips["mask-over-the-matrix"] = torch.tensor([15.0, 0.0, 0.0])
    run = _tried(probe, x, 4, outside=_far)
    _equal(probe, run, x, "wrong-row", slips)
    fails_unless_dealt_out(probe, run)


def a_row_shorter_than_a_block(probe: Probe) -> None:
    """One row of five elements, and a block of 8."""
    slips = {"no-other": undefined(1), "last-column-left-out": torch.tensor([15.0]), "no-turn": torch.zeros(1)}

    def outside(access: Access) -> str:
        return "one-column-too-many" if access.elements.max() == 5 else "row-not-masked"

    _summed(probe, _bits(1, 5), 8, "wrong-sum", slips, outside=outside)


def rows_that_lie_apart(probe: Probe) -> None:
    """Rows of three elements that begin 7 elements apart: a slice of a wider matrix."""
    wide = _bits(3, 7) / 2**10
    flat = wide.flatten()
    slips = {
        name: torch.stack([flat[row * step : row * step + 3].sum() for row in range(3)])
        for name, step in [("row-times-block", 4), ("row-times-columns", 3)]
    }
    slips["gap-summed"] = wide[:, :4].sum(1)
    _summed(probe, wide[:, :3], 4, "wrong-row", slips, outside=_far)


def a_row_longer_than_a_block(probe: Probe) -> None:
    """One row of ten elements, and a block of 4."""
    x = _bits(1, 10)
    row = x[0]
    slips = {
        "first-block-only": row[:4].sum(),
        "last-block-only": row[8:].sum(),
        "same-block-again": 3 * row[:4].sum(),
        "tail-left-out": row[:8].sum(),
    }
    run = _tried(probe, x, 4, "tail-not-masked")
    _equal(probe, run, x, "wrong-loop", {name: value.reshape(1) for name, value in slips.items()})
    probe.cases += 1
    loads = [len(access.elements) for access in run.accesses if access.tensor == "x"]
    if max(loads) == 1:
        probe.fail("loads of up to 4 elements", f"{len(loads)} loads, of one element each", "one-at-a-time")


def halves_are_summed_in_fp32(probe: Probe) -> None:
    """4097 ones in fp16, which cannot hold 4097; then one block whose sum is beyond all fp16 numbers."""
    x = torch.ones(1, 4097, dtype=torch.float16)
    _summed(probe, x, 16, "wrong-sum", {"summed-in-half": torch.tensor([4096.0])})
    x = torch.full((1, 16), 10_000.0, dtype=torch.float16)
    _summed(probe, x, 16, "wrong-sum", {"block-summed-in-half": torch.tensor([torch.inf])})


def any_number_of_rows_and_columns(probe: Probe) -> None:
    """Rows and columns of many sizes."""
    generator = torch.Generator().manual_seed(19)
    for rows, columns, block in [(1, 1, 1), (5, 16, 16), (4, 33, 8), (2, 7, 32)]:
        _summed(probe, torch.randn(rows, columns, generator=generator), block, "other-sizes", {})


def _far(access: Access) -> str:
    return "sums-too-far" if access.kind == "write" else "rows-too-far"


def _summed(
    probe: Probe,
    x: torch.Tensor,
    block: int,
    slip: str,
    slips: dict[str, torch.Tensor],
    outside: Outside = "other-sizes",
) -> None:
    _equal(probe, _tried(probe, x, block, outside), x, slip, slips)


def _tried(probe: Probe, x: torch.Tensor, block: int, outside: Outside) -> Run:
    rows, columns = x.shape
    if columns < 12:
        probe.calls.append(f"x = {numbers(x)}")
    step = x.stride(0) if rows > 1 else columns
    slips = {"race": "sums-in-one-place", "reads": outside, "writes": outside}
    run = tried(probe, (rows,), x, undefined(rows), columns, step, BLOCK=block, **slips)
    only_writes(probe, run, "out")
    return run


def _equal(probe: Probe, run: Run, x: torch.Tensor, slip: str, slips: dict[str, torch.Tensor]) -> None:
    """One case: the sums of these rows."""
    expected = x.double().sum(dim=1).float()
    probe.equal(run.tensors["out"], expected, slip, slips, same=close, told=lambda out: f"out = {numbers(out)}")


def _bits(rows: int, columns: int) -> torch.Tensor:
    """Powers of two, so that a sum says what was summed."""
    return (2.0 ** torch.arange(rows * columns)).reshape(rows, columns)
