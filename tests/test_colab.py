"""Each day on Colab, rehearsed: with its packages, and a set-up cell that installs the course into a bare machine.

Every solution is filled in, so that what runs is what a learner's cells define, which IPython 7 keeps in its own way.
As a notebook is first opened, the reference stands in for those cells: nbval runs that, in test_notebooks.py.
"""

import copy
import os
import subprocess
from pathlib import Path

import pytest
from nbformat import NotebookNode

from nanoserve.weights import build_once
from tests.colab import make_environment, run
from tests.test_notebooks import build, each_day, solved

STATE = "application/vnd.jupyter.widget-state+json"


@pytest.fixture(scope="session")
def colab(tmp_path_factory) -> Path:
    """The environment, made once for all workers."""
    base = tmp_path_factory.getbasetemp()
    return build_once((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "colab", make_environment)


def said(cell: NotebookNode, in_words: bool = True) -> list[tuple[str, str]]:
    """What a cell put out, in order, and in which forms; prints in a row are one."""
    outputs: list[tuple[str, str]] = []
    for output in cell.outputs:
        if output.output_type != "stream":
            outputs.append((" ".join(sorted(output.data)), output.data.get("text/plain", "")))
        elif outputs and outputs[-1][0] == output.name:
            outputs[-1] = (output.name, outputs[-1][1] + output.text)
        else:
            outputs.append((output.name, output.text))
    return outputs if in_words else [(form, "") for form, _ in outputs]


def test_the_rehearsal_has_colabs_packages_and_no_nanoserve(colab):
    begins = {"ipython": "7.34.", "ipykernel": "6.17.", "ipywidgets": "7.7.1", "numpy": "2.1.", "transformers": "5.15."}
    code = (
        "from importlib.metadata import version\nfrom importlib.util import find_spec\n"
        f"print(*map(version, {list(begins)}), find_spec('nanoserve'), find_spec('torch') is not None)"
    )
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [colab / "bin" / "python", "-c", code]
    printed = subprocess.run(command, cwd=colab, env=variables, capture_output=True, text=True).stdout
    for word, expected in zip(printed.split(), [*begins.values(), "None", "True"], strict=True):
        assert word.startswith(expected), printed


@each_day
def test_a_day_says_there_what_it_says_here(source, colab, tmp_path):
    here = solved(source)
    there = run(copy.deepcopy(here), colab, tmp_path)
    models = there.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for ours, theirs in zip(here.cells, there.cells, strict=True):
        if ours.cell_type == "code":
            in_words = "nbval-ignore-output" not in ours.metadata.get("tags", ())
            assert said(theirs, in_words) == said(ours, in_words), ours.source
            views = [output.data[build.WIDGET] for output in theirs.outputs if build.WIDGET in output.get("data", ())]
            for view in views:
                assert models[view["model_id"]]["model_module_version"] == "1.5.0", "no model of ipywidgets 7"
