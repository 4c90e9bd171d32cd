"""Compiles a Triton kernel ahead of time, for a GPU that need not be there, and reads what the compiler made of it.

Nothing here runs a kernel. The interpreter, which does, accepts much that the compiler refuses: a kernel is right when
it passes both. Triton must not be in its interpreter's mode, which is chosen when it is first imported.
"""

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource


@dataclass(frozen=True)
class Compiled:
    """What the compiler made of a kernel.

    Attributes:
        arch: the compute capability that it is for, such as 75 or 90.
        shared: bytes of shared memory of each program.
        ptx: the assembly.
    """

    arch: int
    shared: int
    ptx: str

    @property
    def registers(self) -> int:
        """Of each thread; 255 is the most that there are."""
        return _resources(self.ptx, self.arch)[0]

    @property
    def spilled(self) -> int:
        """Bytes that each thread keeps in memory because its registers do not suffice."""
        return _resources(self.ptx, self.arch)[1]


def compile_for(
    kernel: "triton.runtime.JITFunction",
    capability: tuple[int, int],
    types: Mapping[str, str],
    constants: Mapping[str, object],
    num_warps: int = 4,
    num_stages: int = 3,
) -> Compiled:
    """Compile a kernel for NVIDIA GPUs of one compute capability.

    Args:
        kernel: what `@triton.jit` made.
        capability: (7, 5) is a T4, (8, 0) an A100, (8, 9) an L4, (9, 0) an H100 or H200.
        types: Triton's type of each argument that is no constant: "*fp16" a pointer, "i32", "fp32". Pointers are taken
            to be aligned to 16 bytes, as PyTorch's are, and so is each "i32:16", a size that 16 divides.
        constants: the value of each `tl.constexpr` argument, and of each argument that is 1 or None.
        num_warps, num_stages: as a launch takes them.

    Raises:
        triton.CompilationError: what the interpreter may accept and the compiler does not.
    """
    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else types[name].split(":")[0] for name in names}
    aligned = [name for name in names if name not in constants and (types[name][0] == "*" or ":16" in types[name])]
    source = ASTSource(
        kernel,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in aligned},
    )
    target = GPUTarget("cuda", 10 * capability[0] + capability[1], 32)
    compiled = triton.compile(source, target=target, options={"num_warps": num_warps, "num_stages": num_stages})
    return Compiled(target.arch, compiled.metadata.shared, compiled.asm["ptx"])


@cache  # for both properties, the assembler runs once
def _resources(ptx: str, arch: int) -> tuple[int, int]:
    """Registers and spilled bytes a thread, as NVIDIA's assembler, which Triton ships, reports them."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        name = f"sm_{arch}a" if arch >= 90 else f"sm_{arch}"
        command = [get_ptxas(arch).path, "-v", f"--gpu-name={name}", source, "-o", Path(folder, "kernel.cubin")]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = max(int(count) for count in re.findall(r"Used (\d+) registers", report))
    return registers, sum(int(count) for count in re.findall(r"(\d+) bytes spill stores", report))
