"""Keys that the ALTER lengthens, shortens or that may be NULL: resumed, reverted, explained."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.applier.applier import SqlApplier
from spirit_py.applier.batch import Bounds, delete_keys
from spirit_py.chunk.sizing import ChunkSizer
from spirit_py.errors import MigrationFailure, NullInKey, Refusal, SpiritError, ValueLost
from spirit_py.mysql.duplicates import ruled_out
from spirit_py.mysql.tables.definition import read_table
from spirit_py.table.values import KeyedChange, RenderedRow
from spirit_py.threads import StopSwitch
from tests.kits.connection import connection_options
from tests.kits.migrate import Migrating, config_for
from tests.kits.resume import Interruption, assert_nothing_left, start
from tests.kits.reverse import SwappedTable
from tests.kits.tables import map_table, open_session, tables

if TYPE_CHECKING:
    from spirit_py.spark.gang import GangEngine
    from tests.fixtures.mysql import Database

ROWS = 6000
CHUNK_ROWS = 100
LONGER = "DROP PRIMARY KEY, ADD PRIMARY KEY (id, i)"


def fill(db: Database, rows: int = ROWS) -> None:
    """Put rows into a table of id, i and v."""
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t (id, i, v) WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n"
        f" WHERE n < {rows}) SELECT n * 2, n MOD 5, n FROM n"
    )
    db.execute("ANALYZE TABLE t")


@pytest.mark.slow
@pytest.mark.parametrize(
    "alter",
    [LONGER, "DROP PRIMARY KEY, ADD PRIMARY KEY (i, id), ADD KEY (id)"],
    ids=["longer", "found by a plain index"],
)
def test_versions_that_changed_between_two_runs_are_there_once(
    db: Database, engine: GangEngine, monkeypatch: Any, alter: str
) -> None:
    """R17: copied rows whose i changed while no run was there are found, with no checksum's help.

    The later chunks write new versions beside copied ones, and the feed removes the older.
    """
    defaults: Any = ChunkSizer.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "first_rows", CHUNK_ROWS)
    # On a quick machine twelve chunks that grow are the whole table.
    monkeypatch.setattr(ChunkSizer, "finished", lambda *_, **__: None)
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, i INT NOT NULL, v INT)")
    fill(db)
    config: Any = {"alter": alter, "target_chunk_time": 0.02}
    Interruption(monkeypatch).at(engine, db, "chunk.committed", 12, **config)
    ((copied,),) = db.query("SELECT COUNT(*) FROM _t_new")
    assert 4 * CHUNK_ROWS < int(copied) < ROWS
    db.execute("UPDATE t SET i = i + 10 WHERE v MOD 7 = 1")
    db.execute("DELETE FROM t WHERE v MOD 7 = 2")
    db.execute("UPDATE t SET id = id + 1, i = i - 1 WHERE v MOD 7 = 3")
    db.execute("UPDATE t SET id = 50000 + id WHERE v MOD 49 = 4")
    expected = set(db.query("SELECT id, i, v FROM t"))
    report = start(engine, db, no_repair=True, **config).end()
    assert (report.runs, report.differences_found) == (2, 0)
    rows = db.query("SELECT id, i, v FROM t")
    assert len(rows) == len(expected)
    assert set(rows) == expected
    assert_nothing_left(db)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "alter"),
    [("id", LONGER), ("id, i", "DROP PRIMARY KEY, ADD PRIMARY KEY (id)")],
    ids=["longer", "shorter"],
)
def test_a_changed_key_goes_back(db: Database, engine: GangEngine, before: str, alter: str) -> None:
    """Reverse replication finds rows by the key the other way round; nothing is repaired."""
    db.execute(f"CREATE TABLE t (id INT, i INT NOT NULL, v INT, PRIMARY KEY ({before}))")
    fill(db, 300)
    changed = SwappedTable(db, alter, engine=engine)
    following = changed.keep()
    db.execute("UPDATE t SET i = i + 10 WHERE v MOD 7 = 1")
    db.execute("UPDATE t SET i = i + 100, id = id + 1 WHERE v MOD 7 < 3")
    db.execute("DELETE FROM t WHERE v MOD 7 = 5")
    db.execute("INSERT INTO t VALUES (9001, 1, 1), (9003, 2, 2)")
    expected = db.query("SELECT id, i, v FROM t ORDER BY id")
    said = changed.revert()
    assert following.result() is True
    assert db.query("SELECT id, i, v FROM t ORDER BY id") == expected
    assert said.said(" 0 chunks repaired")


@pytest.mark.slow
def test_two_rows_of_an_old_key_end_the_way_back_by_name(db: Database, engine: GangEngine) -> None:
    """The new key allows what the old one does not: the revert names the rows, keeps both."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, i INT NOT NULL, v INT)")
    db.execute("INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
    changed = SwappedTable(db, LONGER, engine=engine)
    following = changed.keep()
    db.execute("INSERT INTO t VALUES (2, 3, 3)")
    with pytest.raises(SpiritError, match=r"duplicates|cannot hold together"):
        changed.revert()
    db.execute("DELETE FROM t WHERE i = 2")
    changed.revert()
    assert following.result() is True
    assert db.query("SELECT id, i, v FROM t ORDER BY id") == [(1, 1, 1), (2, 3, 3)]


def test_a_dropped_column_and_a_shortened_key_have_no_way_back(
    db: Database, engine: GangEngine
) -> None:
    """A row of the old table that is written anew would lose what its dropped column had."""
    db.execute("CREATE TABLE t (id INT, i INT NOT NULL, v INT, PRIMARY KEY (id, i))")
    with pytest.raises(Refusal, match="would be written anew"):
        SwappedTable(db, "DROP PRIMARY KEY, ADD PRIMARY KEY (id), DROP COLUMN v", engine=engine)


@pytest.mark.parametrize(
    ("before", "alter", "key"),
    [
        ("id", LONGER, "(7)"),
        ("id", "DROP PRIMARY KEY, ADD PRIMARY KEY (i, id), ADD KEY (id)", "(7)"),
        ("id, v", "DROP PRIMARY KEY, ADD PRIMARY KEY (v, id, i)", "(7, 7)"),
    ],
    ids=["longer", "plain index", "turned"],
)
def test_a_delete_before_a_write_reads_few_rows(
    db: Database, before: str, alter: str, key: str
) -> None:
    """A thousand keys are a thousand ranges of the index, whatever the statistics say."""
    db.execute(f"CREATE TABLE t (id INT, i INT NOT NULL, v INT NOT NULL, PRIMARY KEY ({before}))")
    fill(db)
    mapping = map_table(db, alter)
    db.execute("INSERT INTO _t_new SELECT * FROM t")
    keys = [key.replace("7", str(2 * number)) for number in range(1, 1001)]
    if "," in key:
        keys = [f"({2 * number}, {number})" for number in range(1, 1001)]
    with open_session(db) as session:
        session.execute("FLUSH STATUS")
        for sql in delete_keys(mapping, keys, Bounds(rows=1000, packet=1 << 20)):
            assert session.execute(sql) == len(keys)
        found = session.query("SHOW SESSION STATUS LIKE 'Handler_read%'")
    read = {str(name): int(value) for name, value in found}
    assert read["Handler_read_rnd_next"] == 0
    assert sum(read.values()) < 6 * len(keys)


@pytest.mark.parametrize(
    ("before", "alter"),
    [("id", LONGER), ("id, v", "DROP PRIMARY KEY, ADD PRIMARY KEY (v, id, i)")],
    ids=["longer", "turned"],
)
def test_a_batch_in_order_leaves_the_last_version_and_reads_few_rows(
    db: Database, before: str, alter: str
) -> None:
    """Of several versions of a key in one batch only the server knows the last one (R6)."""
    db.execute(f"CREATE TABLE t (id INT, i INT NOT NULL, v INT NOT NULL, PRIMARY KEY ({before}))")
    fill(db)
    mapping = map_table(db, alter)
    db.execute("INSERT INTO _t_new SELECT * FROM t")
    key = "({0}, {1})" if "," in before else "({0})"
    changes = [
        KeyedChange(key.format(2 * n, n), RenderedRow(f"({2 * n}, {version}, {n})"))
        for version in (50, 70, 60)
        for n in range(1, 101)
    ]
    changes += [KeyedChange(key.format(2 * n, n), None) for n in range(1, 11)]
    options = connection_options(db)
    applier = SqlApplier(options, sessions=1, batch_rows=1000, stop=StopSwitch())
    with open_session(db) as session:
        session.execute("FLUSH STATUS")
        applier.write_in_order(mapping, changes, session)
        found = session.query("SHOW SESSION STATUS LIKE 'Handler_read_rnd_next'")
    assert int(found[0][1]) < ROWS / 2
    rows = db.query("SELECT id, i, v FROM _t_new WHERE v <= 100 ORDER BY v")
    assert rows == [(2 * n, 60, n) for n in range(11, 101)]
    assert db.query("SELECT COUNT(*) FROM _t_new") == [(ROWS - 10,)]


@pytest.mark.parametrize(
    ("alter", "delete", "write"),
    [
        # One statement each.
        ("MODIFY v BIGINT", 1, 1),
        # Notes off and on again.
        ("ADD z INT NOT NULL DEFAULT 5", 3, 3),
        # DROP, CREATE and INSERT for the stage, between two changes of the mode; REPLACE, DROP.
        ("MODIFY i VARCHAR(20) NOT NULL", 1, 7),
        # One transaction: autocommit off, DELETE, REPLACE, COMMIT, autocommit on.
        (LONGER, 1, 5),
    ],
    ids=["same key", "a new column", "converted", "longer"],
)
def test_a_batch_costs_no_more_statements_than_it_must(
    db: Database, alter: str, delete: int, write: int
) -> None:
    """Only a longer key needs a transaction; a staging table sets its mode once."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, i INT NOT NULL, v INT)")
    fill(db, 100)
    mapping = map_table(db, alter)
    rows = [RenderedRow(f"({n}, {n}, {n})") for n in range(50)]
    keys = [f"({n})" for n in range(50)]
    options = connection_options(db)
    applier = SqlApplier(options, sessions=1, batch_rows=1000, stop=StopSwitch())

    def asked(session: Any) -> int:
        # The question itself counts, once in each difference.
        return int(session.query("SHOW SESSION STATUS LIKE 'Questions'")[0][1])

    with open_session(db) as session:
        # The largest packet is asked once in a session.
        applier._bounds(session)
        before = asked(session)
        applier.upsert_rows(mapping, rows, session, keys)
        written = asked(session)
        applier.delete_keys(mapping, keys, session)
        assert (written - before - 1, asked(session) - written - 1) == (write, delete)


def test_an_earlier_version_stays_where_the_later_one_does_not_fit(db: Database) -> None:
    """R21: through a staging table too, the delete and the write are one transaction."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, i INT NOT NULL, v INT)")
    mapping = map_table(db, f"MODIFY v TINYINT, MODIFY i VARCHAR(20) NOT NULL, {LONGER}")
    db.execute("INSERT INTO _t_new VALUES (1, '1', 1)")
    options = connection_options(db)
    applier = SqlApplier(options, sessions=1, batch_rows=1000, stop=StopSwitch())
    with open_session(db) as session, pytest.raises(ValueLost):
        applier.upsert_rows(mapping, [RenderedRow("(1, 2, 300)")], session, ["(1)"])
    assert db.query("SELECT id, i, v FROM _t_new") == [(1, "1", 1)]


