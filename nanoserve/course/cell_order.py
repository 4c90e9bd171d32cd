"""A cell that runs before the one that makes what it needs: a line under its error says what to do."""

import traceback

from IPython import get_ipython
from IPython.core.interactiveshell import ExecutionResult


def tell_of_missing_names() -> None:
    """From now on, a name that a cell looks for in vain is told with the way out, in a notebook."""
    if shell := get_ipython():
        shell.events.register("post_run_cell", _tell)


def _tell(result: ExecutionResult) -> None:
    error = result.error_in_exec
    if type(error) is not NameError:
        return
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    if frame.f_globals is get_ipython().user_ns:  # the learner's own code, and no library's
        print(f"`{error.name}` has no value yet: run the cell above that makes it, or see whether it is misspelt.")
