"""What `check` says: one of five things, as text and as HTML, short and in the same words every time."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from nanoserve.course.tasks import Task

Status = Literal["passed", "not started", "not yet", "raised", "out of time"]

# Of the bar and the sign; both stand out (3:1) on a light page and on a dark one. Words have the page's own colour:
# no colour is dark enough for words on white and light enough for words on black.
_COLOUR = {
    "passed": "#009e73",
    "not started": "#7f8895",
    "not yet": "#c47400",
    "raised": "#c47400",
    "out of time": "#c47400",
}
SIGN = {"passed": "✓", "not started": "○", "not yet": "→", "raised": "→", "out of time": "→"}


@dataclass(frozen=True)
class Verdict:
    """The result of one check.

    Attributes:
        task: the task's number and title, "14.2 · The double free".
        status: which of the five.
        headline: the one sentence that a learner reads first.
        goes_on_with: what the rest of the notebook uses.
        stage: the stage that failed, with its place among all, or "".
        calls: what the checker did, a call a line.
        expected: what should have come.
        came: what came instead.
        slip: the likely slip.
        look: where to look next.
        slip_id: the name of the slip, for the tests of the checkers.
        printed: what the learner's code printed meanwhile.
    """

    task: str
    status: Status
    headline: str
    goes_on_with: str
    stage: str = ""
    calls: tuple[str, ...] = ()
    expected: str = ""
    came: str = ""
    slip: str = ""
    look: str = ""
    slip_id: str = ""
    printed: str = ""

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    def _rows(self) -> list[tuple[str, str, bool]]:
        """Label, text, and whether the text is code."""
        rows = [
            ("What ran", "\n".join(self.calls), True),
            ("Expected", self.expected, True),
            ("Came", self.came, True),
            ("Likely slip", self.slip, False),
            ("Look next", self.look, False),
            ("It printed", self.printed.rstrip(), True),
        ]
        return [row for row in rows if row[1]]

    def text(self) -> str:
        """The verdict for a terminal, and for whatever cannot show HTML."""
        lines = [f"{SIGN[self.status]} {self.task}", f"  {self.headline}"]
        if self.stage:
            lines[0] += f" · {self.stage}"
        for label, text, _ in self._rows():
            first, *more = text.split("\n")
            lines += [f"  {label + ':':<13}{first}", *(f"  {'':13}{line}" for line in more)]
        return "\n".join([*lines, f"  {self.goes_on_with}"])

    def html(self) -> str:
        """The verdict as a card. Inline styles only: they survive in Colab, in VS Code and in both themes."""
        muted = "opacity:0.75"
        code = (
            "margin:0;padding:0;background:none;border:0;white-space:pre-wrap;overflow-wrap:anywhere;"
            "font-family:var(--jp-code-font-family,monospace);font-size:12px;line-height:1.5;color:inherit"
        )
        rows = "".join(
            f'<tr style="background:none"><th scope="row" style="{muted};font-weight:400;text-align:left;'
            f'vertical-align:top;white-space:nowrap;padding:3px 16px 3px 0">{label}</th>'
            '<td style="text-align:left;vertical-align:top;padding:3px 0">'
            + (f'<pre style="{code}">{escape(text)}</pre>' if is_code else _prose(text))
            + "</td></tr>"
            for label, text, is_code in self._rows()
        )
        table = f'<table style="border:0;margin:6px 0 2px;border-collapse:collapse;font-size:13px">{rows}</table>'
        colour = _COLOUR[self.status]
        stage = f'<span style="{muted}"> · {_prose(self.stage)}</span>' if self.stage else ""
        return (
            f'<div class="nanoserve-verdict" data-status="{self.status}" style="border-left:4px solid {colour};'
            "padding:6px 0 6px 14px;margin:4px 0;font-size:13px;line-height:1.5;"
            'color:var(--jp-ui-font-color1,inherit)">'
            f'<div><b><span style="color:{colour}">{SIGN[self.status]}</span> {escape(self.task)}</b>{stage}</div>'
            f"<div>{_prose(self.headline)}</div>{table if rows else ''}"
            f'<div style="{muted}">{_prose(self.goes_on_with)}</div></div>'
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}


def about(task: "Task", status: Status, headline: str, **facts: object) -> Verdict:
    """A verdict on a task, which says what the notebook goes on with; `facts` are the other attributes."""
    mine = f"The notebook goes on with your `{task.name}`."
    other = f"Until it passes, the notebook goes on with the reference's `{task.name}`."
    return Verdict(task.full_title, status, headline, mine if status == "passed" else other, **facts)


def _prose(text: str) -> str:
    """Escaped, with `backticks` as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))
