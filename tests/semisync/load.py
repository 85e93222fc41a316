"""Applications that write while commits stall, and know what must be in the table at the end."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import TYPE_CHECKING

import MySQLdb

from tests.semisync.stall import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.mysql import Database
    from tests.semisync.stall import Stall

#: A statement that fails with one of these was rolled back whole: deadlock, lock wait timeout.
ROLLED_BACK = frozenset({1213, 1205})
#: Seconds that commits are held at a time, and let go between.
HELD, FREE = 0.12, 0.05


class Application:
    """Writes rows of its own, those whose id leaves `number` when divided by `of`.

    Attributes:
        rows: what its rows must be, from id to value.
        writes: statements that were answered.
    """

    def __init__(self, db: Database, number: int, of: int, *, rows: int, seed: int) -> None:
        self.rows = {n: f"row {n}" for n in range(2, rows) if n % of == number}
        self.writes = 0
        self.error: BaseException | None = None
        self._ids = range(number, rows, of)
        self._random = random.Random(f"{seed}/{number}")
        self._session = db.connect()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"application-{number}")

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """End, and raise what went wrong."""
        self._end.set()
        self._thread.join(90)
        assert not self._thread.is_alive(), "an application's statement was never answered"
        if self.error is not None:
            raise self.error

    def _work(self) -> None:
        try:
            with contextlib.closing(self._session.cursor()) as cursor:
                while not self._end.wait(0.002):
                    self._write(cursor)
        except BaseException as error:
            self.error = error

    def _write(self, cursor: MySQLdb.cursors.Cursor) -> None:
        """Insert a row that is not there; update or delete one that is."""
        number = self._random.choice(self._ids)
        value = f"{self.writes} {self._random.random():.6f}"
        delete = number in self.rows and self._random.random() < 0.3
        try:
            if delete:
                changed = cursor.execute("DELETE FROM t WHERE id = %s", (number,))
            elif number in self.rows:
                changed = cursor.execute("UPDATE t SET v = %s WHERE id = %s", (value, number))
            else:
                insert = "INSERT INTO t (id, v) VALUES (%s, %s)"
                changed = cursor.execute(insert, (number, value))
        except MySQLdb.Error as error:
            if error.args[0] not in ROLLED_BACK:
                raise
            return
        assert changed == 1, f"row {number}: {changed} rows changed"
        self.writes += 1
        if delete:
            del self.rows[number]
        else:
            self.rows[number] = value


class Staller:
    """Holds and releases commits in turn, in a thread of its own.

    Attributes:
        stalls: how often a held commit was seen.
    """

    def __init__(self, stall: Stall) -> None:
        self.stalls = 0
        self.error: BaseException | None = None
        self._stall = stall
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, name="staller")

    def _work(self) -> None:
        try:
            while not self._end.wait(FREE):
                with self._stall.held():
                    until(lambda: self._stall.waiting() or self._end.is_set(), "a commit to hold")
                    self.stalls += not self._end.wait(HELD)
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """End with commits released, and raise what went wrong."""
        self._end.set()
        self._thread.join(60)
        if self.error is not None:
            raise self.error

    def start(self) -> None:
        """Begin."""
        self._thread.start()


@contextlib.contextmanager
def under_load(
    stall: Stall, db: Database, *, rows: int, seed: int
) -> Iterator[tuple[Staller, list[Application]]]:
    """Have applications write and commits stall for the length of a `with` block."""
    applications = [Application(db, n, 3, rows=rows, seed=seed) for n in range(3)]
    staller = Staller(stall)
    with contextlib.ExitStack() as stack:
        for application in applications:
            stack.callback(application.stop)
            application.start()
        stack.callback(staller.stop)
        staller.start()
        until(lambda: staller.stalls and all(a.writes for a in applications), "stalled writes")
        yield staller, applications
        written = [a.writes for a in applications]
        until(
            lambda: all(a.writes > n for a, n in zip(applications, written, strict=True)),
            "writes after the swap",
        )
