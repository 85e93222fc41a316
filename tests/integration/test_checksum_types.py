"""For every column type: what is planted in the new table is found, named, and repaired."""

from __future__ import annotations

import re

import pytest

from spirit_py.checksum.query import Keys
from spirit_py.checksum.worker import SnapshotReader
from spirit_py.errors import ChecksumFailure, PacketTooSmall
from spirit_py.mysql.connect import connect
from tests.kits.checksum import Pair, found
from tests.kits.connection import connection_options

DOCUMENT = """'{"a": [1.5, "2020-01-01", {"b": null}], "c": 1}'"""

#: Type, a value, and values that differ from it as little as they can.
TYPES = {
    "tinyint": ("tinyint", "1", ["0", "-1"]),
    "smallint unsigned": ("smallint unsigned", "65535", ["65534"]),
    "mediumint": ("mediumint", "-8388608", ["8388607"]),
    "int zerofill": ("int(10) unsigned zerofill", "7", ["70"]),
    "bigint": ("bigint", "9007199254740993", ["9007199254740992"]),
    "bigint unsigned": ("bigint unsigned", "18446744073709551615", ["18446744073709551614"]),
    "decimal": ("decimal(30,10)", "12345678901234567890.0000000001", ["12345678901234567890"]),
    "decimal zerofill": ("decimal(6,2) zerofill", "0.10", ["0.01"]),
    "float": ("float", "16777216", ["16777217e0 + 1", "16777215"]),
    "float of six digits": ("float", "0.1234567", ["0.1234568"]),
    "float(m,d)": ("float(12,2)", "1000.25", ["1000.26"]),
    "float(m,d) at its end": ("float(8,2)", "999999.99", ["999999.9"]),
    "double": ("double", "0.1e0", ["0.1e0 + 1.4e-17", "-0.1e0"]),
    "negative zero": ("double", "0e0", ["-0e0"]),
    "bit(1)": ("bit(1)", "b'1'", ["b'0'"]),
    "bit(64)": ("bit(64)", "0xFFFFFFFFFFFFFFFF", ["0xFFFFFFFFFFFFFFFE"]),
    "year": ("year", "2000", ["0", "2001"]),
    "date": ("date", "'2024-02-28'", ["'2024-02-31'", "'0000-00-00'", "'2024-02-00'"]),
    "time": ("time(6)", "'-00:00:01.000000'", ["'00:00:01'", "'-00:00:01.000001'"]),
    "datetime": ("datetime", "'2024-01-01'", ["'2024-01-01 00:00:01'", "'0000-00-00'"]),
    "datetime(6)": ("datetime(6)", "'2024-01-01'", ["'2024-01-01 00:00:00.000001'"]),
    "timestamp": ("timestamp null", "'1970-01-01 00:00:01'", ["'0000-00-00'"]),
    # The two instants of one wall clock time in New York.
    "timestamp in a fold": (
        "timestamp(3) null",
        "'2024-11-03 05:30:00'",
        ["'2024-11-03 06:30:00'", "'2024-11-03 05:30:00.001'"],
    ),
    "char": ("char(10)", "'ab'", ["'aB'", "' ab'", "'ab\\0'", "''"]),
    "varchar ai_ci": (
        "varchar(20) collate utf8mb4_0900_ai_ci",
        "'abc'",
        ["'ABC'", "'äbc'", "'abc '", "'abc\\0'", "''"],
    ),
    "varchar pad space": (
        "varchar(20) collate utf8mb4_bin",
        "''",
        ["' '", "'\\0'", "'\\t'"],
    ),
    "varchar latin1": ("varchar(9) charset latin1", "_latin1 X'81'", ["_latin1 X'8D'", "'?'"]),
    "varchar utf16": ("varchar(9) charset utf16", "'a'", ["'a '", "'b'", "_utf16 X'0001F600'"]),
    "varchar gbk": ("varchar(9) charset gbk", "_gbk X'D6D0'", ["_gbk X'D6D1'"]),
    "varchar sjis": ("varchar(9) charset sjis", "_sjis X'5C'", ["_sjis X'815F'"]),
    "digits and commas": ("varchar(20)", "'1:a,1:b'", ["'1:a,1:b,'", "'1:a'", "'N'"]),
    "tinytext": ("tinytext", "'a'", ["'a '", "''"]),
    "text": ("text", "REPEAT('a', 60000)", ["CONCAT(REPEAT('a', 59999), 'b')", "''"]),
    "mediumtext": ("mediumtext", "'a'", ["'a\\0'", "''"]),
    "longtext": ("longtext charset utf16", "'a'", ["'a '", "''"]),
    "binary": ("binary(6)", "X'61'", ["X'6120'", "X''", "X'6100000001'"]),
    "varbinary": ("varbinary(9)", "X'61'", ["X'6100'", "X'6120'", "X''", "X'41'"]),
    "tinyblob": ("tinyblob", "X'00'", ["X'0000'", "X''"]),
    "blob": ("blob", "X'00'", ["X'0000'", "X''"]),
    "mediumblob": ("mediumblob", "REPEAT(X'00', 70000)", ["REPEAT(X'00', 70001)"]),
    "longblob": ("longblob", "X'FF'", ["X'FE'", "X''"]),
    "enum": ("enum('a','b','')", "'a'", ["'b'", "''"]),
    "set": ("set('a','b','c')", "'a,b'", ["'a'", "'a,b,c'", "''"]),
    "set of 64": (
        f"set({','.join(repr(f'm{i}') for i in range(64))})",
        "0xC000000000000001 + 0",
        ["0xC000000000000000 + 0"],
    ),
    "json": (
        "json",
        DOCUMENT,
        [
            """'{"a": [1.5, "2020-01-01", {"b": null}], "c": 1.0}'""",
            """'{"a": [1.5, "2020-01-01", {"b": null}], "c": "1"}'""",
            """'{"a": [1.5, "2020-01-01", {"b": false}], "c": 1}'""",
            f"JSON_SET({DOCUMENT}, '$.c', CAST(1 AS UNSIGNED))",
            f"JSON_SET({DOCUMENT}, '$.a[0]', 1.5)",
            f"JSON_SET({DOCUMENT}, '$.a[1]', CAST('2020-01-01' AS DATE))",
            "'null'",
            "'{}'",
        ],
    ),
    "json opaque": (
        "json",
        "CAST(X'AA' AS JSON)",
        ["""'"base64:type15:qg=="'""", "CAST(X'AB' AS JSON)"],
    ),
    "geometry": (
        "geometry",
        "ST_GeomFromText('POINT(1 2)')",
        ["ST_GeomFromText('POINT(1 3)')", "ST_GeomFromText('POINT(1 2)', 3857)"],
    ),
    "polygon": (
        "polygon srid 4326",
        "ST_GeomFromText('POLYGON((0 0, 0 1, 1 1, 0 0))', 4326)",
        ["ST_GeomFromText('POLYGON((0 0, 0 1, 1 1.0000000001, 0 0))', 4326)"],
    ),
    "vector": ("vector(3)", "TO_VECTOR('[1,2,3]')", ["TO_VECTOR('[1,2,3.0000002]')"]),
}

