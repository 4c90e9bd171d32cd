"""A learner's Triton kernel, tried safely: in the interpreter, in a process of its own, and before the compiler."""

from nanoserve.course.kernels.day import triton_day
from nanoserve.course.kernels.launch import compiled, launch
from nanoserve.course.view.accesses_widget import AccessView

__all__ = ["AccessView", "compiled", "launch", "triton_day"]
