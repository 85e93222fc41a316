"""An application that writes at a steady rate, in a process of its own, and times every write."""

from __future__ import annotations

import contextlib
import itertools
import math
import multiprocessing
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import MySQLdb

from benchmarks.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from benchmarks.sessions import Address
    from benchmarks.tables import Table

#: A late writer makes up for at most so many seconds of its writes.
_MOST_LATE = 0.1
#: Distance between the first numbers of successive applications.
_APART = 1_234_577

#: When a write began, and how long it took, in seconds.
Write = tuple[float, float]
_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the application does.

    Attributes:
        writers: sessions.
        rate: writes a second of all of them together.
        on_schedule: a write is due at its time, whether or not the one before it has ended, and its
            latency counts from then on: so a stall is felt by every write that was due in it.
            Otherwise a late writer makes up for a tenth of a second of its writes, and a write
            counts from when it is sent.
    """

    writers: int = 4
    rate: float = 500.0
    on_schedule: bool = False


@dataclass(frozen=True, kw_only=True)
class Latency:
    """The writes that overlap a span; milliseconds. A write under way counts as far as it is."""

    writes: int
    per_second: float
    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, writes: Sequence[Write], span: tuple[float, float]) -> Self:
        """Sum up the writes of a span of monotonic seconds."""
        began, ended = span
        took = sorted(1000 * took for at, took in writes if at < ended and at + took > began)
        return cls(
            writes=len(took),
            per_second=round(len(took) / max(0.001, ended - began), 1),
            p50=percentile(took, 0.5),
            p99=percentile(took, 0.99),
            longest=round(took[-1], 2) if took else 0.0,
        )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share of the values does not exceed."""
    if not ordered:
        return 0.0
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 2)


class Application:
    """Writers in a process of their own; what they wrote, and when."""

    def __init__(self, address: Address, table: Table, rows: int, load: Load) -> None:
        """Start them."""
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        first = next(_numbers) * _APART
        job = _Job(address=address, table=table, rows=rows, load=load, first=first)
        self._process = context.Process(target=_write, args=(job, other))
        self._process.start()
        other.close()
        self.load = load
        self.writes: list[Write] = []
        self.failures: list[str] = []

    @property
    def pid(self) -> int:
        """The process of the writers."""
        return self._process.pid or 0

    def until(self, ended: float) -> None:
        """Wait for a time, and take what was written so far."""
        time.sleep(max(0.0, ended - time.monotonic()))
        self._pipe.send("take")
        taken, self.failures = self._pipe.recv()
        self.writes += taken

    def latency(self, span: tuple[float, float]) -> Latency:
        """Sum up the writes of a span whose end has been waited for."""
        return Latency.of(self.writes, span)

    def longest_ms(self, span: tuple[float, float]) -> float:
        """Return the longest write that overlaps a span, when all such writes have ended."""
        self.until(span[1])
        if self.failures:
            raise SystemExit(f"a writer failed: {self.failures[0]}")
        return self.latency(span).longest

    def per_second(self) -> float:
        """Return the writes a second so far."""
        first, last = self.writes[0][0], max(at for at, _ in self.writes)
        return len(self.writes) / max(0.001, last - first)

    def __enter__(self) -> Self:
        """Use it as a context that ends the writers."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the writers."""
        with contextlib.suppress(OSError):
            self._pipe.send("end")
        self._process.join(30)
        if self._process.is_alive():
            self._process.terminate()


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What the writers are given; the numbers of their writes begin with ``first``."""

    address: Address
    table: Table
    rows: int
    load: Load
    first: int


class _Writer:
    """A session that writes at its rate; a statement that fails is noted, and the next is tried."""

    def __init__(self, job: _Job, number: int) -> None:
        self._job = job
        self._pause = job.load.writers / job.load.rate
        self._due = self._pause * number / job.load.writers
        self._numbers = itertools.count(job.first + number, job.load.writers)
        self._lock = threading.Lock()
        self._writes: list[Write] = []
        self._ended = threading.Event()
        #: When the write under way began; 0 for none.
        self._since = 0.0
        self.failed = ""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        due = time.monotonic() + self._due
        turns = enumerate(self._numbers)
        while not self._ended.is_set():
            try:
                with Session(self._job.address) as session:
                    for turn, number in turns:
                        if self._ended.wait(max(0.0, due - time.monotonic())):
                            return
                        sql = self._job.table.write(number, turn, self._job.rows)
                        ended = self._timed(session, sql, due)
                        due += self._pause
                        if not self._job.load.on_schedule:
                            due = max(due, ended - _MOST_LATE)
            except Exception as error:
                self.failed = repr(error)
                self._ended.wait(self._pause)

    def _timed(self, session: Session, sql: str, due: float) -> float:
        """Write; return when it ended."""
        began = due if self._job.load.on_schedule else time.monotonic()
        self._since = began
        try:
            session.execute(sql)
        except MySQLdb.IntegrityError:
            pass  # a row that a writer before this one has inserted
        finally:
            ended = time.monotonic()
            with self._lock:
                self._since = 0.0
                self._writes.append((began, ended - began))
        return ended

    def take(self) -> list[Write]:
        """Return the writes since the last call, and the one that is under way as far as it is."""
        with self._lock:
            taken, self._writes = self._writes, []
            if since := self._since:
                taken.append((since, time.monotonic() - since))
            return taken

    def end(self) -> None:
        """End."""
        self._ended.set()
        self._thread.join()


def _write(job: _Job, pipe: Connection) -> None:
    """Run all writers; the body of their process."""
    writers = [_Writer(job, number) for number in range(job.load.writers)]
    try:
        while pipe.recv() == "take":
            taken = [write for writer in writers for write in writer.take()]
            pipe.send((taken, [writer.failed for writer in writers if writer.failed]))
    except (EOFError, OSError):
        pass
    finally:
        for writer in writers:
            writer.end()
