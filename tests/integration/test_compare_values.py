"""Values that a target cannot hold, or that do not travel as text: found, named, and repaired."""

from __future__ import annotations

import pytest

from spirit_py.checksum.render import _IN_UNICODE
from spirit_py.errors import ValueLost
from spirit_py.mysql.connect import connect
from spirit_py.units import human_count
from tests.kits.checksum import Pair
from tests.kits.compare import Comparison
from tests.kits.connection import connection_options

TEXT = "_utf8mb4 X'E697A5E69CAC'"


def tables(db, old, new, source, target):
    """Create ``a`` and ``b`` with a column ``v`` of these types beside a number, and fill them."""
    for table, kind, values in (("a", old, source), ("b", new, target)):
        db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v {kind} NULL, z INT)")
        for number, value in enumerate(values, 1):
            db.execute(f"INSERT INTO {table} VALUES ({number}, {value}, 1)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("VARCHAR(20) CHARSET utf8mb4", "VARCHAR(20) CHARSET latin1", f"{TEXT}: '??'"),
        ("TEXT CHARSET utf8mb4", "MEDIUMTEXT CHARSET ascii", "'€ é': '? ?'"),
        ("VARCHAR(20) CHARSET utf8mb4", "CHAR(20) CHARSET latin1", f"{TEXT}: '??'"),
        ("ENUM('日', 'b?')", "VARCHAR(9) CHARSET latin1", "'日': '?'"),
        ("VARCHAR(20) CHARSET utf8mb4", "ENUM('?', 'b?') CHARSET latin1", "'日': '?'"),
        ("VARCHAR(9) CHARSET utf16", "VARCHAR(9) CHARSET cp1251", "'é': '?'"),
        ("VARCHAR(9) CHARSET cp1251", "VARCHAR(9) CHARSET utf8mb4", "_cp1251 X'98': '?'"),
        ("VARCHAR(9) CHARSET utf8mb4", "VARCHAR(9) CHARSET utf8mb3", "'😀': '?'"),
    ],
)
def test_a_character_that_the_target_does_not_have_is_a_difference(db, old, new, lost):
    """A question mark in its place is a difference; one that was there before is none."""
    source, _, target = lost.partition(": ")
    tables(db, old, new, [source, "'b?'", "NULL"], [target, "'b?'", "NULL"])
    assert Comparison(db).differs().details == ("row (1) is changed in v",)
    db.execute(f"UPDATE b SET v = NULL WHERE id = 1; UPDATE b SET v = {target} WHERE id = 3")
    assert len(Comparison(db).differs().details) == 2
    db.execute("UPDATE b SET v = NULL WHERE id = 3; UPDATE a SET v = 'b?' WHERE id = 1")
    assert Comparison(db).differs().details == ("row (1) is changed in v",)
    db.execute("UPDATE b SET v = 'b?' WHERE id = 1")
    assert Comparison(db).run().outcome == "equal"


def test_a_row_whose_key_the_target_cannot_spell_is_missing(db):
    """Its row is missing, although another row's key is the question marks it would become."""
    for table, charset in (("a", "utf8mb4"), ("b", "latin1")):
        db.execute(f"CREATE TABLE {table} (k VARCHAR(9) CHARSET {charset} PRIMARY KEY, z INT)")
    db.execute("INSERT INTO a VALUES ('日本', 1), ('本日', 1), ('é', 1), ('x', 1)")
    db.execute("INSERT INTO b VALUES ('??', 1), ('é', 1), ('x', 2)")
    assert sorted(Comparison(db).differs().details) == [
        "row ('x') is changed in z",
        "row ('日本') is missing",
        "row ('本日') is missing",
        "row (_latin1 X'3f3f') is extra",
    ]


def test_a_question_mark_in_a_new_table_is_found(db):
    """A migration's own checksum finds it, and says which column cannot hold which row."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARSET utf8mb4)")
    db.execute("INSERT INTO t VALUES (1, 'ab'), (2, 'é?')")
    pair = Pair(db, "MODIFY v VARCHAR(9) CHARSET latin1").copy()
    assert pair.check().differences == 0
    db.execute(f"UPDATE t SET v = {TEXT} WHERE id = 1; UPDATE _t_new SET v = '??' WHERE id = 1")
    assert [str(each) for each in pair.check().examples] == ["row (1) is changed in v"]
    with pytest.raises(ValueLost, match=r"column v of .*\._t_new") as raised:
        pair.repair()
    assert raised.value.details == ("row (1) is changed in v",)


def test_a_converted_value_that_does_not_fit_names_column_and_row(db):
    """Also where the checksum converts through tables of its own, which are not named."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    db.execute("INSERT INTO t VALUES (1, '1'), (2, '2')")
    pair = Pair(db, "MODIFY v INT").copy()
    db.execute("UPDATE t SET v = 'abc' WHERE id = 2")
    with pytest.raises(ValueLost, match="column v of") as raised:
        pair.repair()
    assert raised.value.details == ("row (2) is changed in v",)
    assert "_spirit_py" not in raised.value.message


