"""The plots of a page: which figures of a history are drawn, and how."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spirit_py.events.swap import CutoverTryFailed, SwapDone
from spirit_py.phases import Phase
from spirit_py.status.html.plots import Curve, Moment, Plot, Point, Shade, thinned
from spirit_py.status.timeline import THROTTLED, rates
from spirit_py.units import human_bytes, human_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spirit_py.status.timeline import History, Span

_GAP = 4.0
_DEFERRAL = "the end of the deferral"
_IF_ANY = frozenset({"buffered", "changes", "chunk"})


def plots(history: History) -> list[Plot]:
    """Return the plots of which anything is known, in the order of the page."""
    spans = history.timeline.spans
    moments = _moments(history)
    shades = list(_shades(history, spans))
    copying = _within(history, spans, {"copy"})
    comparing = _within(history, spans, {"checksum", "sentinel"})
    rows = _rate("copied", copying, "rows"), _gauge("compared", comparing, "rate")
    volume = _gauge("table, copied or compared", spans, "bytes")
    received = _rate("binlog received", spans, "feed")
    changes = _rate("received", spans, "received"), _rate("applied", spans, "applied")
    appliers = _gauge("sessions that apply", spans, "apply_sessions")
    workers = _known(_gauge("tasks", spans, "tasks"), appliers)

    def alone(name: str) -> list[Curve]:
        return _known(_gauge(name, spans, name))

    found = [
        Plot("rows", "Rows a second", _known(*rows), _short),
        Plot("bytes", "Bytes a second", _known(volume, received), human_bytes, binary=True),
        Plot("changes", "Changes a second", _known(*changes), _short),
        Plot("chunk", "Seconds of a chunk (90th percentile)", alone("chunk"), _plain),
        Plot("lag", "Lag of the change feed, seconds", alone("lag"), _plain, least_top=1.0),
        Plot(
            "pending",
            "Backlog: changes received and not applied",
            alone("pending"),
            _short,
            least_top=10.0,
        ),
        Plot(
            "buffered",
            "Memory of the backlog",
            alone("buffered"),
            human_bytes,
            binary=True,
            least_top=1024.0,
        ),
        Plot(
            "throttled",
            "Waiting, part of the time by reason",
            _waits(history, spans),
            lambda value: f"{100 * value:.0f}%",
            least_top=1.0,
            filled=True,
        ),
        Plot("tasks", "Tasks and sessions that may work at once", workers, _plain, least_top=1.0),
    ]
    return [
        replace(plot, shades=() if plot.filled else shades, moments=moments)
        for plot in found
        if plot.curves and not (plot.name in _IF_ANY and _flat(plot))
    ]


def _flat(plot: Plot) -> bool:
    return not any(point.most for one in plot.curves for piece in one.pieces for point in piece)


def _known(*curves: Curve) -> list[Curve]:
    return [curve for curve in curves if any(curve.pieces)]


def _gauge(label: str, spans: Sequence[Span], name: str) -> Curve:
    points = (
        Point(span.ended, seen.mean, seen.least, seen.most)
        for span in spans
        if (seen := span.figures.get(name)) is not None
    )
    return Curve(label, _pieces(points, spans))


def _rate(label: str, spans: Sequence[Span], name: str) -> Curve:
    found = list(rates(spans, name))
    if not any(value for _, value in found):
        return Curve(label, ())
    first = found[0][0].began
    smoothed = _smoothed([(span.ended, span.ended - span.began, value) for span, value in found])
    began = Point(first, smoothed[0].value, smoothed[0].value, smoothed[0].value)
    return Curve(label, _pieces([began, *smoothed], spans))


def _smoothed(rated: Sequence[tuple[float, float, float]]) -> list[Point]:
    points = []
    for place, (at, _, _) in enumerate(rated):
        near = rated[max(0, place - 2) : place + 3]
        passed = sum(length for _, length, _ in near)
        value = sum(length * rate for _, length, rate in near) / passed if passed else 0.0
        points.append(Point(at, value, value, value))
    return points


def _pieces(points: Iterable[Point], spans: Sequence[Span]) -> list[list[Point]]:
    if not spans:
        return []
    usual = max(1.0, (spans[-1].ended - spans[0].began) / len(spans))
    pieces: list[list[Point]] = []
    for point in points:
        if not pieces or point.at - pieces[-1][-1].at > _GAP * usual:
            pieces.append([])
        pieces[-1].append(point)
    return [thinned(piece) for piece in pieces]


def _within(history: History, spans: Sequence[Span], phases: set[str]) -> list[Span]:
    if len(history.timeline.lanes) != 1:
        return list(spans) if "copy" in phases else []
    (lane,) = history.timeline.lanes.values()
    times = [(stage.began, stage.ended) for stage in lane if stage.name in phases]
    return [
        one for one in spans if any(one.ended > began and one.began < end for began, end in times)
    ]


def _waits(history: History, spans: Sequence[Span]) -> list[Curve]:
    curves = []
    for reason in sorted(history.waits):
        points = [
            Point(span.ended, min(1.0, value), 0.0, min(1.0, value))
            for span, value in _parts(spans, THROTTLED + reason)
        ]
        curves.append(Curve(reason, _pieces(points, spans)))
    return _known(*curves)


def _parts(spans: Sequence[Span], name: str) -> Iterator[tuple[Span, float]]:
    before = spans[0] if spans else None
    for span in spans[1:]:
        passed = span.ended - (before.ended if before else 0.0)
        earlier = before.counters.get(name, 0.0) if before else 0.0
        if passed > 0:
            yield span, max(0.0, span.counters.get(name, earlier) - earlier) / passed
        before = span


def _shades(history: History, spans: Sequence[Span]) -> Iterator[Shade]:
    merged: dict[float, tuple[Span, list[str]]] = {}
    for reason in history.waits:
        for span, part in _parts(spans, THROTTLED + reason):
            if part > 0:
                merged.setdefault(span.ended, (span, []))[1].append(reason)
    for span in _within(history, spans, {Phase.SENTINEL.value}):
        merged.setdefault(span.ended, (span, []))[1].append(_DEFERRAL)
    began: Shade | None = None
    for _, (span, reasons) in sorted(merged.items()):
        text = ", ".join(reasons)
        if began is not None and began.text == f"waited for: {text}" and span.began <= began.ended:
            began = Shade(began.began, span.ended, began.text)
            continue
        if began is not None:
            yield began
        began = Shade(span.began, span.ended, f"waited for: {text}")
    if began is not None:
        yield began


def _moments(history: History) -> list[Moment]:
    kinds = {CutoverTryFailed.name: "failed", SwapDone.name: "done"}
    return [
        Moment(event.at, kinds[event.name], event.text)
        for event in history.timeline.events
        if event.name in kinds
    ][:50]


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (size if unit != 'k' else 1e3):g}{unit}"
    return human_count(value) if value >= 10 or value == int(value) else f"{value:g}"


def _plain(value: float) -> str:
    return f"{value:g}"
