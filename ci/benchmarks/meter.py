"""What a migration costs while it runs: CPU by process and by the server's threads, rows so far.

Everything is sampled from ``/proc`` and ``performance_schema``.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from benchmarks.sessions import SCHEMA, Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.sessions import Address

#: Seconds between two looks at the rows; every so many looks at processes and threads.
_TICK, _PROCESSES, _THREADS = 0.05, 4, 10
_HERTZ = os.sysconf("SC_CLK_TCK")
#: The names of the tools' new tables.
_NEW_TABLES = ("_t_new", "_t_gho")
#: The purposes of the server's own threads, by the beginning of their names.
_SERVER_THREADS = {
    "ib_pg_flush": "page cleaner",
    "ib_log": "redo log",
    "ib_io": "I/O",
    "ib_srv_purge": "purge",
    "ib_srv_wkr": "purge",
    "ib_ddl": "DDL",
}
_OWNERS = """
SELECT t.THREAD_OS_ID, t.PROCESSLIST_COMMAND, a.ATTR_VALUE
FROM performance_schema.threads t LEFT JOIN performance_schema.session_connect_attrs a
  ON a.PROCESSLIST_ID = t.PROCESSLIST_ID AND a.ATTR_NAME = '_pid'
WHERE t.PROCESSLIST_ID IS NOT NULL AND t.THREAD_OS_ID IS NOT NULL"""
#: The query for the rows that were written to the new table so far.
INSERTED = f"""
SELECT COALESCE(SUM(COUNT_INSERT), 0) FROM performance_schema.table_io_waits_summary_by_table
WHERE OBJECT_SCHEMA = '{SCHEMA}' AND OBJECT_NAME IN {_NEW_TABLES}"""


@dataclass(frozen=True, kw_only=True)
class Metered:
    """The samples between start and stop. Times are monotonic seconds.

    Attributes:
        cpu: seconds by kind of process: server, application, driver, jvm, workers, tool; and
            ``elsewhere``, what everything else on the machine used.
        server: the server's seconds by what the thread does.
        timeline: CPU by kind so far, at times.
        rows: rows written to the new table so far, at times.
    """

    began: float
    ended: float
    cpu: dict[str, float] = field(default_factory=dict)
    server: dict[str, float] = field(default_factory=dict)
    timeline: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    rows: list[tuple[float, int]] = field(default_factory=list)

    @property
    def first_row(self) -> float | None:
        """Seconds until the new table had a row; None when it was never seen with one."""
        return next((at - self.began for at, count in self.rows if count), None)

    def reached(self, count: int) -> float | None:
        """Return the seconds until the new table had so many rows; None when it never had."""
        return next((at - self.began for at, rows in self.rows if rows >= count), None)

    def cpu_between(self, began: float, ended: float) -> dict[str, float]:
        """Return the CPU by kind of a span."""
        first, last = self._at(began), self._at(ended)
        return {kind: round(last[kind] - first.get(kind, 0.0), 3) for kind in last}

    def _at(self, when: float) -> dict[str, float]:
        """Return the CPU so far at a time, between two looks by the straight line."""
        before: tuple[float, dict[str, float]] = (self.began, {})
        for at, used in self.timeline:
            if at >= when:
                share = (when - before[0]) / max(1e-9, at - before[0])
                return {
                    kind: before[1].get(kind, 0.0) + share * (value - before[1].get(kind, 0.0))
                    for kind, value in used.items()
                }
            before = (at, used)
        return before[1]


class Meter:
    """Looks at processes and at the server until it is stopped."""

    def __init__(self, address: Address, server_pid: int | None, application: int | None) -> None:
        """Begin to look."""
        self._application = application
        self._server_pid = server_pid
        self._processes = _Processes()
        self._threads = _ServerThreads(server_pid) if server_pid else None
        if server_pid:
            self._processes.add(server_pid, "server")
        if application:
            self._processes.add(application, "application")
        self._session = Session(address)
        self._began = time.monotonic()
        self._busy = busy(Path("/proc/stat").read_text())
        self._timeline: list[tuple[float, dict[str, float]]] = []
        self._rows: list[tuple[float, int]] = []
        self._look_at_all()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter")
        self._thread.start()

    def add(self, pid: int, kind: str) -> None:
        """Count a process and its descendants, too; those of the driver by their own kinds."""
        self._processes.add(pid, kind)

    def stop(self) -> Metered:
        """Look a last time, and no more."""
        self._ended.set()
        self._thread.join()
        self._look_at_all()
        self._session.close()
        first, last = self._timeline[0][1], self._timeline[-1][1]
        cpu = {kind: round(used - first.get(kind, 0.0), 2) for kind, used in last.items()}
        elsewhere = max(0.0, busy(Path("/proc/stat").read_text()) - self._busy - sum(cpu.values()))
        return Metered(
            began=self._began,
            ended=time.monotonic(),
            cpu=cpu | {"elsewhere": round(elsewhere, 2)},
            server=self._threads.spent() if self._threads else {},
            timeline=[
                (at, {kind: value - first.get(kind, 0.0) for kind, value in used.items()})
                for at, used in self._timeline
            ],
            rows=self._rows,
        )

    def __enter__(self) -> Self:
        """Use it as a context that ends it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        look = 0
        while not self._ended.wait(_TICK):
            look += 1
            self._rows.append((time.monotonic(), int(self._session.value(INSERTED))))
            if look % _PROCESSES == 0:
                self._timeline.append((time.monotonic(), self._processes.look()))
            if look % _THREADS == 0:
                self._look_at_threads()

    def _look_at_all(self) -> None:
        self._timeline.append((time.monotonic(), self._processes.look()))
        self._look_at_threads()

    def _look_at_threads(self) -> None:
        if self._threads:
            owners = {}
            for thread, command, pid in self._session.query(_OWNERS):
                dump = str(command).startswith("Binlog Dump")
                mine = self._application is not None and str(pid) == str(self._application)
                owners[int(thread)] = (
                    "binlog dump" if dump else "application" if mine else "sessions"
                )
            self._threads.look(owners)


