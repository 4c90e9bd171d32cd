"""Timelines in a notebook: a picture that always shows, and a slider over the steps that also scrubs the pool."""

from collections.abc import Callable, Mapping
from typing import Any

from nanoserve.course.view.shapes import document
from nanoserve.course.view.svg import draw_pool
from nanoserve.course.view.timeline import Timeline
from nanoserve.course.view.timeline_svg import draw_timelines, words
from nanoserve.course.view.widget import live_html, show_picture


class Timelines:
    """Several timelines under one another, on one scale of steps; name it at the end of a cell to see them.

    Args:
        timelines: a caption for each.
    """

    def __init__(self, timelines: Mapping[str, Timeline]) -> None:
        self.timelines = dict(timelines)

    def svg(self, at: int | None = None, theme: str = "auto") -> str:
        """The picture, as `draw_timelines` draws it."""
        return draw_timelines(self.timelines, at, theme)

    def _ipython_display_(self) -> None:
        show(self.timelines)


def show(timelines: Mapping[str, Timeline], with_pool: bool = False) -> None:
    """Display timelines, and under the first one the pool in the step that is looked at.

    Args:
        timelines: a caption for each.
        with_pool: show the pool too; still, it is that of the fullest step.
    """
    first = next(iter(timelines.values()))
    if not any(timeline.steps for timeline in timelines.values()):
        print(words(timelines))
        return

    def picture(at: int, theme: str) -> str:
        drawn = draw_timelines(timelines, at, theme)
        return _stacked(drawn, draw_pool(first.pool(at), theme), theme) if with_pool else drawn

    longest = max(len(timeline.steps) for timeline in timelines.values())
    fullest = 1 + max(range(longest), key=lambda step: first.steps[step].pool.num_used) if with_pool else longest
    show_picture(picture(fullest, "light"), words(timelines), lambda: _panel(picture, longest, fullest))


def _panel(picture: Callable[[int, str], str], longest: int, at: int) -> Any:
    import ipywidgets as widgets

    shown = widgets.HTML(live_html(picture(at, "auto")), layout={"overflow": "auto hidden"})
    play = widgets.Play(min=1, max=longest, value=at, interval=250)
    slider = widgets.IntSlider(at, min=1, max=longest, description="step", layout={"width": "480px"})
    widgets.jslink((play, "value"), (slider, "value"))
    slider.observe(lambda change: setattr(shown, "value", live_html(picture(change["new"], "auto"))), "value")
    return widgets.VBox([widgets.HBox([play, slider]), shown])  # above: with the pool, it is a high picture


def _stacked(above: str, below: str, theme: str) -> str:
    """Two documents under one another in one."""
    heights = [float(svg.split('height="', 1)[1].split('"', 1)[0]) for svg in (above, below)]
    placed = below.replace("<svg ", f'<svg y="{heights[0]:g}" ', 1)
    return document([above, placed], sum(heights), "Timeline and pool", theme)
