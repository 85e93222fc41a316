"""Models of programs that follow a binlog, by their own rules, and a migration played to them.

The rules were read in the programs' sources; `docs/followers.md` has what was read. A model says
which statements it makes of those in the binlog, and when. Its table is in a schema of its own,
whose statements are not in the binlog.
"""

from __future__ import annotations

import abc
import contextlib
import re
from typing import TYPE_CHECKING, Any, Final

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import QueryEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.mysql import Database

TABLE: Final = "t"
_SERVER_ID: Final = 4_111_222_333
_SHADOW: Final = re.compile(r"^_(.+)_(?:new|gho)$")
_TRASH: Final = re.compile(r"^_(.+)_(?:ghc|del|old)$")
_NAME: Final = r"(?:`?(\w+)`?\.)?`?(\w+)`?"
_HEAD: Final = re.compile(
    rf"(CREATE|ALTER|DROP) TABLE (?:IF (?:NOT )?EXISTS )?{_NAME}", re.IGNORECASE
)
_PAIR: Final = re.compile(rf"{_NAME} TO {_NAME}")
_OF_TRIGGER: Final = re.compile(r"(CREATE|DROP) (DEFINER=\S+ )?TRIGGER ", re.IGNORECASE)
_ALTER_RENAMES: Final = re.compile(rf"ALTER TABLE {_NAME} RENAME TO {_NAME}", re.IGNORECASE)


class NotFollowed(AssertionError):
    """The program would stop here, or have another table than the server."""


class Follower(abc.ABC):
    """What is the same in all: a schema for its definitions, and the rows that it was told."""

    def __init__(self, db: Database) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.session = db.connect()
        self.source, self.schema = db.name, f"{db.name}_{id(self):x}"
        self._do("SET SESSION sql_log_bin = 0")
        self._do(f"CREATE DATABASE `{self.schema}`")
        self._do(f"USE `{self.schema}`")
        # LIKE would leave foreign keys out. The program's own sessions do not check them, either.
        self._do("SET SESSION foreign_key_checks = 0")
        for (name,) in db.query("SHOW TABLES"):
            self._do(str(db.query(f"SHOW CREATE TABLE `{name}`")[0][1]))

    def close(self) -> None:
        """Drop the schema."""
        self._do(f"DROP DATABASE `{self.schema}`")

    @abc.abstractmethod
    def statement(self, sql: str) -> None:
        """Take one statement of the source's schema, as the binlog has it."""

    def row(self, before: list[Any] | None, after: list[Any] | None) -> None:
        """Take one change of the table that is followed."""
        names = self.names()
        if before is not None:
            self.rows.pop(self._row(names, before)["id"], None)
        if after is not None:
            found = self._row(names, after)
            self.rows[found["id"]] = found

    def names(self) -> list[str]:
        """Return the names by which values of a row are understood now."""
        return self.columns()

    def columns(self) -> list[str]:
        """Return the columns of the model's table."""
        with contextlib.closing(self.session.cursor()) as cursor:
            cursor.execute(
                "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s"
                " AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
                (self.schema, TABLE),
            )
            return [str(name) for (name,) in cursor.fetchall()]

    def definitions(self) -> set[str]:
        """Return the definitions that its tables have now, without counters."""
        with contextlib.closing(self.session.cursor()) as cursor:
            cursor.execute(f"SHOW CREATE TABLE `{self.schema}`.`{TABLE}`")
            return {re.sub(r" AUTO_INCREMENT=\d+", "", str(cursor.fetchall()[0][1]))}

    @staticmethod
    def _row(names: list[str], values: list[Any]) -> dict[str, Any]:
        if len(names) != len(values):
            raise NotFollowed(f"a row of {len(values)} values for a table of {names}")
        return dict(zip(names, values, strict=True))

    def _do(self, sql: str) -> None:
        with contextlib.closing(self.session.cursor()) as cursor:
            cursor.execute(sql)

    def _made_here(self, sql: str, table: str = TABLE) -> None:
        """Make a statement of the source's schema in the model's, on the table of this name."""
        here = sql.replace(f"`{self.source}`.", f"`{self.schema}`.")
        self._do(here.replace(f"`{table}`", f"`{TABLE}`"))


