"""How far a learner is: which tasks of their notebooks pass, for whoever teaches the course.

    python -m nanoserve.course progress work/

It runs the learner's code, with your rights: only what the tasks stand on, so imports, definitions and the cells that
have a `check` in them, not the rest of the notebook.
"""

import argparse
import ast
import io
import json
import linecache
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from IPython.core.inputtransformer2 import TransformerManager
from tqdm import tqdm

from nanoserve.course import checking
from nanoserve.course.setup_cell import ready
from nanoserve.course.tasks import all_tasks
from nanoserve.course.verdict import SIGN, Verdict

NO_VERDICT = "no verdict"  # a syntax error, a cell that is gone or never ends
_CHECK = re.compile(r"""\bcheck\s*\(\s*(?:task_id\s*=\s*)?["']?(\d+\.\d+)\b""")
_BEFORE_A_CHECK = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
_LEGEND = "✓ passes  → not yet  ○ not started  ? its cell did not get as far as its check"
_MARK = "nanoserve-verdict "  # in front of a line that is meant for the process that reads it


def tasks_of(notebook: Path) -> list[str]:
    """The ids of all tasks of the days that a notebook has a `check` of.

    Raises:
        ValueError: the file is no notebook.
    """
    days = {task_id.split(".")[0] for source in _code_of(notebook) for task_id in _CHECK.findall(source)}
    return [task_id for task_id in all_tasks() if task_id.split(".")[0] in days]


def verdicts_of(notebook: Path, seconds: float = 300.0) -> dict[str, str]:
    """What `check` says of each task of a notebook, such as "passed", or `NO_VERDICT` where it was not reached.

    Args:
        notebook: it is read, never written.
        seconds: what comes after so long is not waited for: a cell may loop for ever.
    """
    command = [sys.executable, "-m", "nanoserve.course.progress", str(notebook)]
    try:
        said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds).stdout
    except subprocess.TimeoutExpired as expired:
        said = expired.stdout or b""
    lines = said.decode(errors="replace").splitlines()
    words = [line.removeprefix(_MARK).split(" ", 1) for line in lines if line.startswith(_MARK)]
    found = dict(pair for pair in words if len(pair) == 2)
    return {task_id: found.get(task_id, NO_VERDICT) for task_id in tasks_of(notebook)}


def run_tasks(notebook: Path) -> Iterator[Verdict]:
    """Run what a notebook's tasks stand on, in this process, and give each verdict as it is said."""
    said: list[Verdict] = []
    checking._show = said.append  # this process shows nothing else
    namespace: dict[str, object] = {"__name__": "__main__", "get_ipython": _Magics, "display": lambda *_, **__: None}
    for number, source in enumerate(_code_of(notebook)):
        try:
            nodes = ast.parse(source).body
        except SyntaxError:
            continue
        name = f"<{notebook.name}, code cell {number}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # for `inspect`
        has_check = bool(_CHECK.search(source))
        for node in nodes:
            if has_check or isinstance(node, _BEFORE_A_CHECK):
                with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                    went_on = _run(node, name, namespace)
                yield from said
                said.clear()
                if has_check and not went_on:  # nor would a notebook run the rest of the cell
                    break


def told(verdicts: Mapping[str, Mapping[str, str]]) -> str:
    """A line for each notebook, and one for all.

    Args:
        verdicts: for each notebook, what was said of each task.
    """
    wide = max(map(len, verdicts), default=0)
    lines = []
    for name, found in verdicts.items():
        signs = "  ".join(f"{SIGN.get(status, '?')} {task_id}" for task_id, status in found.items())
        lines.append(f"{name:{wide}}  {_share(found.values()):>8}   {signs}")
    everything = [status for found in verdicts.values() for status in found.values()]
    return "\n".join([*lines, f"{'all':{wide}}  {_share(everything):>8}", "", _LEGEND])


def main(arguments: Sequence[str]) -> int:
    """Print how far the notebooks of some folders are."""
    parser = argparse.ArgumentParser(
        prog="python -m nanoserve.course progress",
        description="Which tasks of a learner's notebooks pass. It runs the learner's code.",
    )
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("work")], help="folders or notebooks (work)")
    notebooks = []
    for path in parser.parse_args(arguments).paths:
        found = [file for file in (sorted(path.glob("*.ipynb")) if path.is_dir() else [path]) if file.is_file()]
        if not found:
            parser.error(f"{path} is no notebook, and no folder of notebooks")
        notebooks += found
    names = _names_of(notebooks)
    verdicts, broken = {}, []
    for notebook in tqdm(notebooks, unit="notebook", leave=False):
        try:
            verdicts[names[notebook]] = verdicts_of(notebook)
        except ValueError as error:
            broken.append(str(error))
    print(told({name: found for name, found in verdicts.items() if found}))
    print(*broken, sep="\n", file=sys.stderr, end="\n" if broken else "")
    return 1 if broken else 0


def _names_of(notebooks: Sequence[Path]) -> dict[Path, str]:
    """Their files' names, with their folders where there are several."""
    several = len({notebook.parent for notebook in notebooks}) > 1
    return {notebook: str(notebook.with_suffix("")) if several else notebook.stem for notebook in notebooks}


def _share(statuses: Sequence[str]) -> str:
    return f"{sum(status == 'passed' for status in statuses)} of {len(statuses)}"


def _code_of(notebook: Path) -> list[str]:
    """Each code cell as Python: magics and shell lines are calls, and what stands under `%%time` is what it runs."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError, OSError):
        raise ValueError(f"{notebook} is no notebook: it is damaged, or something else under this name") from None
    transform = TransformerManager().transform_cell
    codes = []
    for source in sources:
        try:
            codes.append(transform(source.partition("\n")[2] if source.startswith("%%") else source))
        except SyntaxError:
            codes.append("")
    return codes


class _Magics:
    """What stands in for a notebook's shell, where a task's cell has magics or shell lines in it: they do nothing."""

    def __getattr__(self, name: str) -> Callable:
        return lambda *_, **__: None


def _run(node: ast.stmt, name: str, namespace: dict[str, object]) -> bool:
    """Run a statement, and say whether it ended without an error."""
    try:
        exec(compile(ast.Module([node], []), name, "exec"), namespace)
    except (Exception, SystemExit):
        return False
    return True


if __name__ == "__main__":
    os.environ.pop("NANOSERVE_STRICT", None)
    with redirect_stdout(io.StringIO()):
        ready()
    for verdict in run_tasks(Path(sys.argv[1])):
        print(f"{_MARK}{verdict.task.split(' ')[0]} {verdict.status}", flush=True)
