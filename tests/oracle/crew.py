"""All applications of a case, and the operator who lets a deferred swap go on."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import MySQLdb

from tests.oracle.case import Timing
from tests.oracle.compare import quoted
from tests.oracle.load import ALWAYS_ALLOWED, PATIENCE, Application

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fixtures.mysql import Database
    from tests.oracle.case import Case

#: Rounds that every writer has done before the migration begins, and after it has ended.
ROUNDS = 2
#: Rounds that every writer does between the last checksum and the swap.
LATE_ROUNDS = 6
_POLL = 0.01
_DEADLOCKS = 5
#: A row is there already, is referred to, or refers to one that is not there.
_OF_KEYS = frozenset({1062, 1451, 1452})
_LIMIT = re.compile(
    r"(?P<begin>BEGIN|START TRANSACTION|XA START)\b|(XA )?(COMMIT|ROLLBACK)\b(?! TO)",
    re.IGNORECASE,
)


def run_in_own_session(
    db: Database, statements: Sequence[str], *, forgiven: frozenset[int] = frozenset()
) -> None:
    """Run statements in a session that ends behind them.

    After a deadlock the statement, or the transaction that it belongs to, is run again; what was
    committed before is not.

    Args:
        forgiven: a statement that fails with one of these errors is left out.
    """
    at = begun = 0
    left = _DEADLOCKS
    is_open = False
    with (
        contextlib.closing(db.connect()) as session,
        contextlib.closing(session.cursor()) as cursor,
    ):
        while at < len(statements):
            if not is_open:
                begun = at
            try:
                cursor.execute(statements[at])
            except MySQLdb.Error as error:
                if left and error.args[0] in ALWAYS_ALLOWED:
                    _roll_back(cursor, statements[begun])
                    at, is_open, left = begun, False, left - 1
                    continue
                if error.args[0] not in forgiven:
                    raise
            if found := _LIMIT.match(statements[at]):
                is_open = bool(found["begin"])
            at += 1


def _roll_back(cursor: Any, first: str) -> None:
    """Roll back the transaction that begins with ``first``, XA or not."""
    ends = ["ROLLBACK"]
    if xid := first.partition("XA START ")[2]:
        ends = [f"XA END {xid}", f"XA ROLLBACK {xid}"]
    for statement in ends:
        # A deadlock has ended it already, or leaves it to be ended.
        with contextlib.suppress(MySQLdb.Error):
            cursor.execute(statement)


class Crew:
    """The applications of a case, from their first write to their last."""

    def __init__(self, case: Case, db: Database, seed: int) -> None:
        """Prepare; no writer runs yet."""
        self._case, self._db = case, db
        self._stack = contextlib.ExitStack()
        self._meanwhile = [
            (writer.meanwhile, writer.allowed & _OF_KEYS)
            for writer in case.writers
            if writer.meanwhile
        ]
        self._applications = [
            Application(writer, db.connect, db.name, case.expect.table, number=number, seed=seed)
            for number, writer in enumerate(case.writers)
        ]
        self.writing = False

    def __enter__(self) -> Self:
        """Nothing to do: :meth:`begin` begins."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all applications."""
        self._stack.close()

    def begin(self) -> None:
        """Let all begin to write; return when each statement has had its effect."""
        for application in self._applications:
            self._stack.callback(application.stop)
            application.start()
        for application in self._applications:
            application.await_rounds(ROUNDS)
            if self._case.expect.effects:
                application.await_effects()
        self.writing = True

    def another_round(self) -> None:
        """Return once every application has done another round, if they write at all."""
        if not self.writing:
            return
        while self._meanwhile:
            statements, forgiven = self._meanwhile.pop(0)
            run_in_own_session(self._db, statements, forgiven=forgiven)
        for application, seen in [(a, a.rounds) for a in self._applications]:
            application.await_rounds(seen + 2)

    def go_on(self, *, swapped: bool) -> None:
        """Let all write on, now that the migration has ended.

        Args:
            swapped: the table has its new definition.
        """
        for application, seen in [(a, a.rounds) for a in self._applications]:
            if swapped:
                application.migrated()
                application.await_rounds(ROUNDS, after=True)
            else:
                application.await_rounds(seen + ROUNDS)
            if self._case.expect.effects:
                application.await_effects(after=swapped)

    def check(self) -> None:
        """Raise what an application failed with, if one did."""
        for application in self._applications:
            application.check()

    def write_late(self) -> None:
        """Write between the last checksum and the swap."""
        if self._case.timing is Timing.AFTER:
            self.begin()
        for _ in range(LATE_ROUNDS // 2):
            self.another_round()


class Deferred:
    """Lets the swap of a migration with ``--defer-cutover`` go on once enough was written.

    The sentinel table is there as soon as the first checksum is over.
    """

    def __init__(self, crew: Crew, db: Database) -> None:
        """Prepare."""
        self._crew, self._db = crew, db
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="operator", daemon=True)

    def __enter__(self) -> Self:
        """Begin to look for the sentinel."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """The migration is over.

        Raises:
            AssertionError: when it did not wait for the sentinel, or a writer failed.
        """
        self._over.set()
        self._thread.join(2 * PATIENCE)
        if kind is not None:
            return
        assert not self._thread.is_alive(), "the writers did not come to an end"
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            with contextlib.closing(self._db.connect()) as session:
                name = self._sentinel(session)
                if not name:
                    return
                try:
                    self._crew.write_late()
                finally:
                    with contextlib.closing(session.cursor()) as cursor:
                        cursor.execute(f"DROP TABLE IF EXISTS {quoted(name)}")
        except BaseException as error:
            self._error = error

    def _sentinel(self, session: Any) -> str:
        """Wait for the sentinel; give its name, or nothing when the migration ended without."""
        while not self._over.is_set():
            with contextlib.closing(session.cursor()) as cursor:
                cursor.execute(
                    "SELECT TABLE_NAME FROM information_schema.TABLES"
                    " WHERE TABLE_SCHEMA = DATABASE() AND RIGHT(TABLE_NAME, 4) = '_snt'"
                )
                if found := cursor.fetchone():
                    return str(found[0])
            time.sleep(_POLL)
        return ""
