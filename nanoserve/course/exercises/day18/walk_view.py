"""A walk over the blocks, as a picture: the pool, and what one head knew after each block."""

from collections.abc import Iterator, Sequence

import torch

from nanoserve.course.exercises.day18.recording import Turn
from nanoserve.course.view.shapes import WIDTH, badge, document, group, rect, text
from nanoserve.course.view.text import show_token
from nanoserve.course.view.theme import hue_of
from nanoserve.course.view.widget import live_html, show_picture

_LEFT, _POOL_Y, _GAP, _SLOT = 22, 84, 10, 18
_TOLD, _ROW, _BAR = 190, 72, 46  # room for a row's words, its height, and a share of 1
_HUE = hue_of("A")


class WalkView:
    """The pool with the block that is being read, and under it what one head knew after each block.

    Args:
        turns: the walk over one sequence, as `recorded` has it.
        tokens: the sequence's texts, in order.
        num_blocks, block_size: of the pool.
        others: blocks that belong to somebody else.
    """

    def __init__(
        self,
        turns: Sequence[Turn | None],
        tokens: Sequence[str],
        num_blocks: int,
        block_size: int,
        others: Sequence[int] = (),
    ) -> None:
        self._turns, self._tokens, self._others = turns, tokens, others
        self._num_blocks, self._block_size = num_blocks, block_size

    def missing(self) -> str | None:
        """Why there is no picture, or None if there is one."""
        if not self._turns:
            return "no picture: blockwise_attention called no function of the name `fold` that could be watched"
        last = len(self._tokens) - (len(self._turns) - 1) * self._block_size
        lengths = [turn and len(turn.scores) for turn in self._turns]
        if not 0 < last <= self._block_size or lengths != [self._block_size] * (len(lengths) - 1) + [last]:
            return "no picture: it shows one call of `fold` a block, with all heads, and your walk calls it otherwise"
        return None

    def words(self, step: int | None = None) -> str:
        """The picture in one sentence, or why there is none."""
        if reason := self.missing():
            return reason
        step = len(self._turns) if step is None else step
        turn, read = self._turns[step - 1], [turn.block_id for turn in self._turns[:step]]
        known = f"largest {turn.largest:.2f}, total {turn.total:.2f}"
        return f"{step} of {len(self._turns)} blocks read, {read}: {known}"

    def shares(self, step: int) -> list[float]:
        """Each token's share after so many blocks; what is not read yet has none."""
        turn = self._turns[step - 1]
        scores = torch.cat([turn.scores for turn in self._turns[:step]])
        return ((scores - turn.largest).exp() / turn.total).tolist()

    def svg(self, step: int | None = None, theme: str = "auto") -> str:
        """The drawing after so many blocks, or after all."""
        step = len(self._turns) if step is None else step
        top = _POOL_Y + 62 + self._block_size * (_SLOT + 3)
        height = top + len(self._turns) * _ROW + 40
        parts = [
            text(_LEFT, 38, "The walk", 18, "ink", room=600, bold=True),
            text(_LEFT, 62, self.words(step), 13, "mute", room=WIDTH - 2 * _LEFT),
            *(self._block(block_id, step) for block_id in range(self._num_blocks)),
            *(self._row(place, top + (place - 1) * _ROW) for place in range(1, step + 1)),
            *self._labels(top + len(self._turns) * _ROW + 16),
        ]
        return document(parts, height, self.words(step), theme)

    def _ipython_display_(self) -> None:
        if reason := self.missing():
            print(reason)
            return
        show_picture(self.svg(theme="light"), self.words(), self._live)

    def _live(self) -> object:
        import ipywidgets as widgets

        last = len(self._turns)
        picture = widgets.HTML(live_html(self.svg()))
        play = widgets.Play(min=1, max=last, value=last, interval=1200)
        slider = widgets.IntSlider(last, min=1, max=last, description="blocks read", layout={"width": "420px"})
        widgets.jslink((play, "value"), (slider, "value"))
        slider.observe(lambda change: setattr(picture, "value", live_html(self.svg(change["new"]))), "value")
        return widgets.VBox([picture, widgets.HBox([play, slider])])

    def _block(self, block_id: int, step: int) -> str:
        table = [turn.block_id for turn in self._turns]
        width = (WIDTH - 2 * _LEFT - _GAP * (self._num_blocks - 1)) / self._num_blocks
        x, height = _LEFT + block_id * (width + _GAP), 36 + self._block_size * (_SLOT + 3)
        if block_id not in table:
            hue, label = hue_of("B"), "B" if block_id in self._others else ""
            parts = [
                rect(x, _POOL_Y, width, height, f"tint{hue}" if label else "free", 8),
                text(x + 10, _POOL_Y + 22, f"block {block_id}", 12, "ink" if label else "mute", room=width - 40),
            ]
            parts += [badge(x + width - 28, _POOL_Y + 7, label, hue, 12, 30)] if label else []
            return group("block", parts, f"block {block_id}: {'B' if label else 'free'}")
        entry = table.index(block_id)
        state = "read now" if entry == step - 1 else "read" if entry < step else "later"
        parts = [
            rect(x, _POOL_Y, width, height, f"tint{_HUE}", 8),
            text(x + 10, _POOL_Y + 22, f"block {block_id}", 12, "ink", room=width - 40),
            badge(x + width - 28, _POOL_Y + 7, "A", _HUE, 12, 30),
        ]
        if entry == step - 1:
            parts.append(rect(x - 3.5, _POOL_Y - 3.5, width + 7, height + 7, "here", 10))
        first = entry * self._block_size
        for offset, token in enumerate(self._tokens[first : first + self._block_size]):
            y = _POOL_Y + 32 + offset * (_SLOT + 3)
            look = f"slot{_HUE}" if entry < step else f"open{_HUE}"
            parts.append(rect(x + 8, y, width - 16, _SLOT, look, 3))
            words = show_token(token)
            parts.append(text(x + width / 2, y + 13, words, 10, "ink", room=width - 20, anchor="middle", mono=True))
        told = f"entry {entry}: {state}"
        parts.append(text(x + width / 2, _POOL_Y + height + 18, told, 11, "mute", room=width + 8, anchor="middle"))
        return group("block", parts, f"block {block_id}, {told}")

    def _column(self, position: int) -> tuple[float, float]:
        width = (WIDTH - 2 * _LEFT - _TOLD) / len(self._tokens)
        return _LEFT + _TOLD + position * width, width

    def _row(self, step: int, y: float) -> str:
        turn, shares = self._turns[step - 1], self.shares(step)
        base, new = y + _ROW - 8, len(shares) - len(turn.scores)
        known = f"largest {turn.largest:.2f}, total {turn.total:.2f}"
        parts = [
            text(_LEFT, base - 26, f"after block {turn.block_id}", 13, "ink", room=_TOLD - 12, bold=True),
            text(_LEFT, base - 8, known, 12, "mute", room=_TOLD - 12),
            rect(_LEFT + _TOLD, base, WIDTH - 2 * _LEFT - _TOLD, 1, "rule"),
        ]
        for position, share in enumerate(shares):
            x, width = self._column(position)
            look = f"{'badge' if position >= new else 'slot'}{_HUE}"
            parts.append(rect(x + 2, base - _BAR * share, width - 4, _BAR * share, look))
            if share >= 0.05:
                words = f"{share:.0%}"
                parts.append(
                    text(x + width / 2, base - _BAR * share - 4, words, 10.5, "ink", room=width + 8, anchor="middle")
                )
        return group("row", parts, f"after block {turn.block_id}: {known}")

    def _labels(self, y: float) -> Iterator[str]:
        for position, token in enumerate(self._tokens):
            x, width = self._column(position)
            yield text(x + width / 2, y, show_token(token), 9.5, "mute", room=width + 4, anchor="middle", mono=True)
