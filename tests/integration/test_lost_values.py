"""Rows that the server refuses, each by its own error; copy and feed know the same ones (R10)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import MySQLdb
import pytest

from spirit_py.applier import workers
from spirit_py.checksum import staging as stager
from spirit_py.copier.task import ChunkWriter, JoinCopy
from spirit_py.errors import MigrationFailure, ServerFault, ValueLost
from spirit_py.mysql.connect import connect
from spirit_py.mysql.lost_values import MOST_WARNINGS, VALUE_ERRORS, telling
from tests.kits.chunks import chunk
from tests.kits.command import run_here
from tests.kits.connection import connection_options
from tests.kits.tables import map_table

ARRAY = "v JSON, KEY k ((CAST(v AS UNSIGNED ARRAY)))"
WKT = "v VARCHAR(30), w DOUBLE AS (ST_Length(ST_GeomFromText(v, 4326)))"
#: Columns, a value of ``v``, and the errors of the versions.
REFUSED: dict[str, tuple[str, str, set[int]]] = {
    "null": ("v INT NOT NULL", "NULL", {1048}),
    "null geometry": ("v GEOMETRY NOT NULL", "NULL", {1048, 3673}),
    "range": ("v TINYINT", "300", {1264}),
    "member": ("v ENUM('a')", "'b'", {1265}),
    "date": ("v DATE", "'x'", {1292}),
    "number": ("v INT", "'x'", {1366}),
    "character": ("v VARCHAR(9) CHARACTER SET latin1", "_utf8mb4 X'F09F9880'", {1366, 3854}),
    "double": ("v DECIMAL(3)", "1e999", {1367}),
    "length": ("v CHAR(1)", "'ab'", {1406}),
    "function": ("v CHAR(9), w DATE AS (STR_TO_DATE(v, '%Y')) STORED", "'x'", {1411}),
    "geometry": ("v POINT", "'ab'", {1416}),
    "late date": (
        "v DATE, w DATE AS (v + INTERVAL 8000 YEAR) STORED",
        "'2024-01-01'",
        {1441, 6527},
    ),
    "partition": ("v INT) PARTITION BY RANGE (v) (PARTITION p VALUES LESS THAN (5)", "9", {1526}),
    "expression": ("v BIGINT, w BIGINT AS (v * 2) STORED", "9223372036854775807", {1690}),
    "geometry text": (f"{WKT} STORED", "'x'", {3037}),
    "latitude": (f"{WKT} STORED", "'LINESTRING(0 0, 900 0)'", {3617, 3732}),
    "json": ("v JSON", "'{'", {3140}),
    "json text": ("v CHAR(9), w CHAR(9) AS (JSON_EXTRACT(v, '$.a')) STORED", "'{'", {3141}),
    "json of binary": ("v JSON", "X'FF'", {3144}),
    "json key": ("v JSON", "JSON_OBJECT(REPEAT('a', 70000), 1)", {3151}),
    "json number": ("v JSON, w INT AS (CAST(v AS SIGNED)) STORED", "'\"a\"'", {3156}),
    "json depth": ("v JSON", "CONCAT(REPEAT('[', 101), REPEAT(']', 101))", {3157}),
    "srid": ("v POINT SRID 4326", "ST_GeomFromText('POINT(1 1)', 0)", {3643}),
    "key": ("v CHAR(9), KEY k ((CAST(v AS SIGNED)))", "'x'", {1292, 3751}),
    "key range": (ARRAY, "'[-1]'", {3752, 3904}),
    "check": ("v INT CHECK (v < 5)", "9", {3819}),
    "array": (ARRAY, "'[\"a\"]'", {3903}),
    "array number": (ARRAY, "CONCAT('[', REPEAT('1, ', 70000), '2]')", {3905, 3906}),
    "array length": ("v JSON, KEY k ((CAST(v AS CHAR(2) ARRAY)))", "'[\"abcd\"]'", {3907}),
    "vector": ("v VECTOR(3)", "1", {6136}),
    "text vector": ("v CHAR(9), w VECTOR(2) AS (TO_VECTOR(v)) STORED", "'x'", {6138}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_server_refuses_is_a_lost_value(db, name):
    """Every error that a row gives is in the list, by whichever function a version gives it."""
    columns, value, codes = REFUSED[name]
    db.execute(f"CREATE TABLE t ({columns})")
    with (
        connect(connection_options(db), database=db.name, role="test") as session,
        pytest.raises(ServerFault) as refused,
    ):
        session.execute(f"INSERT INTO t (v) VALUES ({value})")
    assert refused.value.code in codes
    assert refused.value.code in VALUE_ERRORS


@pytest.mark.parametrize("code", sorted(VALUE_ERRORS))
def test_copy_and_feed_judge_alike(db, code):
    """Both take the error for a lost value, and name the column."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    fault = ServerFault(code, "Value of column 'v' at row 1", where="a session")
    mapping = map_table(db)
    session: Any = SimpleNamespace(id=1)
    writer = ChunkWriter(JoinCopy(connection=connection_options(db), mapping=mapping), session)
    copied = writer._explained(chunk(1, None, None), 0, fault)
    fed = workers.judge_fault(fault, mapping)
    assert isinstance(copied, ValueLost)
    assert isinstance(fed, ValueLost)
    assert stager._about_a_value(fault)


