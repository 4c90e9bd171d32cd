"""What only the notebooks use: the checks, the pool view, the set-up cell. The engine never imports it."""

from nanoserve.course.checking import check, yours
from nanoserve.course.setup_cell import ready
from nanoserve.course.view.watch import watch

__all__ = ["check", "ready", "watch", "yours"]
