"""Builds the notebooks that a learner opens from the sources that an author edits.

    python notebooks/build.py                 every day
    python notebooks/build.py day14           the days whose names begin so
    python notebooks/build.py --solved DIR    every solution filled in, written to DIR

A source is a py:percent file under `notebooks/src`. Three things in it are filled in here: the cell tagged `setup`,
each cell marked `task="14.1"` (its stub or its solution, the call to `check`, and the folded answer below it), and
`{task 14.1}` in prose (the task's heading). The same source gives the same bytes each time.
"""

import argparse
import asyncio
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_markdown_cell
from tqdm import tqdm

from nanoserve.course import setup_cell
from nanoserve.course.tasks import find

HERE = Path(__file__).resolve().parent
WIDGET = "application/vnd.jupyter.widget-view+json"


def sources(*names: str) -> list[Path]:
    """The sources whose names begin with one of `names`, or all of them."""
    return [path for path in sorted((HERE / "src").glob("day*.py")) if path.stem.startswith(names or "day")]


def assemble(source: Path, solved: bool = False) -> nbformat.NotebookNode:
    """The notebook of a source, not executed yet; `solved` fills in every solution."""
    notebook = jupytext.read(source)
    notebook.cells = [cell for raw in notebook.cells for cell in _filled(raw, solved)]
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{source.stem.split('_')[0]}-{number:02}"
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def execute(notebook: nbformat.NotebookNode, solved: bool = False, folder: Path = HERE) -> nbformat.NotebookNode:
    """Run a notebook in place, then take out what changes from run to run.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised.
    """
    environment = os.environ | {"NANOSERVE_STRICT": "1" if solved else "0", "PYTHONHASHSEED": "0"}
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}, record_timing=False)
    asyncio.run(client.async_execute(env=environment))
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
        for output in cell.get("outputs", ()):
            if WIDGET in output.get("data", {}):
                output.data[WIDGET]["model_id"] = ""  # JupyterLab hides a view without a model; ids differ run by run
    return notebook


def build(source: Path, solved: bool = False) -> str:
    """The finished notebook of a source, as the text of its file."""
    notebook = execute(assemble(source, solved), solved)
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """What was printed in a row as one output; a slow cell's prints come in pieces, as many as the moment brings."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if output.output_type == "stream" and last and (last.output_type, last.get("name")) == ("stream", output.name):
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _filled(cell: nbformat.NotebookNode, solved: bool) -> Iterator[nbformat.NotebookNode]:
    tags, task_id = cell.metadata.get("tags", []), cell.metadata.get("task")
    cell.metadata = {"tags": tags} if tags else {}
    if cell.cell_type == "markdown":
        cell.source = re.sub(r"\{task ([\d.]+)\}", lambda match: _heading(match[1]), cell.source)
        yield cell
    elif "setup" in tags:
        settings = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["nanoserve"]
        cell.source = setup_cell.SOURCE.format(**settings)
        yield cell
    elif task_id:
        task = find(task_id)
        cell.metadata = {"tags": ["task"]}
        body = task.solution() if solved else task.stub()
        cell.source = f'{body}\n\n{task.name} = check("{task.id}", {task.name})'
        yield cell
        yield new_markdown_cell(_fold("Solution", f"```python\n{task.answer().rstrip()}\n```"))
    else:
        yield cell


def _heading(task_id: str) -> str:
    task = find(task_id)
    stars = "●" * task.difficulty + "○" * (5 - task.difficulty)
    return f"### Task {task.full_title}\n\n*{task.minutes} minutes · difficulty {stars}*"


def _fold(summary: str, body: str) -> str:
    return f"<details><summary><b>{summary}</b></summary>\n\n{body}\n\n</details>"


def main(arguments: list[str]) -> None:
    """Build the notebooks that the command line asks for."""
    parser = argparse.ArgumentParser(description="Build the notebooks from their sources.")
    parser.add_argument("days", nargs="*", help="names to begin with, such as day14; all when none is given")
    parser.add_argument("--solved", metavar="DIR", type=Path, help="fill in the solutions and write to DIR")
    chosen = parser.parse_args(arguments)
    found = sources(*chosen.days)
    if not found:
        parser.error(f"no source under {HERE / 'src'} begins with {' or '.join(chosen.days)}")
    target = chosen.solved or HERE
    target.mkdir(parents=True, exist_ok=True)
    with tqdm(found, unit="notebook") as bar:
        for source in bar:
            bar.set_description(source.stem)
            text = build(source, solved=bool(chosen.solved))
            (target / f"{source.stem}.ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
