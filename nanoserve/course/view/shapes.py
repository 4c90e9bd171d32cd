"""The few SVG elements that a pool is drawn with. They carry classes; `theme` says what the classes look like."""

from html import escape
from math import floor

from nanoserve.course.view.text import fit, text_width
from nanoserve.course.view.theme import style

WIDTH = 960  # of every picture


def document(parts: list[str], height: float, title: str, theme: str, description: str = "") -> str:
    """A whole picture around its parts, `WIDTH` units wide, on paper of its own.

    Args:
        parts: elements.
        height: how high it is.
        title: what it shows, in a line.
        theme: "auto" follows a light or dark page; "light" and "dark" are literal, for files and for PNG.
        description: the same at length, for a screen reader.

    Raises:
        ValueError: no such theme.
    """
    told = f"<title>{clean(title)}</title>" + (f"<desc>{clean(description)}</desc>" if description else "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pool-{theme}" role="img" aria-label="{clean(title)}" '
        f'viewBox="0 0 {WIDTH} {number(height)}" width="{WIDTH}" height="{number(height)}" '
        f'style="max-width:100%;height:auto">{told}<style>{style(theme)}</style>'
        f"{rect(0, 0, WIDTH, height, 'paper')}{''.join(parts)}</svg>"
    )


def number(value: float) -> str:
    """A coordinate with at most two decimals, so that the same state gives the same bytes on every machine."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def rect(x: float, y: float, width: float, height: float, look: str, radius: float = 0) -> str:
    """A rectangle, rounded by `radius`."""
    rounded = f' rx="{number(radius)}"' if radius else ""
    box = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    return f'<rect class="{look}" {box}{rounded}/>'


def text(
    x: float,
    y: float,
    words: str,
    size: float,
    look: str,
    *,
    room: float,
    anchor: str = "start",
    mono: bool = False,
    bold: bool = False,
    exact: bool = False,
    least: float | None = None,
) -> str:
    """A line of text with its baseline at `y`, shortened to `room`; `exact` also holds the browser to its width.

    Where a size `least` is given, the letters become smaller, down to that, before any is left out.
    """
    wide = text_width(words, size, mono=mono, bold=bold)
    if least is not None and wide > room:
        size = max(least, floor(100 * size * room / wide) / 100)
    shown = fit(words, room, size, mono=mono, bold=bold)
    if not shown:
        return ""
    attributes = f'class="{look} {"mono" if mono else "sans"}{" bold" if bold else ""}"'
    attributes += f' x="{number(x)}" y="{number(y)}" font-size="{number(size)}"'
    if anchor != "start":
        attributes += f' text-anchor="{anchor}"'
    if exact:
        width = number(text_width(shown, size, mono=mono, bold=bold))
        attributes += f' textLength="{width}" lengthAdjust="spacingAndGlyphs"'
    return f"<text {attributes}>{clean(shown)}</text>"


def group(look: str, parts: list[str], title: str = "") -> str:
    """Elements that belong together, with a tooltip that is also what a screen reader says."""
    return f'<g class="{look}">{f"<title>{clean(title)}</title>" if title else ""}{"".join(parts)}</g>'


def hatch(x: float, y: float, width: float, height: float, gap: float = 7) -> str:
    """Diagonal lines that end at the rectangle's edges: a clip path would need an id, and ids meet on a page."""
    lines = []
    shift = gap - height
    while shift < width:
        left, right = max(shift, 0), min(shift + height, width)
        lines.append(f"M{number(x + left)} {number(y + left - shift)}L{number(x + right)} {number(y + right - shift)}")
        shift += gap
    return f'<path class="hatch" d="{"".join(lines)}"/>'


def badge(x: float, y: float, label: str, hue: int, size: float, room: float) -> str:
    """An owner's letter on its colour, with its top left corner at (x, y)."""
    width, height = badge_width(label, size, room), size * 1.65
    letter = text(
        x + width / 2,
        y + size * 1.19,
        label,
        size,
        f"on{hue}",
        room=room - size * 0.7,
        anchor="middle",
        bold=True,
        exact=True,
    )
    return rect(x, y, width, height, f"badge{hue}", size * 0.35) + letter


def badge_width(label: str, size: float, room: float) -> float:
    """How wide a label's badge is: square for a letter, and never wider than `room`."""
    shown = fit(label, room - size * 0.7, size, bold=True)
    return max(size * 1.65, text_width(shown, size, bold=True) + size * 0.7)


def clean(words: str) -> str:
    """Escaped, and without the characters that XML forbids."""
    allowed = (
        char if char >= " " and char not in "\ufffe\uffff" else " " if char in "\t\n\r" else "�" for char in words
    )
    return escape("".join("�" if 0xD800 <= ord(char) <= 0xDFFF else char for char in allowed))
