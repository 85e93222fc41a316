"""The figures of a rehearsal (pure). What was not measured is None, never zero."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spirit_py.units import human_bytes, human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, kw_only=True)
class TableDisk:
    """Bytes on disk of one new table, its indexes and partitions included.

    Attributes:
        exact: from the table's own files; else the server's estimate of pages in use.
    """

    schema: str
    name: str
    size: int
    exact: bool = True


@dataclass(frozen=True, kw_only=True)
class ReplicaFigures:
    """How far one replica was behind. Seconds; None when that was never known.

    Attributes:
        address: host and port, or what SHOW REPLICAS says of one that has no address.
        lag_first: at the first sample: what it was behind before the run.
        lag_max: the most at any sample.
        lag_last: at the last sample that could be taken.
        samples: samples taken.
        trouble: why it could not be measured, or what did not work at the last sample.
    """

    address: str
    lag_first: float | None = None
    lag_max: float | None = None
    lag_last: float | None = None
    samples: int = 0
    trouble: str = ""

    def sampled(self, *, lag: float | None, before: float, trouble: str) -> ReplicaFigures:
        """Return the figures with another sample.

        Args:
            lag: seconds; None when it is not known.
            before: seconds that it was behind before the run; counts for the first sample.
        """
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
        """Show the replica in one line."""
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

    Attributes:
        binlog_bytes: written to the binlog by all sessions while the run lasted; None when the
            server did not say.
        own_binlog_bytes: of these, row events of our own tables; None when they were not counted.
        tables: the new tables' disk.
        longest_lock_ms: the longest time that a lock of ours kept writers of the table out.
        longest_lock: what it was taken for.
        locks: how many were taken.
        trouble: figures that could not be had, and why.
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
            *_listed("replicas", [str(one) for one in self.replicas] or ["none found"]),
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
        if not self.locks:
            return "none taken"
        return (
            f"{self.locks} taken, the longest {self.longest_lock_ms:.0f} ms ({self.longest_lock})"
        )


def _listed(title: str, entries: list[str]) -> list[str]:
    """Put entries under one title."""
    return [f"  {title if n == 0 else '':<9} {entry}" for n, entry in enumerate(entries)]


class BinlogMeter:
    """Bytes that a server writes to its binlog from the first sample on, across purges.

    Every sample adds the growth of the files since the one before. Of a file that was purged
    between two samples only its growth since the earlier one is missed, so sample often.
    """

    def __init__(self) -> None:
        self._seen: dict[str, int] | None = None
        #: Bytes so far.
        self.written = 0

    def look(self, files: Iterable[tuple[str, int]]) -> None:
        """Take the server's list of binlog files: name and size."""
        now = dict(files)
        if self._seen is not None:
            self.written += sum(self._growth(name, size) for name, size in now.items())
        self._seen = now

    def _growth(self, name: str, size: int) -> int:
        """Return the growth of one file; one that became smaller is a new file (RESET)."""
        before = (self._seen or {}).get(name, 0)
        return size - before if size >= before else size