def test_every_code_of_a_whitelisted_character_set_is_unicode(db):
    """All codes of theirs are characters of Unicode."""
    octets = ", ".join(f"({n}, X'{n:02X}')" for n in range(256))
    for charset in sorted(_IN_UNICODE - {"ascii", "utf8mb3"}):
        db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(3) CHARSET {charset})")
        db.execute(f"INSERT INTO t VALUES {octets}")
        lost = "SELECT id FROM t WHERE CONVERT(v USING utf8mb4) = '?' AND HEX(v) <> '3F'"
        assert db.query(lost) == [], charset
        db.execute("DROP TABLE t")


UNFIT = {
    "text to int": ("VARCHAR(20)", "INT", "'abc'", "0", "'7'", "7"),
    "text to decimal": ("VARCHAR(20)", "DECIMAL(5,1)", "'12:30'", "12", "'1.2'", "1.2"),
    "out of range": ("BIGINT", "TINYINT", "300", "127", "7", "7"),
    "too long": ("VARCHAR(20)", "CHAR(2)", "'abc'", "'ab'", "'xy'", "'xy'"),
    "enum": ("ENUM('a','b','c')", "ENUM('a','b')", "'c'", "NULL", "'b'", "'b'"),
    "enum reordered": ("ENUM('a','b','c')", "ENUM('b','a')", "'c'", "NULL", "'b'", "'b'"),
    "set": ("SET('a','b','c')", "SET('c','b')", "'a,b'", "'b'", "'b,c'", "'c,b'"),
    "enum of numbers": ("ENUM('0','1','2')", "ENUM('0','1')", "'2'", "'1'", "'0'", "'0'"),
    "set of numbers": ("SET('1','2','3')", "SET('1','2')", "'3'", "'1,2'", "'1'", "'1'"),
    "text to json": ("VARCHAR(20)", "JSON", "'{'", "NULL", "'[1]'", "'[1]'"),
    "json to text": ("JSON", "TEXT CHARSET latin1", """'["日"]'""", "'[]'", "'[1]'", "'[1]'"),
    "blob to text": ("BLOB", "TEXT", "X'FF'", "'?'", "X'61'", "'a'"),
    "text to date": ("VARCHAR(20)", "DATE", "'2024-13-01'", "NULL", "'2024-01-02'", "'2024-01-02'"),
    "float to decimal": ("DOUBLE", "DECIMAL(3,1)", "1e9", "99.9", "1.5", "1.5"),
    "geometry": (
        "GEOMETRY",
        "POINT",
        "ST_GeomFromText('LINESTRING(0 0, 1 1)')",
        "NULL",
        "ST_GeomFromText('POINT(1 1)')",
        "ST_GeomFromText('POINT(1 1)')",
    ),
    "vector": ("VARBINARY(20)", "VECTOR(2)", "X'00'", "NULL", "X'0000803F'", "X'0000803F'"),
}


@pytest.mark.slow
@pytest.mark.draws(6)
@pytest.mark.parametrize("name", UNFIT)
def test_a_value_that_the_targets_type_cannot_hold_is_a_difference(db, name):
    """It is a difference in its column, and every other row has its verdict.

    A repair mends the others, leaves the target's row alone, and names it.
    """
    old, new, unfit, made_of_it, value, converted = UNFIT[name]
    source = [value, unfit, value, "NULL", unfit, value, value]
    target = [converted, made_of_it, converted, "NULL", "NULL", converted, converted]
    tables(db, old, new, source, target)
    unchanged = [f"row ({number}) is changed in v" for number in (2, 5)]
    assert Comparison(db).differs().details == tuple(unchanged)
    db.execute("UPDATE b SET z = 2, v = NULL WHERE id = 3; DELETE FROM b WHERE id = 6")
    db.execute("UPDATE b SET z = 2 WHERE id = 5; INSERT INTO b VALUES (8, NULL, 1)")
    assert Comparison(db).differs().details == (
        unchanged[0],
        "row (3) is changed in v, z",
        "row (5) is changed in v, z",
        "row (6) is missing",
        "row (8) is extra",
    )
    rows = "SELECT id, CAST(v AS BINARY), z FROM b WHERE id IN (2, 5)"
    before = db.query(rows)
    comparison = Comparison(db)
    error = comparison.differs(repair=True)
    assert error.details == (unchanged[0], "row (5) is changed in v, z")
    assert db.query(rows) == before
    said = "\n".join(comparison.said.lines)
    assert "warning: row (2) is not repaired" in said
    assert "does not fit into" in said
    assert "warning: row (5) is not repaired" in said


