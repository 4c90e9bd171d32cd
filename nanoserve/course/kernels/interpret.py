"""In a process of its own: runs a kernel in Triton's interpreter, behind the guard, and tells what it did.

`TRITON_INTERPRET=1` is set for that process before Triton is first imported.
"""

import time
import warnings

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime.errors import InterpreterError

from nanoserve.course.kernels.accesses import races
from nanoserve.course.kernels.guard import Guard
from nanoserve.course.kernels.jobs import Answer, RunJob, Told, shown
from nanoserve.course.kernels.package import unpack
from nanoserve.course.limits import own_line, run_limited


def answer(job: RunJob) -> Answer:
    """Run a job to its end, its first error, or the end of its time."""
    tensors = {name: value for name, value in job.arguments.items() if isinstance(value, torch.Tensor)}
    begins = {shown(name): first for name, first in job.windows.items()}
    guard = Guard({shown(name): tensor for name, tensor in tensors.items()}, begins, job.keeps)
    seconds = 0.0

    def run() -> None:
        nonlocal seconds
        kernel = unpack(job.package)
        start = time.perf_counter()
        try:
            with guard.in_place(), np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                kernel[job.grid](**job.arguments)
        except InterpreterError as error:
            raise _root(error) from None
        finally:
            seconds = time.perf_counter() - start

    outcome = run_limited(run, job.seconds)
    error = outcome.error
    words = f"longer than {job.seconds:g} seconds" if outcome.out_of_time else str(error)
    told = error and Told(type(error).__name__, words, outcome.line)
    if outcome.out_of_time:  # what an endless loop did fills the memory and tells nothing
        return Answer(tensors, [], [], outcome.printed, seconds, told)
    return Answer(tensors, guard.accesses, races(guard.writes, guard.reads), outcome.printed, seconds, told)


def canary() -> str:
    """Run a kernel whose outcome is known: "" when it comes out so, otherwise one sentence that says what to change."""
    versions = f"Triton {triton.__version__} and NumPy {np.__version__}"
    change = "install triton>=3.7, or numpy<2.4, and restart the kernel"
    x, lengths, sums = torch.arange(4.0), torch.tensor([3]), torch.full((1,), -1.0)
    try:
        # Behind the guard, as in a job: what that imports late, the children then have.
        with Guard({"x": x, "turns": lengths, "sum": sums}, {}, keeps=True).in_place():
            _canary_kernel[(1,)](x, lengths, sums, 4)
    except Exception as error:
        return f"{versions} do not work together ({_root(error)}): {change}"
    return "" if sums.item() == 18.0 else f"{versions} do not work together (1 + 2 + 3 came out wrong): {change}"


def _root(error: BaseException) -> BaseException:
    """The kernel's own error, which each function on the way has wrapped once; those of `tl` have no line here."""
    line = None
    while isinstance(error, InterpreterError) and error.__cause__ is not None:
        line, error = own_line(error) or line, error.__cause__
    if not own_line(error):
        error.learners_line = line
    return error


@triton.jit
def _canary_kernel(x_ptr, turns_ptr, sum_ptr, SIZE: tl.constexpr):
    total = 0.0
    for _ in range(tl.load(turns_ptr)):  # a number of turns that was loaded is what older pairs fail at
        total += tl.sum(tl.load(x_ptr + tl.arange(0, SIZE)))
    tl.store(sum_ptr, total)
