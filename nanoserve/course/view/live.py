"""The pool view while something happens: the panel comes first and follows it, the still picture comes after."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nanoserve.course.view.state import describe
from nanoserve.course.view.svg import draw_pool
from nanoserve.course.view.widget import PoolPanel, show_still, show_widget

if TYPE_CHECKING:
    from nanoserve.course.view.watch import Watch

# Here the still picture is the output just after the panel; print in front of the `with` block, or behind it.
_HIDE_NEXT = (
    "<style>.jp-OutputArea-child:has(.pool-first) + .jp-OutputArea-child,"
    ".output_area:has(.pool-first) + .output_area{display:none}</style><div class='pool-first'></div>"
)


@contextmanager
def live(view: "Watch") -> Iterator[None]:
    """Show the pool now, and draw it anew at every event of the `with` block; then it can be scrubbed.

    Where there is no kernel, the picture is that of the end.
    """
    show_widget(lambda: _panel(view))
    try:
        yield
    finally:
        state = view.state()
        show_still(draw_pool(state, "light"), describe(state))


def _panel(view: "Watch") -> Any:
    import ipywidgets as widgets

    box = PoolPanel(view).box
    box.children = (*box.children, widgets.HTML(_HIDE_NEXT, layout={"height": "0", "margin": "0"}))
    return box
