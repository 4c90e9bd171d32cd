"""Moments of one pool side by side: a column each, so that a block keeps its height from one to the next."""

from collections.abc import Mapping
from dataclasses import replace

from nanoserve.course.view.blocks import draw_blocks
from nanoserve.course.view.grid import Grid
from nanoserve.course.view.shapes import WIDTH, document, text
from nanoserve.course.view.state import PoolState, describe, plural
from nanoserve.course.view.widget import live_html, show_picture

_MARGIN, _GAP = 22, 30
_MOST_BLOCKS = 8


class Moments:
    """States of a pool in the order of time; name it at the end of a cell to see them.

    Args:
        states: a caption for each state, such as `watch(pool).state()`; pools of at most 8 blocks.

    Raises:
        ValueError: there is no state, or a pool is larger.
    """

    def __init__(self, states: Mapping[str, PoolState]) -> None:
        if not states or max(state.num_blocks for state in states.values()) > _MOST_BLOCKS:
            raise ValueError(f"moments are of pools with at most {_MOST_BLOCKS} blocks, and of one at least")
        self.states = dict(states)

    def svg(self, theme: str = "auto") -> str:
        """The picture, 960 units wide. The same states give the same bytes.

        Args:
            theme: as `document` takes it.
        """
        width = (WIDTH - 2 * _MARGIN - _GAP * (len(self.states) - 1)) / len(self.states)
        has_text = any(block.texts for state in self.states.values() for s in state.sequences for block in s.blocks)
        parts, bottom = [], 0.0
        for place, (caption, state) in enumerate(self.states.items()):
            x = _MARGIN + place * (width + _GAP)
            if place:
                parts.append(text(x - _GAP / 2, 36, "→", 15, "mute", room=_GAP, anchor="middle"))
            parts.append(text(x, 36, caption, 14, "ink", room=width, bold=True))
            parts.append(text(x, 56, _counted(state), 12, "mute", room=width))
            grid = Grid.of(replace(state, room_for_text=has_text), x, 74, width, columns=1)
            parts += draw_blocks(state, grid)
            bottom = max(bottom, grid.bottom)
        return document(parts, bottom + _MARGIN, "; ".join(self.states), theme, self.words())

    def words(self) -> str:
        """What the picture shows, in words."""
        return "\n".join(f"{caption}: {describe(state)}" for caption, state in self.states.items())

    def _ipython_display_(self) -> None:
        def live() -> object:
            from ipywidgets import HTML

            return HTML(live_html(self.svg()))

        show_picture(self.svg("light"), self.words(), live)


def _counted(state: PoolState) -> str:
    tokens = "" if state.num_tokens is None else f", {plural(state.num_tokens, 'token')}"
    return f"{state.num_used} of {plural(state.num_blocks, 'block')} in use{tokens}"
