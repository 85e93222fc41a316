"""The server itself as the judge: a twin that is fed the raw row events and altered natively.

``Oracle.begin`` before the migration notes the binlog's end and the table's definition; after it
``Oracle.judge`` replays every row event up to the swap into a twin without keys, gives the twin its
keys back, runs the native ALTER on it, replays what came after the swap and compares all of it
with the table. Nothing of the program under test is used.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import MySQLdb

from tests.oracle import compare, rawlog
from tests.oracle.compare import quoted
from tests.oracle.rawlog import OracleError, Statement, TableRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mysql_base import MySQLServer

_DEFINITION = re.compile(r"(SET|CREATE|ALTER)\b", re.IGNORECASE)
_KEY_LINE = re.compile(r"(?:PRIMARY KEY|(?:UNIQUE |FULLTEXT |SPATIAL )?KEY)\b")
#: Lets every value that the source holds pass unchanged while keys are put back.
#: The server keeps an open table with its expressions as the mode of that moment reads them.
_LENIENT = (
    "SET SESSION sql_mode=CONCAT(IF(@@GLOBAL.sql_mode LIKE '%NO_UNSIGNED_SUBTRACTION%',"
    " 'NO_UNSIGNED_SUBTRACTION,', ''), 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'),"
    " time_zone='+00:00'"
)

#: What a fresh session has.
_PLAIN = "SET SESSION sql_mode=@@GLOBAL.sql_mode, time_zone=@@GLOBAL.time_zone"


@dataclass(frozen=True, kw_only=True)
class NativeAlter:
    """How the server itself would have changed the table.

    Attributes:
        statement: the ALTER with ``{table}`` for the table's name; empty for no change at all.
        session: statements run before it, for another sql_mode or time zone than the server's.
        ignore: columns whose values the server makes up for each row, so that they differ.
        moment: a column that says when the server evaluated the defaults that are the time: the
            twin's ALTER is evaluated at its least value, which must be within the migration.
        keyless: take the twin's keys away for the replay.
        rows_from_setup: run the setup's INSERTs in the twin and replay only what came after it.
    """

    statement: str
    session: tuple[str, ...] = ()
    ignore: frozenset[str] = frozenset()
    moment: str = ""
    keyless: bool = True
    rows_from_setup: bool = False


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the oracle saw when everything was right."""

    rows: int
    events_before: int
    events_after: int