@pytest.mark.slow
def test_a_null_in_the_key_stops_the_run_and_the_next_one_carries_on(
    db: Database, engine: GangEngine
) -> None:
    """The copy stays; once the row has a key again the same command compares every row."""
    db.execute("CREATE TABLE t (id INT, i INT NOT NULL, v INT, UNIQUE KEY id (id))")
    fill(db, 3000)
    given: Any = {
        "table": "t",
        "alter": "ADD z INT NOT NULL DEFAULT 5",
        "no_shortcut": True,
        "allow_nullable_unique_key": True,
    }
    run = Migrating(engine, config_for(db, **given, defer_cutover=True))
    run.wait_until(lambda: "_t_snt" in tables(db), "sentinel")
    db.execute("UPDATE t SET id = NULL, v = -1 WHERE id = 10")
    with pytest.raises(NullInKey, match=r"NULL in id, of the key that identifies its rows"):
        run.end()
    assert tables(db) == ["_t_chkpnt", "_t_new", "_t_snt", "t"]
    db.execute("DROP TABLE _t_snt")
    with pytest.raises(NullInKey, match=r"a row of .* has NULL in id"):
        Migrating(engine, config_for(db, **given)).end()
    db.execute("UPDATE t SET id = 11 WHERE id IS NULL")
    rows = db.query("SELECT id, i, v FROM t ORDER BY id")
    report = Migrating(engine, config_for(db, **given)).end()
    assert (report.outcome, report.rows_copied_before) == ("done", 3000)
    assert db.query("SELECT id, i, v FROM t ORDER BY id") == rows
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_null_that_no_binlog_has_is_seen_before_the_comparison(
    db: Database, engine: GangEngine
) -> None:
    """A write with sql_log_bin=0 leaves no trace for the feed: the look finds it (R13)."""
    db.execute("CREATE TABLE t (id INT, i INT NOT NULL, v INT, UNIQUE KEY id (id))")
    fill(db, 1000)
    given: Any = {
        "table": "t",
        "alter": "ADD z INT NOT NULL DEFAULT 5",
        "no_shortcut": True,
        "allow_nullable_unique_key": True,
        "recheck_interval": 1.0,
    }
    run = Migrating(engine, config_for(db, **given, defer_cutover=True))
    run.wait_until(lambda: "_t_snt" in tables(db), "sentinel")
    session = db.connect()
    with session.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute("INSERT INTO t VALUES (NULL, 1, 1)")
    session.close()
    with pytest.raises(MigrationFailure, match="NULL in id"):
        run.end()
    assert "_t_new" in tables(db)


@pytest.mark.parametrize(
    ("clauses", "columns"),
    [
        ("CHECK (id IS NOT NULL)", {"id"}),
        ("CHECK (id IS NOT NULL AND v > 1 AND i IS NOT NULL)", {"id", "i"}),
        ("CHECK (id IS NOT NULL OR v > 1)", set()),
        ("CHECK (id > 0)", set()),
        ("CHECK (id IS NOT NULL) NOT ENFORCED", set()),
        ("CHECK (id IS NOT NULL), CHECK (v IS NOT NULL)", {"id", "v"}),
    ],
)
def test_only_an_enforced_check_that_says_so_rules_null_out(
    db: Database, clauses: str, columns: set[str]
) -> None:
    """A condition that is unknown for NULL lets it pass."""
    db.execute(f"CREATE TABLE t (id INT, i INT, v INT, UNIQUE KEY id (id), {clauses})")
    with open_session(db) as session:
        table = read_table(session, db.name, "t")
        assert table is not None
        assert ruled_out(session, table) == columns
        assert not ruled_out(session, replace(table, name="other"))
