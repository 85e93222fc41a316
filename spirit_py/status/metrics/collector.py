"""Every metric, and the last snapshot of each table of which they are made.

Unknown values are left out; counters never fall. Of ended tables the last outcomes are kept.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from spirit_py import progress
from spirit_py.classes import dataclass, field
from spirit_py.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from spirit_py.contracts import Clock

Kind = Literal["gauge", "counter", "info"]
PREFIX: Final = "spirit_py_"


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """A metric, with ``labels`` besides ``table``, which those ``of_process`` do not have.

    In a fleet, ``fleet_server`` is one more, before it.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    of_process: bool = False


def _gauge(name: str, about: str, *labels: str, of_process: bool = False) -> MetricSpec:
    return MetricSpec(
        name=PREFIX + name, kind="gauge", help=about, labels=labels, of_process=of_process
    )


def _counter(name: str, about: str, *labels: str) -> MetricSpec:
    return MetricSpec(name=f"{PREFIX}{name}_total", kind="counter", help=about, labels=labels)


BUILD: Final = MetricSpec(
    name=PREFIX + "build_info", kind="info", help="The program's version.", labels=("version",),
    of_process=True,
)  # fmt: skip
STARTED: Final = _gauge(
    "start_timestamp_seconds", "When the process began to work, Unix time.", of_process=True
)
PHASE: Final = _gauge(
    "phase", "1 for the phase in which the migration is, 0 for the others on its way.", "phase"
)
WAITING: Final = _gauge(
    "waiting", "1 while the work waits; the log and ctl status name the reason."
)
PROGRESSED: Final = _gauge(
    "last_progress_timestamp_seconds", "When rows, changes or the phase last moved on, Unix time."
)
THROTTLED: Final = _counter(
    "throttled_seconds", "Seconds that the work has waited, by reason.", "reason"
)
CUTOVER_TRIES: Final = _counter(
    "cutover_tries", "Tries of the swap that have ended, the one that swapped included."
)
LOCK_HELD: Final = _gauge(
    "lock_held_seconds", "For how long the swap held its lock; absent before the swap."
)
OUTCOME: Final = _gauge(
    "outcome",
    "1 once the table's run has ended, by how: done, rehearsed, failed, refused, unknown,"
    " interrupted, reverted, reverse replication lost, archived; of checksum also equal, repaired,"
    " different.",
    "outcome",
)
RUN_OUTCOME: Final = _gauge(
    "run_outcome",
    "The same of the whole command, also where it was refused before a table was known.",
    "outcome",
    of_process=True,
)
ENDED: Final = _gauge("end_timestamp_seconds", "When it ended, Unix time; absent before.")
FLEET_SERVERS: Final = _gauge(
    "fleet_servers", "Servers of a fleet: done, running, failed, or left to do.", "state",
    of_process=True,
)  # fmt: skip
BATCH_TABLES: Final = _gauge(
    "batch_tables", "Tables of a batch: done, running, failed, or left to do.", "state",
    of_process=True,
)  # fmt: skip

FIGURES: Final = {
    one: (_counter if one.kind == "counter" else _gauge)(one.metric, one.help)
    for holder in (progress.MigrationStatus, progress.RunTotals)
    for _, one in progress.figures_of(holder)
    if one.metric
}

METRICS: Final[tuple[MetricSpec, ...]] = (
    BUILD, STARTED, PHASE, WAITING, PROGRESSED, *FIGURES.values(), THROTTLED, CUTOVER_TRIES,
    LOCK_HELD, OUTCOME, ENDED, RUN_OUTCOME, BATCH_TABLES, FLEET_SERVERS,
)  # fmt: skip

ENDED_TABLES: Final = 500
_THROTTLED: Final = "throttled "

Row = tuple[MetricSpec, "Mapping[str, str]", float]


@dataclass
class _Tries:
    """Tries of all swaps, each of which counts its own from 1, and the lock of the first one."""

    count: int = 0
    last: int = 0
    lock_held: float | None = None

    def add(self, number: int, lock_held: float | None) -> None:
        self.count += number - self.last if number > self.last else number
        self.last = number
        # After a swap the one back keeps it; in a process that only swaps back, that is the swap.
        self.lock_held = lock_held if self.lock_held is None else self.lock_held


@dataclass
class _Table:
    seen: progress.MigrationStatus
    growth: progress.Growth = field(default_factory=progress.Growth)
    moved: tuple[object, ...] = ()
    progressed_at: float = 0.0
    tries: _Tries | None = None


