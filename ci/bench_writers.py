"""An application that writes at a steady rate, in a process of its own, and times every write."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from spirit_py.mysql.connect import connect

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session

SCHEMA = "spirit_py_bench_cutover"
#: Rows that the table has at first.
ROWS = 20_000
#: A writer that is late catches up with at most so many seconds of its writes.
_MOST_LATE = 0.1

#: When a write began, and how long it took, in seconds.
Write = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the application does."""

    writers: int = 16
    rate: float = 1000.0


class Application:
    """Writers in a process of their own; what they wrote, and when."""

    def __init__(self, connection: ConnectionOptions, load: Load) -> None:
        """Start them."""
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_write, args=(connection, load, other))
        self._process.start()
        other.close()
        self.rate = load.rate
        self.writes: list[Write] = []

    def longest_ms(self, span: tuple[float, float]) -> float:
        """Return the longest write that overlaps a span, when all such writes have ended."""
        began, ended = span
        time.sleep(max(0.0, ended - time.monotonic()))
        self._pipe.send("take")
        taken, failed = self._pipe.recv()
        if failed:
            raise SystemExit(f"a writer failed: {failed}")
        self.writes += taken
        return 1000 * max(
            (took for at, took in self.writes if at < ended and at + took > began), default=0.0
        )

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


class _Writer:
    """A session that inserts and updates at its rate."""

    def __init__(self, connection: ConnectionOptions, pause: float, number: int) -> None:
        self._connection = connection
        self._pause = pause
        self._number = number
        self._lock = threading.Lock()
        self._writes: list[Write] = []
        self._ended = threading.Event()
        #: When the write under way began; 0 for none.
        self._since = 0.0
        self.failed = ""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with connect(self._connection, database=SCHEMA, role="writer") as session:
                due = time.monotonic() + self._pause * self._number / 16
                for number in itertools.count(self._number):
                    if self._ended.wait(max(0.0, due - time.monotonic())):
                        return
                    self._since = began = time.monotonic()
                    self._write(session, number)
                    ended = time.monotonic()
                    with self._lock:
                        self._since = 0.0
                        self._writes.append((began, ended - began))
                    due = max(due + self._pause, ended - _MOST_LATE)
        except Exception as error:
            self.failed = repr(error)

    @staticmethod
    def _write(session: Session, number: int) -> None:
        """Insert, or update one of the rows that were there at first."""
        if number % 4:
            row = 1 + number * 7919 % ROWS
            session.execute(f"UPDATE t SET k = k + 1, c = 'update {number}' WHERE id = {row}")
        else:
            session.execute(f"INSERT INTO t (k, c) VALUES ({number}, 'insert')")

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


def _write(connection: ConnectionOptions, load: Load, pipe: Connection) -> None:
    """Run all writers; the body of their process."""
    pause = load.writers / load.rate
    writers = [_Writer(connection, pause, number) for number in range(load.writers)]
    try:
        while pipe.recv() == "take":
            taken = [write for writer in writers for write in writer.take()]
            pipe.send((taken, "".join(writer.failed for writer in writers)))
    except (EOFError, OSError):
        pass
    finally:
        for writer in writers:
            writer.end()
