"""What stands under a cell's error when a cell above it has not run."""

import nbformat
from nbclient import NotebookClient

TOLD = "`{}` has no value yet: run the cell above that makes it, or see whether it is misspelt.\n"


def run(*cells: str) -> list[list[nbformat.NotebookNode]]:
    """The outputs of the cells, run in one kernel after the set-up."""
    setup = "from nanoserve.course.setup_cell import ready\nready()\nready()"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (setup, *cells)])
    NotebookClient(notebook, timeout=120, allow_errors=True).execute()
    return [cell.outputs for cell in notebook.cells[1:]]


def test_a_name_that_no_cell_has_made_yet_is_told_under_the_error_once_and_other_errors_are_left_alone():
    above, inside, misspelt, other, librarys = run(
        "pool.allocate()",
        "def grow():\n    return table.append(1)\ngrow()",
        "del print_\n",
        "{}['block']",
        "exec(compile('missing', 'elsewhere.py', 'exec'), {})",
    )
    for outputs, name in ((above, "pool"), (inside, "table"), (misspelt, "print_")):
        error, hint = outputs
        assert (error.output_type, error.ename) == ("error", "NameError")
        assert hint.text == TOLD.format(name)
    for outputs in (other, librarys):
        [error] = outputs
        assert error.output_type == "error"
