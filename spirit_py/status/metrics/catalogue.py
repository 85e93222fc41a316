"""Every metric: its name, its kind, and where its value is in a snapshot (pure).

Names follow Prometheus' conventions: the program's name first, base units (seconds, bytes) last,
and ``_total`` behind counters. A value that is not known is left out, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from spirit_py.progress import figures_of
from spirit_py.status.snapshot import MigrationStatus, RunTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


Kind = Literal["gauge", "counter", "info"]
PREFIX: Final = "spirit_py_"


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """A metric.

    Attributes:
        name: as it is read, with prefix and suffix.
        labels: beside ``table``, which all have but those of the process.
        of_process: there is one of it, whatever tables there are.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    of_process: bool = False


@dataclass(frozen=True, kw_only=True)
class FigureSpec(MetricSpec):
    """A metric with one value for each table, which a snapshot has."""

    value: Callable[[MigrationStatus], float | None]


def _specs() -> Iterator[FigureSpec]:
    """Yield a metric of each figure that has one."""
    for of, look in ((MigrationStatus, _seen), (RunTotals, _total)):
        for name, one in figures_of(of):
            if one.metric:
                last = "_total" if one.kind == "counter" else ""
                yield FigureSpec(
                    name=PREFIX + one.metric + last, kind=one.kind, help=one.help, value=look(name)
                )


Look: TypeAlias = "Callable[[MigrationStatus], float | None]"


def _seen(name: str) -> Look:
    return attrgetter(name)


def _total(name: str) -> Look:
    """Return what looks a value up in the totals of a snapshot, where it has any."""
    value: Callable[[RunTotals], float | None] = attrgetter(name)
    return lambda seen: None if seen.totals is None else value(seen.totals)


BUILD: Final = MetricSpec(
    name=PREFIX + "build_info", kind="info", help="The program's version.", labels=("version",),
    of_process=True,
)  # fmt: skip
STARTED: Final = MetricSpec(
    name=PREFIX + "start_timestamp_seconds", kind="gauge", of_process=True,
    help="When the process began to work, Unix time.",
)  # fmt: skip
PHASE: Final = MetricSpec(
    name=PREFIX + "phase", kind="gauge", labels=("phase",),
    help="1 for the phase in which the migration is, 0 for the others on its way.",
)  # fmt: skip
WAITING: Final = MetricSpec(
    name=PREFIX + "waiting", kind="gauge",
    help="1 while the work waits for something, which the log and ctl status name.",
)  # fmt: skip
PROGRESSED: Final = MetricSpec(
    name=PREFIX + "last_progress_timestamp_seconds", kind="gauge",
    help="When rows, changes or the phase last moved on, Unix time.",
)  # fmt: skip
THROTTLED: Final = MetricSpec(
    name=PREFIX + "throttled_seconds_total", kind="counter", labels=("reason",),
    help="Seconds for which work has waited, by what it waited for.",
)  # fmt: skip
CUTOVER_TRIES: Final = MetricSpec(
    name=PREFIX + "cutover_tries_total", kind="counter",
    help="Tries of the swap that have ended, the one that swapped included.",
)  # fmt: skip
LOCK_HELD: Final = MetricSpec(
    name=PREFIX + "lock_held_seconds", kind="gauge",
    help="For how long the swap held its lock; absent before the swap.",
)  # fmt: skip
OUTCOME: Final = MetricSpec(
    name=PREFIX + "outcome", kind="gauge", labels=("outcome",),
    help="1 once the table's run has ended, by how: done, rehearsed, failed, refused, unknown,"
    " interrupted, reverse replication lost; of checksum also equal, repaired, different.",
)  # fmt: skip
RUN_OUTCOME: Final = MetricSpec(
    name=PREFIX + "run_outcome", kind="gauge", labels=("outcome",), of_process=True,
    help="The same of the whole command, also where it was refused before a table was known.",
)  # fmt: skip
ENDED: Final = MetricSpec(
    name=PREFIX + "end_timestamp_seconds", kind="gauge",
    help="When it ended, Unix time; absent before.",
)  # fmt: skip
BATCH_TABLES: Final = MetricSpec(
    name=PREFIX + "batch_tables", kind="gauge", labels=("state",), of_process=True,
    help="Tables of a batch: done, running, failed, or left to do.",
)  # fmt: skip

FIGURES: Final = tuple(_specs())
"""Those of a snapshot, which are declared there."""

METRICS: Final[tuple[MetricSpec, ...]] = (
    BUILD, STARTED, PHASE, WAITING, PROGRESSED, *FIGURES, THROTTLED, CUTOVER_TRIES, LOCK_HELD,
    OUTCOME, ENDED, RUN_OUTCOME, BATCH_TABLES,
)  # fmt: skip
"""All of them, in the order in which they are exposed."""