class _Processes:
    """CPU time of some processes and all their descendants, by kind."""

    def __init__(self) -> None:
        self._kinds: dict[int, str] = {}
        self._ticks: dict[int, int] = {}
        self._lock = threading.Lock()

    def add(self, pid: int, kind: str) -> None:
        """Count this one, too."""
        with self._lock:
            self._kinds[pid] = kind

    def look(self) -> dict[str, float]:
        """Return the seconds so far by kind."""
        found: dict[int, tuple[int, int, str]] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                found[int(folder.name)] = parsed((folder / "stat").read_text())
        with self._lock:
            grown = True
            while grown:
                grown = False
                for pid, (parent, _, name) in found.items():
                    if parent in self._kinds and pid not in self._kinds:
                        self._kinds[pid] = kind_of_child(self._kinds[parent], name)
                        grown = True
            used: Counter[str] = Counter()
            for pid, kind in self._kinds.items():
                if pid in found:
                    _, ticks, name = found[pid]
                    self._ticks[pid] = max(self._ticks.get(pid, 0), ticks)
                    # A forked process may execute another program by now.
                    self._kinds[pid] = "jvm" if (kind, name) == ("workers", "java") else kind
                used[self._kinds[pid]] += self._ticks.get(pid, 0)
        return {kind: ticks / _HERTZ for kind, ticks in used.items()}


def parsed(stat: str) -> tuple[int, int, str]:
    """Return the parent, the clock ticks and the name out of a ``stat`` file."""
    head, _, rest = stat.rpartition(") ")
    fields = rest.split()
    return int(fields[1]), int(fields[11]) + int(fields[12]), head.partition("(")[2]


def busy(stat: str) -> float:
    """Return the seconds that all cores have worked so far, out of the machine's ``stat`` file."""
    user, nice, system, _idle, _waiting, irq, softirq, *_ = map(
        int, stat.split("\n", maxsplit=1)[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / _HERTZ


def kind_of_child(kind: str, name: str) -> str:
    """Return the kind of a process whose parent is of a kind."""
    if kind in {"driver", "jvm", "workers"}:
        return "jvm" if name == "java" else "workers"
    return kind


class _ServerThreads:
    """CPU time of the server's threads, by what they do."""

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._seen: dict[int, int] = {}
        self._spent: Counter[str] = Counter()
        self._looked = False

    def look(self, owners: Mapping[int, str]) -> None:
        """Add what each thread has used since the last look to what it does now."""
        for folder in self._tasks.glob("[0-9]*"):
            with contextlib.suppress(OSError):
                _, ticks, name = parsed((folder / "stat").read_text())
                thread = int(folder.name)
                new = ticks - self._seen.get(thread, 0 if self._looked else ticks)
                self._seen[thread] = ticks
                self._spent[role(name, owners.get(thread, ""))] += new
        self._looked = True

    def spent(self) -> dict[str, float]:
        """Return the seconds by role, the largest first; threads that did nothing are left out."""
        return {name: ticks / _HERTZ for name, ticks in self._spent.most_common() if ticks}


def role(name: str, owner: str) -> str:
    """Return what a thread of the server does: by whose session it is, or by its name."""
    if owner:
        return owner
    if name == "connection":
        return "sessions"
    found = (what for start, what in _SERVER_THREADS.items() if name.startswith(start))
    return next(found, "other")
