"""A row that does not fit ends a run; once it is changed in the source, the command goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spirit_py.config import FeedOptions
from spirit_py.errors import ValueLost
from tests.kits.migrate import Migrating, config_for
from tests.kits.resume import assert_nothing_left
from tests.kits.tables import tables
from tests.kits.waiting import until

if TYPE_CHECKING:
    from spirit_py.spark.gang import GangEngine
    from tests.fixtures.mysql import Database

ROWS = 20_000
#: In a chunk with others before it, so that some are copied when it is met.
LAST = 10_000 + ROWS
KEYS = {"int": "INT", "text": "VARCHAR(20) COLLATE utf8mb4_0900_ai_ci"}


def make(db: Database, key: str) -> None:
    """Make a table whose column ``n`` is to become a TINYINT."""
    db.execute(f"CREATE TABLE t (id {key} PRIMARY KEY, n INT)")
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
        f" {ROWS}) SELECT 10000 + i, i MOD 100 FROM n"
    )
    db.execute("ANALYZE TABLE t")


def begin(
    engine: GangEngine, db: Database, alter: str = "MODIFY n TINYINT", **config: bool
) -> Migrating:
    """Begin the migration, or carry it on."""
    given = {"table": "t", "alter": alter, "no_shortcut": True}
    # A deferred swap waits for changes that nothing but the next flush applies.
    given["feed"] = FeedOptions(flush_interval=0.2)
    return Migrating(engine, config_for(db, target_chunk_time=0.01, **given, **config))


def assert_done(db: Database, run: Migrating) -> None:
    """The second run ended well, and the table is what it should be."""
    report = run.end()
    assert (report.outcome, report.runs) == ("done", 2)
    assert report.differences_found == 0, run.told.text
    found = db.query("SELECT COUNT(*), SUM(n) FROM t")[0]
    assert tuple(int(value) for value in found) == (ROWS, sum(i % 100 for i in range(ROWS + 1)))
    assert db.query("SHOW COLUMNS FROM t LIKE 'n'")[0][1] == "tinyint"
    assert_nothing_left(db)


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_copied_row_that_does_not_fit(db: Database, engine: GangEngine, key: str) -> None:
    """R10: the copy stays up to there, the column is named, and the fixed row is copied."""
    make(db, key)
    db.execute(f"UPDATE t SET n = 300 WHERE id = '{LAST}'")
    run = begin(engine, db)
    with pytest.raises(ValueLost, match="'n'") as lost:
        run.end()
    assert "run the same command again" in lost.value.hint
    assert tables(db) == ["_t_chkpnt", "_t_new", "t"]
    db.execute(f"UPDATE t SET n = {ROWS % 100} WHERE id = '{LAST}'")
    again = begin(engine, db)
    assert_done(db, again)
    assert again.report is not None
    assert again.report.rows_copied_before > 0


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_changed_row_that_does_not_fit(db: Database, engine: GangEngine, key: str) -> None:
    """R10: its image stays in the binlog in front of the fixed one, and is passed over there.

    Not before it is fixed: as long as the source has it, each run ends at it.
    """
    make(db, key)
    run = begin(engine, db, defer_cutover=True)
    run.wait_until(lambda: "_t_snt" in tables(db), "sentinel")
    db.execute("UPDATE t SET n = 300 WHERE id = '10005'")
    for _ in range(2):
        with pytest.raises(ValueLost, match="n"):
            run.end()
        assert "_t_new" in tables(db)
        run = begin(engine, db, defer_cutover=True)
    with pytest.raises(ValueLost):
        run.end()
    db.execute("DROP TABLE _t_snt; UPDATE t SET n = 5 WHERE id = '10005'")
    report = begin(engine, db).end()
    assert (report.outcome, report.differences_found) == ("done", 0)
    assert [int(row[0]) for row in db.query("SELECT n FROM t WHERE id = '10005'")] == [5]
    assert int(db.query("SELECT COUNT(*) FROM t")[0][0]) == ROWS
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_new_column_has_one_moment_in_all_runs(db: Database, engine: GangEngine) -> None:
    """R22: the time that a new column gets is that of the migration's beginning, in each run.

    So is the schema, though no session of the program has a default one.
    """
    make(db, "INT")
    db.execute("UPDATE t SET n = 300 WHERE id = 14000")
    alter = (
        "MODIFY n TINYINT, ADD made DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),"
        " ADD home VARCHAR(64) NOT NULL DEFAULT (DATABASE())"
    )
    with pytest.raises(ValueLost):
        begin(engine, db, alter).end()
    copied = db.query("SELECT COUNT(*) FROM _t_new")[0][0]
    assert 0 < copied < ROWS
    later = "SELECT NOW() > MAX(made) + INTERVAL 1 SECOND FROM _t_new"
    until(lambda: db.query(later) == [(1,)], "another second")
    db.execute(f"UPDATE t SET n = {4000 % 100} WHERE id = 14000")
    assert_done(db, begin(engine, db, alter))
    assert db.query("SELECT COUNT(DISTINCT made) FROM t") == [(1,)]
    assert db.query("SELECT DISTINCT home FROM t") == [(db.name,)]
