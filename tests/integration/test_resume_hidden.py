"""Changes whose rows are not in the binlog end a run; the same command goes on and compares all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spirit_py.errors import HiddenChange, UnreadableChange
from tests.kits.migrate import Migrating, config_for
from tests.kits.resume import assert_nothing_left
from tests.kits.tables import tables

if TYPE_CHECKING:
    from spirit_py.spark.gang import GangEngine
    from tests.fixtures.mysql import Database

ROWS = 3000
TEXT = "SET SESSION binlog_format = STATEMENT"
MINIMAL = "SET SESSION binlog_row_image = MINIMAL"
NOBLOB = "SET SESSION binlog_row_image = NOBLOB"
PARTIAL = "SET SESSION binlog_row_value_options = PARTIAL_JSON"
ALTERS = {
    "plain": "ADD z INT NOT NULL DEFAULT 5",
    "unique": "ADD z INT NOT NULL DEFAULT 5, ADD UNIQUE (u)",
}
HIDDEN = {
    "insert": f"{TEXT}; INSERT INTO t VALUES (9000, 9000, 'in text', '{{}}')",
    "update": f"{TEXT}; UPDATE t SET b = 'in text' WHERE id BETWEEN 5 AND 9",
    "delete": f"{TEXT}; DELETE FROM t WHERE id BETWEEN 5 AND 9",
    "minimal": f"{MINIMAL}; UPDATE t SET b = 'minimal' WHERE id = 5",
    "minimal delete": f"{MINIMAL}; DELETE FROM t WHERE id = 5",
    "noblob": f"{NOBLOB}; UPDATE t SET u = 7777 WHERE id = 5",
    "partial": f"{PARTIAL}; UPDATE t SET j = JSON_SET(j, '$.a', 2) WHERE id = 5",
}
COLUMNS = "id, u, b, CAST(j AS CHAR)"


def make(db: Database) -> None:
    """Make a table with a column of each kind that an image may leave out."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, u INT, b LONGTEXT, j JSON)")
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
        f' {ROWS}) SELECT i, i, CONCAT(\'row \', i), \'{{"a": 1, "b": "some more text"}}\' FROM n'
    )
    db.execute("ANALYZE TABLE t")


def begin(engine: GangEngine, db: Database, alter: str, **config: bool) -> Migrating:
    """Begin the migration, or carry it on."""
    given = {"table": "t", "alter": alter, "no_shortcut": True}
    return Migrating(engine, config_for(db, **given, **config))


def write(db: Database, sql: str) -> None:
    """Run statements in a session of their own."""
    session = db.connect()
    with session.cursor() as cursor:
        for statement in sql.split("; "):
            cursor.execute(statement)
    session.close()


def stopped_by(engine: GangEngine, db: Database, alter: str, sql: str) -> HiddenChange:
    """Run until the comparison is over, write, and give what that ended the run with."""
    make(db)
    run = begin(engine, db, alter, defer_cutover=True)
    run.wait_until(lambda: "_t_snt" in tables(db), "sentinel")
    write(db, sql)
    with pytest.raises(HiddenChange) as raised:
        run.end()
    assert "run the same command again" in raised.value.hint
    assert tables(db) == ["_t_chkpnt", "_t_new", "_t_snt", "t"]
    return raised.value


def assert_equal(db: Database, run: Migrating, rows: list[tuple[object, ...]]) -> None:
    """The second run ended well, and the table holds the source's rows."""
    report = run.end()
    assert (report.outcome, report.runs) == ("done", 2)
    assert report.rows_copied_before == ROWS
    assert db.query(f"SELECT {COLUMNS} FROM t ORDER BY id") == rows
    assert [int(row[0]) for row in db.query("SELECT DISTINCT z FROM t")] == [5]
    assert_nothing_left(db)


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("sql", HIDDEN.values(), ids=HIDDEN)
def test_what_was_hidden_is_found_by_the_checksum(
    db: Database, engine: GangEngine, sql: str
) -> None:
    """R13: the copy stays, the same command passes over what was hidden and compares every row."""
    error = stopped_by(engine, db, ALTERS["plain"], sql)
    assert f"{db.name}.t" in str(error)
    rows = db.query(f"SELECT {COLUMNS} FROM t ORDER BY id")
    db.execute("DROP TABLE _t_snt")
    run = begin(engine, db, ALTERS["plain"])
    assert_equal(db, run, rows)
    assert run.report is not None
    assert run.report.differences_found > 0, run.told.text


@pytest.mark.slow
def test_a_stale_row_blocks_no_other_row(db: Database, engine: GangEngine) -> None:
    """R13, R21: a row left by a hidden delete does not conflict with others in a new unique key."""
    alter = ALTERS["unique"]
    stopped_by(engine, db, alter, HIDDEN["delete"])
    write(db, "INSERT INTO t VALUES (9001, 5, 'takes the value', NULL)")
    rows = db.query(f"SELECT {COLUMNS} FROM t ORDER BY id")
    db.execute("DROP TABLE _t_snt")
    assert_equal(db, begin(engine, db, alter), rows)


@pytest.mark.slow
def test_a_hidden_change_of_the_same_run_stops_it(db: Database, engine: GangEngine) -> None:
    """R13: only what was committed before a run began is passed over in it."""
    alter = ALTERS["plain"]
    stopped_by(engine, db, alter, HIDDEN["update"])
    again = begin(engine, db, alter)
    again.wait_until(lambda: "changes that are not in the binlog" in again.told.text, "comparison")
    again.wait_until(lambda: "checksum of" in again.told.text and "clean" in again.told.text, "end")
    write(db, HIDDEN["minimal"])
    with pytest.raises(HiddenChange):
        again.end()
    rows = db.query(f"SELECT {COLUMNS} FROM t ORDER BY id")
    db.execute("DROP TABLE _t_snt")
    report = begin(engine, db, alter).end()
    assert (report.outcome, report.runs) == ("done", 3)
    assert db.query(f"SELECT {COLUMNS} FROM t ORDER BY id") == rows


@pytest.mark.slow
def test_without_repair_nothing_is_passed_over(db: Database, engine: GangEngine) -> None:
    """R13: what could not be put right is not passed over; the copy stays."""
    alter = ALTERS["plain"]
    stopped_by(engine, db, alter, HIDDEN["update"])
    with pytest.raises(HiddenChange, match="STATEMENT format") as raised:
        begin(engine, db, alter, no_repair=True).end()
    assert "without --no-repair" in raised.value.hint
    assert tables(db) == ["_t_chkpnt", "_t_new", "_t_snt", "t"]


def test_a_hidden_write_of_an_xa_transaction_is_final(db: Database, engine: GangEngine) -> None:
    """R8, R13: it may be decided behind the comparison, so that it is never passed over."""
    make(db)
    run = begin(engine, db, ALTERS["plain"], defer_cutover=True)
    run.wait_until(lambda: "_t_snt" in tables(db), "sentinel")
    write(db, f"{TEXT}; XA START 'x'; UPDATE t SET b = 'x'; XA END 'x'; XA PREPARE 'x'")
    write(db, "XA COMMIT 'x'")
    with pytest.raises(UnreadableChange) as raised:
        run.end()
    assert not raised.value.resumable
