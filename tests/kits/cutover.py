"""Tables to swap, a change source to swap them with, and writers that go on meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import MySQLdb

from spirit_py.cutover.cutover import Cutover
from spirit_py.cutover.plan import CutoverPlan, CutoverResult, SwapGate
from spirit_py.progress import FeedStatistics
from spirit_py.table.names import Swap
from tests.kits.connection import connection_options
from tests.kits.locking import blind
from tests.kits.tables import tables
from tests.kits.waiting import DEADLINE, until

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping

Hook = Callable[..., object]
#: A busy machine may take long for what takes milliseconds; only tests of the limit are strict. The
#: lock is requested whoever is in front: tests act while the request waits.
PATIENT = blind(wait=30.0)
#: Two seconds on a machine that does nothing else, with 10 ms between two: after four the server
#: ends a silent locking session by itself (``LETS_GO_AFTER``), and what was left would not be seen.
_MOST_LOOKS = 150


def make_tables(db, name: str = "t", rows: int = 10) -> Swap:
    """Create a source table with rows, and the new table with one more column, still empty."""
    db.execute(f"CREATE TABLE `{name}` (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    db.execute(f"CREATE TABLE `_{name}_new` LIKE `{name}`")
    db.execute(f"ALTER TABLE `_{name}_new` ADD COLUMN extra INT NOT NULL DEFAULT 7")
    for number in range(rows):
        db.execute(f"INSERT INTO `{name}` (v) VALUES (%s)", (number,))
    return Swap(schema=db.name, table=name, new=f"_{name}_new", old=f"_{name}_old")


def swapped(db, swap: Swap) -> bool:
    """Whether the new table stands in the source's place, and the source in the old one's."""
    columns = [row[0] for row in db.query(f"SHOW COLUMNS FROM `{swap.table}`")]
    return (
        {swap.table, swap.old} <= set(tables(db))
        and swap.new not in tables(db)
        and "extra" in columns
    )


def untouched(db, swap: Swap) -> bool:
    """Whether the source is in place, and takes writes at once from any session."""
    db.execute("SET SESSION lock_wait_timeout = 1")
    db.execute(f"INSERT INTO `{swap.table}` (v) VALUES (-1)")
    return {swap.table, swap.new} <= set(tables(db)) and swap.old not in tables(db)


def lock_request(db) -> int | None:
    """Return the session that waits for a table lock, or None."""
    rows = db.query(
        "SELECT processlist_id FROM performance_schema.threads"
        " WHERE processlist_info LIKE 'LOCK TABLES%%' AND processlist_state LIKE 'Waiting for%%'"
    )
    return rows[0][0] if rows else None


class _HeldBack(SwapGate):
    """Holds a swap back as a test says."""

    def __init__(self, held_back: Callable[[], str]) -> None:
        self.held_back = held_back  # type: ignore[method-assign]


class ProvenCutover(Cutover):
    """A cutover of which nothing may be left on the server soon after its end (R16).

    Args:
        db: the test's schema, asked directly, whatever way the cutover takes to the server.
        connection: how the cutover reaches the server; directly by default.
    """

    def __init__(
        self, db, swaps, source, *, connection=None, limits=PATIENT, held_back=str, **more: Any
    ) -> None:
        connection = connection or connection_options(db)
        more["gate"] = _HeldBack(held_back)
        super().__init__(
            CutoverPlan(connection=connection, swaps=swaps, source=source, limits=limits, **more)
        )
        self._connect = db.connect

    def run(self) -> CutoverResult:
        """Swap; then see what is left, however it ended."""
        try:
            return super().run()
        finally:
            self._prove_gone()

    def _prove_gone(self) -> None:
        with contextlib.closing(self._connect()) as watching:
            # Looks, not seconds: a busy machine is as slow to look as to end a session.
            looks = itertools.count(1)
            until(lambda: next(looks) and not _left_behind(watching), "their end", longest=0.0)
            assert next(looks) < _MOST_LOOKS


def _left_behind(watching: Any) -> list[tuple[Any, ...]]:
    """Return the sessions of a cutover, and the locks of LOCK TABLES ... WRITE and RENAME."""
    with contextlib.closing(watching.cursor()) as cursor:
        cursor.execute(
            "SELECT t.processlist_id, CONVERT(v.variable_value USING utf8mb4)"
            " FROM performance_schema.user_variables_by_thread v"
            " JOIN performance_schema.threads t USING (thread_id)"
            " WHERE v.variable_name = 'spirit_py_role'"
            " AND v.variable_value IN ('cutover', 'cutover-watch', 'look')"
            " UNION ALL SELECT owner_thread_id, CONCAT(lock_type, ' ', object_name)"
            " FROM performance_schema.metadata_locks WHERE object_type = 'TABLE'"
            " AND lock_type IN ('SHARED_NO_READ_WRITE', 'EXCLUSIVE')"
            " AND object_schema NOT IN ('mysql', 'performance_schema')"
        )
        return list(cursor.fetchall())


class SnapshotSource:
    """A change source that brings the new table up to date in one go under the table lock.

    It holds no state of its own, so a failed try costs nothing, and what it writes is all that
    the source has at that moment. ``hooks`` run before the method of their name.
    """

    def __init__(self, *swaps: Swap) -> None:
        self.swaps = swaps
        self.hooks: dict[str, Hook] = {}
        self.calls: list[str] = []
        self.stopped = False
        self.own_ddl: list[int] = []
        #: What the try that is under way sends.
        self.expected: list[str] = []
        #: The sessions in which the source was asked what the server has executed.
        self.sessions: list[int] = []

    def _call(self, name: str, *arguments: Any) -> None:
        self.calls.append(name)
        if name in self.hooks:
            self.hooks[name](*arguments)

    def block_wait(self, timeout: float | None = None, session: SqlSession | None = None) -> None:
        """Receive nothing: what the source has is read under the lock."""
        if session is not None:
            self.sessions.append(session.id)
        self._call("block_wait")

    def flush(self) -> None:
        """Apply nothing yet."""
        self._call("flush")

    def flush_under_table_lock(self, session: SqlSession, only: TableMapping | None = None) -> None:
        """Make the new table equal to the source, which stands still."""
        self._call("flush_under_table_lock", session)
        for swap in self.swaps:
            session.execute(f"DELETE FROM `{swap.schema}`.`{swap.new}`")
            session.execute(
                f"INSERT INTO `{swap.schema}`.`{swap.new}` (id, v)"
                f" SELECT id, v FROM `{swap.schema}`.`{swap.table}`"
            )

    def all_changes_flushed(self, only: TableMapping | None = None) -> bool:
        """Return True."""
        self._call("all_changes_flushed")
        return True

    def pending(self) -> int:
        """Count nothing."""
        return 0

    def position(self) -> str:
        """Return a position."""
        return "here"

    def position_here(self, session: SqlSession) -> str:
        """Return a position."""
        self._call("position_here", session)
        return "behind"

    @contextlib.contextmanager
    def applies_paused(self, *, patient: bool = True) -> Iterator[None]:
        """Apply nothing meanwhile."""
        self._call("applies_paused")
        try:
            yield
        finally:
            self._call("applies_resumed")

    def expect_own_ddl(self, session_id: int, sql: str) -> None:
        """Note the session, and what it is about to send."""
        self.own_ddl.append(session_id)
        self.expected.append(sql)
        self._call("expect_own_ddl", session_id, sql)

    def forget_own_ddl(self) -> None:
        """Note that the try has ended."""
        self.expected.clear()

    def stop(self) -> None:
        """Note that nothing may be applied any more."""
        self._call("stop")
        self.stopped = True

    def has_unread_changes(self, mapping: Any) -> bool:
        """Fail."""
        raise AssertionError("the cutover must not do this")

    def compared(self, mapping: Any) -> None:
        """Fail."""
        raise AssertionError("the cutover must not do this")

    def statistics(self) -> FeedStatistics:
        """Count nothing."""
        return FeedStatistics()

    def close(self) -> None:
        """Note the call."""
        self._call("close")


class Writer:
    """An application that inserts and updates until it is told to stop, and keeps a journal.

    Attributes:
        acknowledged: the last value that the server has confirmed for each id.
        errors: everything that the server answered with an error.
        longest: seconds of the longest write.
        most_rows: when it has inserted as many it only updates, until this is raised.
        pause: seconds between two writes.
    """

    def __init__(
        self, connection: Any, table: str, number: int, writers: int, pause: float = 0.0
    ) -> None:
        self.connection = connection
        self.table = table
        self.number = number
        self.step = writers
        self.acknowledged: dict[int, int] = {}
        self.errors: list[str] = []
        self.longest = 0.0
        self.most_rows = 200
        self.writes = 0
        self.pause = pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"test-writer-{number}")
        self._thread.start()

    def _run(self) -> None:
        keys: list[int] = []
        value = 0
        with contextlib.closing(self.connection.cursor()) as cursor:
            while not self._stop.wait(self.pause):
                value += 1
                began = time.monotonic()
                try:
                    if not keys or (value % 2 and len(keys) < self.most_rows):
                        key = 1_000_000 + self.number + len(keys) * self.step
                        cursor.execute(
                            f"INSERT INTO `{self.table}` (id, v) VALUES ({key}, {value})"
                        )
                        keys.append(key)
                    else:
                        key = keys[-1 - value * 7 % len(keys)]
                        cursor.execute(f"UPDATE `{self.table}` SET v = {value} WHERE id = {key}")
                        assert cursor.rowcount == 1, f"the row {key} is missing"
                except (MySQLdb.Error, AssertionError) as error:
                    self.errors.append(str(error))
                    return
                self.longest = max(self.longest, time.monotonic() - began)
                self.acknowledged[key] = value
                self.writes += 1

    def stop(self) -> None:
        """Stop writing and wait for the last answer."""
        self._stop.set()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive(), "a writer hangs"
