"""The engine's kernels before the compiler, for GPUs that need not be there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

pytestmark = pytest.mark.xdist_group("compiled kernels")  # one table serves them all
ROOT = Path(__file__).parents[1]
SHARED_OF_A_T4 = 64 * 1024  # bytes that a program can have there; the compiler does not look


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The rows of `benchmarks/compiled_kernels.py`, compiled anew."""
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}
    command = [sys.executable, ROOT / "benchmarks" / "compiled_kernels.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    rows = [line.replace("H100, H200", "H100").split() for line in done.stdout.splitlines()[3:]]
    return [
        (kernel, gpu, dtype, int(spilled), int(shared.replace(",", "")))
        for kernel, gpu, dtype, *_, shared, spilled in rows
    ]


def test_each_kernel_compiles_for_each_gpu_in_the_types_that_it_supports(table):
    compiled = {(kernel, gpu, dtype) for kernel, gpu, dtype, *_ in table}
    both = {"fp16", "fp32"}
    types = {"T4": both, "A100": both | {"bf16"}, "L4": both | {"bf16"}, "H100": both | {"bf16"}}
    assert compiled == {
        (kernel, gpu, dtype) for kernel in ("paged_decode", "combine") for gpu in types for dtype in types[gpu]
    }


def test_no_kernel_spills(table):
    assert [row for row in table if row[3] > 0] == []


def test_every_kernel_fits_the_shared_memory_of_a_t4(table):
    assert max(row[4] for row in table) <= SHARED_OF_A_T4
