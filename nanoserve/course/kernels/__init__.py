"""A learner's Triton kernel, tried safely: in the interpreter, in a process of its own, and before the compiler."""

from nanoserve.course.kernels.day import triton_day
from nanoserve.course.kernels.launch import compiled, launch

__all__ = ["compiled", "launch", "triton_day"]