@pytest.mark.parametrize("unfit", [1, 2])
def test_a_value_that_does_not_fit_leaves_the_time_that_is_its_rows_key(db, unfit):
    """Where the server updates the first TIMESTAMP of a table by itself."""
    db.set_global("explicit_defaults_for_timestamp", "OFF")
    for table, kind in (("a", "VARCHAR(9)"), ("b", "INT")):
        db.execute(f"CREATE TABLE {table} (k TIMESTAMP DEFAULT '2020-01-01' PRIMARY KEY, v {kind})")
    db.execute("INSERT INTO b VALUES ('2024-01-01', 1), ('2024-01-02', 2), ('2024-01-03', 3)")
    db.execute(f"INSERT INTO a SELECT k, IF(v > {unfit}, v, 'abc') FROM b")
    key = "TIMESTAMP'2024-01-0{} 00:00:00+00:00'"
    details = [f"row ({key.format(day)}) is changed in v" for day in (1, 2)]
    assert Comparison(db).differs().details == tuple(details[:unfit])


def test_more_digits_than_the_targets_type_has_are_a_difference(db):
    """DECIMAL(65) holds 65 digits before the point, and DECIMAL(65, 30) only 35."""
    values = ["1", "1" + "0" * 35, "NULL"]
    tables(db, "DECIMAL(65)", "DECIMAL(65, 30)", values, ["1", "9" * 35, "NULL"])
    assert Comparison(db).differs().details == ("row (2) is changed in v",)


@pytest.mark.slow
def test_many_values_that_do_not_fit_are_found_in_few_statements(db):
    """Several columns of thousands of rows: the server's warnings say which, in few statements."""
    tables(db, "VARCHAR(20)", "INT", [], [])
    for table, kind in (("a", "VARCHAR(20)"), ("b", "DATE")):
        db.execute(f"ALTER TABLE {table} ADD w {kind} NULL")
    db.execute("SET SESSION cte_max_recursion_depth = 5000")
    numbers = "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 5000)"
    db.execute(
        f"INSERT INTO a {numbers} SELECT i, IF(i % 7, 'abc', i), 1,"
        " IF(i % 5, 'never', '2024-01-01') FROM s"
    )
    db.execute(f"INSERT INTO b {numbers} SELECT i, IF(i % 7, 0, i), 1, '2024-01-01' FROM s")
    comparison = Comparison(db)
    error = comparison.differs()
    fitting = sum(1 for i in range(1, 5001) if i % 35 == 0)
    assert f"{human_count(5000 - fitting)} rows differ" in error.message
    assert error.details[4] == "row (5) is changed in v"
    assert error.details[6] == "row (7) is changed in w"


LOOKS_LIKE_TEXT = (
    "CAST(1 AS UNSIGNED)",
    "CAST(5000000000 AS SIGNED)",
    "JSON_ARRAY(1.50, CAST(7 AS DECIMAL(9, 0)), 1.5e0, 7, NULL, TRUE)",
    "JSON_OBJECT('a', CAST('2024-01-02' AS DATE), 'b', JSON_ARRAY(CAST('01:02:03' AS TIME(2))))",
    "JSON_OBJECT('ab', CAST('2024-01-02 03:04:05.6' AS DATETIME(3)), 'c', X'00FF')",
    "JSON_ARRAY('[1]', JSON_OBJECT('k', CAST(2 AS UNSIGNED), 'é', '\"'), REPEAT(X'AB', 300))",
    "CAST(1.25 AS JSON)",
    "14.809999999999999e0",
    "JSON_ARRAY(14.809999999999999e0, -0e0, 5e-324, 1.7976931348623157e308, 1e22, 'x', TRUE, NULL)",
    "JSON_OBJECT('n', JSON_OBJECT('n', 2.2250738585072014e-308, 'i', -7), 's', 0.1e0)",
    "'null'",
)


#: Values of columns, which a document keeps with the column's type.
FROM_COLUMNS = {
    "ts": ("TIMESTAMP(3) NULL", "'2024-01-02 03:04:05.678'"),
    "b": ("BIT(9)", "5"),
    "tb": ("TINYBLOB", "'a'"),
    "bl": ("BLOB", "'b'"),
    "mb": ("MEDIUMBLOB", "'c'"),
    "lb": ("LONGBLOB", "'d'"),
    "bi": ("BINARY(4)", "'e'"),
    "vb": ("VARBINARY(4)", "'f'"),
    "y": ("YEAR", "1999"),
    "f": ("FLOAT", "0.1"),
    "d": ("DECIMAL(30, 2)", "1.5"),
    "u": ("BIGINT UNSIGNED", "7"),
    "t": ("TIME(1)", "'-10:00:00.5'"),
}


