"""A few requests in contiguous reservations, drawn to scale, beside what was measured of real systems."""

from collections.abc import Callable, Sequence
from pathlib import Path

from nanoserve.course.exercises.day13.published import MEASURED
from nanoserve.course.view.png import to_png
from nanoserve.course.view.shapes import WIDTH, badge, document, group, rect, text
from nanoserve.course.view.text import text_width
from nanoserve.course.view.theme import hue_of
from nanoserve.course.view.widget import live_html, show_picture

_MARGIN = 22
_ROWS_Y = 90
_BAR = 28
_ROW = 38
_PANEL_X = 690
_SHOWN = 5  # requests that are drawn


class Reservations:
    """A day's requests in reservations of `max_len` tokens: a picture, and in a live notebook a slider over `max_len`.

    Args:
        lengths: tokens that each request has in the end.
        max_len: tokens that each reserves room for.
        share: `share(lengths, max_len)` is the part of the reserved memory that holds tokens; a learner's own.
        bytes_per_token: of keys and values.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        max_len: int,
        share: Callable[[Sequence[int], int], float],
        bytes_per_token: int,
    ) -> None:
        self._lengths, self._max_len, self._share = lengths, max_len, share
        self._bytes_per_token, self._shown = bytes_per_token, lengths[:_SHOWN]

    def words(self, max_len: int | None = None) -> str:
        """The picture in one sentence."""
        max_len = max_len or self._max_len
        mib = [places * self._bytes_per_token / 2**20 for places in (sum(self._shown), len(self._shown) * max_len)]
        return (
            f"{len(self._shown)} requests reserve {max_len:,} tokens each: {mib[1]:,.0f} MiB, of which "
            f"{mib[0]:,.0f} MiB ever hold keys and values"
        )

    def svg(self, max_len: int | None = None, theme: str = "auto") -> str:
        """The drawing for a length of the reservations, or for the one that was asked for."""
        max_len = max_len or self._max_len
        day = self._share(self._lengths, max_len)
        height = _ROWS_Y + max(len(self._shown) * _ROW, 196) + _MARGIN
        parts = [
            text(_MARGIN, 38, f"Reservations of {max_len:,} tokens", 18, "ink", room=640, bold=True),
            text(_MARGIN, 62, self.words(max_len), 13, "mute", room=_PANEL_X - 2 * _MARGIN),
            *bars(self._shown, max_len, _MARGIN, _ROWS_Y, _PANEL_X - 40 - _MARGIN),
            *_shares({f"this day's {len(self._lengths):,} requests": day}, "badge0", _ROWS_Y),
            *_shares(MEASURED, "told", _ROWS_Y + _ROW),
            text(_PANEL_X, 38, "reserved memory", 13, "ink", room=WIDTH - _PANEL_X - _MARGIN, bold=True),
            text(_PANEL_X, 56, "that holds tokens", 13, "ink", room=WIDTH - _PANEL_X - _MARGIN, bold=True),
            text(_PANEL_X, height - _MARGIN + 4, "grey: Kwon et al. 2023, Figure 2", 11, "mute", room=250),
        ]
        return document(parts, height, self.words(max_len), theme)

    def save(self, path: str | Path, theme: str = "light", scale: float = 2) -> None:
        """Write the picture as SVG or PNG, whichever the path ends in."""
        svg, path = self.svg(theme=theme), Path(path)
        path.write_bytes(to_png(svg, scale) if path.suffix == ".png" else svg.encode())

    def _ipython_display_(self) -> None:
        show_picture(self.svg(theme="light"), self.words(), self._live)

    def _live(self) -> object:
        import ipywidgets as widgets

        picture = widgets.HTML(live_html(self.svg()))
        slider = widgets.IntSlider(
            self._max_len,
            min=max(self._lengths),
            max=4 * self._max_len,
            step=1,
            description="max_len",
            continuous_update=False,
            layout={"width": "420px"},
        )
        slider.observe(lambda change: setattr(picture, "value", live_html(self.svg(change["new"]))), "value")
        return widgets.VBox([picture, slider])


def bars(lengths: Sequence[int], max_len: int, x: float, y: float, width: float) -> list[str]:
    """A bar for each request: its reservation, dashed, and as much of it in colour as its tokens fill."""
    left, room = x + 34, width - 34
    parts = []
    for row, length in enumerate(lengths):
        label = chr(ord("A") + row)
        hue, top = hue_of(label), y + row * _ROW
        used = room * length / max_len
        words = f"{length:,} tokens"
        fits = used + 12 + text_width(words, 12) < room
        told = text(
            left + (used + 8 if fits else used - 8),
            top + 18.5,
            words,
            12,
            "ink" if fits else f"on{hue}",
            room=room,
            anchor="start" if fits else "end",
        )
        bar = [
            badge(x, top + 3.5, label, hue, 13, 30),
            rect(left, top, room, _BAR, f"open{hue}", 4),
            rect(left, top, used, _BAR, f"badge{hue}", min(4, used / 2)),
            told,
        ]
        parts.append(group("reservation", bar, f"{label}: {words} of {max_len:,} reserved"))
    return parts


def _shares(shares: dict[str, float], look: str, y: float) -> list[str]:
    """Names with a bar under each, as long as its share of the whole."""
    room = WIDTH - _MARGIN - _PANEL_X
    parts = []
    for row, (name, share) in enumerate(shares.items()):
        top = y + row * _ROW
        drawn = [
            text(_PANEL_X, top + 11, name, 12, "ink", room=room - 60),
            text(WIDTH - _MARGIN, top + 11, f"{share:.1%}", 12, "ink", room=56, anchor="end", bold=True),
            rect(_PANEL_X, top + 17, room, 8, "chip", 3),
            rect(_PANEL_X, top + 17, room * share, 8, look, 3),
        ]
        parts.append(group("share", drawn, f"{name}: {share:.1%}"))
    return parts
