"""Compiles the engine's kernels for four generations of GPUs, without one, and prints what the compiler made of them.

python benchmarks/compiled_kernels.py
"""

import os

os.environ.pop("TRITON_INTERPRET", None)  # there is nothing to compile in the interpreter's mode

from collections.abc import Iterator

import triton

from nanoserve.course.kernels.ahead import Compiled, compile_for
from nanoserve.kernels.combine import combine_kernel
from nanoserve.kernels.launch import tile_shape
from nanoserve.kernels.paged_decode import paged_decode_kernel

GPUS = {(7, 5): "T4", (8, 0): "A100", (8, 9): "L4", (9, 0): "H100, H200"}
# Query heads a KV head, and the head dimension: SmolLM2-135M and Llama-3.2-1B, Llama-3.1-8B, and what is unusual.
HEADS = [(3, 64), (4, 128), (1, 80), (16, 128)]


def decode_types(dtype: str) -> dict[str, str]:
    """Triton's types of the decode kernel's arguments, as `paged_attention` launches it on a pool with pages of 16."""
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), f"*{dtype}")
    strides = ("q_batch", "q_head", "block", "token", "kv_head", "out_batch", "out_head", "out_split")
    sizes = dict.fromkeys((f"{name}_stride" for name in strides), "i32:16") | {"table_stride": "i32"}
    others = {"table_ptr": "*i64", "lens_ptr": "*i64", "lse_ptr": "*fp32", "scale": "fp32", "block_size": "i32:16"}
    return pointers | sizes | others


def compile_all() -> Iterator[tuple[str, tuple[int, int], str, tuple[int, int], Compiled]]:
    """Yield (kernel, capability, dtype, (group, head_dim), what came of it) for all that the engine would launch."""
    for capability in GPUS:
        dtypes = ["fp16", "fp32"] + (["bf16"] if capability >= (8, 0) else [])
        for dtype in dtypes:
            for group, dim in HEADS:
                constants = tile_shape(group, dim, dot=dtype != "fp32" and capability >= (8, 0))
                compiled = compile_for(paged_decode_kernel, capability, decode_types(dtype), constants)
                yield "paged_decode", capability, dtype, (group, dim), compiled
            types = {"parts_ptr": "*fp32", "lse_ptr": "*fp32", "out_ptr": f"*{dtype}", "splits": "i32"}
            types |= {"out_batch_stride": "i32:16", "out_head_stride": "i32:16"}
            sizes = {"SPLITS_PAD": 128, "DIM": 128, "DIM_PAD": 128}
            yield "combine", capability, dtype, (1, 128), compile_for(combine_kernel, capability, types, sizes)


def main() -> None:
    """Print the table."""
    print(f"Triton {triton.__version__}, 4 warps, 3 stages\n")
    print(
        f"{'kernel':14}{'GPU':12}{'type':6}{'group':>6}{'dim':>5}{'registers':>11}{'shared':>9}{'spilled':>9}{'products':>11}"
    )
    for kernel, capability, dtype, (group, dim), compiled in compile_all():
        place = f"{kernel:14}{GPUS[capability]:12}{dtype:6}{group:6}{dim:5}"
        products = "tensor" if "mma." in compiled.ptx else "fp32"  # tensor cores would round fp32 to tf32
        print(f"{place}{compiled.registers:11}{compiled.shared:9,}{compiled.spilled:9}{products:>11}", flush=True)


if __name__ == "__main__":
    main()
