"""A table of the server as a data source of Spark: ``spark.read.format("spirit")``.

The schema is the table's definition, the partitions are cut by its key, and rows come as Arrow's
batches; docs/spark-source.md has the options. The password is none: it would be shown, as all
options of Spark are. It comes from an option file, a login path or the environment, and reaches
executors with their tasks.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from spirit_py.archiving.columns import StoredTable
from spirit_py.archiving.ranges import ReadTable
from spirit_py.archiving.rows import batches_of
from spirit_py.archiving.session import kinds_of, schema_of
from spirit_py.archiving.snapshot import Meeting, position_of
from spirit_py.classes import dataclass, replace
from spirit_py.errors import AnotherServer, Refusal, SchemaChanged, UsageFault, ValueLost
from spirit_py.mysql.connect import another_server, connect, connect_first
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.facts import server_now, server_uuid
from spirit_py.mysql.faults import ABSENT_TABLE, excused
from spirit_py.mysql.tables.definition import near_name, read_table
from spirit_py.mysql.tables.identity import born_at
from spirit_py.preflight.row_expression import modes_of_reading
from spirit_py.sql import string_literal
from spirit_py.statement.cursor import split_at
from spirit_py.statement.lexer import DEFAULT_MODE, SqlMode, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from spirit_py.chunk.chunk import KeyRange
    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session
    from spirit_py.table.schema import TableSchema

_OWN: Final = frozenset(
    {"table", "columns", "where", "partitions", "snapshot", "position", "beside", "patience"}
)
_PARTITIONS: Final = 8
_FEWEST_ROWS: Final = 1000
#: So long the tasks of a snapshot wait for each other, seconds.
_PATIENCE: Final = 60
POSITION: Final = "_position"
"""The column with the snapshot's place in the binlog, as ``spirit-py watch --from`` takes it."""


def register_source(spark: SparkSession) -> None:
    """Let a session of Spark know the format ``spirit``."""
    spark.dataSource.register(SpiritSource)


@dataclass(frozen=True, kw_only=True)
class _Part(InputPartition):
    """One partition: its number, the range of the key, and whom it meets for a snapshot.

    ``moment``: what NOW() is, in seconds since 1970. ``born``: when the table was made or altered,
    where its definition alone does not show all of the key; 0 otherwise.
    """

    rank: int
    within: KeyRange
    meeting: Meeting | None
    moment: float
    born: int


def _reading(rank: int) -> str:
    """Return what the tasks of one reading have in common, and no other reading at this time.

    Of a stage with several of the same DataFrame, as in a union, each has numbers of its own.
    """
    task = TaskContext.get()
    return "" if task is None else f"{task.stageId()}.{task.partitionId() - rank}"


