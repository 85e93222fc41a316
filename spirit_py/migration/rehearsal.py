"""The rehearsal: measures what a migration costs the server, during a dry run."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py.classes import dataclass, replace
from spirit_py.errors import ServerFault
from spirit_py.migration.facts import Rehearsed
from spirit_py.mysql.connect import connect
from spirit_py.mysql.replication import binlog_files
from spirit_py.mysql.retry import RenewedSession
from spirit_py.plan.text import listed
from spirit_py.threads import Background
from spirit_py.throttle.lag import NAME, NAME_OR_PROVE, NO_ADDRESS, Replicas, address_of
from spirit_py.throttle.replica import LOOK_SECONDS
from spirit_py.units import human_bytes, human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.checksum.result import ChecksumResult
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.copied_pair import CopiedPair
    from spirit_py.migration.run import Run
    from spirit_py.threads import StopSwitch
    from spirit_py.throttle.replica import ReplicaWatch


@dataclass(frozen=True, kw_only=True)
class TableDisk:
    """Bytes on disk of one new table; unless ``exact``, the server's estimate of pages in use."""

    schema: str
    name: str
    size: int
    exact: bool = True


@dataclass(frozen=True, kw_only=True)
class ReplicaFigures:
    """How far one replica was behind, in seconds, or None; ``lag_first`` before the run."""

    address: str
    lag_first: float | None = None
    lag_max: float | None = None
    lag_last: float | None = None
    samples: int = 0
    trouble: str = ""

    def sampled(self, *, lag: float | None, before: float, trouble: str) -> ReplicaFigures:
        """Return the figures with another sample; ``before`` counts for the first one."""
        if lag is None:
            return replace(self, trouble=trouble)
        lag = round(max(lag, 0.0 if self.samples else before), 3)
        return replace(
            self,
            trouble=trouble,
            lag_first=lag if self.lag_first is None else self.lag_first,
            lag_max=max(lag, self.lag_max or 0.0),
            lag_last=lag,
            samples=self.samples + 1,
        )

    def __str__(self) -> str:
        trouble = f" ({self.trouble})" if self.trouble else ""
        if self.lag_max is None or self.lag_last is None:
            return f"{self.address} not measured{trouble}"
        before = f", {human_seconds(self.lag_first)} before the run" if self.lag_first else ""
        return (
            f"{self.address} fell behind {human_seconds(self.lag_max)} at most,"
            f" {human_seconds(self.lag_last)} at the end{before}{trouble}"
        )


@dataclass(frozen=True, kw_only=True)
class RehearsalFigures:
    """What a run cost the server.

    ``binlog_bytes`` are of all sessions, ``own_binlog_bytes`` the row events of our own tables.
    ``longest_lock`` is what the lock was taken for; ``trouble`` has the missing figures, and why.
    """

    seconds: float = 0.0
    binlog_bytes: int | None = None
    own_binlog_bytes: int | None = None
    tables: tuple[TableDisk, ...] = ()
    replicas: tuple[ReplicaFigures, ...] = ()
    longest_lock_ms: float = 0.0
    longest_lock: str = ""
    locks: int = 0
    trouble: tuple[str, ...] = ()

    @property
    def disk_bytes(self) -> int | None:
        """Bytes of all new tables together; None when none was measured."""
        return sum(table.size for table in self.tables) if self.tables else None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return {**dataclasses.asdict(self), "disk_bytes": self.disk_bytes}

    def lines(self) -> list[str]:
        """Return the summary, a line each, in the layout of the migration's report."""
        return [
            f"  disk      {self._disk()}",
            f"  binlog    {self._binlog()}",
            *(
                line.text
                for line in listed("replicas", [*map(str, self.replicas)] or ["none found"])
            ),
            f"  locks     {self._locks()}",
            *(f"  not known {text}" for text in self.trouble),
        ]

    def _disk(self) -> str:
        if not self.tables:
            return "not measured"
        about = "" if all(table.exact for table in self.tables) else "about "
        named = ", ".join(f"{table.schema}.{table.name}" for table in self.tables)
        return f"{about}{human_bytes(self.disk_bytes)} for {named}"

    def _binlog(self) -> str:
        if self.binlog_bytes is None:
            return "not measured"
        own = self.own_binlog_bytes
        ours = "" if own is None else f", {human_bytes(own)} of it rows of the new table"
        return f"{human_bytes(self.binlog_bytes)} written by the server{ours}"

    def _locks(self) -> str:
        longest = f", the longest {self.longest_lock_ms:.0f} ms ({self.longest_lock})"
        taken = f"{self.locks} taken{longest}" if self.locks else "none taken"
        return f"{taken}; the swap's is not rehearsed"


