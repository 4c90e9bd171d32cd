"""The colours of the pool view: one set of classes, in light, in dark, or following the page they are on.

The owners' colours are the eight of Okabe and Ito ("Color Universal Design", 2008; Wong, Nature Methods 2011), which
colour-blind people can tell apart. The scratch block is nobody's, and grey.
"""

from nanoserve.course.view.state import SCRATCH

OWNERS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#000000")
_NOBODY = "#606770"  # darker than pink, which it would equal for an eye without red or green cones
_SANS = "'DejaVu Sans','Segoe UI',system-ui,sans-serif"
_MONO = "'DejaVu Sans Mono',Menlo,Consolas,monospace"
# JupyterLab, VS Code and Colab each mark a dark page in their own way.
_DARK_PAGE = ("[data-jp-theme-light='false']", ".vscode-dark", "html[theme='dark']")


def hue_of(label: str) -> int:
    """The place of a label's colour in the palette: A is 0, B is 1, and I begins again; scratch is behind them all."""
    return len(OWNERS) if label == SCRATCH else (sum(map(ord, label)) - ord("A")) % len(OWNERS)


def style(theme: str) -> str:
    """The style sheet of one drawing.

    Args:
        theme: "auto" follows the page by CSS variables; "light" and "dark" have literal colours, for files.

    Raises:
        ValueError: no such theme.
    """
    if theme not in ("auto", "light", "dark"):
        raise ValueError(f"theme must be 'auto', 'light' or 'dark', got {theme!r}")
    if theme != "auto":
        return _rules(theme, colours(theme))
    variables = {name: f"var(--pool-{name})" for name in colours("light")}
    dark = ",".join(f"{page} .pool-auto" for page in _DARK_PAGE)
    return f".pool-auto{{{_define('light')}}}{dark}{{{_define('dark')}}}{_rules('auto', variables)}"


def _define(theme: str) -> str:
    return "".join(f"--pool-{name}:{value};" for name, value in colours(theme).items())


def colours(theme: str) -> dict[str, str]:
    """Name -> colour of everything that is drawn."""
    if theme == "light":
        colours = {"paper": "#FFFFFF", "ink": "#1B2430", "mute": "#5A6572", "line": "#C3CBD4", "free": "#F6F8FA"}
        colours |= {"fault": "#B3122A", "faultbg": "#FDECEE"}
        tint, slot = 0.09, 0.4
    else:
        colours = {"paper": "#111111", "ink": "#E8EBEF", "mute": "#9BA5B1", "line": "#465059", "free": "#191C1F"}
        colours |= {"fault": "#FF7B86", "faultbg": "#33161A"}
        tint, slot = 0.16, 0.42
    for hue, owner in enumerate((*OWNERS, _NOBODY)):
        base = "#C9CED6" if (theme, owner) == ("dark", "#000000") else owner
        colours |= {
            f"badge{hue}": base,
            f"line{hue}": _line(base, colours["ink"], colours["paper"]),
            f"tint{hue}": _mix(base, colours["paper"], tint),
            f"slot{hue}": _mix(base, colours["paper"], slot),
            f"on{hue}": max("#FFFFFF", "#000000", key=lambda letters: contrast(letters, base)),
        }
    return colours


def _rules(theme: str, colour: dict[str, str]) -> str:
    rules = {
        "sans": f"font-family:{_SANS}",
        "mono": f"font-family:{_MONO}",
        "bold": "font-weight:bold",
        "paper": f"fill:{colour['paper']}",
        "ink": f"fill:{colour['ink']}",
        "mute": f"fill:{colour['mute']}",
        "fault": f"fill:{colour['fault']}",
        "free": f"fill:{colour['free']};stroke:{colour['line']};stroke-dasharray:4 3",
        "next": f"fill:{colour['free']};stroke:{colour['ink']};stroke-width:1.4",
        "chip": f"fill:{colour['free']};stroke:{colour['line']}",
        "rest": f"fill:{colour['paper']};stroke:{colour['line']}",
        "here": f"fill:none;stroke:{colour['ink']};stroke-width:2",
        "rule": f"fill:{colour['line']}",
        "hatch": f"fill:none;stroke:{colour['fault']};stroke-opacity:0.35",
        "broken": f"fill:none;stroke:{colour['fault']};stroke-width:2.5",
        "band": f"fill:{colour['faultbg']};stroke:{colour['fault']}",
        "told": f"fill:{colour['mute']};stroke:{colour['mute']}",
        "bad": f"fill:{colour['fault']};stroke:{colour['fault']}",
    }
    for hue in range(len(OWNERS) + 1):
        line = colour[f"line{hue}"]
        rules |= {
            f"tint{hue}": f"fill:{colour[f'tint{hue}']};stroke:{line};stroke-width:1.5",
            f"slot{hue}": f"fill:{colour[f'slot{hue}']}",
            f"open{hue}": f"fill:{colour['paper']};stroke:{line};stroke-dasharray:3 2.5",
            f"void{hue}": f"fill:{colour['paper']};stroke:{line};stroke-opacity:0.5",
            f"done{hue}": f"fill:{colour[f'badge{hue}']};stroke:{line}",
            f"gone{hue}": f"fill:{colour['paper']};stroke:{line};stroke-width:1.5",
            f"badge{hue}": f"fill:{colour[f'badge{hue}']}",
            f"on{hue}": f"fill:{colour[f'on{hue}']}",
        }
    return "".join(f".pool-{theme} .{name}{{{rule}}}" for name, rule in rules.items())


def _line(colour: str, ink: str, paper: str) -> str:
    """The colour, with as much ink in it as a thin line needs to be seen on the paper."""
    shades = (_mix(ink, colour, share / 20) for share in range(21))
    return next(shade for shade in shades if contrast(shade, paper) >= 3)


def contrast(colour: str, other: str) -> float:
    """How much two colours differ in lightness, from 1 to 21, as WCAG 2 has it: text needs 4.5, a shape 3."""
    darker, lighter = sorted(map(_luminance, (colour, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _mix(colour: str, other: str, share: float) -> str:
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02X}" for a, b in pairs)


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def _luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _channels(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
