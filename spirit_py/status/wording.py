"""The text of a migration's figures, and when a log gets a line of them (pure)."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final, Literal

from spirit_py import units
from spirit_py.classes import dataclass, replace
from spirit_py.events.event import LINE
from spirit_py.events.run import ProgressMade
from spirit_py.phases import Phase
from spirit_py.progress import BatchStatus, MigrationProgress, figures_of, under_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.contracts import Clock
    from spirit_py.progress import MigrationStatus

Tone = Literal["", "dim", "yellow"]
_SOON: Final = 6 * 3600.0
_BEHIND_NAME: Final = re.compile(r"[,;:] | \(")
_WORKING: Final = {
    Phase.PREFLIGHT.value: "checking the table and the server",
    Phase.SHORTCUT.value: "trying INSTANT and INPLACE",
    Phase.CREATE.value: "creating the new table",
    Phase.COPY.value: "copying rows",
    Phase.INDEX.value: "the server builds indexes",
    Phase.DRAIN.value: "applying the changes that wait",
    Phase.ANALYZE.value: "the server renews the statistics of the new table",
    Phase.CHECKSUM.value: "comparing rows",
    Phase.SENTINEL.value: "the cut-over is deferred",
    Phase.CUTOVER.value: "swapping the tables",
    Phase.KEEP.value: "keeping the old table up to date",
    Phase.ARCHIVE.value: "writing rows to files, and proving them",
    Phase.GRACE.value: "the old table is kept for a while",
    Phase.CLEANUP.value: "dropping what is not needed any more",
}


@dataclass(frozen=True)
class Said:
    """One fact: a brief one is in the line of a log, too; a drawn one is shown by a bar."""

    text: str
    tone: Tone = ""
    brief: bool = False
    drawn: bool = False


@dataclass(frozen=True)
class Row:
    """Facts of one subject; without room, rows of the smallest weight are left out first."""

    label: str
    facts: tuple[Said, ...]
    weight: int


def rows_of(seen: MigrationProgress, phase: str) -> list[Row]:
    """Return what is known, in the order in which it is shown."""
    rows = {
        ("rows", 8): _rows(seen),
        ("speed", 4): _speed(seen),
        ("whole run", 7): _rest(seen, phase),
        ("changes", 7): _changes(seen),
        ("binlog", 2): _binlog(seen),
        ("throttle", 7 if seen.throttled else 5 if seen.pace else 3): _throttle(seen),
        ("checkpoint", 3): _declared(seen, "checkpoint"),
        ("waiting", 10) if seen.waiting_for else ("now", 6): _now(seen, phase),
        ("note", 6): [Said(seen.note, brief=True)] if seen.note else [],
    }
    return [Row(label, tuple(facts), weight) for (label, weight), facts in rows.items() if facts]


def in_one_line(seen: MigrationStatus, told: str = "") -> str:
    """Return the facts that a log gets: phase, progress, time, and what is waited for.

    ``told``: the :func:`awaited` of the line before, of which there is nothing more to say.
    """
    table = f" {seen.table}" if seen.table else ""
    parts = [f"[{seen.phase.shown}]{table} {units.human_seconds(seen.elapsed)}"]
    for row in rows_of(seen, seen.phase.value):
        facts = ", ".join(one.text for one in row.facts if one.brief)
        if row.label == "waiting":
            facts = f"waiting {facts}"
            if told == awaited(seen):
                waited = "" if seen.waited is None else f", {units.duration(seen.waited)}"
                facts = f"still waiting for {told}{waited}"
        parts += [facts] if facts else []
    return "; ".join(parts)


def awaited(seen: MigrationProgress) -> str:
    """Return the name of what is waited for, without figures and remedies."""
    return _BEHIND_NAME.split(seen.waiting_for, maxsplit=1)[0]


def _declared(seen: MigrationProgress, row: str) -> Iterator[Said]:
    values = vars(seen)
    for name, one in figures_of(MigrationProgress):
        if one.row == row:
            named = [field for _, field, _, _ in LINE.parse(one.said) if field]
            if all(values[field] is not None for field in named):
                tone: Tone = "yellow" if values[name] > one.late else ""
                yield Said(LINE.vformat(one.said, (), values), tone)
            elif one.unknown:
                yield Said(one.unknown)


def _rows(seen: MigrationProgress) -> Iterator[Said]:
    if seen.rows is None:
        return
    total = "" if seen.fraction == 1.0 else units.of_about(seen.rows_total)
    yield Said(f"{units.human_count(seen.rows)}{total} rows", brief=True)
    if seen.fraction is not None:
        yield Said(units.human_percent(seen.fraction), brief=True, drawn=True)
    elif seen.rows_total is None:
        yield Said("their number is not known", "dim")


def _speed(seen: MigrationProgress) -> Iterator[Said]:
    if seen.rate is not None:
        yield Said(f"{units.human_count(seen.rate)} rows/s", brief=True)
    if seen.rate is not None and seen.byte_rate is not None:
        yield Said(f"{units.human_bytes(seen.byte_rate)}/s")
    if seen.eta is not None:
        yield Said(f"ETA {units.duration(seen.eta)}", brief=True, drawn=True)
    elif seen.rate is not None and not (seen.waiting_for or seen.throttled):
        yield Said("ETA unknown", brief=True, drawn=True)
    if seen.chunk_rows and seen.chunk_seconds is not None:
        took = units.duration(seen.chunk_seconds)
        yield Said(f"chunks of {units.human_count(seen.chunk_rows)} in {took}", brief=True)
    if seen.tasks is not None:
        most = f" of {seen.tasks_most}" if seen.tasks_most is not None else ""
        named = seen.tasks if seen.tasks_most is None else seen.tasks_most
        yield Said(f"{seen.tasks}{most} {'task' if named == 1 else 'tasks'}")


def _rest(seen: MigrationProgress, phase: str) -> Iterator[Said]:
    if not seen.run_eta_parts:
        return
    if seen.run_eta is None:
        yield Said(f"time until {seen.run_eta_until} not known", "dim")
    else:
        yield Said(f"about {units.duration(seen.run_eta)} until {seen.run_eta_until}", brief=True)
    for one in Phase:
        if one.value in seen.run_eta_parts and one.value not in {phase, Phase.CUTOVER.value}:
            seconds = seen.run_eta_parts[one.value]
            about = f"~{units.duration(seconds)}" if seconds is not None else "not known"
            yield Said(f"{one.value} {about}")


def _changes(seen: MigrationProgress) -> Iterator[Said]:
    if seen.pending is None:
        return
    size = "" if seen.buffered_bytes is None else f" ({units.human_bytes(seen.buffered_bytes)})"
    yield Said(f"{units.human_count(seen.pending)} pending{size}", brief=True)
    yield from _declared(seen, "changes")
    if seen.parked:
        yield Said(f"parked: {seen.parked}", "yellow")
    elif seen.pending and seen.applied_rate == 0:
        yield Said("they wait for their batch")


def _binlog(seen: MigrationProgress) -> Iterator[Said]:
    if seen.binlog_left is not None:
        soon: Tone = "yellow" if seen.binlog_left < _SOON else ""
        yield Said(f"kept for {units.duration(seen.binlog_left)} more", soon)
    if seen.binlog_older is not None:
        yield Said(f"{units.human_bytes(seen.binlog_older)} from the oldest file")
    if seen.binlog_unread:
        yield Said(f"{units.human_bytes(seen.binlog_unread)} unread")


def _throttle(seen: MigrationProgress) -> Iterator[Said]:
    if seen.throttled:
        # Behind it stands what ends the wait.
        same = seen.waiting_for.startswith(seen.throttled)
        held = "work is held back: see waiting" if same else f"waits for {seen.throttled}"
        yield Said(held, "yellow")
    elif seen.pace:
        yield Said(f"pace: {seen.pace}", brief=True)
    elif seen.tasks is not None:
        yield Said("none")


def _now(seen: MigrationProgress, phase: str) -> Iterator[Said]:
    if not seen.waiting_for:
        yield Said(_WORKING.get(phase, phase))
        return
    waited = "" if seen.waited is None else f" (for {units.duration(seen.waited)})"
    yield Said(f"for {seen.waiting_for}{waited}", "yellow", brief=True)


PROGRESS_SECONDS: Final = 5.0
#: Lines of a lasting phase come after this share of its time, up to once a minute;
_RARER: Final = 0.1
#: where only an operator can end it, up to once in half an hour.
_RARELY: Final = 60.0
_MOST_RARELY: Final = 1800.0
_HELD: Final = frozenset({Phase.SENTINEL, Phase.KEEP, Phase.GRACE})
_NO_FIGURES = frozenset({"table", "history"})


@dataclass(frozen=True)
class _Written:
    phase: Phase
    since: float
    written: float
    told: str = ""

    def pause(self, now: float) -> float:
        most = _MOST_RARELY if self.phase in _HELD else _RARELY
        return min(most, max(PROGRESS_SECONDS, _RARER * (now - self.since)))


class ProgressEvents:
    """Makes events of snapshots, by monotonic seconds; none at first but where ``at_once``."""

    def __init__(self, clock: Clock, *, at_once: bool = False) -> None:
        self._clock = clock
        self._at_once = at_once
        self._last: dict[str, _Written] = {}

    def due(self, snapshot: MigrationStatus | BatchStatus) -> Iterator[ProgressMade]:
        """Yield what is due by now; of a batch, for each table that is under way."""
        now, fleet = under_way(snapshot), isinstance(snapshot, BatchStatus) and snapshot.servers
        self._last = {one.table: self._last[one.table] for one in now if one.table in self._last}
        for one in now:
            told = self._last[one.table].told if one.table in self._last else ""
            if self._is_due(one):
                server = one.table.partition(" ")[0] if fleet else ""
                figures = {key: value for key, value in vars(one).items() if key not in _NO_FIGURES}
                if one.totals is not None:
                    names = one.totals.tables
                    tables = tuple(name.removeprefix(server).strip() for name in names)
                    figures["totals"] = dataclasses.asdict(one.totals) | {"tables": tables}
                said = in_one_line(one, told)
                yield ProgressMade(table=one.table, fleet_server=server, figures=figures, said=said)

    def _is_due(self, snapshot: MigrationStatus) -> bool:
        now = self._clock()
        last = self._last.get(snapshot.table)
        if last is None or last.phase is not snapshot.phase:
            written = float("-inf") if self._at_once else last.written if last else now
            last = _Written(snapshot.phase, since=now, written=written)
        due = now - last.written >= last.pause(now)
        if snapshot.phase is Phase.DONE and not self._at_once:
            due = False
        told = replace(last, written=now, told=awaited(snapshot))
        self._last[snapshot.table] = told if due else last
        return due