class SpiritSource(DataSource):
    """The data source ``spirit``; Spark makes it with the options of ``spark.read``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "spirit"

    def schema(self) -> str:
        """Return the columns that are read, in Spark's types."""
        what, *_ = self._read()
        return schema_of(self._shown(what), self._more(what))

    def reader(self, schema: Any) -> DataSourceReader:
        """Return what cuts and reads the table, by the schema that it had when it was loaded."""
        what, connection, modes = self._read()
        if schema is not None:
            what = self._as_loaded(what, schema)
        with connect_first(connection, role="archive") as session:
            if self._is_on("snapshot"):
                require_one_server(session, connection)
            # Without one, each session looks by itself whether it is on this server.
            connection = replace(connection, server_uuid=server_uuid(session))
            if self._is_on("position"):
                # What it needs is said here, and not by each task under the lock.
                position_of(session)
        patience = self._number("patience", _PATIENCE) if self._is_on("snapshot") else None
        return TableReader(
            what,
            self._shown(what),
            connection,
            partitions=self._number("partitions", _PARTITIONS),
            patience=patience,
            more=self._more(what),
            modes=modes,
        )

    def _as_loaded(self, what: ReadTable, schema: Any) -> ReadTable:
        """Return what reads the columns of a schema; SchemaChanged where one is another by now."""
        loaded = [(one.name, one.dataType.simpleString()) for one in schema.fields]
        names = [name for name, _ in loaded if what.table.has_column(name)]
        again = replace(what, stored=StoredTable.of(what.table, names))
        if not what.stored.beside:
            again = replace(again, stored=replace(again.stored, beside=""))
        if kinds_of(self._shown(again), self._more(again)) != loaded:
            raise _altered(what.table)
        return again

    def _more(self, what: ReadTable) -> tuple[str, ...]:
        """Return the name of the column with the place; with underscores where it is taken."""
        name = POSITION
        while what.table.has_column(name):
            name = f"_{name}"
        return (name,) if self._is_on("position") else ()

    def _shown(self, what: ReadTable) -> StoredTable:
        """Return the columns of the DataFrame; what no type holds is one of them if asked for."""
        return what.stored if self._is_on("beside") else replace(what.stored, beside="")

    def _is_on(self, name: str) -> bool:
        from spirit_py.api.values import flag_value

        return flag_value(name, self.options.get(name, "false"))

    def _number(self, name: str, usual: int) -> int:
        given = self.options.get(name, str(usual))
        if not given.isdecimal() or not int(given):
            raise UsageFault(f"{name} is {given!r}", hint="give a number from 1")
        return int(given)

    def _read(self) -> tuple[ReadTable, ConnectionOptions, list[str]]:
        """Read the definition of the table that the options name, and how ``where`` is read."""
        schema, name = _table_of(self.options.get("table", ""))
        if not name:
            raise UsageFault(
                "the table is not given", hint='write .option("table", "schema.table")'
            )
        if self._is_on("position") and not self._is_on("snapshot"):
            raise UsageFault(
                "position goes with snapshot: without one there is no place of all rows",
                hint='add .option("snapshot", "true")',
            )
        if not self.options.get("where", "all").strip():
            raise _empty("where")
        connection = connection_from(self.options)
        with connect_first(connection, role="archive") as session:
            table = read_table(session, schema, name)
            modes = modes_of_reading(str(session.value("SELECT @@GLOBAL.sql_mode")))
            if table is None:
                near = near_name(session, schema, name)
                raise Refusal(f"there is no table {schema}.{name}", hint=f"{near}check the name")
        if self._is_on("snapshot") and table.engine.lower() != "innodb":
            raise Refusal(
                f"{table.full_name} is of the engine {table.engine}, which has no snapshot of all"
                " sessions",
                hint="leave snapshot out, and see that nobody writes it meanwhile",
            )
        names = _names_of(self.options.get("columns", ""))
        for at, one in enumerate(names):
            if not table.has_column(one):
                raise UsageFault(f"{table.full_name} has no column {one}", hint="check columns")
            if table.column(one) in map(table.column, names[:at]):
                raise UsageFault(f"columns names {one} twice", hint="name it once")
        stored = StoredTable.of(table, names)
        if "beside" in self.options and not self._is_on("beside"):
            stored = replace(stored, beside="")
        where = self.options.get("where", "")
        _require_closed(where, SqlMode.of(",".join(modes)), alone=self._is_on("snapshot"))
        wanted = f"(({where}\n) IS TRUE)" if where else "TRUE"
        return ReadTable(table=table, stored=stored, wanted=wanted), connection, modes


def _table_of(text: str) -> tuple[str, str]:
    """Read ``schema.table``: in backquotes as in SQL, or parted at the first dot."""
    with contextlib.suppress(Refusal):
        found = tokenize(text, DEFAULT_MODE) if "`" in text else ()
        if [one.is_identifier or one.is_symbol(".") for one in found] == [True] * 3:
            return found[0].value, found[2].value
    schema, _, name = text.partition(".")
    return schema, name


def _names_of(text: str) -> list[str]:
    """Read names of columns between commas, which may be in backquotes as in SQL."""
    if "`" not in text:
        return [one.strip() for one in text.split(",") if one.strip()]
    parts = [part for part in split_at(tokenize(text, DEFAULT_MODE), ",") if part]
    if any(len(part) != 1 or not part[0].is_identifier for part in parts):
        raise UsageFault(
            f"columns is not a list of names: {text}",
            hint="put commas between them, and in backquotes each name that has other signs than"
            " letters, digits, _ and $",
        )
    return [part[0].value for part in parts]


def _require_closed(where: str, mode: SqlMode, *, alone: bool) -> None:
    """Refuse a condition that would end outside its parentheses, beside a partition's bounds.

    ``alone``: other tables are not read, which each task of a snapshot has at another moment.
    """
    if mode.no_backslash_escapes and "\\" in where:
        raise UsageFault(
            "the server's sql_mode has NO_BACKSLASH_ESCAPES, and sessions of the program have not:"
            f" a backslash would be another text in where: {where}",
            hint="write the text without one, as with X'5C'",
        )
    depth, before = 0, None
    # What only some servers execute is refused: parentheses in it may count for another one.
    tokens = tokenize(where, mode)
    for token in tokens:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth < 0:
            break
        # Both words are reserved, but for a column's name behind a dot, and a variable's.
        named = before is not None and (before.is_symbol(".") or before.is_symbol("@"))
        before = token
        if alone and not named and token.upper in {"SELECT", "TABLE"}:
            raise UsageFault(
                f"where has a query of its own, which is not of the snapshot's moment: {where}",
                hint="leave snapshot out, or filter the DataFrame by another one",
            )
    # One without a schema is not found: the sessions have none.
    called = zip(tokens, tokens[1:], tokens[2:], strict=False)
    if alone and any(
        dot.is_symbol(".") and name.is_identifier and opens.is_symbol("(")
        for dot, name, opens in called
    ):
        raise UsageFault(
            f"where calls a stored function, which may read other tables at other moments: {where}",
            hint="leave snapshot out, or filter the DataFrame",
        )
    if depth:
        raise UsageFault(
            f"the parentheses of where are not closed, or closed too often: {where}",
            hint="write one condition, as after WHERE",
        )


