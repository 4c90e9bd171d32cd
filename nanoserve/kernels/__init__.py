"""Days 20 and 21: the engine's Triton kernels. Triton is imported here only; a machine without it runs all the rest."""

try:
    import triton  # noqa: F401
except ImportError as error:
    raise ImportError("nanoserve.kernels needs Triton, which runs on Linux: pip install triton") from error

from nanoserve.kernels.launch import paged_attention

__all__ = ["paged_attention"]
