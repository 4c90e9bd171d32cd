"""A position followed to its slot, in a notebook: a picture that always shows, and in a live one a slider over it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from nanoserve.course.view.route import Route, describe_route, draw_route
from nanoserve.course.view.widget import live_html, show_picture

if TYPE_CHECKING:
    from nanoserve.course.view.watch import Watch


def follow_position(view: "Watch", label: str, position: int) -> "RouteView":
    """The way of one position through the block table that `view` follows under `label`, as that table tells it.

    Raises:
        KeyError: no table is followed under this label.
        IndexError: the position is outside the sequence.
    """
    return RouteView(view, label, position)


class RouteView:
    """The routes of all positions of a sequence as they are now, and the one that is shown first."""

    def __init__(self, view: "Watch", label: str, position: int) -> None:
        table = view.tables[label]
        table.position(position)
        self.position = position
        self._state = replace(view.state(), focus=label)
        self._routes = [Route(p, *table.position(p), table.slot(p)) for p in range(table.num_tokens)]

    def svg(self, position: int | None = None, theme: str = "auto") -> str:
        """The drawing for a position, or for the one that was asked for."""
        return draw_route(self._state, self._routes[self.position if position is None else position], theme)

    def _ipython_display_(self) -> None:
        words = describe_route(self._state, self._routes[self.position])
        show_picture(self.svg(theme="light"), words, self._live)

    def _live(self) -> object:
        import ipywidgets as widgets

        picture = widgets.HTML(live_html(self.svg()))
        last = len(self._routes) - 1
        slider = widgets.IntSlider(self.position, min=0, max=last, description="position", layout={"width": "420px"})
        slider.observe(lambda change: setattr(picture, "value", live_html(self.svg(change["new"]))), "value")
        return widgets.VBox([picture, slider])
