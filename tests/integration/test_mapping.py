"""What the mapping carries over is what a native ALTER carries over, value by value."""

from __future__ import annotations

import pytest

from spirit_py.errors import Refusal, ServerFault
from spirit_py.statement import alter_of
from spirit_py.table.build import build_mapping
from tests.kits.schema_tools import SchemaTools, open_schema_tools

TEXTS = "'a', 'B', '', 'it''s', 'ä', '12', '007', '1999-12-31'"
NUMBERS = "-2147483648, -1, 0, 1, 7, 2147483647"

#: columns behind ``id``, values of the first of them, clauses.
CASES = [
    ("a INT, b INT DEFAULT 5", NUMBERS, "RENAME COLUMN a TO b, RENAME COLUMN b TO a"),
    ("a INT, b INT DEFAULT 5", NUMBERS, "DROP a, ADD a INT DEFAULT 9"),
    ("a INT, b INT DEFAULT 5", NUMBERS, "DROP a, CHANGE b a BIGINT, ADD b INT NOT NULL"),
    ("a INT, b INT DEFAULT 5", NUMBERS, "CHANGE a b BIGINT, CHANGE b c BIGINT FIRST"),
    ("a INT, b INT DEFAULT 5", NUMBERS, "RENAME COLUMN a TO A, MODIFY b INT FIRST"),
    ("a INT, g BIGINT AS (a + 1) STORED", NUMBERS, "MODIFY g BIGINT"),
    ("a INT, g BIGINT AS (a + 1) VIRTUAL", NUMBERS, ("ADD h BIGINT AS (g * 2), DROP COLUMN id,"
     " ADD PRIMARY KEY (k)")),
    ("a INT, g BIGINT AS (a + 1) VIRTUAL", NUMBERS, "CHANGE a z INT, DROP g"),
    ("a INT", NUMBERS, "MODIFY a VARCHAR(20)"),
    ("a INT", NUMBERS, "MODIFY a DECIMAL(20,3)"),
    ("a INT", NUMBERS, "MODIFY a DOUBLE"),
    ("a INT", NUMBERS, "MODIFY a BIGINT"),
    ("a DECIMAL(20,6)", "-1.5, 0.000001, 12345678901234.654321", "MODIFY a DECIMAL(30,8)"),
    ("a FLOAT", "0.1, 16777217, -1e30, 1e-30", "MODIFY a DOUBLE"),
    ("a FLOAT", "0.1, 16777217, -1e30, 1e-30", "MODIFY a VARCHAR(40)"),
    ("a FLOAT(7,3)", "0.1, 12.345", "MODIFY a VARBINARY(40)"),
    ("a DOUBLE", "0.1, 1e-7, 123456789.123456789", "MODIFY a TEXT"),
    ("a YEAR", "0, 2024", "MODIFY a CHAR(9)"),
    ("a INT", "20240102, 240102, 10101", "MODIFY a DATE"),
    ("a BIGINT", "20240102030405", "MODIFY a DATETIME"),
    ("a INT", "1, 2, 5", "MODIFY a ENUM('5','1','2')"),
    ("a DECIMAL(9,2)", "1.50, -2", "MODIFY a JSON"),
    ("a INT", NUMBERS, "MODIFY a JSON"),
    ("a JSON", "'2.50', '1', '-7'", "MODIFY a INT"),
    ("a JSON", "'2.50', '1', '-7'", "MODIFY a DECIMAL(9,1)"),
    ("a VARCHAR(20)", TEXTS, "MODIFY a TEXT"),
    ("a VARCHAR(20)", "'a  ', 'a', ' a'", "MODIFY a CHAR(20)"),
    ("a VARCHAR(20)", TEXTS, "MODIFY a VARBINARY(80)"),
    ("a VARCHAR(20)", TEXTS, "CONVERT TO CHARACTER SET latin1"),
    ("a VARCHAR(20) CHARACTER SET latin1", TEXTS, "CONVERT TO CHARACTER SET utf8mb4"),
    ("a VARCHAR(20) CHARACTER SET utf16", TEXTS, "MODIFY a VARCHAR(20) COLLATE utf8mb4_bin"),
    ("a VARCHAR(20)", "'1', '-7', '007', ' 5'", "MODIFY a INT"),
    ("a VARCHAR(20)", "'1.5', '2.5', '-0.5', '1e2'", "MODIFY a DECIMAL(9,3)"),
    ("a VARCHAR(20)", "'{\"b\": 1}', '[1, 2.50]', 'null'", "MODIFY a JSON"),
    ("a BINARY(4)", "X'61', X'00', X'61626364'", "MODIFY a VARBINARY(9)"),
    ("a VARBINARY(4)", "X'61', X'00', X'', X'61626364'", "MODIFY a BINARY(9)"),
    ("a ENUM('x','y','z')", "'x', 'y', 'z'", "MODIFY a ENUM('z','new','y','x')"),
    ("a ENUM('x','y','z')", "'x', 'y', 'z'", "MODIFY a ENUM('x','y','z','new')"),
    ("a ENUM('x','y','2')", "'x', 'y', '2'", "MODIFY a VARCHAR(9)"),
    ("a ENUM('x','y','2')", "'x', 'y', '2'", "MODIFY a INT UNSIGNED"),
    ("a ENUM('x','y')", "'x', 'y'", "MODIFY a SET('y','x')"),
    ("a ENUM('0','1','2')", "'1', '2', '00'", "MODIFY a ENUM('2','1')"),
    ("a ENUM('c','b','ä') CHARACTER SET utf16", "'b', 'ä'", "MODIFY a ENUM('ä','b')"),
    ("a SET('1','2','3')", "'', '2', '1,2'", "MODIFY a SET('2','1')"),
    ("a ENUM('😀','?','é')", "'😀', '?', 'é'", "MODIFY a ENUM('é','?','😀')"),
    ("a SET('x','y','z')", "'x', '', 'x,z', 'x,y,z'", "MODIFY a SET('z','y','x')"),
    ("a SET('x','y','z')", "'x', '', 'x,z', 'x,y,z'", "MODIFY a VARCHAR(20)"),
    ("a BIT(9)", "0, 1, 256, 511", "MODIFY a BIT(20)"),
    ("a BIT(9)", "0, 1, 256, 511", "MODIFY a INT"),
    ("a YEAR", "1901, 2024, 0", "MODIFY a INT"),
    ("a DATETIME(6)", "'2024-10-27 02:30:00.123456'", "MODIFY a VARCHAR(40)"),
    ("a DATETIME", "'2024-10-27 02:30:00', '1970-01-02 00:00:00'", "MODIFY a TIMESTAMP"),
    ("a DATETIME", "'2024-10-27 02:30:00'", "MODIFY a DATE"),
    ("a DATE", "'2024-10-27', '1000-01-01'", "MODIFY a DATETIME(3)"),
    ("a TIME(3)", "'-838:59:59', '00:00:00.5'", "MODIFY a TIME(6)"),
    ("a VARCHAR(40)", "'2024-07-01 23:00:00+00:00', '2024-07-01'", "MODIFY a DATETIME"),
    ("a VARCHAR(40)", "'2024-07-01 23:00:00+00:00', '2024-07-01'", "MODIFY a DATE"),
    ("a VARBINARY(40)", "'2024-07-01 23:00:00+00:00', '12:00'", "MODIFY a TIME"),
    ("a ENUM('2024-07-01 23:00:00+00:00')", "1", "MODIFY a DATETIME"),
    ("a TIMESTAMP", "'2024-10-27 00:30:00', '2024-10-27 01:30:00'", "MODIFY a DATETIME"),
    ("a TIMESTAMP", "'2024-10-27 00:30:00', '2024-10-27 01:30:00'", "MODIFY a VARCHAR(40)"),
    ("a TIMESTAMP", "'2024-10-27 00:30:00', '2024-10-27 01:30:00'", "MODIFY a TIMESTAMP(6)"),
    ("a JSON", "'{\"a\": 1.10}', 'null', '[]'", "MODIFY a LONGTEXT"),
    ("a POINT", "ST_GeomFromText('POINT(1 2)')", "MODIFY a GEOMETRY"),
    (
        "a INT",
        NUMBERS,
        ("ADD i INT NOT NULL, ADD v VARCHAR(9) NOT NULL, ADD e ENUM('q','r') NOT NULL,"
        " ADD s SET('q') NOT NULL, ADD j JSON NOT NULL, ADD b BIT(3) NOT NULL,"
        " ADD n BINARY(3) NOT NULL, ADD x BLOB NOT NULL, ADD d DECIMAL(5,2) NOT NULL,"
        " ADD f FLOAT NOT NULL, ADD t TIME(2) NOT NULL, ADD y YEAR NOT NULL,"
        " ADD l TEXT CHARACTER SET utf16 NOT NULL, ADD g INT AS (i + 1)"),
    ),
    ("a INT", NUMBERS, "ADD c INT DEFAULT (a DIV 2), ADD d VARCHAR(9) DEFAULT 'x', ADD e INT"),
]  # fmt: skip


