"""The server itself as the judge: a twin that is fed the raw row events and altered natively.

``Oracle.begin`` before the migration notes the binlog's end and all definitions of the schema;
after it ``Oracle.judge`` replays every row event up to the swap into a twin without keys, gives the
twin its keys back, runs the native ALTER on it, replays what came after the swap and compares all
of it with the schema: every row of every table, definitions, triggers and foreign keys. Nothing of
the program under test is used.

The twin is a schema of its own with all tables of the case, so that parents, children and the
tables that triggers write stand beside the one that changes. Row events are replayed as a replica
does it: triggers do not fire, and a cascade that is in the binlog happens once. A table with
foreign keys keeps its keys during the replay.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import MySQLdb

from tests.oracle import attached, compare, probes, rawlog
from tests.oracle.case import other, place, statements
from tests.oracle.compare import quoted
from tests.oracle.rawlog import OracleError, Statement, TableRows
from tests.oracle.untrue import BinlogUntrue, deadlocks, may_be_untrue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mysql_base import MySQLServer
    from tests.oracle.case import Probe

_DEFINITION = re.compile(r"(SET|CREATE|ALTER)\b", re.IGNORECASE)
_ONLY_KEYS = re.compile(r"\s*(DROP|ADD)\s+(CONSTRAINT\s+\S+\s+)?FOREIGN\s+KEY\b", re.IGNORECASE)
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
        statement: the ALTER with ``{table}`` for the table's name, or several that end with ``;``
            at a line's end; empty for no change at all.
        session: statements run before it, for another sql_mode or time zone than the server's.
        ignore: columns whose values the server makes up for each row, so that they differ.
        moment: a column that says when the server evaluated the defaults that are the time: the
            twin's ALTER is evaluated at its least value, which must be within the migration.
        keyless: take the twin's keys away for the replay.
        rows_from_setup: run the setup's INSERTs in the twin and replay only what came after it.
        probes: statements that are run on both in the end; they must have the same effects.
        counted: a condition; the twin's rows for which it is true are counted before the ALTER.
    """

    statement: str
    session: tuple[str, ...] = ()
    ignore: frozenset[str] = frozenset()
    moment: str = ""
    keyless: bool = True
    rows_from_setup: bool = False
    probes: tuple[Probe, ...] = ()
    counted: str = ""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the oracle saw when everything was right; ``counted`` of the twin before its ALTER."""

    rows: int
    events_before: int
    events_after: int
    counted: int = 0


class Oracle:
    """Watches the tables of a schema through one migration."""

    def __init__(self, server: MySQLServer, schema: str, *changed: str) -> None:
        """Look at the tables ``changed`` of ``server`` and all beside them; nothing is read yet."""
        self.server = server
        self.schema, self.changed = schema, changed
        self.twin = f"{schema}_twin"
        self._sessions = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Note where the binlog ends: all later is replayed. No table must exist yet."""
        self.start = rawlog.here(self.server)
        with self._session() as run:
            self._deadlocks = deadlocks(run)
        return self

    def __exit__(self, *_: object) -> None:
        """Drop the twin and close the sessions."""
        with contextlib.suppress(MySQLdb.Error), self._session() as run:
            run("SET SESSION foreign_key_checks = 0")
            for name in self._twins.values():
                run(f"DROP DATABASE IF EXISTS {quoted(name)}")
        self._sessions.close()

    @property
    def _twins(self) -> dict[str, str]:
        """Return the schemas of the case and the twin of each."""
        return {self.schema: self.twin, other(self.schema): other(self.twin)}

    def begin(self, setup: Sequence[str]) -> None:
        """Note the definitions, once ``setup`` has made the tables and before the migration.

        The twin is made by the same statements, rows aside: SHOW CREATE TABLE passes through
        utf8mb3, so that an ENUM member outside of it would be another one.

        Args:
            setup: with ``{schema}`` and ``{other}`` for the names of the schemas.
        """
        self.setup = tuple(setup)
        self.began = rawlog.here(self.server)
        with self._session() as run:
            run(_LENIENT)
            self.began_at = float(run("SELECT UNIX_TIMESTAMP()")[0][0])
            self.places = self._tables(run, self.schema)
            self.definitions = self._definitions(run, self.schema)

    def judge(self, native: NativeAlter) -> Judgement:
        """Compare the tables as they are now with what they must be.

        Raises:
            BinlogUntrue: with differences that may not be there when the same is played again.
            OracleError: with the differences.
        """
        frame, changes = rawlog.story(rawlog.dump(self.server, self.start))
        with self._session() as run:
            ended = deadlocks(run) - self._deadlocks
        try:
            return self._judge(native, frame, changes)
        except OracleError as error:
            if may_be_untrue(changes, ended=ended):
                raise BinlogUntrue(f"after {ended} deadlocks: {error}") from error
            raise

    def _judge(
        self,
        native: NativeAlter,
        frame: rawlog.Event,
        changes: Sequence[Statement | TableRows],
    ) -> Judgement:
        """Compare with what the binlog says.

        Raises:
            OracleError: with the differences.
        """
        before, after = self._split(changes, swapped=bool(native.statement))
        if native.rows_from_setup:
            before = [change for change in before if change.end > self.began]
        self._fill(frame, before, native)
        counted = self._counted(native) if native.counted else 0
        if native.statement:
            self._alter(native)
        with self._session() as run:
            run(_LENIENT)
            self._replay(run, frame, after)
            rows = self._compare_rows(run, native)
            self._compare_definitions(run)
            attached.assert_no_orphan(run, self.schema)
        if native.probes:
            self._probe(native)
        return Judgement(
            rows=rows, events_before=len(before), events_after=len(after), counted=counted
        )

    def _counted(self, native: NativeAlter) -> int:
        with self._session() as run:
            for statement in native.session:
                run(statement)
            table = f"{quoted(self.twin)}.{quoted(self.changed[0])}"
            return int(run(f"SELECT COUNT(*) FROM {table} WHERE {native.counted}")[0][0])

    def _tables(self, run: Any, schema: str) -> list[tuple[str, str]]:
        """Return the tables in the schemas of the case or of its twin."""
        listed = ", ".join(f"X'{name.encode().hex()}'" for name in attached.schemas(run, schema))
        return [
            (str(owner), str(name))
            for owner, name in run(
                "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA"
                f" IN ({listed}) AND TABLE_TYPE = 'BASE TABLE' ORDER BY TABLE_SCHEMA, TABLE_NAME"
            )
        ]

    def _definitions(self, run: Any, schema: str) -> dict[tuple[str, str], str]:
        """Return the definition of every table of the case, by neutral schema and name."""
        found = {}
        for place_of, name in self.places:
            owner = self._twins[place_of] if schema == self.twin else place_of
            made = compare.definition(run, owner, name)
            found[attached.neutral(owner, schema), name] = attached.neutral(made, schema)
        return found

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
        """Split the row events at the swap: the RENAME, or the ALTER of a shortcut.

        Raises:
            OracleError: when a table was not swapped once, or not all by the same statement.
        """
        ours = [
            change
            for change in changes
            if isinstance(change, Statement) or (change.schema, change.table) in self.places
        ]
        places = set()
        for table in self.changed:
            swaps = self._swaps(ours, table)
            if len(swaps) != int(swapped):
                found = [change.text for change in ours if isinstance(change, Statement)]
                raise OracleError(
                    f"{len(swaps)} swaps in the binlog, expected {int(swapped)}: {found[-6:]}"
                )
            places.update(swaps)
        if len(places) > 1:
            raise OracleError(f"the tables {self.changed} were not swapped by one statement")
        at = min(places, default=len(ours))
        rows = [[c for c in part if isinstance(c, TableRows)] for part in (ours[:at], ours[at:])]
        return rows[0], rows[1]

    def _swaps(self, changes: Sequence[Statement | TableRows], table: str) -> list[int]:
        """Return where statements put another definition in a table's place.

        Foreign keys get their names back by an ALTER next to the RENAME; it changes no definition.
        """
        found = [
            (at, self._swap(change, table))
            for at, change in enumerate(changes)
            if isinstance(change, Statement)
        ]
        renamed = any(kind == "RENAME" for _, kind in found)
        return [at for at, kind in found if kind and not (renamed and kind == "KEY")]

    def _swap(self, statement: Statement, table: str) -> str:
        """Return how a statement changes a table's definition: its first word, or ``KEY``."""
        if statement.end <= self.began:
            return ""
        text = re.sub(r"/\*.*?\*/", " ", statement.text, flags=re.DOTALL).strip()
        schema, quoted_table = re.escape(quoted(self.schema)), re.escape(quoted(table))
        plain = rf"|{re.escape(table)}" if re.fullmatch(r"\w+", table) else ""
        name = (
            rf"(?:(?:{schema}|{re.escape(self.schema)})\s*\.\s*)?(?:{quoted_table}{plain})(?![\w$])"
        )
        in_schema = statement.schema == self.schema or self.schema in text
        patterns = (
            rf"(RENAME)\s+TABLE\s+.*\bTO\s+{name}",
            rf"(ALTER)\s+TABLE\s+{name}",
            rf"(CREATE)\s+.*INDEX\s+.*\sON\s+{name}",
        )
        flags = re.IGNORECASE | re.DOTALL
        if not in_schema:
            return ""
        matches = [found for pattern in patterns if (found := re.match(pattern, text, flags))]
        if matches and _ONLY_KEYS.match(text[matches[0].end() :]):
            return "KEY"
        return matches[0][1].upper() if matches else ""

    def _fill(self, frame: rawlog.Event, before: Sequence[TableRows], native: NativeAlter) -> None:
        """Make the twin in its first definition and replay everything up to the swap."""
        with self._session() as run:
            for schema, twin in self._twins.items():
                run(f"DROP DATABASE IF EXISTS {quoted(twin)}")
                if attached.schemas(run, schema)[:1] == [schema]:
                    run(f"CREATE DATABASE {quoted(twin)}")
            run(f"USE {quoted(self.twin)}")
            for statement in self.setup:
                if native.rows_from_setup or _DEFINITION.match(statement):
                    run(place(statement, self.twin))
        with self._session() as run:
            run(_LENIENT)
            run(f"USE {quoted(self.twin)}")
            keyless = native.keyless and not attached.foreign_keys(run, self.twin)
            changes = [self._key_changes(run, table) for table in self.changed if keyless]
            for strip, _ in changes:
                if strip:
                    run(strip)
            self._replay(run, frame, before)
            for _, restore in changes:
                if restore:
                    run(restore)
            made = self._definitions(run, self.twin)
        for table, definition in self.definitions.items():
            if made[table] != definition:
                raise OracleError(f"the twin is no twin:\n{made[table]}\n---\n{definition}")

    def _key_changes(self, run: Any, table: str) -> tuple[str, str]:
        """Return the ALTER that takes every key away and the one that brings them back."""
        place = f"{quoted(self.twin)}.{quoted(table)}"
        created = str(run(f"SHOW CREATE TABLE {place}")[0][1])
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
        alter = f"ALTER TABLE {place} "
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
                run(rawlog.rows_statement(change, self._twins[change.schema], change.table))
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
            for statement in statements(native.statement):
                run(place(statement.replace("{table}", quoted(self.changed[0])), self.twin))

    def _moment(self, run: Any, column: str) -> str:
        """Return the moment at which the defaults of the rows before the swap were evaluated."""
        (found,) = run(
            f"SELECT UNIX_TIMESTAMP(MIN({quoted(column)})), UNIX_TIMESTAMP(NOW(6))"
            f" FROM {quoted(self.schema)}.{quoted(self.changed[0])}"
        )
        moment, now = float(found[0]), float(found[1])
        if not self.began_at - 1 <= moment <= now:
            raise OracleError(f"{column} is {moment}, not from {self.began_at} to {now}")
        return str(moment)

    def _compare_rows(self, run: Any, native: NativeAlter) -> int:
        """Compare the rows of all tables; return how many the first changed one has."""
        count = 0
        # A VIRTUAL column is evaluated as by the session that has opened the table: by this one.
        for owner, name in self.places:
            for schema in (owner, self._twins[owner]):
                run(f"FLUSH TABLES {quoted(schema)}.{quoted(name)}")
        for owner, name in self.places:
            expected = compare.rows(run, self._twins[owner], name, native.ignore)
            actual = compare.rows(run, owner, name, native.ignore)
            try:
                compare.assert_equal_rows(expected, actual)
            except OracleError as error:
                raise OracleError(f"{name}: {error}") from error
            if (owner, name) == (self.schema, self.changed[0]):
                count = actual.total()
        return count

    def _compare_definitions(self, run: Any) -> None:
        """Compare what the server says of the tables, their triggers and their foreign keys."""
        expected, actual = (self._definitions(run, name) for name in (self.twin, self.schema))
        for table, definition in expected.items():
            if definition != actual[table]:
                raise OracleError(f"the definition must be\n{definition}\nand is\n{actual[table]}")
        for what, read in (("trigger", attached.triggers), ("foreign key", attached.foreign_keys)):
            attached.assert_equal(what, read(run, self.twin), read(run, self.schema))

    def _probe(self, native: NativeAlter) -> None:
        """Run the probes on both, each in a session like an application's, and compare."""
        for schema in (self.twin, self.schema):
            with self._session() as run:
                run(f"USE {quoted(schema)}")
                probes.fire(run, schema, native.probes)
        with self._session() as run:
            run(_LENIENT)
            self._compare_rows(run, native)
