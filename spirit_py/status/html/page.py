"""The page of a run; its template escapes every text but the plots, which escape their own."""

from __future__ import annotations

import functools
import logging
import threading
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from spirit_py.classes import dataclass
from spirit_py.contracts import QuietReporter
from spirit_py.events import run
from spirit_py.events.swap import CutoverTryFailed, SwapDone
from spirit_py.records import write_whole
from spirit_py.status.html.figures import plots
from spirit_py.status.html.plots import drawn, time_ticks
from spirit_py.status.report import REVERTED
from spirit_py.status.timeline import History
from spirit_py.units import (
    DiffLine,
    counted,
    diff_of,
    human_bytes,
    human_count,
    human_seconds,
    in_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from spirit_py.contracts import Clock
    from spirit_py.events.event import Event
    from spirit_py.progress import BatchStatus, MigrationStatus
    from spirit_py.status.html.plots import Plot
    from spirit_py.status.timeline import Noted, Stage

_DIFF_LINES: Final = 400
_LEAST_SHARE: Final = 0.4
_NAMED_TABLES: Final = 3
_ENDS: Final = frozenset({"done", "failed"})


@dataclass(frozen=True)
class Tile:
    """A figure of the head."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Bar:
    """A part of a lane: its phase, from where and how wide in percent."""

    name: str
    left: float
    width: float
    text: str


def page(history: History, *, ended: datetime) -> str:
    """Return the page of a run that has ended, in UTC."""
    began = history.began or ended
    # Not by the machine's clock, which may be set meanwhile; what ended the run is noted, too.
    seconds = max(history.timeline.ended, 0.001)
    facts = history.facts
    end = facts.get(run.RunEnded.name, {})
    reverted = end.get("outcome") == REVERTED
    lanes = list(history.timeline.lanes.items())
    events = history.timeline.events
    several = history.batch is not None or bool(history.ended_tables)
    context = {
        "title": _title(history),
        "command": facts.get(run.RunBegun.name, {}).get("command") or "migrate",
        "program": facts.get(run.RunBegun.name, {}).get("program"),
        "server": facts.get(run.RunBegun.name, {}).get("server"),
        "began": f"{began:%Y-%m-%d %H:%M:%S} UTC",
        "ended": f"{ended:%Y-%m-%d %H:%M:%S} UTC",
        "duration": human_seconds(seconds),
        "outcome": end.get("outcome") or "unknown",
        "verdict": _verdict(end),
        "reverted": reverted,
        "end": end,
        "statement": None if several else facts.get(run.StatementRead.name, {}).get("statement"),
        "diff": [] if several else _diff(facts.get(run.PlanMade.name, {}).get("plan")),
        "algorithm": facts.get(run.AlgorithmChosen.name, {}),
        "resumed": facts.get(run.ResumeDecided.name),
        "tiles": _tiles(history, seconds),
        "lanes": [(name, _bars(stages, seconds)) for name, stages in lanes],
        "lanes_left_out": history.timeline.lanes_left_out,
        "phases": _phases(stage for _, stages in lanes for stage in stages),
        "ticks": _ticks(seconds),
        "plots": [_shown(plot, seconds) for plot in plots(history)],
        "servers": history.ended_servers,
        "tables": history.ended_tables,
        "tables_left_out": history.tables_left_out,
        "tries": [one for one in events if one.name == CutoverTryFailed.name],
        "swap": None if several else facts.get(SwapDone.name),
        "swaps": history.swaps,
        "swapped_at": next((one.at for one in reversed(events) if one.name == SwapDone.name), None),
        "waits": sorted(history.waits.items(), key=lambda one: -one[1]),
        "warnings": _warnings(events, several=len(lanes) > 1),
        "events": events,
        "events_left_out": history.timeline.events_left_out,
    }
    return str(_environment().get_template("page.html.j2").render(context))


def _verdict(end: Mapping[str, object]) -> str:
    """Return the colour of an end."""
    if end.get("outcome") == REVERTED:
        return "undone"
    return "good" if end.get("exit_code") == 0 else "bad"


def _warnings(events: Sequence[Noted], *, several: bool) -> list[str]:
    """Return each warning once, in front of it the tables of several that have it."""
    found: dict[str, list[str]] = {}
    for one in events:
        if one.name == run.Warned.name:
            table = one.table or ""
            tables = found.setdefault(one.text.removeprefix(f"{table}: "), [])
            tables += [table] if table and table not in tables else []
    return [f"{_where(tables) if several else ''}{text}" for text, tables in found.items()]


def _where(tables: Sequence[str]) -> str:
    if len(tables) > _NAMED_TABLES:
        return f"{len(tables)} tables: "
    return f"{', '.join(tables)}: " if tables else ""


@functools.cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("spirit_py.status.html", "templates"),
        autoescape=True,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"seconds": human_seconds, "count": human_count}
    found.filters |= {"clock": clock, "verdict": _verdict}
    return found


def _visible(value: object) -> object:
    """Escape what controls lines or their direction in a text; markup of our own stays."""
    return in_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def clock(seconds: float) -> str:
    """Render a time since the beginning, as on the axes of the plots."""
    if seconds < 60:
        return f"{seconds:g}s" if seconds == int(seconds) else f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02d}h"
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"


def _title(history: History) -> str:
    if history.ended_servers:
        return counted(len(history.ended_servers), "server")
    if history.batch is not None or history.ended_tables:
        count = len(history.ended_tables) + history.tables_left_out
        return f"{count} tables" if count != 1 else "1 table"
    return ", ".join(filter(None, history.timeline.lanes)) or "no table"


def _shown(plot: Plot, seconds: float) -> Mapping[str, object]:
    return {
        "name": plot.name,
        "title": plot.title,
        "labels": [curve.label for curve in plot.curves],
        "svg": Markup(drawn(plot, seconds=seconds, clock=clock)),  # noqa: S704 - built of nodes
    }


def _tiles(history: History, seconds: float) -> list[Tile]:
    totals = history.growth.totals
    waited = sum(history.waits.values())
    tiles = [Tile("duration", human_seconds(seconds))]
    if "rows" in totals:
        copying = sum(
            stage.ended - stage.began
            for stages in history.timeline.lanes.values()
            for stage in stages
            if stage.name == "copy"
        )
        speed = f"{human_count(totals['rows'] / copying)} rows/s" if copying >= 1 else ""
        tiles.append(Tile("rows copied", human_count(totals["rows"]), speed))
    if "applied" in totals:
        received = f"of {human_count(totals['received'])} received" if "received" in totals else ""
        tiles.append(Tile("changes applied", human_count(totals["applied"]), received))
    if history.compared:
        rows = [rows for rows, _ in history.compared.values()]
        found = [count for _, count in history.compared.values()]
        verdict = f"{human_count(_sum(found))} differences" if _sum(found) else "no differences"
        tiles.append(Tile("rows compared", human_count(_sum(rows)), verdict))
    if history.swaps:
        held = f"{history.lock_held_ms:.0f} ms"
        last = history.facts[SwapDone.name]
        note = (
            f"of {history.swaps} swaps, the longest"
            if history.swaps > 1
            else f"try {last.get('tries')}"
        )
        back = " back" if last.get("back") and history.swaps == 1 else ""
        tiles.append(Tile(f"lock held by the swap{back}", held, note))
    # Reasons may hold at once, and tables of a batch wait side by side.
    added = waited and max(len(history.waits), len(history.timeline.lanes)) > 1
    note = "all reasons and tables added up" if added else ""
    tiles.append(Tile("throttled", human_seconds(waited) if waited else "not at all", note))
    peak = [
        one.figures["buffered"].most for one in history.timeline.spans if "buffered" in one.figures
    ]
    if peak:
        tiles.append(Tile("peak of buffered changes", human_bytes(max(peak))))
    return tiles


def _sum(values: Iterable[object]) -> float:
    return sum(value for value in values if isinstance(value, int | float))


def _diff(plan: object) -> list[DiffLine]:
    tables = plan.get("tables", ()) if isinstance(plan, dict) else ()
    lines: list[DiffLine] = []
    for table in tables:
        known = table.get("definition") or {}
        if known.get("old") and known.get("new"):
            lines += diff_of(known["old"], known["new"])
    return lines[:_DIFF_LINES]


def _bars(stages: Iterable[Stage], seconds: float) -> list[Bar]:
    bars = []
    for stage in (one for one in stages if one.name not in _ENDS):
        left = min(100.0, 100 * stage.began / seconds)
        width = max(_LEAST_SHARE, 100 * (stage.ended - stage.began) / seconds)
        took = human_seconds(stage.ended - stage.began)
        text = f"{stage.name}: {took}, from {clock(stage.began)}"
        bars.append(Bar(stage.name, round(left, 2), round(min(width, 100.0 - left), 2), text))
    return bars


def _phases(stages: Iterable[Stage]) -> dict[str, float]:
    spent: dict[str, float] = {}
    for stage in (one for one in stages if one.name not in _ENDS):
        spent[stage.name] = spent.get(stage.name, 0.0) + stage.ended - stage.began
    return spent


def _ticks(seconds: float) -> list[tuple[float, str]]:
    found = ((100 * at / seconds, clock(at)) for at in time_ticks(seconds))
    return [(round(left, 2), text) for left, text in found if left < 97]


_log = logging.getLogger(__name__)


class PageReporter(QuietReporter):
    """Keeps the history of a run, and writes the page of it, as a whole, at the end."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._history = History(clock)

    def event(self, event: Event) -> None:
        """Keep an event; at the end of the run write the page."""
        with self._lock:
            if isinstance(event, run.RunBegun):
                self._history = History(self._clock)
            self._history.event(event)
            if isinstance(event, run.RunEnded):
                self._write(event)

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Keep the figures of now."""
        with self._lock:
            self._history.progress(snapshot)

    def _write(self, event: Event) -> None:
        try:
            write_whole(self._path, page(self._history, ended=event.time))
        except OSError as error:
            why = error.strerror or error
            _log.warning("the report could not be written to %s: %s", self._path, why)
        except Exception:
            _log.warning("the report %s could not be made", self._path, exc_info=True)