@pytest.fixture
def desk(db):
    """Open a desk on a server whose own time zone sets its clock back in October."""
    offset = "Europe/Berlin"
    if db.query(f"SELECT CONVERT_TZ('2024-01-01', 'UTC', '{offset}') IS NULL")[0][0]:
        offset = "+03:30"
    db.set_global("time_zone", offset)
    with open_schema_tools(db) as found:
        yield found


def rows(db, name: str) -> list[tuple]:
    """Return every row, every column by its bytes, in the order of the key that stays."""
    columns = [row[0] for row in db.query(f"SHOW COLUMNS FROM {name}")]
    shown = ", ".join(f"HEX(`{c}`), CAST(`{c}` AS CHAR)" for c in columns)
    return [tuple(columns), *db.query(f"SELECT {shown} FROM {name} ORDER BY k")]


def copy(desk: SchemaTools, alter: str):
    """Create the new table and fill it as the mapping says; return the mapping."""
    statement = alter_of(desk.schema, "t", alter)
    ((zone,),) = desk.session.query("SELECT @@GLOBAL.time_zone")
    mapping = build_mapping(desk.table(), desk.create(alter), statement, zone)
    new = ", ".join(f"`{name}`" for name in mapping.insert_names)
    if mapping.time_zone:
        desk.session.execute(f"SET SESSION time_zone = '{mapping.time_zone}'")
    desk.session.execute(
        f"REPLACE INTO _t_new ({new}) SELECT {', '.join(mapping.select_expressions)} FROM t"
    )
    assert not [w for w in desk.session.warnings() if w[0] != "Note"]
    return mapping


