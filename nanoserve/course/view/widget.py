"""The pool view in a notebook: a picture that always shows, and over it, in a live one, a panel that can be used."""

from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from IPython.display import display

from nanoserve.course.view.png import to_png
from nanoserve.course.view.shapes import WIDTH
from nanoserve.course.view.state import describe
from nanoserve.course.view.svg import draw_pool

if TYPE_CHECKING:
    from nanoserve.course.view.watch import Watch

_WIDGET = "application/vnd.jupyter.widget-view+json"
# The output just before the live panel is its still picture. JupyterLab's class comes first, then the classic one's.
# In a narrow window the picture scrolls rather than shrink to what nobody can read.
# On a dark page a plot turns dark with its letters light; its hues, by which the text calls its lines, stay.
_STYLE = (
    "<style>.pool-live svg{min-width:620px}"
    ".jp-OutputArea-child:has(+ .jp-OutputArea-child .pool-live),"
    ".output_area:has(+ .output_area .pool-live){display:none}"
    "[data-jp-theme-light='false'] .jp-Notebook:has(.pool-live) .jp-RenderedImage img"
    "{filter:invert(0.93) hue-rotate(180deg)}</style>"
)


def show(watch: "Watch") -> None:
    """Display a still picture, for pages without a kernel, and the live panel that takes its place."""
    state = watch.state()
    show_picture(draw_pool(state, "light"), describe(state), lambda: PoolPanel(watch).box)


def show_picture(svg: str, words: str, live: Callable[[], Any]) -> None:
    """Display a drawing as a still picture and, where widgets work, the widget that takes its place.

    Args:
        svg: the drawing in literal colours, `WIDTH` units wide.
        words: what it shows, for a screen reader and wherever a picture cannot be shown.
        live: makes the widget; its drawings are wrapped by `live_html`.
    """
    show_still(svg, words)
    show_widget(live)


def show_still(svg: str, words: str) -> None:
    """Display a drawing, in literal colours, for pages without a kernel."""
    still: dict[str, Any] = {"text/plain": words}
    metadata = {}
    try:
        still["image/png"] = b64encode(to_png(svg)).decode()
        metadata = {"image/png": {"alt": words, "width": WIDTH}}
    except ImportError:
        pass  # without a renderer the words stand alone
    display(still, metadata=metadata, raw=True)


def show_widget(live: Callable[[], Any]) -> None:
    """Display the widget that `live` makes, where widgets work."""
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return
    # No text beside the widget: where widgets are not shown, the still picture has said it all.
    display({_WIDGET: {"version_major": 2, "version_minor": 0, "model_id": live().model_id}}, raw=True)


def live_html(svg: str) -> str:
    """A drawing inside a widget: it hides the still picture above it."""
    return f'{_STYLE}<div class="pool-live">{svg}</div>'


class PoolPanel:
    """The live panel: the picture, a slider and Play over the events, and buttons that call the allocator.

    Args:
        watch: whose history it shows; the panel follows what happens to it later on.
    """

    def __init__(self, watch: "Watch") -> None:
        import ipywidgets as widgets

        self._watch = watch
        self._picture = widgets.HTML(layout={"overflow": "auto hidden"})
        last = len(watch.events)
        self._play = widgets.Play(min=0, max=last, value=last, interval=700)
        self._slider = widgets.IntSlider(min=0, max=last, value=last, description="event", layout={"width": "340px"})
        self._back = widgets.Button(icon="step-backward", tooltip="one event back", layout={"width": "40px"})
        self._forward = widgets.Button(icon="step-forward", tooltip="one event on", layout={"width": "40px"})
        self._tokens = widgets.BoundedIntText(
            value=2 * watch.allocator.block_size, min=1, max=10**6, description="tokens", layout={"width": "160px"}
        )
        self._allocate = widgets.Button(description="Allocate", tooltip="allocate_for(tokens) on your allocator")
        self._victim = widgets.Dropdown(options=[], description="sequence", layout={"width": "180px"})
        self._free = widgets.Button(description="Free", tooltip="give this sequence's blocks back")
        widgets.jslink((self._play, "value"), (self._slider, "value"))
        self._slider.observe(lambda change: self._draw(), "value")
        self._back.on_click(lambda button: self._step(-1))
        self._forward.on_click(lambda button: self._step(1))
        self._allocate.on_click(lambda button: self._act(self._take))
        self._free.on_click(lambda button: self._act(self._give))
        row = {"flex_flow": "row wrap", "align_items": "center"}
        time = widgets.HBox([self._back, self._play, self._forward, self._slider], layout=row)
        acts = widgets.HBox([self._tokens, self._allocate, self._victim, self._free], layout=row)
        self.box = widgets.VBox([self._picture, time, acts])
        self._list_sequences()
        self._draw()
        watch.show_in(self)

    def refresh(self) -> None:
        """Go on to the newest event, unless the reader is looking at an older one."""
        last = len(self._watch.events)
        at_the_end = self._slider.value == self._slider.max
        self._play.max = self._slider.max = last
        self._list_sequences()
        if at_the_end:
            self._slider.value = self._play.value = last
        else:
            self._draw()

    def _list_sequences(self) -> None:
        labels = [sequence.label for sequence in self._watch.state().sequences]
        if tuple(labels) != tuple(self._victim.options):
            chosen = self._victim.value
            self._victim.options = labels
            self._victim.value = chosen if chosen in labels else next(iter(labels), None)
        self._free.disabled = self._victim.disabled = not labels

    def _draw(self) -> None:
        self._picture.value = live_html(draw_pool(self._watch.state(self._slider.value)))

    def _step(self, by: int) -> None:
        self._slider.value += by

    def _act(self, act: Any) -> None:
        self._slider.value = self._slider.max  # buttons act on the present
        with suppress(Exception):  # the watch has made an event of it
            act()

    def _take(self) -> None:
        allocator = self._watch.allocator
        allocator.allocate_for(self._tokens.value) if hasattr(allocator, "allocate_for") else allocator.allocate()

    def _give(self) -> None:
        label, allocator = self._victim.value, self._watch.allocator
        table = self._watch.tables.get(label)
        if hasattr(table, "free"):
            table.free()
            return
        block_ids = self._watch.block_ids(label)
        if hasattr(allocator, "free_all"):
            allocator.free_all(block_ids)
        else:
            for block_id in block_ids:
                allocator.free(block_id)