class Oracle:
    """Watches one table through one migration."""

    def __init__(self, server: MySQLServer, schema: str, table: str) -> None:
        """Look at ``schema.table`` of ``server``; nothing is read yet."""
        self.server = server
        self.schema, self.table = schema, table
        self.twin = f"{schema}_twin"
        self._sessions = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Note where the binlog ends: all later is replayed. The table must not exist yet."""
        self.start = rawlog.here(self.server)
        return self

    def __exit__(self, *_: object) -> None:
        """Drop the twin and close the sessions."""
        with contextlib.suppress(MySQLdb.Error), self._session() as run:
            run(f"DROP DATABASE IF EXISTS {quoted(self.twin)}")
        self._sessions.close()

    def begin(self, setup: Sequence[str]) -> None:
        """Note the definition, once ``setup`` has made the table and before the migration.

        The twin is made by the same statements, rows aside: SHOW CREATE TABLE passes through
        utf8mb3, so that an ENUM member outside of it would be another one.
        """
        self.setup = tuple(setup)
        self.began = rawlog.here(self.server)
        with self._session() as run:
            run(_LENIENT)
            self.began_at = float(run("SELECT UNIX_TIMESTAMP()")[0][0])
            self.definition = compare.definition(run, self.schema, self.table)

    def judge(self, native: NativeAlter) -> Judgement:
        """Compare the table as it is now with what it must be.

        Raises:
            OracleError: with the differences.
        """
        frame, changes = rawlog.story(rawlog.dump(self.server, self.start))
        before, after = self._split(changes, swapped=bool(native.statement))
        if native.rows_from_setup:
            before = [change for change in before if change.end > self.began]
        self._fill(frame, before, native)
        if native.statement:
            self._alter(native)
        with self._session() as run:
            run(_LENIENT)
            self._replay(run, frame, after)
            expected = compare.rows(run, self.twin, self.table, native.ignore)
            actual = compare.rows(run, self.schema, self.table, native.ignore)
            compare.assert_equal_rows(expected, actual)
            self._compare_definitions(run)
        return Judgement(rows=actual.total(), events_before=len(before), events_after=len(after))

    def _place(self, schema: str) -> str:
        return f"{quoted(schema)}.{quoted(self.table)}"

    @contextlib.contextmanager
    def _session(self) -> Iterator[Any]:
        """Open a session that leaves no trace in the binlog; give a function that runs SQL."""
        server = self.server
        session = MySQLdb.connect(
            host=server.host,
            port=server.port,
            user=server.user,
            passwd=server.password,
            charset="utf8mb4",
            autocommit=True,
            conv={},
        )

        def run(sql: str) -> list[tuple[Any, ...]]:
            with contextlib.closing(session.cursor()) as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())

        with contextlib.closing(session):
            run("SET SESSION sql_log_bin = 0")
            yield run

    def _split(
        self, changes: Sequence[Statement | TableRows], *, swapped: bool
    ) -> tuple[list[TableRows], list[TableRows]]:
        """Split the table's row events at the swap: the RENAME, or the ALTER of a shortcut."""
        ours = [
            change
            for change in changes
            if isinstance(change, Statement)
            or (change.schema, change.table) == (self.schema, self.table)
        ]
        swaps = [
            at
            for at, change in enumerate(ours)
            if isinstance(change, Statement) and self._is_swap(change)
        ]
        if len(swaps) != int(swapped):
            found = [change.text for change in ours if isinstance(change, Statement)]
            raise OracleError(
                f"{len(swaps)} swaps in the binlog, expected {int(swapped)}: {found[-6:]}"
            )
        at = swaps[0] if swaps else len(ours)
        rows = [[c for c in part if isinstance(c, TableRows)] for part in (ours[:at], ours[at:])]
        return rows[0], rows[1]

    def _is_swap(self, statement: Statement) -> bool:
        """Return whether a statement puts another definition in the table's place."""
        if statement.end <= self.began:
            return False
        text = re.sub(r"/\*.*?\*/", " ", statement.text, flags=re.DOTALL).strip()
        schema, table = re.escape(quoted(self.schema)), re.escape(quoted(self.table))
        plain = rf"|{re.escape(self.table)}" if re.fullmatch(r"\w+", self.table) else ""
        name = rf"(?:(?:{schema}|{re.escape(self.schema)})\s*\.\s*)?(?:{table}{plain})(?![\w$])"
        in_schema = statement.schema == self.schema or self.schema in text
        patterns = (
            rf"RENAME\s+TABLE\s+.*\bTO\s+{name}",
            rf"ALTER\s+TABLE\s+{name}",
            rf"CREATE\s+.*INDEX\s+.*\sON\s+{name}",
        )
        flags = re.IGNORECASE | re.DOTALL
        return in_schema and any(re.match(pattern, text, flags) for pattern in patterns)

    def _fill(self, frame: rawlog.Event, before: Sequence[TableRows], native: NativeAlter) -> None:
        """Make the twin in its first definition and replay everything up to the swap."""
        with self._session() as run:
            run(f"DROP DATABASE IF EXISTS {quoted(self.twin)}")
            run(f"CREATE DATABASE {quoted(self.twin)}")
            run(f"USE {quoted(self.twin)}")
            for statement in self.setup:
                if native.rows_from_setup or _DEFINITION.match(statement):
                    run(statement)
        with self._session() as run:
            run(_LENIENT)
            run(f"USE {quoted(self.twin)}")
            strip, restore = self._key_changes(run) if native.keyless else ("", "")
            if strip:
                run(strip)
            self._replay(run, frame, before)
            if restore:
                run(restore)
            made = compare.definition(run, self.twin, self.table)
        if made != self.definition:
            raise OracleError(f"the twin is no twin:\n{made}\n---\n{self.definition}")

    def _key_changes(self, run: Any) -> tuple[str, str]:
        """Return the ALTER that takes every key away and the one that brings them back."""
        created = str(run(f"SHOW CREATE TABLE {self._place(self.twin)}")[0][1])
        lines = [line.strip().removesuffix(",") for line in created.split("\n")[1:]]
        keys = [line for line in lines if _KEY_LINE.match(line)]
        if not keys:
            return "", ""
        counters = [
            line
            for line in lines
            if re.match(r"`.+` .* NOT NULL(?: /\*.*?\*/)? AUTO_INCREMENT", line)
        ]
        names = [
            re.match(r"(?:UNIQUE |FULLTEXT |SPATIAL )?KEY (`(?:[^`]|``)+`)", line) for line in keys
        ]
        strip = [f"DROP KEY {found[1]}" if found else "DROP PRIMARY KEY" for found in names]
        strip += [f"MODIFY {line.replace(' AUTO_INCREMENT', '', 1)}" for line in counters]
        restore = [*(f"ADD {line}" for line in keys), *(f"MODIFY {line}" for line in counters)]
        alter = f"ALTER TABLE {self._place(self.twin)} "
        return alter + ", ".join(strip), alter + ", ".join(restore)

    def _replay(self, run: Any, frame: rawlog.Event, changes: Sequence[TableRows]) -> None:
        """Apply raw row events to the twin; an event whose row is not there is an error.

        The server computes generated columns anew, so this must be a session with its settings.
        """
        run(_PLAIN)
        run(rawlog.format_statement(frame))
        # A FORMAT event leaves the next GTID undetermined.
        run("SET SESSION gtid_next = 'AUTOMATIC'")
        run("BEGIN")
        for change in changes:
            try:
                run(rawlog.rows_statement(change, self.twin, self.table))
            except MySQLdb.Error as error:
                raise OracleError(
                    f"the event at {change.end} does not fit the twin: {error}"
                ) from error
        run("COMMIT")
        run(_LENIENT)

    def _alter(self, native: NativeAlter) -> None:
        """Change the twin as the server does it, in a session with the server's own settings."""
        with self._session() as run:
            run(f"USE {quoted(self.twin)}")
            if native.moment:
                run(f"SET SESSION timestamp = {self._moment(run, native.moment)}")
            for statement in native.session:
                run(statement)
            run(native.statement.replace("{table}", quoted(self.table)))

    def _moment(self, run: Any, column: str) -> str:
        """Return the moment at which the defaults of the rows before the swap were evaluated."""
        (found,) = run(
            f"SELECT UNIX_TIMESTAMP(MIN({quoted(column)})), UNIX_TIMESTAMP()"
            f" FROM {self._place(self.schema)}"
        )
        moment, now = float(found[0]), float(found[1])
        if not self.began_at - 1 <= moment <= now:
            raise OracleError(f"{column} is {moment}, not from {self.began_at} to {now}")
        return str(moment)

    def _compare_definitions(self, run: Any) -> None:
        """Compare what SHOW CREATE TABLE says of twin and table."""
        expected = compare.definition(run, self.twin, self.table)
        actual = compare.definition(run, self.schema, self.table)
        if expected != actual:
            raise OracleError(f"the definition must be\n{expected}\nand is\n{actual}")