#: Old type, new type, and values of the old one.
CONVERSIONS = {
    "int to bigint": ("int", "bigint unsigned", ["0", "2147483647"]),
    "zerofill": ("int(8) zerofill", "int unsigned", ["5"]),
    "decimal scale": ("decimal(10,2)", "decimal(20,5)", ["-1.25", "0"]),
    "decimal narrowed": ("decimal(10,3)", "decimal(10,1)", ["1.200", "-1.3"]),
    "float to double": ("float", "double", ["0.1", "-0e0"]),
    "double to decimal": ("double", "decimal(30,4)", ["0.12345e0", "1e10"]),
    "int to text": ("int", "varchar(20)", ["-7", "0"]),
    "text to int": ("varchar(20)", "int", ["'12'", "'-3'"]),
    "latin1 to utf8": ("varchar(20) charset latin1", "varchar(20)", ["'é '", "_latin1 X'80'"]),
    "utf8 to gbk": ("varchar(20)", "varchar(20) charset gbk", ["'中'", "''"]),
    "utf16 to text": ("varchar(20) charset utf16", "longtext", ["'a😀'", "''"]),
    "utf8mb3 text": ("text charset utf8mb3", "text", ["'ä'", "''"]),
    "text to utf8mb3": ("text", "text charset utf8mb3", ["'ä'", "''"]),
    "varchar to char": ("varchar(20)", "char(20)", ["'a  '", "'b'", "''"]),
    "char to varchar": ("char(20)", "varchar(30)", ["'a  '", "''"]),
    "binary grows": ("binary(3)", "binary(5)", ["X'01'", "X''"]),
    "binary to varbinary": ("binary(3)", "varbinary(9)", ["X'01'"]),
    "varbinary to binary": ("varbinary(3)", "binary(5)", ["X'01'", "X''"]),
    "blob to text": ("blob", "text", ["X'6100'", "X'C3A4'"]),
    "text to blob": ("text", "blob", ["'ä '"]),
    "enum extended": ("enum('a','b')", "enum('a','b','c')", ["'a'", "'b'"]),
    "enum reordered": ("enum('a','b')", "enum('b','a')", ["'a'", "'b'"]),
    "enum to varchar": ("enum('a','b')", "varchar(9)", ["'a'", "'b'"]),
    "set reordered": ("set('a','b')", "set('b','a')", ["'a,b'", "'a'", "''"]),
    "datetime precision grows": (
        "datetime",
        "datetime(3)",
        ["'0000-00-00'", "'2024-02-31 01:02:03'"],
    ),
    "time precision grows": ("time(2)", "time(6)", ["'-838:59:59.25'"]),
    "datetime rounded": ("datetime(3)", "datetime", ["'2024-01-01 00:00:00.500'"]),
    "timestamp to datetime": (
        "timestamp(3) null",
        "datetime(3)",
        ["'2024-11-03 05:30:00'", "'2024-11-03 06:30:00.25'", "'2024-07-01'"],
    ),
    "datetime to timestamp": ("datetime", "timestamp null", ["'2024-07-01 12:00:00'"]),
    "date to datetime": ("date", "datetime", ["'2024-07-01'", "'2024-02-31'"]),
    "year to int": ("year", "int", ["0", "1999"]),
    "bit grows": ("bit(3)", "bit(9)", ["b'101'"]),
    "bit to int": ("bit(3)", "int", ["b'101'"]),
    "json to text": ("json", "longtext", ["""'{"a": [1, 2.5]}'"""]),
    "text to json": ("varchar(50)", "json", ["""'{"a": 1.0}'""", "'[]'"]),
    "point to geometry": ("point", "geometry", ["ST_GeomFromText('POINT(1 2)')"]),
    "vector grows": ("vector(2)", "vector(4)", ["TO_VECTOR('[1,2]')"]),
    "vector to blob": ("vector(2)", "varbinary(100)", ["TO_VECTOR('[1,2]')"]),
}


