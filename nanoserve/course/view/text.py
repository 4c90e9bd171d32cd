"""How wide a text is, and how it is shortened so that it never leaves its box.

Browsers lay out text only once it is on the page, and a notebook is drawn before that. So widths come from the
DejaVu fonts, which are among the widest in use: what fits in them fits in the reader's own font too.
"""

from unicodedata import category, east_asian_width

# Advance widths of DejaVu Sans from the space to the tilde, in thousandths of an em.
_SANS = [
    *(
        318,
        401,
        460,
        838,
        636,
        950,
        780,
        275,
        390,
        390,
        500,
        838,
        318,
        361,
        318,
        337,
        636,
        636,
        636,
        636,
        636,
        636,
        636,
    ),
    *(636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557),
    *(863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635),
    *(550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592),
    *(592, 525, 636, 337, 636, 838),
]
_BOLD = 0.135  # no letter of DejaVu Sans grows by more ems when it is bold
_MONO = 0.602
_ZERO_WIDTH_JOINER = "\u200d"
_VISIBLE = {"\n": "⏎", "\r": "⏎", "\t": "⇥"}


def text_width(text: str, size: float, *, mono: bool = False, bold: bool = False) -> float:
    """The most room that `text` takes at a font size of `size`, in the same unit."""
    widths = [_advance(char, mono) for char in text]
    return size * (sum(widths) + (_BOLD * len(text) if bold and not mono else 0))


def _advance(char: str, mono: bool) -> float:
    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    if ord(char) >= 0x1F000:
        return 1.25  # emoji
    if east_asian_width(char) in "WF":
        return 1
    if mono:
        return _MONO
    return _SANS[ord(char) - 32] / 1000 if " " <= char <= "~" else 1


def fit(text: str, width: float, size: float, *, mono: bool = False, bold: bool = False) -> str:
    """`text`, or as much of its beginning as fits in `width` with an ellipsis behind it; no letter is cut in half."""
    if text_width(text, size, mono=mono, bold=bold) <= width:
        return text
    room = width - text_width("…", size, mono=mono, bold=bold)
    kept = ""
    for cluster in _clusters(text):
        if text_width(kept + cluster, size, mono=mono, bold=bold) > room:
            break
        kept += cluster
    return kept + "…" if room >= 0 else ""


def _clusters(text: str) -> list[str]:
    """The letters as a reader sees them: marks, joiners and skin tones stay with what they change."""
    clusters: list[str] = []
    for char in text:
        follows = category(char) in ("Mn", "Me", "Cf") or 0x1F3FB <= ord(char) <= 0x1F3FF
        if clusters and (follows or clusters[-1].endswith(_ZERO_WIDTH_JOINER)):
            clusters[-1] += char
        else:
            clusters.append(char)
    return clusters


def show_token(text: str) -> str:
    """A token's text with its white space made visible: `·` for leading spaces, `⏎` for a newline."""
    spaces = len(text) - len(text.lstrip(" "))
    shown = "·" * spaces + text[spaces:]
    return "".join(_VISIBLE.get(char, "�" if category(char) in ("Cc", "Cs", "Cn") else char) for char in shown)
