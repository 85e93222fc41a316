"""A table's definition as the server reports it."""

from __future__ import annotations

import pytest

from spirit_py.mysql.tables.definition import read_table
from spirit_py.statement.cursor import RESERVED
from tests.kits.schema_tools import open_schema_tools


@pytest.fixture
def desk(db):
    """Open a desk in the test's schema."""
    with open_schema_tools(db) as found:
        yield found


def only(desk, db, definition: str):
    """Return the column that a definition makes."""
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, c {definition})")
    return desk.table().column("c")


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("INT UNSIGNED NOT NULL", {"data_type": "int", "unsigned": True, "nullable": False}),
        ("DECIMAL(10,3)", {"precision": 10, "scale": 3, "nullable": True}),
        ("DATETIME(4)", {"precision": 4}),
        ("TIME", {"precision": 0}),
        ("VARCHAR(7) CHARACTER SET gbk", {"length": 7, "charset": "gbk", "pad_space": True}),
        ("CHAR(7) COLLATE utf8mb4_0900_bin", {"collation": "utf8mb4_0900_bin", "pad_space": False}),
        ("VARBINARY(9)", {"length": 9, "charset": None}),
        ("BIT(17)", {"length": 17}),
        ("BIT", {"length": 1}),
        ("VECTOR(5)", {"data_type": "vector", "length": 5}),
        ("POINT NOT NULL SRID 4326", {"srid": 4326, "nullable": False}),
        ("INT INVISIBLE", {"data_type": "int", "nullable": True}),
        ("INT AS (id + 1)", {"generated": "VIRTUAL", "generation_expression": "(`id` + 1)"}),
        ("INT AS (id + 1) STORED", {"generated": "STORED"}),
        ("INT DEFAULT 5 COMMENT 'it''s'", {"default": "5", "comment": "it's"}),
        ("VARCHAR(9) DEFAULT (concat('it''s'))", {"default": "concat(_utf8mb4'it\\'s')"}),
        ("ENUM('a','b,c','it''s','(x','back\\\\slash','new\\nline','tab\\t')",
         {"members": ("a", "b,c", "it's", "(x", "back\\slash", "new\nline", "tab\t")}),
        ("ENUM('', '😀', '?', 'é😀x')", {"members": ("", "😀", "?", "é😀x")}),
        ("SET('😀', 'é', '?')", {"members": ("😀", "é", "?")}),
        ("ENUM('é', '€') CHARACTER SET cp1250", {"members": ("é", "€")}),
        ("VARCHAR(9) AS (concat('é😀'))", {"generation_expression": "concat(_utf8mb4'é😀')"}),
        ("SET('a','b')", {"members": ("a", "b"), "length": None}),
        ("VARCHAR(99) AS (concat('\\\\', 'it''s', '\\n'))",
         {"generation_expression": "concat(_utf8mb4'\\\\',_utf8mb4'it\\'s',_utf8mb4'\\n')"}),
    ],
)  # fmt: skip
def test_every_property_of_a_column_is_read(db, desk, definition, expected):
    """Each property of a column is read, and texts come without the catalogue's escapes."""
    column = only(desk, db, definition)
    assert {name: getattr(column, name) for name in expected} == expected


def test_the_counter_is_read_as_it_is_now(db, desk):
    """The counter is read as it is now, not as old statistics have it."""
    db.execute("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)")
    assert desk.table().auto_increment == 1
    db.execute("INSERT INTO t VALUES (41)")
    assert desk.table().auto_increment == 42
    assert desk.table().column("id").auto_increment


def test_every_property_of_an_index_is_read(db, desk):
    """Indexes with prefixes, expressions, directions and invisibility, PRIMARY first."""
    db.execute(
        "CREATE TABLE t (a INT, b VARCHAR(9), PRIMARY KEY (a), KEY a_first (b),"
        " UNIQUE pre (b(3), a DESC), UNIQUE ex ((lower(b))), KEY inv (b) INVISIBLE)"
    )
    found = {index.name: index for index in desk.table().indexes}
    assert next(iter(found)) == "PRIMARY"
    assert found["pre"].unique
    assert [(p.column, p.prefix, p.descending) for p in found["pre"].parts] == [
        ("b", 3, False),
        ("a", None, True),
    ]
    assert found["ex"].parts[0].expression == "lower(`b`)"
    assert not found["inv"].visible


def test_a_key_of_the_servers_own_making_is_seen(db, desk):
    """An invisible primary key of the server's own making is seen, even where it is hidden."""
    db.execute("SET SESSION sql_generate_invisible_primary_key = ON; CREATE TABLE t (a INT)")
    desk.session.execute("SET SESSION show_gipk_in_create_table_and_information_schema = OFF")
    assert desk.table().primary_key.columns == ("my_row_id",)
    assert "my_row_id" in desk.table().create_sql


def test_a_definition_is_the_same_whatever_the_server_shows_of_it(db, desk):
    """A verbose one has the format of rows: a run would take it for another session's ALTER."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    brief = desk.table().create_sql
    db.set_global("show_create_table_verbosity", "ON")
    with open_schema_tools(db) as later:
        assert later.table().create_sql == brief


def test_engine_collation_and_partitioning_are_read(db, desk):
    """Engine, collation and partitioning are read."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY) DEFAULT CHARSET latin1 PARTITION BY HASH (id)")
    found = desk.table()
    assert (found.engine, found.collation) == ("InnoDB", "latin1_swedish_ci")
    assert "PARTITION BY HASH" in found.create_sql


def test_a_view_and_a_missing_table_are_no_base_tables(db, desk):
    """A view, and a table that is not there, are no base tables."""
    db.execute("CREATE VIEW v AS SELECT 1")
    assert read_table(desk.session, db.name, "v") is None
    assert read_table(desk.session, db.name, "nonesuch") is None
    assert read_table(desk.session, "nonesuch", "t") is None


def test_a_table_that_goes_while_it_is_read_is_none(db, desk, monkeypatch):
    """A table that another session renames between two of the statements is not there."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    query = desk.session.query

    def renamed_before(sql, *parameters):
        if sql.startswith("SHOW CREATE TABLE"):
            db.execute("RENAME TABLE t TO t2")
        return query(sql, *parameters)

    monkeypatch.setattr(desk.session, "query", renamed_before)

    assert read_table(desk.session, db.name, "t") is None


def test_the_words_that_are_no_names_without_quotes(db):
    """All that this server reserves are known: a quoted one means something else than a bare."""
    found = db.query("SELECT LOWER(WORD) FROM information_schema.KEYWORDS WHERE RESERVED = 1")
    assert {row[0] for row in found} <= RESERVED