class DataMigration(Follower):
    """TiDB Data Migration with ``online-ddl: true`` and only the table in its allow list."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self.kept: dict[str, list[str]] = {}

    def statement(self, sql: str) -> None:
        """Keep what is done to a shadow table, and do it when that gets the real name."""
        for found in _PAIR.finditer(sql) if sql.upper().startswith("RENAME TABLE") else ():
            self._renamed(found[2], found[4])
        if renames := _ALTER_RENAMES.match(sql):
            self._renamed(renames[2], renames[4])
        elif head := _HEAD.match(sql):
            verb, table = head[1].upper(), head[3]
            if table == TABLE:
                self._made_here(sql)
            elif not _SHADOW.match(table):
                return
            elif verb in {"CREATE", "DROP"}:
                self.kept.pop(table, None)
            elif self.kept.setdefault(table, [])[-1:] != [sql]:
                self.kept[table].append(sql)

    def _renamed(self, table: str, to: str) -> None:
        if _SHADOW.match(to) and not _TRASH.match(table):
            raise NotFollowed(f"{table} is renamed to the shadow table {to}")
        if _SHADOW.match(table) and to == TABLE:
            if table not in self.kept:
                raise NotFollowed(f"no statement was kept of the shadow table {table}")
            for sql in self.kept[table]:
                self._made_here(sql, table)


class Tracking(Follower):
    """Debezium with the auxiliary tables in its list, and Maxwell: each statement is tracked."""

    def statement(self, sql: str) -> None:
        """Make it on the definitions, which have no triggers."""
        if not _OF_TRIGGER.match(sql):
            self._made_here(sql)


class FlinkCdc(Follower):
    """Flink CDC, which sends an ALTER of a shadow table at once, as one of the table itself.

    Its rows are read by what is tracked; its own table is that of the sink.
    """

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self._tracked = Tracking(db)
        self._leaving = set(self.names())

    def close(self) -> None:
        """Drop both schemas."""
        self._tracked.close()
        super().close()

    def statement(self, sql: str) -> None:
        """Track it, and send it to the sink."""
        self._tracked.statement(sql)
        head = _HEAD.match(sql)
        if head and sql.lower().startswith("alter") and _SHADOW.match(head[3]):
            self._made_here(sql, head[3])

    def row(self, before: list[Any] | None, after: list[Any] | None) -> None:
        """Take a row by names; the sink has these columns, unless they are about to go."""
        super().row(before, after)
        if unknown := set(self.names()) - set(self.columns()) - self._leaving:
            raise NotFollowed(f"the sink has no column {unknown}")

    def names(self) -> list[str]:
        """Return the names that are tracked."""
        return self._tracked.names()

    def definitions(self) -> set[str]:
        """Return the definitions of both."""
        return super().definitions() | self._tracked.definitions()


def played(db: Database, since: tuple[str, int], follower: Follower) -> Follower:
    """Play the binlog from a place (file, offset) to its present end."""
    for event in _events(db, since):
        if isinstance(event, QueryEvent):
            sql = _text(event.query)
            # The program's sessions have no schema: it names them.
            if f"`{db.name}`." in sql or (_text(event.schema) == db.name and sql != "BEGIN"):
                follower.statement(sql)
        elif event.table == TABLE:
            for row in event.rows:
                before, after = row.get("before_values"), row.get("after_values")
                if isinstance(event, WriteRowsEvent):
                    after = row["values"]
                elif isinstance(event, DeleteRowsEvent):
                    before = row["values"]
                follower.row(before and list(before.values()), after and list(after.values()))
    return follower


def _events(db: Database, since: tuple[str, int]) -> Iterator[Any]:
    server = db.server
    stream = BinLogStreamReader(
        connection_settings={
            "host": server.host,
            "port": server.port,
            "user": server.user,
            "password": server.password,
        },
        server_id=_SERVER_ID,
        log_file=since[0],
        log_pos=since[1],
        resume_stream=True,
        only_events=[QueryEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=[db.name],
    )
    try:
        yield from stream
    finally:
        stream.close()


def place(db: Database) -> tuple[str, int]:
    """Return the present end of the binlog: its file and offset."""
    file, offset, *_ = db.query("SHOW BINARY LOG STATUS")[0]
    return str(file), int(offset)


def _text(found: bytes | str) -> str:
    return found.decode() if isinstance(found, bytes) else found
