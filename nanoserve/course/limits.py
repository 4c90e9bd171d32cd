"""Runs a learner's code so that it can neither hang the notebook nor flood it."""

import contextlib
import ctypes
import io
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from sysconfig import get_paths
from types import FrameType

_OURS = str(Path(__file__).parents[1])  # as the frames spell it, also behind a symbolic link
_LIBRARIES = tuple(path for name, path in get_paths().items() if name in ("stdlib", "platstdlib", "purelib", "platlib"))


class OutOfTime(BaseException):
    """Raised inside the learner's code when its time is up; no `except Exception` of theirs holds it."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: with an error or without, what it printed, and the learner's own line where it stopped."""

    error: BaseException | None
    printed: str
    line: str | None

    @property
    def out_of_time(self) -> bool:
        return isinstance(self.error, OutOfTime)


def run_limited(run: Callable[[], object], seconds: float) -> Outcome:
    """Call `run()` for at most `seconds`, keeping the first lines that it prints.

    It runs in a thread of its own, so that this works on every system and whichever thread asks. When the time is up,
    an `OutOfTime` is raised inside that thread, again and again until it ends. Ctrl-C ends it too, and is passed on.
    """
    error: BaseException | None = None
    printed = _FirstLines()

    def work() -> None:
        nonlocal error
        try:
            run()
        except BaseException as caught:
            error = caught

    thread = threading.Thread(target=work, daemon=True)
    line = None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        thread.start()
        try:
            thread.join(seconds)
        except KeyboardInterrupt:
            _stop(thread)
            raise
        if thread.is_alive():
            frame = sys._current_frames().get(thread.ident)
            stack = [(frame, _line_of(frame)) for frame, _ in traceback.walk_stack(frame)] if frame else []
            _stop(thread)
            line = _innermost(stack)
            error = OutOfTime()
    if error is not None and line is None:
        line = own_line(error)
    return Outcome(error, printed.getvalue(), line)


def own_line(error: BaseException) -> str | None:
    """The innermost line of the learner's own code in an error's traceback, as "line 2 of `f`: `x = y`".

    Lines are counted from the function's first: its cell, or file, may have others above.
    An error of another process has no traceback here, and brings the line along.
    """
    if line := getattr(error, "learners_line", None):
        return line
    return _innermost(reversed(list(traceback.walk_tb(error.__traceback__))))


def _innermost(frames: Iterable[tuple[FrameType, int]]) -> str | None:
    """The first of the learner's frames, innermost first. A generator expression's line is counted in its function."""
    own = [(frame, number) for frame, number in frames if _is_learners(frame)]
    if not own:
        return None
    (frame, number), *callers = own
    function = frame.f_code
    for caller, _ in callers:
        if function.co_name.startswith("<") and function in caller.f_code.co_consts:
            function = caller.f_code
    [summary] = traceback.StackSummary.extract([(frame, number)])
    place = f"line {number - function.co_firstlineno + 1} of `{function.co_name}`"
    return f"{place}: `{summary.line}`" if summary.line else place


def _line_of(frame: FrameType) -> int:
    """Where it stands. A loop's jump back has no line of its own: it is counted to the one before."""
    lines = [line for start, _, line in frame.f_code.co_lines() if line and start <= frame.f_lasti]
    return frame.f_lineno or (lines or [frame.f_code.co_firstlineno])[-1]


def _is_learners(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    installed = "site-packages" in path or "dist-packages" in path  # a user's own, or Debian's
    return not (installed or path.startswith((_OURS, *_LIBRARIES, "<frozen", "<string>")))  # the last: a dataclass's


def _stop(thread: threading.Thread) -> None:
    """Raise OutOfTime in the thread until it ends. A bare `except:` may swallow one, but not one after the other."""
    for _ in range(400):  # two seconds
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(OutOfTime))
        thread.join(0.005)
        if not thread.is_alive():
            return


class _FirstLines(io.StringIO):
    """Keeps the first lines and characters written to it and drops the rest, so that a print storm costs nothing."""

    def __init__(self, lines: int = 12, characters: int = 1200) -> None:
        super().__init__()
        self._lines, self._characters = lines, characters

    def write(self, text: str) -> int:
        kept = "".join(text[: self._characters].splitlines(keepends=True)[: self._lines])
        self._characters -= len(kept)
        self._lines -= kept.count("\n")
        super().write(kept)
        if kept != text and not self.getvalue().endswith("…"):
            super().write("…")
        return len(text)