def lenient(db) -> None:
    """Let the test's own session store zero dates and dates that do not exist."""
    db.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")


#: Types whose values may end in spaces and zero bytes, and may be empty.
_OPEN_ENDED = ("varchar", "varbinary", "text", "blob")


def neighbours(kind: str, value: str, others: list[str]) -> list[str]:
    """Return what is planted in the place of a value, the last of it nearest to NULL."""
    family = re.sub(r"^(tiny|medium|long)(?=text|blob)", "", kind)
    if not family.startswith(_OPEN_ENDED):
        return others
    more = [f"CONCAT({value}, ' ')", f"CONCAT({value}, '\\0')"]
    return [*others, *more, "''"] if value != "''" else [*more, *others]


@pytest.mark.draws(8)
@pytest.mark.parametrize("name", TYPES)
def test_whatever_is_planted_is_found_named_and_repaired(db, name):
    """For this type, each row and each column is named.

    Planted are: a changed byte; NULL and the nearest value to it for each other; a value moved
    to the neighbouring column; trailing space and zero byte; a missing row; two equal extra
    rows, and a row twice.
    """
    kind, value, others = TYPES[name]
    others = neighbours(kind, value, others)
    lenient(db)
    # No primary key, so that the new table can lose the key and hold equal rows.
    db.execute(f"CREATE TABLE t (id INT NOT NULL, v {kind} NULL, w {kind} NULL, UNIQUE KEY u (id))")
    db.execute(f"INSERT INTO t SELECT n, {value}, NULL FROM (SELECT 0 n) one")
    for number, other in enumerate(others, 1):
        db.execute(f"INSERT INTO t SELECT {number}, {value}, {other} FROM (SELECT 0 n) one")
    db.execute(f"INSERT INTO t VALUES (90, NULL, NULL), (91, {value}, NULL), (92, {value}, NULL)")
    db.execute(f"INSERT INTO t VALUES (93, {others[-1]}, NULL), (94, {value}, NULL)")
    pair = Pair(db, "ADD COLUMN added INT").copy()
    assert pair.check().differences == 0

    planted: dict[str, tuple[str, ...]] = {"(91)": ("v", "w"), "(90)": ("w",), "(93)": ("v",)}
    db.execute(f"UPDATE _t_new SET w = {value}, v = NULL WHERE id = 91")
    for number, other in enumerate(others, 1):
        # NULL between, because UPDATE takes the JSON numbers 1 and 1.0 for the same and keeps 1.
        db.execute(f"UPDATE _t_new SET v = NULL WHERE id = {number}")
        db.execute(f"UPDATE _t_new SET v = {other} WHERE id = {number}")
        planted[f"({number})"] = ("v",)
    db.execute(f"UPDATE _t_new SET w = {others[-1]} WHERE id = 90")
    db.execute("UPDATE _t_new SET v = NULL WHERE id = 93; DELETE FROM _t_new WHERE id = 92")
    db.execute("ALTER TABLE _t_new DROP KEY u, ADD KEY u (id)")
    db.execute(f"INSERT INTO _t_new VALUES (94, {value}, NULL, NULL)")
    for _ in range(2):
        db.execute(f"INSERT INTO _t_new VALUES (95, {value}, {value}, NULL)")
    found = pair.check(examples=100)
    kinds = {each.key: each.kind for each in found.examples}
    assert {key: each for key, each in kinds.items() if key in planted} == dict.fromkeys(
        planted, "changed"
    )
    assert {key: each for key, each in kinds.items() if key not in planted} == {
        "(92)": "missing",
        "(94)": "changed",
        "(95)": "extra",
    }
    columns = {each.key: each.columns for each in found.examples if each.key in planted}
    assert columns == planted
    total = len(planted) + 3
    assert (found.differences, found.counts.missing, found.counts.extra) == (total, 1, 1)

    repaired = pair.repair()
    assert (repaired.passes, repaired.differences, repaired.repaired_chunks) == (2, total, 1)
    assert pair.check().differences == 0


