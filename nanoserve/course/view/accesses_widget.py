"""What a kernel touched, in a notebook: a picture that always shows, and in a live one a slider over the programs."""

from typing import TYPE_CHECKING

from nanoserve.course.view.accesses import draw_accesses
from nanoserve.course.view.accesses_state import describe_accesses, programs_of
from nanoserve.course.view.widget import live_html, show_picture

if TYPE_CHECKING:
    from nanoserve.course.kernels.launch import Run


class AccessView:
    """Which program of a launch read and wrote which element.

    Args:
        run: what `launch` returned, over tensors of some dozens of elements.
    """

    def __init__(self, run: "Run") -> None:
        self._run = run

    def svg(self, program: tuple[int, int, int] | None = None, theme: str = "auto") -> str:
        """The drawing, with one program brought out or with all of them."""
        return draw_accesses(self._run, program, theme)

    def _ipython_display_(self) -> None:
        show_picture(self.svg(theme="light"), describe_accesses(self._run), self._live)

    def _live(self) -> object:
        import ipywidgets as widgets

        picture = widgets.HTML(live_html(self.svg()), layout={"overflow": "auto hidden"})
        programs = [None, *programs_of(self._run)]
        names = ["all", *(", ".join(map(str, one[: len(self._run.grid)])) for one in programs[1:])]
        options = [(name, place) for place, name in enumerate(names)]
        slider = widgets.SelectionSlider(options=options, description="program", layout={"width": "420px"})
        slider.observe(lambda change: setattr(picture, "value", live_html(self.svg(programs[change["new"]]))), "value")
        return widgets.VBox([picture, slider])
