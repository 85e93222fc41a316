"""A bounded history of a run: figures, phases, what happened, and what ended how (pure).

Too many spans become half as many; least, most, mean and rates of counters stay exact. Of events
the first, the last, warnings and errors are kept.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, field
from spirit_py.events import run
from spirit_py.events.copy import CheckpointWritten, ChecksumDone
from spirit_py.events.swap import SwapDone
from spirit_py.progress import BatchStatus, Growth, MigrationStatus, figures_of, under_way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from spirit_py.contracts import Clock
    from spirit_py.events.event import Event

SPANS: Final = 480
EVENTS: Final = 400
STAGES: Final = 200
LANES: Final = 200
_FIRST_EVENTS: Final = 50


@dataclass(frozen=True)
class Range:
    """What was seen of one figure in a span, in so many looks."""

    least: float
    most: float
    mean: float
    looks: int = 1

    def with_(self, other: Range) -> Range:
        """Return the range of both."""
        looks = self.looks + other.looks
        mean = (self.mean * self.looks + other.mean * other.looks) / looks
        return Range(min(self.least, other.least), max(self.most, other.most), mean, looks)


@dataclass
class Span:
    """What was seen between two times, in seconds since the run began; counters at the end."""

    began: float
    ended: float
    figures: dict[str, Range] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)

    def extend(self, later: Span) -> None:
        """Take in the span that follows."""
        self.ended = later.ended
        for name, seen in later.figures.items():
            mine = self.figures.get(name)
            self.figures[name] = seen if mine is None else mine.with_(seen)
        self.counters |= later.counters


@dataclass
class Stage:
    """A time in which a lane was in one phase."""

    name: str
    began: float
    ended: float


@dataclass(frozen=True, kw_only=True)
class Noted:
    """Something that happened, at so many seconds since the run began."""

    at: float
    name: str
    text: str
    table: str = ""
    level: str = "info"
    fields: Mapping[str, object] = field(default_factory=dict)


class Timeline:
    """The history of one run. Not thread-safe."""

    def __init__(self, *, spans: int = SPANS, events: int = EVENTS) -> None:
        self._limit = spans
        self.spans: list[Span] = []
        self._length = 0.0
        self.lanes: dict[str, list[Stage]] = {}
        self.lanes_left_out: int = 0
        self._without_lane: str = ""
        self._number = 0
        self._first: list[tuple[int, Noted]] = []
        self._usual: deque[tuple[int, Noted]] = deque(maxlen=events)
        self._weighty: deque[tuple[int, Noted]] = deque(maxlen=events)
        #: The time of the last look, event or stage.
        self.ended = 0.0

    def look(
        self, at: float, figures: Mapping[str, float | None], counters: Mapping[str, float | None]
    ) -> None:
        """Add what was seen at a time; a figure that is None is not known."""
        self.ended = max(self.ended, at)
        last = self.spans[-1] if self.spans else None
        known = {name: value for name, value in figures.items() if value is not None}
        ranges = {name: Range(value, value, value) for name, value in known.items()}
        grown = {name: value for name, value in counters.items() if value is not None}
        seen = Span(last.ended if last else at, at, ranges, grown)
        if last is not None and at - last.began <= self._length:
            last.extend(seen)
            return
        self.spans.append(seen)
        if len(self.spans) > self._limit:
            self._halve()

    def _halve(self) -> None:
        pairs = zip(self.spans[::2], self.spans[1::2], strict=False)
        rest = self.spans[len(self.spans) // 2 * 2 :]
        kept = []
        for earlier, later in pairs:
            earlier.extend(later)
            kept.append(earlier)
        self.spans = kept + rest
        self._length = (kept[-1].ended - kept[0].began) / len(kept)

    def stage(self, lane: str, name: str, at: float) -> None:
        """Note that a lane is in a phase at a time."""
        self.ended = max(self.ended, at)
        stages = self.lanes.get(lane)
        if stages is None:
            if len(self.lanes) >= LANES:
                self.lanes_left_out += lane != self._without_lane
                self._without_lane = lane
                return
            stages = self.lanes[lane] = []
        if not stages:
            stages.append(Stage(name, at, at))
            return
        stages[-1].ended = at
        if stages[-1].name != name:
            stages.append(Stage(name, at, at))
            if len(stages) > STAGES:
                _absorb_shortest(stages)

    def rename(self, lane: str, name: str) -> None:
        """Change the name of a lane, where its table was not known yet."""
        if lane != name and lane in self.lanes and name not in self.lanes:
            self.lanes = {name if one == lane else one: old for one, old in self.lanes.items()}

    def note(self, event: Noted) -> None:
        """Add something that happened."""
        self.ended = max(self.ended, event.at)
        self._number += 1
        numbered = (self._number, event)
        if len(self._first) < _FIRST_EVENTS:
            self._first.append(numbered)
        elif event.level == "info":
            self._usual.append(numbered)
        else:
            self._weighty.append(numbered)

    @property
    def events(self) -> tuple[Noted, ...]:
        """The events that are kept, in their order."""
        kept = sorted([*self._first, *self._usual, *self._weighty], key=lambda one: one[0])
        return tuple(event for _, event in kept)

    @property
    def events_left_out(self) -> int:
        """How many events were dropped."""
        return self._number - len(self._first) - len(self._usual) - len(self._weighty)


def _absorb_shortest(stages: list[Stage]) -> None:
    shortest = min(range(1, len(stages) - 1), key=lambda n: stages[n].ended - stages[n].began)
    stages[shortest - 1].ended = stages[shortest].ended
    del stages[shortest]
    if shortest < len(stages) and stages[shortest].name == stages[shortest - 1].name:
        stages[shortest - 1].ended = stages[shortest].ended
        del stages[shortest]


def rates(spans: Iterable[Span], counter: str) -> Iterator[tuple[Span, float]]:
    """Return by how much a counter grew a second, for each span whose predecessor has it, too."""
    before: Span | None = None
    for span in spans:
        if before is not None and counter in span.counters and counter in before.counters:
            passed = span.ended - before.ended
            if passed > 0:
                yield span, max(0.0, span.counters[counter] - before.counters[counter]) / passed
        before = span


_CURVES: Final = tuple(
    one for _, one in figures_of(MigrationStatus) if one.curve and one.kind == "gauge"
)
_JOINED: Final[Mapping[str, Callable[[Iterable[float]], float]]] = {"sum": sum, "most": max}
THROTTLED: Final = "throttled "
_TEXT: Final = 4000
_ENDED_TABLES: Final = 1000
_KEPT: Final = (
    run.RunBegun, run.RunEnded, run.StatementRead, run.PlanMade, run.AlgorithmChosen,
    run.ResumeDecided, ChecksumDone, SwapDone,
)  # fmt: skip
_NOT_NOTED: Final = (run.ProgressMade, run.Summary, CheckpointWritten)


@dataclass
class History:
    """What was seen of a run: fields of events and tables, and rows of comparisons, by name."""

    clock: Clock
    timeline: Timeline = field(default_factory=Timeline)
    began: datetime | None = None
    facts: dict[str, Mapping[str, object]] = field(default_factory=dict)
    ended_tables: dict[str, Mapping[str, object]] = field(default_factory=dict)
    tables_left_out: int = 0
    ended_servers: dict[str, Mapping[str, object]] = field(default_factory=dict)
    compared: dict[str, tuple[object, object]] = field(default_factory=dict)
    swaps: int = 0
    lock_held_ms: float = 0.0
    batch: BatchStatus | None = None
    growth: Growth = field(default_factory=Growth)

    def __post_init__(self) -> None:
        self.began_at = self.clock()

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.began_at

    @property
    def waits(self) -> dict[str, float]:
        """The seconds for which work has waited, by what it waited for, where it did."""
        return {
            name.removeprefix(THROTTLED): spent
            for name, spent in self.growth.totals.items()
            if name.startswith(THROTTLED) and spent
        }

    def event(self, event: Event) -> None:
        """Keep something that happened."""
        if self.began is None:
            self.began = event.time
        if isinstance(event, _KEPT):
            self.facts[event.name] = event.fields
        if isinstance(event, ChecksumDone):
            self.compared[event.table] = (event.rows, event.differences)
        if isinstance(event, SwapDone):
            self.swaps += 1
            self.lock_held_ms = max(self.lock_held_ms, event.lock_held_ms)
        if isinstance(event, run.TableEnded):
            if len(self.ended_tables) >= _ENDED_TABLES:
                self.tables_left_out += 1
            else:
                self.ended_tables[event.table] = _small(event.fields)
        if isinstance(event, run.ServerEnded):
            self.ended_servers[event.fleet_server] = _small(event.fields)
        if isinstance(event, run.PhaseEntered):
            self._phase_entered(event)
        if not isinstance(event, _NOT_NOTED):
            noted = Noted(
                at=self._at(event),
                name=event.name,
                text=_cut(event.text),
                table=event.table,
                level=event.level,
                fields=_small(event.fields),
            )
            self.timeline.note(noted)

    def _at(self, event: Event) -> float:
        """Return when it happened, by the clock of spans and lanes, which no step moves.

        What a server of a fleet did may be told when it has ended: only its own time says when.
        """
        if not event.fleet_server or self.began is None:
            return self.now
        return min(self.now, max(0.0, (event.time - self.began).total_seconds()))

    def _phase_entered(self, event: run.PhaseEntered) -> None:
        lanes = self.timeline.lanes
        lane = event.table if self.batch is not None else next(iter(lanes), event.table)
        at = self._at(event)
        if lane not in lanes:
            self.timeline.stage(lane, event.before, max(0.0, at - event.seconds))
        last = lanes[lane][-1] if lane in lanes else None
        # One that is told late is older than what was seen of the table since.
        if last is None or at >= last.began:
            self.timeline.stage(lane, event.phase, at if last is None else max(at, last.ended))

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Keep the figures of now."""
        now, tables = self.now, under_way(snapshot)
        if isinstance(snapshot, BatchStatus):
            self.batch = snapshot
        for one in tables:
            self._stage(one, now)
            self.growth.add(_lane(one), dict(_counters(one)))
        self.growth.keep({_lane(one) for one in tables})
        self.timeline.look(now, figures(tables), self.growth.totals)

    def _stage(self, seen: MigrationStatus, now: float) -> None:
        lane = _lane(seen)
        if self.batch is None and lane not in self.timeline.lanes:
            for earlier in list(self.timeline.lanes):
                self.timeline.rename(earlier, lane)
        if lane not in self.timeline.lanes:
            self.timeline.stage(lane, seen.phase.value, max(0.0, now - seen.elapsed))
        self.timeline.stage(lane, seen.phase.value, now)


def figures(tables: Iterable[MigrationStatus]) -> dict[str, float | None]:
    """Return the figures of now, of several tables their sum, or the worst of them."""
    seen, found = [dict(each.figures) for each in tables], dict[str, float | None]()
    for one in _CURVES:
        known = [each[one] for each in seen if one in each]
        if one.joined == "only":
            found[one.curve] = known[0] if len(seen) == 1 and known else None
        else:
            found[one.curve] = _JOINED[one.joined](known) if known else None
    return found


def _counters(seen: MigrationStatus) -> Iterator[tuple[str, float]]:
    for one, value in seen.figures:
        if one.curve and one.kind == "counter":
            yield one.curve, value
    if seen.totals is not None:
        yield from ((THROTTLED + name, spent) for name, spent in seen.totals.throttled.items())


def _lane(seen: MigrationStatus) -> str:
    return ", ".join(seen.names)


def _small(fields: Mapping[str, object]) -> dict[str, object]:
    return {
        name: _cut(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if isinstance(value, str | int | float | None)
    }


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
