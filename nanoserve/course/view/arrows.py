"""Arrows from one box to another: lines with round corners, and a head."""

from nanoserve.course.view.shapes import group, number

Box = tuple[float, float, float, float]  # left, top, width, height
Point = tuple[float, float]


def top(box: Box) -> Point:
    """Just above the middle of a box, where an arrow ends."""
    return box[0] + box[2] / 2, box[1] - 2.5


def bottom(box: Box) -> Point:
    """Just under the middle of a box, where an arrow begins."""
    return box[0] + box[2] / 2, box[1] + box[3] + 2.5


def bend(start: Point, y: float, end: Point) -> list[Point]:
    """Down to `y`, and sideways to above the end."""
    return [(start[0], y), (end[0], y)]


def arrow(points: list[Point], title: str) -> str:
    """A line along the points with round corners, and a head whose tip is the last of them."""
    corners = [point for place, point in enumerate(points) if not place or point != points[place - 1]]
    tip = corners[-1]
    corners[-1] = (tip[0], tip[1] - 6)
    line = f"M{_at(corners[0])}"
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        line += f"L{_at(_near(corner, before))}Q{_at(corner)} {_at(_near(corner, after))}"
    line += f"L{_at(corners[-1])}"
    head = f"M{_at(tip)}L{_at((tip[0] - 4.5, tip[1] - 9))}L{_at((tip[0] + 4.5, tip[1] - 9))}Z"
    return group("arrow", [f'<path class="here" d="{line}"/>', f'<path class="ink" d="{head}"/>'], title)


def _near(corner: Point, other: Point, radius: float = 6) -> Point:
    """The point on the way from a corner to another one, where the corner's rounding begins."""
    (x, y), (to_x, to_y) = corner, other
    length = abs(to_x - x) + abs(to_y - y)
    share = min(radius, length / 2) / length if length else 0
    return x + (to_x - x) * share, y + (to_y - y) * share


def _at(point: Point) -> str:
    return f"{number(point[0])} {number(point[1])}"
