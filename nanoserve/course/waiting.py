"""Under a cell that takes longer than a moment, a moving bar says for what one waits; it goes when the cell ends.

A cell's source tells what it will do before it runs, so that its outputs are the same however fast the machine is.
"""

import re
from typing import TYPE_CHECKING

from IPython import get_ipython
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

from nanoserve.course.view.widget import show_widget

if TYPE_CHECKING:
    from ipywidgets import HTML

# What takes its time on a CPU -> what is said of it.
_WAITS = {
    r"\bload_model\(": "loading the model",
    r"\b(model|next_token|generate|greedy|cached|run_continuous)\(": "running the model",
    r"\btransformers_(tokens|keys)\(|\btheirs\.generate\(": "asking transformers",
    r"\btriton_day\(": "starting Triton",
    r"\blaunch\(|\b(split_)?attention\(": "running kernels in the interpreter",
    r"\bcompiled\(": "compiling kernels",
    r"\b(milliseconds|arrivals|side_by_side)\(": "measuring",
}
# It shows after two seconds, by itself: the kernel is busy by then.
_BAR = """\
<style>@keyframes nanoserve-shows{{to{{max-height:40px}}}}
@keyframes nanoserve-moves{{from{{margin-left:0}}to{{margin-left:75%}}}}</style>
<div role="progressbar" aria-label="{what}" style="max-height:0;overflow:hidden;\
animation:nanoserve-shows 0s 2s forwards;font-size:13px;color:var(--jp-ui-font-color1,inherit)">{what} …\
<div style="height:4px;width:340px;border-radius:2px;background:var(--jp-border-color2,#c3cbd4);overflow:hidden">\
<div style="width:25%;height:4px;border-radius:2px;background:#0072b2;\
animation:nanoserve-moves 1.2s ease-in-out infinite alternate"></div></div></div>"""

_shown: list["HTML"] = []


def tell_of_waits() -> None:
    """From now on, a notebook's cell that will take its time says for what."""
    if shell := get_ipython():
        shell.events.register("pre_run_cell", _show)
        shell.events.register("post_run_cell", _clear)


def waits_of(source: str) -> str:
    """What a cell waits for, such as "Loading the model, asking transformers"; "" if for nothing."""
    if re.search(r"\bcheck\(", source):  # what a learner writes calls much, and runs only in the check
        return "Trying your kernel" if "@triton.jit" in source else ""
    text = ", ".join(words for call, words in _WAITS.items() if re.search(call, source))
    return text[:1].upper() + text[1:]


def _show(info: ExecutionInfo) -> None:
    if what := waits_of(info.raw_cell):
        show_widget(lambda: _bar(what))


def _bar(what: str) -> "HTML":
    import ipywidgets as widgets

    _shown.append(widgets.HTML(_BAR.format(what=what)))
    return _shown[-1]


def _clear(result: ExecutionResult) -> None:
    while _shown:
        _shown.pop().layout.display = "none"
