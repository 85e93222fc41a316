"""Which definition describes the rows at a place of the stream."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from spirit_py.binlog.codec import tablemap as codes
from spirit_py.binlog.codec.tablemap import ColumnType, TableMap
from spirit_py.binlog.events import Place, StatementSeen
from spirit_py.binlog.position import FileFrontier, FilePlace
from spirit_py.binlog.statements import read_statement
from spirit_py.errors import FeedFailure, SchemaChanged
from spirit_py.table.schema import Column, Index, IndexPart, TableSchema
from spirit_py.watch.definitions import Definitions

UUID = "16e8969d-e4d3-11f1-b00c-02fc00000001"


def schema(*names: str, key: str = "", filled: bool = False) -> TableSchema:
    """Return a table of INT columns, perhaps NOT NULL (filled), or with a primary key."""
    part = (IndexPart(column=key),)
    columns = tuple(
        Column(name=name, ordinal=at, data_type="int", column_type="int", nullable=not filled)
        for at, name in enumerate(names, 1)
    )
    return TableSchema(
        schema="s",
        name="t",
        engine="InnoDB",
        columns=columns,
        indexes=(Index(name="PRIMARY", unique=True, parts=part),) if key else (),
        create_sql=", ".join(names),
    )


def table_map(count: int, *names: str) -> TableMap:
    """Return a table map of INT columns; with names as under binlog_row_metadata=FULL."""
    return TableMap(
        schema="s",
        table="t",
        columns=(ColumnType(codes.LONG, 0),) * count,
        nullable=(True,) * count,
        names=names,
        signedness=b"\0",
    )


def filled(found: TableMap) -> TableMap:
    """Return the table map of NOT NULL columns."""
    return replace(found, nullable=(False,) * len(found.columns))


class Server:
    """A server whose definition of ``s.t`` and whose place tests set."""

    def __init__(self) -> None:
        self.answers: list[TableSchema | None] = []
        self.now: TableSchema | None = schema("a", "b")
        self.at = 100
        self.reads = 0
        self.definitions = Definitions(self._read, self._executed)

    def _read(self, _: object) -> TableSchema | None:
        self.reads += 1
        return self.answers.pop(0) if self.answers else self.now

    def _executed(self) -> FileFrontier:
        return FileFrontier(UUID, FilePlace("b.000001", self.at))

    def ddl(self, sql: str, offset: int) -> bool:
        """Let a statement come in the stream."""
        seen = StatementSeen(Place("b.000001", offset), "s", sql, 1)
        return self.definitions.altered(read_statement(sql, "s"), seen)

    def names(self, count: int = 2) -> list[str]:
        """Return the names that a row gets now."""
        codec = self.definitions.compile(table_map(count))
        return [column.name for column in codec.schema.columns]


@pytest.fixture
def server() -> Server:
    """Return a server."""
    return Server()


def test_a_ddl_of_the_stream_brings_the_new_definition(server: Server) -> None:
    """What was read before the DDL describes the rows before it, and no others."""
    assert server.names() == ["a", "b"]
    server.now, server.at = schema("a", "c"), 200
    assert server.ddl("ALTER TABLE t RENAME COLUMN b TO c", 200)
    assert server.names() == ["a", "c"]


def test_a_ddl_older_than_the_definition_stops_the_stream(server: Server) -> None:
    """Rows before it got names of after it: that is said as soon as it is known."""
    server.names()
    with pytest.raises(SchemaChanged, match="described by the definition of now") as caught:
        server.ddl("ALTER TABLE t RENAME COLUMN x TO b", 100)
    assert "--from" in caught.value.hint


def test_an_older_ddl_before_any_row_is_harmless(server: Server) -> None:
    """Nothing was described yet, and the definition is that of behind the DDL."""
    server.definitions.learn(("s", "t"))
    assert not server.ddl("ALTER TABLE t RENAME COLUMN x TO b", 100)
    assert server.names() == ["a", "b"]


KEY = "FOREIGN KEY (o) REFERENCES t (a)"


@pytest.mark.parametrize(
    ("sql", "stops"),
    [
        (f"CREATE TABLE notes (o INT, {KEY})", False),
        (f"ALTER TABLE notes ADD COLUMN o INT, ADD {KEY}", False),
        (f"ALTER TABLE t ADD COLUMN o INT, ADD {KEY}", True),
        (f"ALTER TABLE notes ADD {KEY}, RENAME TO t", True),
    ],
)
def test_an_older_key_to_the_table_changes_nothing_of_it(
    server: Server, sql: str, stops: bool
) -> None:
    """The DDL is of another table; one of the table itself may have changed it all the same."""
    server.names()
    seen = StatementSeen(Place("b.000001", 100), "s", sql, 1)
    assert server.definitions.doubtful(read_statement(sql, "s"), seen) is stops
    with pytest.raises(SchemaChanged) if stops else contextlib.nullcontext():
        assert not server.ddl(sql, 100)


def test_a_ddl_older_than_the_definition_is_doubtful_where_an_earlier_run_may_have_used_it(
    server: Server,
) -> None:
    """Nothing is described by this run; one that ended before the DDL may have done it."""
    server.definitions.learn(("s", "t"))
    for sql, doubtful in (
        ("ALTER TABLE t ADD INDEX (a)", False),
        ("ALTER TABLE t RENAME COLUMN x TO b", True),
    ):
        seen = StatementSeen(Place("b.000001", 100), "s", sql, 1)
        assert server.definitions.doubtful(read_statement(sql, "s"), seen) is doubtful
    server.ddl("ALTER TABLE t RENAME COLUMN x TO b", 200)
    seen = StatementSeen(Place("b.000001", 300), "s", sql, 1)
    assert not server.definitions.doubtful(read_statement(sql, "s"), seen)


def test_a_definition_says_up_to_where_the_stream_has_to_be_read(server: Server) -> None:
    """A DDL between the end that was asked for and the definition's place would be missed."""
    server.definitions.learn(("s", "t"))
    found = server.definitions.take_read_at()
    assert found is not None
    assert found.text() == FileFrontier(UUID, FilePlace("b.000001", 100)).text()
    server.at = 300
    server.names()
    assert server.definitions.take_read_at() is None


