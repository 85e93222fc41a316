"""Which definition describes the rows at a place of the stream."""

from __future__ import annotations

import pytest

from spirit_py.change import codec_tablemap as codes
from spirit_py.change.codec_tablemap import ColumnType, TableMap
from spirit_py.change.events import Place
from spirit_py.change.position import FileFrontier, FilePlace
from spirit_py.change.statements import read_statement
from spirit_py.errors import FeedFailure, SchemaChanged
from spirit_py.table.schema import Column, TableSchema
from spirit_py.watch.definitions import Definitions, keeps_shape

UUID = "16e8969d-e4d3-11f1-b00c-02fc00000001"


def schema(*names: str) -> TableSchema:
    """Give a table of INT columns."""
    columns = tuple(
        Column(name=name, ordinal=at, data_type="int", column_type="int", nullable=True)
        for at, name in enumerate(names, 1)
    )
    text = ", ".join(names)
    return TableSchema(
        schema="s", name="t", engine="InnoDB", columns=columns, indexes=(), create_sql=text
    )


def table_map(count: int, *names: str) -> TableMap:
    """Give a table map of INT columns; with names as under binlog_row_metadata=FULL."""
    return TableMap(
        table_id=1,
        schema="s",
        table="t",
        columns=(ColumnType(codes.LONG, 0),) * count,
        nullable=(True,) * count,
        names=names,
        signedness=b"\0",
    )


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
        return self.definitions.altered(read_statement(sql, "s"), Place("b.000001", offset))

    def names(self, count: int = 2) -> list[str]:
        """Give the names that a row gets now."""
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


def test_a_table_map_that_describes_itself_needs_nobody(server: Server) -> None:
    """With binlog_row_metadata=FULL rows keep the names they were written under."""
    for names in (("a", "b"), ("a", "x")):
        codec = server.definitions.compile(table_map(2, *names))
        assert tuple(column.name for column in codec.schema.columns) == names
    assert not server.ddl("ALTER TABLE t RENAME COLUMN x TO b", 100)
    server.now = None
    server.ddl("DROP TABLE t", 200)
    assert server.definitions.compile(table_map(3, "a", "b", "c")).schema.columns[2].name == "c"


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


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("ALTER TABLE t ADD INDEX i (a)", False),
        ("ALTER TABLE t DROP KEY i, ADD FULLTEXT (a)", False),
        ("ALTER TABLE t ENGINE=InnoDB", False),
        ("ALTER TABLE t COMMENT 'modify me'", False),
        ("CREATE UNIQUE INDEX i ON t (a)", False),
        ("DROP INDEX i ON t", False),
        ("TRUNCATE t", False),
        ("ALTER TABLE t RENAME COLUMN a TO b", True),
        ("ALTER TABLE t CHANGE a b INT", True),
        ("ALTER TABLE t MODIFY e ENUM('x') FIRST", True),
        ("ALTER TABLE t CONVERT TO CHARACTER SET latin2", True),
        ("ALTER TABLE t ADD b INT, DROP a", True),
        ("ALTER TABLE t ADD PRIMARY KEY (a)", True),
        ("RENAME TABLE t TO u, v TO t", True),
        ("DROP TABLE t", True),
        ("CREATE TABLE t (a INT)", True),
    ],
)
def test_what_may_keep_the_shape_and_change_the_meaning(sql: str, kept: bool) -> None:
    """Rather once too often: only what leaves the columns alone is harmless."""
    assert keeps_shape(read_statement(sql, "s")) is kept


def test_other_tables_are_left_alone(server: Server) -> None:
    """A DDL on a table of another name or schema changes nothing."""
    server.names()
    reads = server.reads
    assert not server.ddl("ALTER TABLE other RENAME COLUMN a TO b", 200)
    assert not server.ddl("ALTER TABLE elsewhere.t RENAME COLUMN a TO b", 200)
    assert server.reads == reads
    assert server.ddl("DROP DATABASE s", 200)
