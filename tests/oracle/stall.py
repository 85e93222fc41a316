"""Hold up a chunk in the middle of its copy, while applications change rows of it (R4).

A transaction of the test copies one row of the chunk and does not commit, so that the chunk's own
statement, which has its snapshot of the source by then, waits at that row. What applications write
meanwhile to the rows behind it must not reach the new table before the chunk has committed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import MySQLdb

from tests.oracle.load import LoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.mysql import Database

#: Which row of the chunk is held: the first, so that the chunk itself holds none of the others.
_OFFSET = 0
_PATIENCE = 60.0
_POLL = 0.005
_SETTINGS = (
    # An open table keeps how its generated columns were resolved, for whoever uses it next.
    "SET SESSION sql_mode = CONCAT(IF(@@GLOBAL.sql_mode LIKE '%%NO_UNSIGNED_SUBTRACTION%%',"
    " 'NO_UNSIGNED_SUBTRACTION,', ''),"
    " 'STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'),"
    " transaction_isolation = 'READ-COMMITTED', lock_wait_timeout = 2,"
    " innodb_lock_wait_timeout = 1, foreign_key_checks = 0, time_zone = %s"
)


class Stalls:
    """Counts how often a chunk was really held up."""

    def __init__(self, db: Database, rounds: Callable[[], None]) -> None:
        """Prepare; ``rounds`` lets the applications write for a while."""
        self.seen = 0
        self._db = db
        self._rounds = rounds

    @contextlib.contextmanager
    def held(self, copy_sql: str, time_zone: str) -> Iterator[None]:
        """Hold a row of the chunk that ``copy_sql`` copies, until it waited while others wrote."""
        with contextlib.closing(self._db.connect()) as session:
            if not self._take(session, copy_sql, time_zone):
                yield
                return
            over = threading.Event()
            holder = threading.Thread(target=self._hold, args=(session, over), name="stall")
            holder.start()
            try:
                yield
            finally:
                over.set()
                holder.join()

    @staticmethod
    def _take(session: Any, copy_sql: str, time_zone: str) -> bool:
        """Copy one row of the chunk without committing; False when there is none to hold."""
        with contextlib.closing(session.cursor()) as cursor:
            cursor.execute(_SETTINGS, (time_zone or "+00:00",))
            cursor.execute("BEGIN")
            try:
                return bool(cursor.execute(f"{copy_sql} LIMIT 1 OFFSET {_OFFSET}".encode()))
            except MySQLdb.Error:
                session.rollback()
                return False

    def _hold(self, session: Any, over: threading.Event) -> None:
        """Wait until the chunk waits for the row, let the applications write, then let go."""
        deadline = time.monotonic() + _PATIENCE
        try:
            while not over.is_set() and time.monotonic() < deadline:
                if self._waited_for(session):
                    self.seen += 1
                    # What a writer failed with is raised where the case waits for it.
                    with contextlib.suppress(LoadError):
                        self._rounds()
                    return
                time.sleep(_POLL)
        finally:
            session.rollback()

    @staticmethod
    def _waited_for(session: Any) -> bool:
        """Whether another session waits for a lock of this session."""
        with contextlib.closing(session.cursor()) as cursor:
            # By transaction, and that by its lock on the table: an insert's lock has no thread
            # before another session waits, and innodb_trx cannot show a running statement with
            # letters beyond U+FFFF.
            cursor.execute(
                "SELECT 1 FROM performance_schema.data_lock_waits w"
                " JOIN performance_schema.data_locks l"
                " ON l.engine_transaction_id = w.blocking_engine_transaction_id"
                " WHERE l.thread_id = PS_CURRENT_THREAD_ID() AND l.lock_type = 'TABLE' LIMIT 1"
            )
            return cursor.fetchone() is not None
