"""What a day about Triton begins with: it runs here, or one line says why not and the rest of the notebook rests."""

from importlib.util import find_spec

from IPython import get_ipython

from nanoserve.course.kernels.launch import start

MISSING = (
    "This day needs Triton, which there is for Linux: its cells do nothing here. "
    "The other days run; this one runs on Colab, or on a Linux machine with or without a GPU."
)


def triton_day() -> None:
    """Say that kernels can be run; where they cannot, say what is missing, and let all cells that follow do nothing."""
    sentence = start() if find_spec("triton") else MISSING
    if sentence:
        get_ipython().input_transformers_cleanup.append(lambda lines: [])
    print(sentence or "Triton is ready.")
