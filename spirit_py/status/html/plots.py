"""Figures over time as SVG, made with pygal, without its scripts, tooltips and colours."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

import pygal
from pygal.style import Style

from spirit_py.classes import KW_ONLY, dataclass
from spirit_py.units import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# pygal's finder of plugins, which are not used, is of a kind that Python 3.12 lacks and 3.11
# warns of.
sys.meta_path[:] = [one for one in sys.meta_path if type(one).__module__ != "pygal"]

WIDTH: Final = 560
HEIGHT: Final = 230
POINTS: Final = 240
_X_LABELS: Final = 6
_Y_LABELS: Final = 4
_STEPS: Final = (
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
    4 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400,
)  # fmt: skip
_DECIMAL_STEPS: Final = (1, 2, 2.5, 5, 10)
_BINARY_STEPS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Point:
    """A value at a time, in seconds since the run began, and between what it moved."""

    at: float
    value: float
    least: float
    most: float


@dataclass(frozen=True)
class Curve:
    """A figure over time, in pieces: where it is not known there is no line."""

    label: str
    pieces: Sequence[Sequence[Point]]


@dataclass(frozen=True)
class Shade:
    """A time that is shaded, in which work waited."""

    began: float
    ended: float
    text: str


@dataclass(frozen=True)
class Moment:
    """A moment that is marked by a vertical line."""

    at: float
    kind: str
    text: str


@dataclass(frozen=True)
class Plot:
    """A plot: its title and curves, and how its y axis is rendered."""

    name: str
    title: str
    curves: Sequence[Curve]
    shown: Callable[[float], str]
    _: KW_ONLY
    least_top: float = 0.0
    binary: bool = False
    filled: bool = False
    shades: Sequence[Shade] = ()
    moments: Sequence[Moment] = ()


def drawn(plot: Plot, *, seconds: float, clock: Callable[[float], str]) -> str:
    """Return the SVG of a plot; the time axis ends at ``seconds``, ``clock`` renders its times."""
    top = max(
        (point.most for line in plot.curves for piece in line.pieces for point in piece),
        default=0.0,
    )
    ticks = _value_ticks(max(top, plot.least_top), binary=plot.binary)
    chart = pygal.XY(
        width=WIDTH,
        height=HEIGHT,
        style=_STYLE,
        css=[],
        js=[],
        no_prefix=True,
        disable_xml_declaration=True,
        show_dots=False,
        show_legend=False,
        include_x_axis=True,
        xrange=(0.0, seconds),
        range=(0.0, ticks[-1]),
        margin=6,
        margin_right=14,
        classes=("plot-svg",),
        allow_interruptions=True,
        x_value_formatter=clock,
        value_formatter=plot.shown,
        truncate_label=-1,
        title=None,
        stroke_style={"width": 1.8},
    )
    chart.x_labels = time_ticks(seconds)
    chart.y_labels = ticks
    for line in plot.curves:
        chart.add(line.label, _with_gaps(line))
    chart.add_xml_filter(lambda root: _completed(root, chart, plot, seconds))
    return str(chart.render(is_unicode=True))


def thinned(points: Sequence[Point], most: int = POINTS) -> list[Point]:
    """Return at most so many points: neighbours become one, with the range of all of them."""
    if len(points) <= most:
        return list(points)
    size = math.ceil(len(points) / most)
    return [_merged(points[start : start + size]) for start in range(0, len(points), size)]


def _merged(points: Sequence[Point]) -> Point:
    return Point(
        points[-1].at,
        sum(one.value for one in points) / len(points),
        min(one.least for one in points),
        max(one.most for one in points),
    )


def _with_gaps(line: Curve) -> list[tuple[float | None, float | None]]:
    values: list[tuple[float | None, float | None]] = []
    for piece in line.pieces:
        if values:
            values.append((None, None))
        values += [(point.at, point.value) for point in piece]
    return values


def time_ticks(seconds: float) -> list[float]:
    """Return round times from 0 to the end."""
    step = next((one for one in _STEPS if seconds / one <= _X_LABELS), seconds / _X_LABELS)
    return [step * number for number in range(math.floor(seconds / step) + 1)]


def _value_ticks(top: float, *, binary: bool) -> list[float]:
    if top <= 0:
        return [0.0, 1.0]
    rough = top / _Y_LABELS
    order = math.log(rough, 1024) if binary else math.log10(rough)
    base = (1024.0 if binary else 10.0) ** math.floor(order)
    steps = _BINARY_STEPS if binary else _DECIMAL_STEPS
    step = base * next((one for one in steps if one * base >= rough * 0.999), steps[-1])
    return [step * number for number in range(math.ceil(top / step * 0.999) + 1)]


def _completed(root: Any, chart: Any, plot: Plot, seconds: float) -> Any:
    for defs in root.iter("defs"):
        for child in list(defs):
            if child.tag in {"script", "style"}:
                defs.remove(child)
    for child in list(root):
        if callable(child.tag):  # comments, which name pygal's site
            root.remove(child)
    root.set("role", "img")
    root.set("aria-label", plot.title)
    area = root.find(".//g[@class='plot']")
    if area is None:
        area = next(one for one in root.iter("g") if one.get("class", "").startswith("plot"))
    view = chart.view
    left, right = view.x(0.0), view.x(seconds)
    top, bottom = view.y(chart.range[1]), view.y(0.0)
    behind = ET.Element("g", {"class": "behind"})
    for shade in plot.shades:
        x = max(left, view.x(shade.began))
        settings = {
            "class": "shade wait",
            "x": _number(x),
            "y": _number(top),
            "width": _number(max(0.6, min(right, view.x(shade.ended)) - x)),
            "height": _number(bottom - top),
            "fill-opacity": "1",
        }
        _titled(ET.SubElement(behind, "rect", settings), shade.text)
    for number, line in enumerate(plot.curves):
        for piece in line.pieces:
            _range(behind, view, number, piece)
    area.insert(1, behind)
    for mark in plot.moments:
        x = _number(view.x(mark.at))
        settings = {"class": f"mark {mark.kind}", "x1": x, "x2": x}
        settings |= {"y1": _number(top), "y2": _number(bottom)}
        _titled(ET.SubElement(area, "line", settings), mark.text)
    return root


def _range(parent: Any, view: Any, number: int, piece: Sequence[Point]) -> None:
    if len(piece) < 2 or all(one.least == one.most for one in piece):
        return
    upper = [(view.x(one.at), view.y(one.most)) for one in piece]
    lower = [(view.x(one.at), view.y(one.least)) for one in reversed(piece)]
    path = "M" + " ".join(f"{_number(x)} {_number(y)}" for x, y in [*upper, *lower]) + "Z"
    ET.SubElement(parent, "path", {"class": f"range color-{number}", "d": path})


def _titled(node: Any, text: str) -> None:
    ET.SubElement(node, "title").text = one_line(text)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


_STYLE: Final = Style(
    background="transparent",
    plot_background="transparent",
    font_family="inherit",
    label_font_size=16,
    colors=("currentColor",) * 6,
)