ROUNDED = (
    "CREATE TABLE t (c INT PRIMARY KEY, n INT, d DECIMAL(10,5), v DECIMAL(20,3) AS (c / 7) STORED,"
    " w DECIMAL(20,3) AS (c / 7), KEY k (w))"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "alter", ["ADD x INT", "ADD x DECIMAL(9,1) AS (c / 3) STORED, MODIFY n VARCHAR(20)"]
)
def test_a_rounded_generated_column_is_no_loss(db, alter):
    """The server notes it at every INSERT, and a native ALTER succeeds: so do copy and feed."""
    db.execute(ROUNDED)
    db.execute("INSERT INTO t (c, n) VALUES (1, 10), (2, 20)")
    done = run_here(db, "migrate", "--no-shortcut", "--alter", alter)
    assert done.returncode == 0, done.stderr
    assert db.query("SELECT CAST(v AS CHAR) FROM t ORDER BY c") == [("0.143",), ("0.286",)]


@pytest.mark.slow
def test_a_rounded_plain_column_is_one_behind_many_notes(db):
    """Notes about a generated column hide none about a column that is carried over."""
    db.execute("SET SESSION cte_max_recursion_depth = 10000")
    db.execute(ROUNDED)
    db.execute(
        "INSERT INTO t (c, d) WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i"
        " WHERE n < 3000) SELECT n, IF(n = 2999, 1.23456, 1.5) FROM i"
    )
    done = run_here(db, "migrate", "--no-shortcut", "--alter", "MODIFY d DECIMAL(10,2)")
    assert done.returncode == 1
    assert "'d'" in done.stderr


def test_more_warnings_than_are_kept(db):
    """A list that was cut ends the run: what is not seen may be a lost value."""
    db.execute(ROUNDED)
    with connect(connection_options(db), role="test") as session:
        assert session.value("SELECT @@max_error_count") == MOST_WARNINGS
        insert = f"INSERT INTO `{db.name}`.t (c) VALUES "
        session.execute(f"{insert} (1), (2), (3)")
        assert session.warning_count
        assert telling(session, {"v", "w"}) == []
        session.execute(f"{insert} (12)")
        assert telling(session, {"w"})
        session.execute("SET max_error_count = 2")
        session.execute(f"{insert} (8), (9), (10), (11)")
        with pytest.raises(MigrationFailure, match=r"2 of .* were read"):
            telling(session, {"v", "w"})


def test_a_fault_of_the_statement_is_no_lost_value(db):
    """A wrong number of values says nothing about any row."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with pytest.raises(MySQLdb.Error) as caught:
        db.execute("INSERT INTO t VALUES (1, 2)")
    assert caught.value.args[0] not in VALUE_ERRORS