@pytest.mark.draws(4)
@pytest.mark.parametrize("name", CONVERSIONS)
def test_converted_values_compare_as_the_server_converts(db, name):
    """What the server made of the old value is equal, anything else is found and repaired."""
    old, new, values = CONVERSIONS[name]
    lenient(db)
    db.set_global("time_zone", "-04:00" if "timestamp" in name else "+00:00")
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v {old} NULL, w INT)")
    for number, value in enumerate(values):
        db.execute(f"INSERT INTO t SELECT {number}, {value}, 1 FROM (SELECT 0 n) one")
    db.execute("INSERT INTO t VALUES (90, NULL, 1), (91, NULL, 1)")
    pair = Pair(db, f"MODIFY v {new} NULL").copy()
    assert pair.check().differences == 0

    last = len(values) - 1
    db.execute(
        f"UPDATE _t_new SET v = NULL WHERE id = {last}; UPDATE _t_new SET w = 2 WHERE id = 90"
    )
    db.execute("UPDATE _t_new a JOIN t b ON b.id = 0 SET a.v = b.v WHERE a.id = 91")
    found = pair.check()
    assert {each.key: each.columns for each in found.examples} == {
        f"({last})": ("v",),
        "(90)": ("w",),
        "(91)": ("v",),
    }
    assert pair.repair().passes == 2