def fill(db, columns: str, values: str) -> None:
    """Make the table, with a row for each value and one that holds NULL."""
    db.execute(
        f"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, {columns}, UNIQUE (k))"
    )
    db.execute("SET SESSION time_zone = '+00:00'")
    each = f"SELECT NULL UNION ALL SELECT {' UNION ALL SELECT '.join(split(values))}"
    db.execute(f"INSERT INTO t (k, a) SELECT ROW_NUMBER() OVER (), v FROM ({each}) AS n (v)")


def split(values: str) -> list[str]:
    """Part values at commas outside quotes and parentheses."""
    parts, depth, quoted = [""], 0, False
    for letter in values:
        quoted ^= letter == "'"
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not quoted and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


@pytest.mark.draws(20)
@pytest.mark.parametrize(("columns", "values", "alter"), CASES)
def test_a_mapped_copy_has_the_bytes_of_a_native_alter(db, desk, columns, values, alter):
    """A copy by the mapping leaves the same bytes in every column as a native ALTER."""
    fill(db, columns, values)
    copy(desk, alter)
    desk.native.execute(f"ALTER TABLE t {alter}")
    assert rows(db, "_t_new") == rows(db, "t")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "values", "alter"),
    [
        ("a INT", NUMBERS, "MODIFY a INT NOT NULL"),
        ("a INT", NUMBERS, "MODIFY a TINYINT"),
        ("a INT", NUMBERS, "MODIFY a INT UNSIGNED"),
        ("a VARCHAR(20)", TEXTS, "MODIFY a VARCHAR(3)"),
        ("a VARCHAR(20)", TEXTS, "MODIFY a INT"),
        ("a VARCHAR(20)", "'😀'", "CONVERT TO CHARACTER SET latin1"),
        ("a VARCHAR(20)", TEXTS, "MODIFY a JSON"),
        ("a ENUM('x','y')", "'x', 'y'", "MODIFY a ENUM('x')"),
        ("a SET('x','y')", "'x,y'", "MODIFY a SET('x')"),
        ("a ENUM('0','1','2')", "'1', '2'", "MODIFY a ENUM('0','1')"),
        ("a ENUM('0','1','2')", "'1', '0'", "MODIFY a ENUM('1','2')"),
        ("a ENUM('-0',' 1','+01')", "'-0'", "MODIFY a ENUM('1','2')"),
        ("a ENUM('-0',' 1','+01')", "' 1'", "MODIFY a ENUM('1','2')"),
        ("a ENUM('-0',' 1','+01')", "'+01'", "MODIFY a SET('1','2')"),
        ("a SET('1','2','3')", "'1,2', '3'", "MODIFY a SET('1','2')"),
        ("a SET('1','2','3')", "'', '2'", "MODIFY a ENUM('1','')"),
        ("a ENUM('2','ä') CHARACTER SET utf16", "'2'", "MODIFY a ENUM('x','ä')"),
        ("a ENUM('bb','ä') CHARACTER SET utf16", "'bb'", "MODIFY a ENUM('x','ä')"),
        ("a SET('b','ä') CHARACTER SET utf32", "'b'", "MODIFY a SET('x','ä') CHARACTER SET utf32"),
        ("a DATETIME", "'1969-12-31 00:00:00'", "MODIFY a TIMESTAMP"),
        ("a POINT", "ST_GeomFromText('POINT(1 2)')", "MODIFY a POLYGON"),
    ],
)
def test_a_lossy_change_fails_in_the_copy(db, desk, columns, values, alter):
    """A value that the new column cannot hold is an error in the copy, never another value."""
    fill(db, columns, values)
    with pytest.raises(ServerFault):
        copy(desk, alter)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("VARCHAR(9)", "BIT(9)"),
        ("BLOB", "BIT(9)"),
        ("JSON", "BIT(9)"),
        ("DATE", "BIT(40)"),
        ("DATE", "YEAR"),
        ("DATETIME", "YEAR"),
        ("TIMESTAMP", "YEAR"),
        ("TIME", "DATE"),
        ("TIME", "DATETIME"),
        ("TIME", "TIMESTAMP"),
    ],
)
def test_conversions_that_no_copy_makes(db, desk, old, new):
    """What ALTER TABLE converts as no SELECT does is refused."""
    fill(db, f"a {old}", "NULL")
    with pytest.raises(Refusal, match="cannot be converted"):
        copy(desk, f"MODIFY a {new}")


def test_a_timestamp_that_becomes_a_datetime_has_the_servers_local_time(db, desk):
    """A TIMESTAMP that becomes a DATETIME shows the server's local time."""
    fill(db, "a TIMESTAMP", "'2024-07-01 00:00:00'")
    mapping = copy(desk, "MODIFY a DATETIME")
    assert mapping.time_zone
    (_, (shown,)) = db.query("SELECT CAST(a AS CHAR) FROM _t_new ORDER BY k")
    assert shown in {"2024-07-01 02:00:00", "2024-07-01 03:30:00"}
