"""How a stage tries a learner's kernel: a launch in "What ran", its errors and races as verdicts, and the compiler."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from nanoserve.course.kernels.accesses import Access
from nanoserve.course.kernels.launch import Run, compiled, try_launch
from nanoserve.course.probe import Probe, named

if TYPE_CHECKING:
    from nanoserve.course.kernels.ahead import Compiled

Outside = str | Callable[[Access], str]


def tried(
    probe: Probe,
    grid: tuple[int, ...],
    *args: Any,
    race: str,
    reads: Outside,
    writes: Outside,
    driver: Any = None,
    calls: str = "",
    **constants: Any,
) -> Run:
    """Launch the learner's kernel, or an exercise's own that calls the learner's function.

    Args:
        args, constants: the kernel's arguments, by place and by name; tensors are left as they are.
        race: the slip when programs are in each other's way.
        reads, writes: the slip when one reads, or writes, outside a tensor; or what tells it from that access.
        driver, calls: where the learner writes a function that is no kernel, the kernel to launch, and by which name it
            calls that function.

    Raises:
        Mismatch: a race, or an access outside.
        Exception: what the learner's kernel raised, with the learner's line.
    """
    others = {calls: probe.subject} if calls else {}
    run = try_launch(driver or probe.subject, grid, args, constants, others=others)
    print(run.printed, end="")
    try:
        probe.record(run.call, _outcome, run, shows_result=False)
    except IndexError as error:
        if not (run.accesses and run.accesses[-1].outside):
            raise
        slip = reads if run.accesses[-1].kind == "read" else writes
        slip = slip if isinstance(slip, str) else slip(run.accesses[-1])
        probe.fail("no element outside a tensor", named(error), slip)
    if run.races:
        probe.fail("no element that two programs are at odds about", run.races[0], race)
    return run


def builds(
    probe: Probe,
    *args: Any,
    slips: Mapping[str, str],
    capability: tuple[int, int] = (8, 0),
    driver: Any = None,
    calls: str = "",
    **constants: Any,
) -> "Compiled":
    """One case: the compiler takes the kernel as it is, for an A100 or another GPU.

    Args:
        args, constants, driver, calls: as for `tried`.
        slips: a part of the compiler's message -> the slip that it means; "" means any.
        capability: (7, 5) is a T4, (8, 0) an A100, (9, 0) an H100.

    Returns:
        What the compiler made of it.

    Raises:
        Mismatch: it does not.
    """
    probe.cases += 1
    others = {calls: probe.subject} if calls else {}
    version = ".".join(map(str, capability))
    probe.calls.append(f"compile {probe.subject.__name__} for compute capability {version}, without running it")
    try:
        return compiled(driver or probe.subject, capability, *args, others=others, **constants)
    except Exception as error:
        came = f"{type(error).__name__}: {error}"  # whole, for what tells the slip may stand at its end
        slip = next(slips[part] for part in slips if part in came)
        probe.fail("a kernel that Triton compiles", named(error), slip)


def undefined(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A fresh output: NaN wherever the kernel writes nothing."""
    return torch.full(shape, torch.nan, dtype=dtype)


def close(came: torch.Tensor, expected: torch.Tensor) -> bool:
    """Equal to 1e-5, NaN where NaN is expected."""
    return came.shape == expected.shape and torch.allclose(came, expected, rtol=1e-5, atol=1e-5, equal_nan=True)


def numbers(values: torch.Tensor) -> str:
    """A small tensor on one line, with NaN as a dot: that is where nothing was written."""
    if values.ndim > 1:
        return f"[{', '.join(map(numbers, values))}]"
    return f"[{' '.join('·' if value != value else f'{value:g}' for value in values.tolist())}]"


def _outcome(run: Run) -> None:
    if run.error is not None:
        raise run.error