class BinlogMeter:
    """Bytes written to the binlog since the first sample, across purges; needs frequent samples."""

    def __init__(self) -> None:
        self._seen: dict[str, int] | None = None
        self.written = 0

    def look(self, files: Iterable[tuple[str, int]]) -> None:
        """Take the server's list of binlog files: name and size."""
        now = dict(files)
        if self._seen is not None:
            for name, size in now.items():
                before = self._seen.get(name, 0)
                self.written += size - before if size >= before else size
        self._seen = now


_LOG = logging.getLogger(__name__)
INTERVAL: Final = 2.0
_READ_SECONDS: Final = 10
_SETTLE_SECONDS: Final = 3.0
_JOIN_SECONDS: Final = 60.0

_TABLESPACES = """
SELECT SUM(IF(ALLOCATED_SIZE > 0, ALLOCATED_SIZE, FILE_SIZE))
FROM information_schema.INNODB_TABLESPACES
WHERE SPACE_TYPE = 'Single' AND (NAME = %s OR LOWER(NAME) LIKE LOWER(%s))"""
_ESTIMATE = """
SELECT DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""


class Rehearsal:
    """Measures disk, binlog, replicas and locks of one run; :meth:`start`, then :meth:`stop`.

    It only reads, in sessions of its own, and never fails the run: figures that cannot be measured
    are reported as such. ``replicas`` are ``host`` or ``host:port``, reached with the same account;
    those that the server knows with their address are added.
    """

    def __init__(
        self,
        connection: ConnectionOptions,
        replicas: Sequence[str] = (),
        stop: StopSwitch | None = None,
        *,
        account: ConnectionOptions | None = None,
        interval: float = INTERVAL,
    ) -> None:
        self._connection = connection
        self._stop = stop
        self._interval = interval
        self._began = time.monotonic()
        self._binlog = BinlogMeter()
        self._lock = threading.Lock()
        self._locks: list[tuple[float, str, int]] = []
        self._tables: dict[tuple[str, str], TableDisk] = {}
        self._watched = Replicas(
            connection,
            replicas,
            account=account,
            also_known=True,
            interval=min(interval, LOOK_SECONDS),
            on_look=self._note_replica,
        )
        self._figures: dict[str, ReplicaFigures] = {}
        self._trouble: dict[str, str] = {}
        self._session = RenewedSession(
            partial(connect, connection, role="rehearsal", read_timeout=_READ_SECONDS)
        )
        self._looked = 0
        self._first = threading.Event()
        self._thread = Background(
            "rehearsal", self._run, failed=self._failed, join_seconds=_JOIN_SECONDS
        )

    def start(self) -> None:
        """Begin to measure; returns after the first sample, which the others are compared with."""
        self._began = time.monotonic()
        self._thread.start()
        self._first.wait(_JOIN_SECONDS)

    def note_lock(self, what: str, milliseconds: float, number: int = 1) -> None:
        """Note that locks of ours kept writers out, so long at most. From any thread."""
        with self._lock:
            self._locks.append((milliseconds, what, number))

    def measure_tables(self, tables: Iterable[tuple[str, str]]) -> None:
        """Measure new tables now, before they are dropped; the largest measure counts."""
        try:
            with connect(self._connection, role="disk", read_timeout=_READ_SECONDS) as session:
                for schema, name in tables:
                    self._measure(session, schema, name)
        except ServerFault as fault:
            self._trouble["disk"] = fault.message

    def _measure(self, session: SqlSession, schema: str, name: str) -> None:
        space = f"{schema}/{name}"
        escaped = space.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        ((size,),) = session.query(_TABLESPACES, (space, f"{escaped}#p#%"))
        exact = size is not None
        if not exact:
            session.execute("SET SESSION information_schema_stats_expiry = 0")
            found = session.query(_ESTIMATE, (schema, name))
            if not found or found[0][0] is None:
                return
            size = found[0][0]
        made = TableDisk(schema=schema, name=name, size=int(size), exact=exact)
        before = self._tables.get((schema, name))
        if before is None or before.size < made.size:
            self._tables[schema, name] = made

    def stop(self, *, own_binlog_bytes: int | None = None) -> RehearsalFigures:
        """Take the last sample, end the thread and return the figures; may be called again."""
        self._thread.join()
        logged = not self._connection.unlogged
        if not logged:
            self._trouble["binlog"] = "the rehearsal writes past that of the replica"
        worst = max(self._locks, default=(0.0, "", 0))
        return RehearsalFigures(
            seconds=round(time.monotonic() - self._began, 3),
            binlog_bytes=self._binlog.written if self._looked and logged else None,
            own_binlog_bytes=own_binlog_bytes,
            tables=tuple(self._tables.values()),
            replicas=self._replicas(),
            longest_lock_ms=round(worst[0], 3),
            longest_lock=worst[1],
            locks=sum(number for *_, number in self._locks),
            trouble=tuple(f"{what}: {why}" for what, why in self._trouble.items()),
        )

    def _replicas(self) -> tuple[ReplicaFigures, ...]:
        watched = self._watched.watched()
        with self._lock:
            figures = [
                self._figures.get(one.address, ReplicaFigures(address=one.address))
                for one in watched
            ]
        known = {one.uuid for one in watched}
        silent = (
            ReplicaFigures(address=f"server_id {one.server_id}", trouble=f"{NO_ADDRESS}; {NAME}")
            for one in self._watched.silent
            if one.uuid not in known
        )
        unproved = (
            ReplicaFigures(
                address=address_of(one.host, one.port),
                trouble=f"no password is sent to it: {NAME_OR_PROVE}",
            )
            for one in self._watched.unproved
            if one.uuid not in known
        )
        return (*figures, *silent, *unproved)

    def _note_replica(self, watch: ReplicaWatch) -> None:
        state = watch.state
        with self._lock:
            figures = self._figures.get(watch.address, ReplicaFigures(address=watch.address))
            self._figures[watch.address] = figures.sampled(
                lag=None if state.behind is None or state.lost else state.behind.lag,
                before=watch.behind_before,
                trouble=state.trouble,
            )

    def _run(self, stopping: threading.Event) -> None:
        try:
            last = False
            while not (self._stop is not None and self._stop.requested):
                self._sample()
                self._first.set()
                if last:
                    break
                last = stopping.wait(self._interval)
        finally:
            self._first.set()
            self._session.close()
            self._watched.close()

    @staticmethod
    def _failed(error: BaseException) -> None:
        _LOG.warning("the rehearsal's figures end here", exc_info=error)

    def _sample(self) -> None:
        try:
            session = self._session.session()
            self._watched.look()
            self._binlog.look(binlog_files(session))
            self._looked += 1
            self._trouble.pop("binlog", None)
        except ServerFault as fault:
            self._trouble["binlog"] = fault.message
            self._session.close()
            return
        self._watched.settle(_SETTLE_SECONDS)
        if self._watched.unlisted:
            self._trouble["replicas"] = self._watched.unlisted


def begin_rehearsal(run: Run) -> Rehearsal:
    """Return the meter of a rehearsal that begins; it ends with the run."""
    config = run.config
    rehearsal = Rehearsal(
        config.connection, config.replicas, run.stop, account=config.replica_account
    )
    run.closing("the rehearsal's meter", rehearsal.stop)
    rehearsal.start()
    return rehearsal


def note_rehearsal(
    run: Run, rehearsal: Rehearsal, pairs: Sequence[CopiedPair], results: Sequence[ChecksumResult]
) -> None:
    """End a rehearsal, and note what it has measured."""
    for pair, result in zip(pairs, results, strict=True):
        if result.locks:
            what = f"the checksum's snapshot of {pair.name}"
            rehearsal.note_lock(what, result.lock_held_ms, result.locks)
    rehearsal.measure_tables(pair.target_name for pair in pairs)
    # Under identifiers of its own the copy is not received, and so not counted.
    counted = not run.config.feed.own_writes
    own = pairs[0].feed.statistics().own_bytes if counted else None
    figures = rehearsal.stop(own_binlog_bytes=own)
    run.note(Rehearsed(figures.to_dict(), figures.lines()))