def connection_from(given: Mapping[str, str]) -> ConnectionOptions:
    """Return how the server is reached, by options of the commands' names; UsageFault."""
    from spirit_py.api.values import option_values
    from spirit_py.cli.archive import archive as command
    from spirit_py.cli.values import complete, connection_of
    from spirit_py.options.commands import ArchiveArguments
    from spirit_py.options.servers import ConnectionArguments

    taken = {name.lower(): value for name, value in given.items() if name.lower() not in _OWN}
    known = set(ConnectionArguments.__annotations__)
    if "password" in taken:
        raise _password_given()
    if empty := [name for name in taken if name.startswith("ssl") and not taken[name].strip()]:
        raise _empty(empty[0])
    if unknown := sorted(taken.keys() - known):
        raise UsageFault(f"there is no option {unknown[0]}", hint="see docs/spark-source.md")
    asked: dict[str, object] = dict(taken)
    if "port" in asked:
        if not str(asked["port"]).isdecimal():
            raise UsageFault(f"port is {asked['port']!r}", hint="give a number")
        asked["port"] = int(str(asked["port"]))
    values = option_values(command, ArchiveArguments, asked)
    if (values["dsn"] or {}).get("password"):
        raise _password_given()
    complete(values)
    connection = connection_of(values)
    # As in MySQL's own programs, a file's password counts before that of the environment.
    return replace(connection, password=connection.password or os.environ.get("MYSQL_PWD", ""))


def _empty(name: str) -> UsageFault:
    # As of os.environ.get(..., ""): all rows, or a connection without TLS, would be a surprise.
    return UsageFault(f"{name} is empty", hint="give it a value, or leave the option out")


def _password_given() -> UsageFault:
    return UsageFault(
        "the password is no option of Spark, which shows all of them",
        hint="use defaults_file or login_path, or set MYSQL_PWD for Spark's driver",
    )


def _altered(table: TableSchema) -> SchemaChanged:
    return SchemaChanged(
        f"{table.full_name} was altered, dropped or renamed since it was loaded, or another schema"
        " was given: its columns are others now",
        hint="load it again, without .schema(...)",
    )


@contextlib.contextmanager
def _loaded_again() -> Iterator[None]:
    """Have an AnotherServer say what helps here, where no command is run."""
    try:
        yield
    except AnotherServer as error:
        raise AnotherServer(
            error.message, hint="load it again, from an address with one server behind it"
        ) from error


