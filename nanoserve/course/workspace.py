"""The learner's own copies of the notebooks, kept where no update of the course is in their way.

python -m nanoserve.course.workspace [SRC] [DEST]
"""

import argparse
import json
import os
import sys
from pathlib import Path


def refresh(src: Path, dest: Path) -> list[str]:
    """Bring the notebooks of `src` to `dest`: what is new or untouched follows the course, what was edited stays.

    A copy counts as edited when a cell's kind or text differs from what was issued. Outputs do not count: running
    a notebook is not yet work of one's own. What was issued is kept in `dest/.issued`.

    Args:
        src: the course's folder of notebooks.
        dest: the learner's folder; it is made if it is not there.

    Returns:
        One line for each notebook that was added, updated, or kept although the course has a newer one.

    Raises:
        FileNotFoundError: `src` holds no notebook.
        OSError: `dest` cannot be written.
    """
    notebooks = sorted(src.glob("*.ipynb"))
    if not notebooks:
        raise FileNotFoundError(f"no notebooks in {src}: run this in the course's folder, or name the folder")
    issued_dir = dest / ".issued"
    issued_dir.mkdir(parents=True, exist_ok=True)
    lines = []
    for notebook in notebooks:
        ours = notebook.read_bytes()
        mine, issued = dest / notebook.name, issued_dir / notebook.name
        if not mine.exists():
            line = f"new: {mine}"
        elif _bytes(issued) == ours:
            continue
        elif (cells := _cells(mine)) is not None and cells in (_cells(issued), _cells(notebook)):
            line = f"updated: {mine}"
        else:
            lines.append(f"kept: {mine} is yours; a newer version is {notebook} (rename yours to get it here)")
            continue
        # The copy goes first. Cut off between the two, the next run finds it equal to the course's and records it.
        _replace(mine, ours, issued_dir)
        _replace(issued, ours, issued_dir)
        lines.append(line)
    return lines


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _cells(path: Path) -> list[tuple[str, str]] | None:
    """Kind and text of every cell; None if the file is not there, or not a notebook any more."""
    try:
        cells = json.loads(path.read_bytes())["cells"]
        return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _replace(path: Path, content: bytes, scratch: Path) -> None:
    """Write all of a file or none of it; `scratch` is a folder on the same disk."""
    part = scratch / (path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m nanoserve.course.workspace", description=__doc__.splitlines()[0])
    parser.add_argument("src", nargs="?", type=Path, default=Path("notebooks"), help="the course's notebooks")
    parser.add_argument("dest", nargs="?", type=Path, default=Path("work"), help="where you work")
    args = parser.parse_args(argv)
    try:
        for line in refresh(args.src, args.dest):
            print(line)
    except OSError as error:
        sys.exit(f"The notebooks could not be copied to {args.dest}: {error}")


if __name__ == "__main__":
    main()