@pytest.mark.slow
def test_documents_keep_their_types_between_servers(db, db_file):
    """A repair of a row writes its JSON as it was, and what could not be carried is named."""
    for each in (db, db_file):
        each.execute("CREATE TABLE a (id INT PRIMARY KEY, j JSON, z INT)")
        for number, document in enumerate(LOOKS_LIKE_TEXT, 1):
            each.execute(
                f"INSERT INTO a SELECT {number}, JSON_EXTRACT(JSON_ARRAY({document}), '$[0]'), 1"
                " FROM (SELECT 0 n) one"
            )
    db_file.execute("UPDATE a SET z = 2; DELETE FROM a WHERE id > 4")
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in FROM_COLUMNS.items())
    db.execute(f"CREATE TABLE c ({columns})")
    db.execute(f"INSERT INTO c VALUES ({', '.join(value for _, value in FROM_COLUMNS.values())})")
    db.execute(f"INSERT INTO a SELECT 99, JSON_ARRAY({', '.join(FROM_COLUMNS)}), 1 FROM c")
    report = Comparison(db, db_file).run(repair=True)
    assert (report.outcome, report.differences) == ("repaired", len(LOOKS_LIKE_TEXT) + 1)


def test_sessions_write_where_the_server_begins_them_read_only(db):
    """Sessions for the ALTER itself may write all the same."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    db.set_global("transaction_read_only", "ON")
    for native in (True, False):
        with connect(
            connection_options(db), database=db.name, role="ddl", native=native
        ) as session:
            assert session.value("SELECT @@transaction_read_only") == 0
            session.execute(f"ALTER TABLE t ADD COLUMN c{int(native)} INT")


def test_a_repair_computes_times_as_the_server_does(db):
    """A stored date of an instant has the server's day, with which its own sessions write it."""
    db.set_global("time_zone", "+09:00")
    db.execute("SET SESSION time_zone = '+09:00'")
    day = "g DATE AS (DATE(at)) STORED, h DECIMAL(9, 6) AS (id / 7) STORED"
    db.set_global("div_precision_increment", 1)
    db.execute("SET SESSION div_precision_increment = 1")
    for table in ("a", "b"):
        db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, at TIMESTAMP, n INT, {day})")
        db.execute(f"INSERT INTO {table} (id, at, n) VALUES (1, '2024-05-01 03:00:00', 1)")
    db.execute("UPDATE b SET n = 2")
    report = Comparison(db).run(repair=True)
    assert (report.outcome, report.differences) == ("repaired", 1)
    rows = "SELECT id, n, CAST(at AS CHAR), CAST(g AS CHAR), CAST(h AS CHAR) FROM {}"
    assert db.query(rows.format("b")) == db.query(rows.format("a"))


def test_a_division_by_zero_is_no_difference(db):
    """Of a value that is computed on one side, and stored on the other; as NULL is NULL."""
    db.execute("CREATE TABLE a (id INT PRIMARY KEY, n INT, r DECIMAL(9, 4) AS (id / n))")
    db.execute("CREATE TABLE b (id INT PRIMARY KEY, n INT, r DECIMAL(9, 4))")
    db.execute("SET SESSION sql_mode = ''; INSERT INTO a (id, n) VALUES (1, 0), (2, 4)")
    db.execute("INSERT INTO b VALUES (1, 0, NULL), (2, 4, 0.5)")
    assert Comparison(db).run().outcome == "equal"


def test_fractions_are_cut_where_the_server_cuts_them(db):
    """Under TIME_TRUNCATE_FRACTIONAL a native ALTER cuts what it rounds under other modes."""
    modes = "STRICT_TRANS_TABLES,TIME_TRUNCATE_FRACTIONAL"
    db.set_global("sql_mode", modes)
    db.execute(f"SET SESSION sql_mode = '{modes}'")
    tables(db, "DATETIME(6)", "DATETIME(6)", *([["'2024-05-01 03:00:00.9'", "NULL"]] * 2))
    db.execute("ALTER TABLE b MODIFY v DATETIME, ADD g DATE AS (DATE(v))")
    db.execute("ALTER TABLE a ADD g DATE AS (DATE(v))")
    assert Comparison(db).run().outcome == "equal"