class TableReader(DataSourceReader):
    """Cuts a table into partitions, and reads them.

    No filter of Spark is passed on (``pushFilters``): after a filtered query Spark 4.3 reads the
    next one without a filter by the filtered reader, and returns too few rows (measured).
    """

    def __init__(
        self,
        what: ReadTable,
        shown: StoredTable,
        connection: ConnectionOptions,
        *,
        partitions: int,
        patience: float | None,
        more: tuple[str, ...],
        modes: Sequence[str],
    ) -> None:
        self._what = what
        self._shown = shown
        self._connection = connection
        self._partitions = partitions
        self._patience = patience
        self._more = more
        #: Of the server's sql_mode, but for one by which the literals of bounds were others.
        self._modes = [one for one in modes if one != "NO_BACKSLASH_ESCAPES"]

    def partitions(self) -> Sequence[_Part]:
        """Cut the table by its key."""
        with _loaded_again():
            return self._cut()

    def _cut(self) -> Sequence[_Part]:
        table = self._what.table
        rows = max(_FEWEST_ROWS, -(-table.estimated_rows // self._partitions))
        key = self._what.key
        kinds = [table.column(one).column_type for one in key.columns] if key else []
        with connect_first(self._connection, role="archive") as session:
            born = (
                born_at(session, table.schema, table.name)
                if any("?" in one for one in kinds)
                else 0
            )
            ranges = list(self._what.cut(session.query, rows))
            moment = server_now(session)
        parts = min(len(ranges), self._partitions)
        ends = [len(ranges) * number // parts for number in range(parts + 1)]
        ranges = [
            replace(ranges[begin], upper=ranges[end - 1].upper) for begin, end in pairwise(ends)
        ]
        meeting = None
        if self._patience is not None:
            meeting = Meeting(
                name=secrets.token_hex(8),
                tasks=len(ranges),
                table=(table.schema, table.name),
                patience=self._patience,
                placed=bool(self._more),
            )
        return [
            _Part(rank=rank, within=within, meeting=meeting, moment=moment, born=born)
            for rank, within in enumerate(ranges)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        part: Any = partition
        stored, more, position, born = self._what.stored, self._more, "", part.born
        with contextlib.ExitStack() as opened:
            opened.enter_context(_loaded_again())
            if part.meeting is None:
                session = opened.enter_context(connect(self._connection, role="archive"))
                session.execute("START TRANSACTION READ ONLY")
            else:
                task = TaskContext.get()
                again = task is not None and task.attemptNumber() > 0
                meeting = replace(part.meeting, reading=_reading(part.rank), again=again)
                met = meeting.session(self._connection, part.rank)
                session, (position, there) = opened.enter_context(met)
                born = born or there
            # From here on nobody alters it, or puts another one in its place.
            pin = f"SELECT 1 FROM {self._what.table.quoted} LIMIT 0"
            excused(partial(session.query, pin), (), ABSENT_TABLE)
            # A proxy may send a transaction elsewhere than the look at a session's begin.
            found, wanted = server_uuid(session), self._connection.server_uuid
            if found != wanted:
                raise another_server(self._connection.address, found=found, wanted=wanted)
            # A snapshot shows the catalogue of its moment (measured).
            look = partial(connect, self._connection, role="archive")
            with look() if part.meeting else contextlib.nullcontext(session) as other:
                self._require_unaltered(other, born)
            # NOW() in a condition is one moment for all partitions, and for a task's second try.
            # A condition is read as the server's own sessions do.
            session.execute(
                "SET SESSION timestamp = %s, SESSION sql_mode = CONCAT_WS(',', @@sql_mode, %s)",
                (part.moment, ",".join(self._modes)),
            )
            # Only a snapshot has a place.
            statement = self._what.rows_of(part.within, [string_literal(position)] if more else [])
            for batch in batches_of(session, statement, stored, more=more):
                yield batch if self._shown.beside == stored.beside else self._whole(batch)

    def _whole(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch without what is beside; ValueLost where a column lacks a value for it."""
        at = len(self._what.stored.columns)
        if batch.column(at).null_count < batch.num_rows:
            self._require_held(batch, batch.column(at).to_pylist())
        return batch.drop_columns([batch.schema.names[at]])

    def _require_held(
        self, batch: pa.RecordBatch, beside: Sequence[list[tuple[str, str]] | None]
    ) -> None:
        """Raise ValueLost for a column that is NULL in the place of a value; SRIDs may be lost."""
        for row, found in enumerate(beside):
            for name, _ in found or ():
                if batch.column(name)[row].is_valid:
                    continue
                # Spark's pages and event logs keep what ends a task: no bytes of rows.
                raise ValueLost(
                    f"{self._what.table.full_name}, column {name}: {self._shown_type(name)} of"
                    " Spark cannot hold each of its values",
                    hint='add .option("beside", "true"), and _mysql has such values; "false" makes'
                    " NULL of them",
                )

    def _shown_type(self, name: str) -> str:
        return next(one.spark for one in self._shown.columns if one.name == name)

    def _require_unaltered(self, session: Session, born: int) -> None:
        """Raise SchemaChanged where a column that is read has another definition by now.

        So does a table that is another one than under the lock of the snapshot, where it has one.
        """
        table = self._what.table
        if born and born_at(session, table.schema, table.name) != born:
            raise _altered(table)
        # Not by the table: who alters it waits for the one that holds it, and others for him.
        now = read_table(session, table.schema, table.name, exact=False)
        if now is None or self._depended_on(now) != self._depended_on(table):
            raise _altered(table)

    def _depended_on(self, table: TableSchema) -> set[tuple[object, ...]]:
        """Return what a read depends on: types and collations of what is read, and of the key.

        Not members behind question marks: the server reads values by the names that they have now.
        A key's column that takes NULL has rows in no range; another engine has no snapshot.
        """
        key = self._what.key
        keyed = set(key.columns if key else ())
        names = {one.name for one in self._what.stored.columns} | keyed
        found = [one for one in table.columns if one.name in names]
        engine = "" if self._patience is None else table.engine.lower()
        return {(engine,)} | {
            (
                *(one.name, one.column_type, one.charset, one.collation, one.srid),
                one.name in keyed and one.nullable,
            )
            for one in found
        }
