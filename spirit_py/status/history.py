"""Makes the history of a run of what the run reports: its timeline, and what ended how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.events.copy import CheckpointWritten, ChecksumDone
from spirit_py.events.run import (
    AlgorithmChosen,
    PhaseEntered,
    PlanMade,
    ProgressMade,
    ResumeDecided,
    RunBegun,
    RunEnded,
    StatementRead,
    Summary,
    TableEnded,
)
from spirit_py.events.swap import SwapDone
from spirit_py.progress import figures_of
from spirit_py.status.snapshot import BatchStatus, Growth, MigrationStatus, under_way
from spirit_py.status.timeline import Noted, Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from spirit_py.contracts import Clock
    from spirit_py.events.event import Event

_CURVES: Final = tuple(
    one for _, one in figures_of(MigrationStatus) if one.curve and one.kind == "gauge"
)
_JOINED: Final[Mapping[str, Callable[[Iterable[float]], float]]] = {"sum": sum, "most": max}
THROTTLED: Final = "throttled "
_TEXT: Final = 4000
_ENDED_TABLES: Final = 1000
_KEPT: Final = (
    RunBegun, RunEnded, StatementRead, PlanMade, AlgorithmChosen, ResumeDecided, ChecksumDone,
    SwapDone,
)  # fmt: skip
_NOT_NOTED: Final = (ProgressMade, Summary, CheckpointWritten)


@dataclass
class History:
    """What was seen of a run: fields of events and tables, and rows of comparisons, by name."""

    clock: Clock
    timeline: Timeline = field(default_factory=Timeline)
    began: datetime | None = None
    facts: dict[str, Mapping[str, object]] = field(default_factory=dict)
    ended_tables: dict[str, Mapping[str, object]] = field(default_factory=dict)
    tables_left_out: int = 0
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
        if isinstance(event, TableEnded):
            self._table_ended(event)
        if isinstance(event, PhaseEntered):
            self._phase_entered(event)
        if not isinstance(event, _NOT_NOTED):
            at = (event.time - self.began).total_seconds()
            noted = Noted(
                at=max(0.0, at),
                name=event.name,
                text=_cut(event.text),
                table=event.table,
                level=event.level,
                fields=_small(event.fields),
            )
            self.timeline.note(noted)

    def _table_ended(self, event: Event) -> None:
        if len(self.ended_tables) >= _ENDED_TABLES:
            self.tables_left_out += 1
        else:
            self.ended_tables[event.table] = _small(event.fields)

    def _phase_entered(self, event: Event) -> None:
        lanes = self.timeline.lanes
        lane = event.table if self.batch is not None else next(iter(lanes), event.table)
        if lane not in lanes:
            self.timeline.stage(lane, str(event.fields.get("before")), 0.0)
        self.timeline.stage(lane, str(event.fields.get("phase")), self.now)

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
    kept = (str, int, float, type(None))
    return {
        name: _cut(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if isinstance(value, kept)
    }


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