class StatusCollector(Collector):
    """Collects a run. Thread-safe, no I/O; ``clock`` is Unix time."""

    def __init__(self, *, version: str, clock: Clock = time.time) -> None:
        self._version = version
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._tables: dict[str, _Table] = {}
        self._ended: dict[str, tuple[str, float]] = {}
        self._tried: dict[str, _Tries] = {}
        self._batch: dict[str, int] | None = None
        self._fleet = False
        self._outcome = ""
        #: A number that changes whenever a metric may have changed.
        self.revision = 0

    def update(self, snapshot: progress.MigrationStatus | progress.BatchStatus) -> None:
        """Take the figures of now over."""
        with self._lock:
            self.revision += 1
            known = {",".join(one.names): one for one in progress.under_way(snapshot) if one.names}
            if isinstance(snapshot, progress.BatchStatus):
                self._batch = dict(snapshot.counts)
                self._fleet = snapshot.servers
            self._tables = {name: old for name, old in self._tables.items() if name in known}
            for name, one in known.items():
                self._update(name, one)

    def _update(self, name: str, seen: progress.MigrationStatus) -> None:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = _Table(seen)
            if self._tried:
                tried = next(iter(self._tried)) if self._batch is None else name
                table.tries = self._tried.pop(tried, None)
        if name in self._ended and self._is_later(seen, self._ended[name][1], table.seen):
            del self._ended[name]
        table.seen = seen
        counters = {
            spec.name: value
            for one, value in seen.figures
            if one.kind == "counter" and (spec := FIGURES.get(one))
        }
        if seen.totals is not None:
            waits = seen.totals.throttled.items()
            counters |= {_THROTTLED + reason: seconds for reason, seconds in waits}
        table.growth.add("", counters)
        moved = (seen.phase, seen.rows, seen.fraction, seen.applied, seen.table)
        if moved != table.moved:
            table.moved, table.progressed_at = moved, self._clock()

    def _is_later(
        self, seen: progress.MigrationStatus, ended: float, before: progress.MigrationStatus
    ) -> bool:
        """Return whether a snapshot is of a run that began after an end.

        The last one of a server of a fleet may be shown for a while after it.
        """
        again = seen is not before and seen.elapsed == before.elapsed
        return not again and self._clock() - seen.elapsed >= ended

    def tried(self, table: str, tries: int, lock_held: float | None) -> None:
        """Count a try of the swap, by any of its tables; seconds of the lock, if any."""
        with self._lock:
            self.revision += 1
            alone = next(iter(self._tables.values()), None) if self._batch is None else None
            found = self._tables.get(table, alone)
            if found is None:
                known = self._tried.setdefault(table, _Tries())
            else:
                known = found.tries = found.tries or _Tries()
            known.add(tries, lock_held)

    def ended(self, table: str, outcome: str) -> None:
        """Note how a table's migration has ended."""
        with self._lock:
            self.revision += 1
            self._tried.pop(table, None)
            self._ended.pop(table, None)
            self._ended[table] = (outcome, self._clock())
            if len(self._ended) > ENDED_TABLES:
                del self._ended[next(iter(self._ended))]

    def run_begun(self) -> None:
        """Forget how an earlier run has ended, as one that was refused before its question."""
        with self._lock:
            self.revision += 1
            self._outcome = ""

    def run_ended(self, outcome: str) -> None:
        """Note how the run has ended; the last figures of one migration stay."""
        with self._lock:
            self.revision += 1
            self._outcome = outcome
            names = [*self._tables] if self._batch is None else []
        for name in names:
            self.ended(name, outcome)

    def collect(self) -> Iterable[Metric]:
        """Return all metrics that have a value."""
        with self._lock:
            rows, fleet = list(self._rows()), self._fleet
        of_table = _OF_A_FLEET if fleet else _OF_A_TABLE
        families = {spec.name: _family(spec, of_table) for spec in METRICS}
        for spec, labels, value in rows:
            _add(families[spec.name], spec, _apart(labels) if fleet else labels, value, of_table)
        return [family for family in families.values() if family.samples]

    def _rows(self) -> Iterator[Row]:
        yield BUILD, {"version": self._version}, 1.0
        yield STARTED, {}, self._began
        if self._outcome:
            yield RUN_OUTCOME, {"outcome": self._outcome}, 1.0
        for state, count in (self._batch or {}).items():
            counted = FLEET_SERVERS if self._fleet else BATCH_TABLES
            yield counted, {"state": state}, float(count)
        for name, table in self._tables.items():
            yield from _table_rows(name, table)
        for name, (outcome, at) in self._ended.items():
            yield OUTCOME, {"table": name, "outcome": outcome}, 1.0
            yield ENDED, {"table": name}, at


def _table_rows(name: str, table: _Table) -> Iterator[Row]:
    seen, labels = table.seen, {"table": name}
    for phase in dict.fromkeys((*(seen.path or _USUAL), seen.phase)):
        yield PHASE, labels | {"phase": phase.value}, float(phase is seen.phase)
    yield WAITING, labels, float(bool(seen.waiting_for))
    yield PROGRESSED, labels, table.progressed_at
    grown, values = table.growth.totals, dict(seen.figures)
    for one, spec in FIGURES.items():
        value = grown.get(spec.name) if one.kind == "counter" else values.get(one)
        if value is not None:
            yield spec, labels, value
    if table.tries is not None:
        yield CUTOVER_TRIES, labels, float(table.tries.count)
        if table.tries.lock_held is not None:
            yield LOCK_HELD, labels, table.tries.lock_held
    for key, seconds in grown.items():
        if key.startswith(_THROTTLED):
            yield THROTTLED, labels | {"reason": key.removeprefix(_THROTTLED)}, seconds


_USUAL: Final = tuple(one for one in Phase if one is not Phase.DONE)


def _apart(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return the labels of a table of a fleet, with its server and itself."""
    if "table" not in labels:
        return labels
    server, _, table = labels["table"].partition(" ")
    return {**labels, "fleet_server": server, "table": table}


_OF_A_TABLE: Final = ("table",)
_OF_A_FLEET: Final = ("fleet_server", "table")


def _family(spec: MetricSpec, of_table: tuple[str, ...]) -> Metric:
    names = () if spec.of_process else of_table
    if spec.kind == "info":
        return InfoMetricFamily(spec.name.removesuffix("_info"), spec.help, labels=())
    kinds: dict[str, Callable[..., Metric]] = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
    }
    return kinds[spec.kind](spec.name, spec.help, labels=(*names, *spec.labels))


def _add(
    family: Metric,
    spec: MetricSpec,
    labels: Mapping[str, str],
    value: float,
    of_table: tuple[str, ...],
) -> None:
    if isinstance(family, InfoMetricFamily):
        family.add_metric((), dict(labels))
        return
    names = () if spec.of_process else of_table
    if isinstance(family, CounterMetricFamily | GaugeMetricFamily):
        family.add_metric([labels[name] for name in (*names, *spec.labels)], value)
