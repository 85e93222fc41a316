"""Applications of a case: sessions that write from before the migration until after the swap."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import MySQLdb

from tests.oracle import compare
from tests.oracle.compare import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.oracle.case import Writer

#: Seconds between two statements of one writer: some hundred a second, so that the two cores
#: of a small machine are left to the migration.
PACE = 0.004
PATIENCE = 60.0
#: Deadlock and lock wait timeout happen to every application.
ALWAYS_ALLOWED = frozenset({1213, 1205})
#: What a statement gets that does not fit the table's definition. Not of it: a table that is not
#: there or not locked (1146, 1100), a statement that was ended (1317), a session that is lost.
OF_THE_DEFINITION = frozenset(
    {
        *(1048, 1054, 1136, 1222, 1364, 1412, 1615, 3105),  # other columns, or not there
        *(1261, 1262, 1263, 1264, 1265, 1267, 1270, 1271, 1292, 1300, 1365, 1366, 1367),
        *(1406, 1411, 1416, 1441, 1467, 1525, 1690, 3140, 3141, 3143, 3144, 3146, 3156),
        *(3157, 3637, 3638, 3643, 3854, 3940, 3988),  # values
        *(1022, 1062, 1176, 1451, 1452, 1586, 1761, 1762),  # indexes and keys
        *(3751, 3752, 3903, 3904, 3905, 3906, 3907),  # those of expressions
        *(1118, 1526, 1748, 3819),  # rows as a whole
    }
)
_CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "SET ", "START ", "SAVEPOINT", "DO ")


class LoadError(AssertionError):
    """A writer of a case did not do what the case says."""


class HeldUp(LoadError):
    """A writer did not get on, or met an error that no definition of the table explains."""


class Application:
    """One writer: repeats its statements in a thread of its own until told to end."""

    def __init__(
        self,
        writer: Writer,
        connect: Callable[[], Any],
        schema: str,
        table: str,
        *,
        number: int,
        seed: int,
    ) -> None:
        """Prepare; ``connect`` opens a session in the schema with autocommit on."""
        self.writer = writer
        self.changed_rows = dict.fromkeys([*writer.during, *writer.after], 0)
        self.rounds = 0
        self.rounds_after = 0
        self.error: BaseException | None = None
        self._schema, self._table, self._number = schema, table, number
        self._connect = connect
        self._random = random.Random(f"{seed}/{number}")
        self._end = threading.Event()
        self._swapped = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"writer {number}", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def migrated(self) -> None:
        """Note that the migration is over and the table has its new definition."""
        self._swapped.set()

    def await_rounds(self, count: int, *, after: bool = False) -> None:
        """Wait until so many rounds (since the swap, with ``after``) are done.

        Raises:
            LoadError: when the writer failed, or did not get there in time.
        """
        self._await(
            lambda: (self.rounds_after if after else self.rounds) >= count, f"{count} rounds"
        )

    def await_effects(self, *, after: bool = False) -> None:
        """Wait until every statement has changed a row: else the case does not do what it says.

        Raises:
            LoadError: when the writer failed, or a statement never changed a row.
        """
        statements = self.writer.after if after else self.writer.during
        wanted = [s for s in statements if not s.upper().startswith(_CONTROL)]
        self._await(
            lambda: all(self.changed_rows[s] for s in wanted),
            lambda: f"a change by {[s for s in wanted if not self.changed_rows[s]]}",
        )

    def _await(self, condition: Callable[[], bool], what: str | Callable[[], str]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.check()
            if not self._thread.is_alive() or time.monotonic() > deadline:
                self.check()
                name = what if isinstance(what, str) else what()
                raise HeldUp(f"writer {self._number} did not come to {name}")
            time.sleep(PACE)
        self.check()

    def check(self) -> None:
        """Raise what the writer failed with, if it did."""
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """End the writer and wait for it."""
        self._end.set()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise HeldUp(f"writer {self._number} does not end")

    def _work(self) -> None:
        try:
            with contextlib.closing(self._connect()) as session:
                self._run(session)
        except BaseException as error:
            self.error = error

    def _run(self, session: Any) -> None:
        for statement in self.writer.session:
            self._execute(session, statement)
        self._before = self._definition(session)
        while not self._end.is_set():
            swapped = self._swapped.is_set()
            if self._round(session, after=swapped):
                self.rounds += 1
                self.rounds_after += swapped

    def _round(self, session: Any, *, after: bool) -> bool:
        """Run the statements once; False when the new definition came in between."""
        count = self.rounds
        number = 1_000_000 * (self._number + 1) + count
        r, s = self._random.randrange(1_000_000), self._random.randrange(1_000_000)
        self._execute(session, f"SET @i={count}, @n={number}, @r={r}, @s={s}")
        begun = skipping = False
        for statement in self.writer.after if after else self.writer.during:
            if self._end.wait(PACE):
                break
            begun = statement == "BEGIN" or (begun and statement != "COMMIT")
            if skipping and begun:
                continue
            skipping = False
            try:
                rows = self._execute(session, statement)
            except MySQLdb.Error as error:
                if not self._forgiven(session, statement, error, after=after):
                    return False
                # The rest of a transaction up to COMMIT falls away with its failed statement.
                skipping = begun
                self._execute(session, "ROLLBACK")
                continue
            self.changed_rows[statement] += max(rows, 0)
        self._execute(session, "ROLLBACK")
        return True

    def _forgiven(self, session: Any, statement: str, error: MySQLdb.Error, *, after: bool) -> bool:
        """Return whether an error belongs to the case; False when the new definition explains it.

        Raises:
            LoadError: when nothing explains it.
        """
        code = error.args[0]
        if code in ALWAYS_ALLOWED or code in self.writer.allowed:
            return True
        said = f"writer {self._number}: {statement}: {error}"
        if code not in OF_THE_DEFINITION:
            raise HeldUp(said) from error
        self._execute(session, "ROLLBACK")
        if not after and self._definition(session) != self._before:
            self._swapped.set()
            return False
        raise LoadError(said) from error

    def _definition(self, session: Any) -> str:
        def query(sql: str) -> list[tuple[Any, ...]]:
            with contextlib.closing(session.cursor()) as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())

        return compare.definition(query, self._schema, self._table)

    @staticmethod
    def _execute(session: Any, sql: str) -> int:
        with contextlib.closing(session.cursor()) as cursor:
            return int(cursor.execute(sql))


def global_variables(
    execute: Callable[[str], Any], query: Callable[[str], Any], wanted: dict[str, Any]
) -> Any:
    """Set global variables of the server; gives an ExitStack that puts the old values back."""
    stack = contextlib.ExitStack()
    for name, value in wanted.items():
        old = query(f"SELECT @@GLOBAL.{name}")[0][0]
        execute(f"SET GLOBAL {quoted(name)} = {_literal(value)}")
        stack.callback(execute, f"SET GLOBAL {quoted(name)} = {_literal(old)}")
    return stack


def _literal(value: Any) -> str:
    # A variable of the kind ON and OFF takes no string of hexadecimal digits.
    if isinstance(value, int) or value in {"ON", "OFF", "FULL", "MINIMAL"}:
        return str(value)
    return f"X'{str(value).encode().hex()}'"
