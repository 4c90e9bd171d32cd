"""Matplotlib's figures in words, for who cannot see them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
            "": axes.get_title(),
            "Across: ": axes.get_xlabel(),
            "Up: ": axes.get_ylabel(),
            "Shown: ": ", ".join(axes.get_legend_handles_labels()[1]),
        }
        told += [f"{name}{' '.join(word.split())}." for name, word in words.items() if word]
    return " ".join(["Plot.", *dict.fromkeys(told)])  # panels that share a label say it once


def _words_only(figure: "Figure") -> tuple[dict, dict]:
    """No picture, which matplotlib makes, but the metadata of its PNG."""
    return {}, {"image/png": {"alt": describe_plot(figure)}}