SAME_WITHOUT_BOUNDARIES = [
    (("'a,b'", "'c'"), ("'a'", "'b,c'")),
    (("'a,:b'", "'c'"), ("'a'", "'b,:c'")),
    (("'a'", "''"), ("''", "'a'")),
    (("NULL", "''"), ("''", "NULL")),
    (("NULL", "'x'"), ("'N'", "'x'")),
    (("'1:a,1:b'", "''"), ("'1:a'", "'1:b'")),
    (("'a'", "NULL"), ("'a,N'", "''")),
    (("'a\\0'", "'b'"), ("'a'", "'\\0b'")),
]


@pytest.mark.parametrize("kind", ["VARCHAR(20)", "VARBINARY(20)", "TEXT", "BLOB"])
def test_values_never_run_over_the_column_boundary(db, kind):
    """No text in one column can look like two, like NULL, or like a length."""
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind}, w {kind})")
    db.execute(f"CREATE TABLE planted (id INT PRIMARY KEY, v {kind}, w {kind})")
    for number, (kept, planted) in enumerate(SAME_WITHOUT_BOUNDARIES):
        db.execute(f"INSERT INTO t VALUES ({number}, {', '.join(kept)})")
        db.execute(f"INSERT INTO planted VALUES ({number}, {', '.join(planted)})")
    pair = Pair(db)
    db.execute("INSERT INTO _t_new SELECT * FROM planted")
    result = pair.check()
    assert result.differences == len(SAME_WITHOUT_BOUNDARIES)
    assert {each.kind for each in result.examples} == {"changed"}


@pytest.mark.parametrize("null", ["NULL", "NOT NULL"])
def test_columns_of_several_character_sets_are_hashed_as_their_bytes(db, null):
    """Bytes enter the hash as they are: nothing is converted, and nothing becomes equal by it."""
    values = {
        "latin1": ("_latin1 X'81'", "_latin1 X'8D'"),
        "utf16": ("_utf16 X'0061'", "_utf16 X'006100'"),
        "utf32": ("_utf32 X'00000061'", "_utf32 X'00000062'"),
        "gbk": ("_gbk X'D6D0'", "_gbk X'D6D1'"),
        "sjis": ("_sjis X'5C'", "_sjis X'815F'"),
        "cp1251": ("_cp1251 X'98'", "'?'"),
        "utf8mb4": ("'😀'", "'?'"),
        "ascii": ("'a'", "'b'"),
    }
    columns = ", ".join(f"`{name}` VARCHAR(9) CHARACTER SET {name} {null}" for name in values)
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns}, at DATE, d DECIMAL(9,2))")
    row = ", ".join(value for value, _ in values.values())
    for number in range(len(values) + 1):
        db.execute(f"INSERT INTO t VALUES ({number}, {row}, '2024-01-01', 1.5)")
    pair = Pair(db, "ADD COLUMN x INT").copy()
    assert pair.check().differences == 0
    for number, (name, (_, other)) in enumerate(values.items(), 1):
        db.execute(f"UPDATE _t_new SET `{name}` = {other} WHERE id = {number}")
    found = {each.key: each.columns for each in pair.check().examples}
    assert found == {f"({number})": (name,) for number, name in enumerate(values, 1)}


