"""Matplotlib's figures in words, for who cannot see them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text


def tell_plots() -> None:
    """Put `describe_plot` beside every figure that this notebook shows from now on, as the picture's alt text.

    Pages that are made of a notebook use it (nbconvert, nbviewer); JupyterLab gives no picture an alt text.
    """
    from IPython import get_ipython

    if shell := get_ipython():
        shell.display_formatter.mimebundle_formatter.for_type_by_name("matplotlib.figure", "Figure", _words_only)


def describe_plot(figure: "Figure") -> str:
    """What a figure says of itself: `Plot. Time grows. Across: tokens. Up: milliseconds. Shown: cached, recomputed.`"""
    told = []
    for axes in figure.axes:
        words = {
            "": [axes.get_title()],
            "Across: ": [axes.get_xlabel(), *_names(axes.get_xticklabels())],
            "Up: ": [axes.get_ylabel(), *_names(axes.get_yticklabels())],
            "Shown: ": axes.get_legend_handles_labels()[1],
            "Written: ": [text.get_text() for text in axes.texts],
        }
        for name, parts in words.items():
            if parts := [" ".join(part.split()) for part in parts if part]:
                told.append(f"{name}{', '.join(parts)}.")
    return " ".join(["Plot.", *dict.fromkeys(told)])  # panels that share a label say it once


def _names(ticks: "list[Text]") -> list[str]:
    """The words that stand at an axis in place of numbers."""
    labels = [tick.get_text() for tick in ticks]
    return [label for label in labels if label[:1].isalpha() or " " in label]


def _words_only(figure: "Figure") -> tuple[dict, dict]:
    """No picture, which matplotlib makes, but the metadata of its PNG."""
    return {}, {"image/png": {"alt": describe_plot(figure)}}
