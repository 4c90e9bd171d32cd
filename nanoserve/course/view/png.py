"""An SVG as a PNG, the same bytes on every machine: the fonts are those that matplotlib brings along."""

from functools import cache
from pathlib import Path
from unicodedata import category


def to_png(svg: str, scale: float = 2) -> bytes:
    """Render an SVG whose colours are literal (`draw_pool(state, "light")`, not "auto").

    DejaVu has no Chinese and no emoji: a letter that it lacks comes out as an empty box.

    Args:
        svg: the document.
        scale: pixels for each unit of the SVG.

    Raises:
        ImportError: resvg-py or matplotlib is missing.
    """
    try:
        import resvg_py
    except ImportError as error:
        raise ImportError("a PNG needs resvg-py: pip install resvg-py") from error
    return resvg_py.svg_to_bytes(
        svg_string=_printable(svg),
        zoom=scale,
        skip_system_fonts=True,
        font_files=_fonts(),
        font_family="DejaVu Sans",
        sans_serif_family="DejaVu Sans",
        monospace_family="DejaVu Sans Mono",
    )


@cache
def _fonts() -> list[str]:
    try:
        from matplotlib import get_data_path
    except ImportError as error:
        raise ImportError("a PNG needs the fonts that come with matplotlib: pip install matplotlib") from error
    folder = Path(get_data_path(), "fonts", "ttf")
    return [str(folder / f"{name}.ttf") for name in ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono")]


def _printable(svg: str) -> str:
    """With a box for every letter that the fonts lack, so that it takes the room it was given."""
    known = _letters()
    if known.issuperset(map(ord, svg)):
        return svg
    return "".join(
        char if ord(char) in known or char in "\n\t" else "" if category(char) in ("Mn", "Me", "Cf") else "□"
        for char in svg
    )


@cache
def _letters() -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    return frozenset.intersection(*(frozenset(FT2Font(path).get_charmap()) for path in _fonts()))