def test_a_create_of_a_table_that_is_there_does_not_stop_the_stream(server: Server) -> None:
    """The server logs it, and it changed nothing; one without IF NOT EXISTS made the table."""
    server.names()
    assert not server.ddl("CREATE TABLE IF NOT EXISTS t (a INT, b INT)", 100)
    with pytest.raises(SchemaChanged):
        server.ddl("CREATE TABLE t (a INT, b INT)", 100)


def test_a_table_map_that_describes_itself_needs_nobody(server: Server) -> None:
    """With binlog_row_metadata=FULL rows keep the names they were written under."""
    for names in (("a", "b"), ("a", "x")):
        codec = server.definitions.compile(table_map(2, *names))
        assert tuple(column.name for column in codec.schema.columns) == names
    assert not server.ddl("ALTER TABLE t RENAME COLUMN x TO b", 100)
    server.now = None
    server.ddl("DROP TABLE t", 200)
    assert server.definitions.compile(table_map(3, "a", "b", "c")).schema.columns[2].name == "c"


@pytest.mark.parametrize(
    ("keyed", "sql", "stops"),
    [
        (True, "ALTER TABLE `t` ADD INDEX (a), DROP KEY u", False),
        (False, "ALTER TABLE `t` ADD INDEX (a), DROP KEY u", True),
        (True, "ALTER TABLE `t` ADD INDEX (a), RENAME COLUMN a TO b, RENAME COLUMN b TO a", True),
        (True, "ALTER TABLE `t` DROP KEY u, MODIFY b INT", True),
    ],
)
def test_an_older_change_of_an_index(server: Server, keyed: bool, sql: str, stops: bool) -> None:
    """It stops the stream only where another key, or a clause beside it, matters."""
    server.now = schema("a", "b", key="a" if keyed else "", filled=True)
    server.definitions.compile(filled(table_map(2)))
    with pytest.raises(SchemaChanged) if stops else contextlib.nullcontext():
        assert not server.ddl(sql, 100)


def test_a_statement_that_can_be_read_in_two_ways_is_harmless_in_both(server: Server) -> None:
    """Or it stops the stream; so does one whose characters are not known."""
    server.names()
    harmless, other = "ALTER TABLE t ADD INDEX (a)", "ALTER TABLE t RENAME COLUMN x TO b"
    seen = StatementSeen(Place("b.000001", 100), "s", harmless, 1)
    statement = read_statement(harmless, "s")
    assert not server.definitions.altered(statement, seen)
    for doubtful in (replace(seen, other=other), replace(seen, certain=False)):
        with pytest.raises(SchemaChanged):
            server.definitions.altered(statement, doubtful)


@pytest.mark.parametrize(("now", "shown"), [("a", {"a"}), ("b", {"a"}), ("", {"a"})])
def test_the_key_of_a_row_is_that_of_its_time(server: Server, now: str, shown: set[str]) -> None:
    """A table map that describes itself has the primary key, whatever the table has now."""
    server.now = schema("a", "b", key=now, filled=True)
    own = replace(filled(table_map(2, "a", "b")), optional={8: b"\0"})
    assert set(server.definitions.compile(own).key_names) == shown


def test_a_table_map_that_does_not_fit_is_read_anew_once(server: Server) -> None:
    """A change that left no trace (sql_log_bin=0) is noticed; one that is gone is an error."""
    server.names()
    server.now = schema("a", "b", "c")
    assert server.names(3) == ["a", "b", "c"]
    with pytest.raises(SchemaChanged, match="cannot be described"):
        server.names(5)


def test_a_table_that_is_gone_cannot_be_described(server: Server) -> None:
    """The error says that it may also be a missing privilege."""
    server.now = None
    with pytest.raises(SchemaChanged, match="may not see it"):
        server.names()
    server.definitions.learn(("s", "t"))


def test_a_definition_is_read_until_it_stands_still(server: Server) -> None:
    """Two equal readings around the question what is executed."""
    server.answers = [schema("a", "x"), schema("a", "y"), schema("a", "y")]
    assert server.names() == ["a", "y"]
    assert server.reads == 3
    server.answers = [schema("a", f"x{n}") for n in range(50)]
    server.at = 300
    with pytest.raises(FeedFailure, match="again and again"):
        server.ddl("ALTER TABLE t RENAME COLUMN y TO z", 300)


def test_other_tables_are_left_alone(server: Server) -> None:
    """A DDL on a table of another name or schema changes nothing."""
    server.names()
    reads = server.reads
    assert not server.ddl("ALTER TABLE other RENAME COLUMN a TO b", 200)
    assert not server.ddl("ALTER TABLE elsewhere.t RENAME COLUMN a TO b", 200)
    assert server.reads == reads
    assert server.ddl("DROP DATABASE s", 200)
