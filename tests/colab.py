"""Colab, as far as it can be had elsewhere: its packages, its kernel, and its way to install the course.

In place of Colab's Python, torch and Triton stand those of the environment that the tests run in.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
# What Colab's IPython, ipywidgets and transformers stand on, by the same published lists as colab.txt.
BENEATH = [
    *("backcall==0.2.0", "decorator==4.4.2", "entrypoints==0.4", "ipykernel==6.17.1", "ipython-genutils==0.2.0"),
    *("jupyter_client==7.4.9", "matplotlib==3.10.0", "nest-asyncio==1.6.0", "pickleshare==0.7.5", "traitlets==5.7.1"),
    *("huggingface_hub==1.17.0", "tokenizers==0.22.2"),
]
PIP = """\
import os, shutil, sys

if sys.argv[-1].startswith("nanoserve[course] @ git+"):
    shutil.copytree(os.path.join(sys.prefix, "course"), os.environ["PYTHONPATH"], dirs_exist_ok=True)
"""


def make_environment(folder: Path) -> None:
    """Fill an empty folder: Colab's packages in front of this environment's, without its nanoserve and its pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    listed = (ROOT / ".github" / "colab.txt").read_text().split("\n")
    pins = [pin for pin in listed if pin and not pin.startswith(("#", "torch=", "triton="))]
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-compile"]
    done = subprocess.run([*install, *pins, *BENEATH], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (site,) = folder.glob("lib/python*/site-packages")
    # A path that comes so is only looked through: the link in it to this checkout's nanoserve is not followed.
    (site / "beside.pth").write_text(sysconfig.get_path("purelib"))
    (site / "pip").mkdir()
    (site / "pip" / "__init__.py").touch()
    (site / "pip" / "__main__.py").write_text(PIP)
    (site / "google" / "colab").mkdir(parents=True)
    (site / "google" / "colab" / "__init__.py").write_text("def load_ipython_extension(shell): ...\n")
    shutil.copytree(ROOT / "nanoserve", folder / "course" / "nanoserve", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([python, "-m", "compileall", "-q", folder / "course"], check=True)  # once, not on each day
    # On a slow machine Matplotlib says on stderr that it looks for fonts; Colab has done so before a notebook opens.
    fonts = {"MPLCONFIGDIR": str(folder / "matplotlib")}
    subprocess.run([python, "-c", "import matplotlib.font_manager"], env=os.environ | fonts, check=True)


def run(notebook: NotebookNode, environment: Path, scratch: Path) -> NotebookNode:
    """Run a notebook in place on a machine that is its alone: no file beside it, nothing installed by another.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised; every check must pass.
    """
    installed, content = scratch / "installed", scratch / "content"
    installed.mkdir()
    content.mkdir()
    variables = os.environ | {
        "IPYTHONDIR": str(scratch / "ipython"),
        "MPLCONFIGDIR": str(environment / "matplotlib"),
        "NANOSERVE_STRICT": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(installed),
    }
    variables.pop("TRITON_INTERPRET", None)
    python = [str(environment / "bin" / "python"), "-Xfrozen_modules=off"]
    launch = ["-m", "ipykernel_launcher", "--ext", "google.colab", "-f", "{connection_file}"]
    spec = scratch / "kernels" / "colab" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": python + launch, "display_name": "Colab", "language": "python"}))
    specs = KernelSpecManager(kernel_dirs=[str(spec.parents[1])])
    manager = AsyncKernelManager(kernel_name="colab", kernel_spec_manager=specs)
    where = {"metadata": {"path": str(content)}}
    client = NotebookClient(notebook, km=manager, timeout=300, resources=where, record_timing=False)
    asyncio.run(client.async_execute(env=variables, cleanup_kc=True))
    assert (installed / "nanoserve").is_dir(), "the set-up cell found a nanoserve that Colab has not"
    return notebook