def test_enum_zero_is_not_the_empty_member(db):
    """The error value of an ENUM and the member '' print alike and are not alike."""
    db.execute("SET SESSION sql_mode = ''")
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v ENUM('a', ''), w INT)")
    db.execute("INSERT INTO t VALUES (1, 'no member', 0), (2, '', 0)")
    db.execute("CREATE TABLE plain LIKE t; INSERT INTO plain SELECT * FROM t")
    pair = Pair(db)
    db.execute("INSERT INTO _t_new SELECT * FROM t")
    assert pair.check().differences == 0
    db.execute("UPDATE _t_new SET v = IF(id = 1, '', 'no member')")
    assert {each.key for each in pair.check().examples} == {"(1)", "(2)"}


def test_a_row_too_large_to_be_hashed_is_not_passed_over(db):
    """LOBs above max_allowed_packet count: concatenated they would be NULL, and equal."""
    pair = _wide_pair(db)
    assert pair.check().differences == 0
    db.execute("UPDATE _t_new SET w = CONCAT(w, 'x') WHERE id = 2")
    assert [each.columns for each in pair.check().examples] == [("w",)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LONGBLOB", "JSON"])
def test_a_long_converted_value_is_compared(db, kind):
    """Its literal is longer than max_allowed_packet: the server would end the session."""
    db.set_global("max_allowed_packet", 4 << 20)
    with connect(connection_options(db), database=db.name, role="fill") as session:
        session.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind})")
        large = f"CONCAT('\"', REPEAT('a', {5 << 19}), '\"')"
        session.execute(f"INSERT INTO t VALUES (1, {large}), (2, '1'), (3, NULL)")
    pair = Pair(db, "MODIFY v LONGTEXT").copy()
    assert pair.check().differences == 0
    db.execute("UPDATE _t_new SET v = REPLACE(v, 'aa', 'ab')")
    assert set(found(pair.check())) == {"(1)"}


def test_a_converted_value_above_the_largest_packet_is_no_difference(db):
    """Put together of pieces it is NULL, with a warning."""
    with connect(connection_options(db), database=db.name, role="fill") as session:
        session.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
        session.execute(f"INSERT INTO t VALUES (1, REPEAT('a', {5 << 20}))")
    pair = Pair(db, "MODIFY v LONGTEXT").copy()
    db.set_global("max_allowed_packet", 4 << 20)
    with pytest.raises(PacketTooSmall, match="a value that is too large"):
        pair.check()


def test_a_hash_is_not_believed_where_warnings_are_cut(db):
    """A harmless warning that is kept may have one behind it that is not."""
    with connect(connection_options(db), role="test") as session:
        session.execute("SET max_error_count = 1")
        session.query("SELECT BINARY 'a', CAST('x' AS SIGNED)")
        with pytest.raises(ChecksumFailure, match="2 warnings, of which it keeps 1"):
            SnapshotReader._require_hashed(session, Keys(("(1)",)))


def _wide_pair(db) -> Pair:
    """Return tables with a row of two values that together exceed max_allowed_packet."""
    db.set_global("max_allowed_packet", 4 << 20)
    with connect(connection_options(db), database=db.name, role="fill") as session:
        packet = int(session.query("SELECT @@max_allowed_packet")[0][0])
        session.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT, w LONGTEXT)")
        large = int(packet * 0.6)
        session.execute(f"INSERT INTO t VALUES (1, REPEAT('a', {large}), REPEAT('b', {large}))")
        session.execute(f"INSERT INTO t VALUES (2, REPEAT('a', {large}), 'b')")
    return Pair(db).copy()
