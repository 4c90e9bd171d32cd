"""An SVG as a PNG, the same bytes on every machine: the fonts are those that matplotlib brings along."""

from functools import cache
from pathlib import Path


def to_png(svg: str, scale: float = 2) -> bytes:
    """Render an SVG whose colours are literal (`draw_pool(state, "light")`, not "auto").

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
        svg_string=svg,
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
