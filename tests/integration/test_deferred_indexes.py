"""Secondary indexes that are built after the copy: exactly as they were, whatever happens."""

from __future__ import annotations

import pytest

from spirit_py.plan import make_plan
from tests.kits import kills
from tests.kits.migrate import config_for, migrate_here
from tests.kits.point_listener import PointListener
from tests.kits.resume import (
    ALTER,
    Interruption,
    Writers,
    assert_nothing_left,
    kill_at,
    make_table,
    start,
)
from tests.kits.tables import tables

COLUMNS = """
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, n INT, s INT AS (n + 2) STORED, v INT AS (n + 1),
  c VARCHAR(60) NOT NULL, w VARCHAR(300), j JSON, g GEOMETRY NOT NULL SRID 0, u INT NOT NULL"""
INDEXES = """
  KEY plain (n), KEY prefix (w(20), n), KEY down (c DESC, n), KEY unseen (n, c) INVISIBLE,
  KEY said (u) COMMENT 'it''s, (a) \\n\\\\ KEY `x` é',
  KEY `odd, ``name(` (u, n), KEY hashed (n) USING HASH,
  KEY sized (c) KEY_BLOCK_SIZE = 4, KEY kept_s (s), KEY wide_one (n, u),
  KEY computed ((n + 1)), KEY kept_v (v), UNIQUE KEY only (u), KEY dropped (u, c),
  KEY renamed (c, u),
  KEY members ((CAST(j->'$.a' AS UNSIGNED ARRAY))), FULLTEXT KEY words (w)"""
CHANGE = (
    "MODIFY n BIGINT, ADD COLUMN z INT DEFAULT 5, ADD INDEX fresh (z, n), DROP INDEX dropped,"
    " RENAME INDEX renamed TO named, ADD UNIQUE INDEX two (id, u), ALTER INDEX unseen VISIBLE"
)


@pytest.fixture
def points(tmp_path):
    """Listen to the points of every run of the test."""
    with PointListener(tmp_path / "points") as listener:
        yield listener


def fill_all_kinds(db, options="", rows=500):
    """Make the table ``t`` with every kind of index, and some rows."""
    db.execute(f"CREATE TABLE t ({COLUMNS}, {INDEXES}) {options}")
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t (n, c, w, j, g, u) WITH RECURSIVE m (i) AS (SELECT 1 UNION ALL SELECT i + 1"
        f" FROM m WHERE i < {rows}) SELECT i * 7 MOD 1000, CONCAT('c', i), CONCAT('w ', i),"
        " JSON_OBJECT('a', JSON_ARRAY(i, i + 1)), POINT(i, i), i FROM m"
    )


def native(db, change):
    """Return the definition that the server itself leaves."""
    db.execute("CREATE TABLE other LIKE t")
    db.execute(f"ALTER TABLE other {change}")
    found = db.query("SHOW CREATE TABLE other")[0][1]
    db.execute("DROP TABLE other")
    return without_counter(found.replace("`other`", "`t`"))


def without_counter(text):
    """Leave the AUTO_INCREMENT counter out."""
    return " ".join(word for word in text.split(" ") if not word.startswith("AUTO_INCREMENT="))


def definition(db):
    """Return the table's definition now."""
    return without_counter(db.query("SHOW CREATE TABLE t")[0][1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        "",
        "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8",
    ],
)
def test_every_kind_of_index_comes_back_as_a_native_alter_leaves_it(db, engine, options):
    """The definition is the same text, and the indexes that stay are not touched."""
    fill_all_kinds(db, options)
    wanted = native(db, CHANGE)
    config = config_for(db, table="t", alter=CHANGE, no_shortcut=True, defer_indexes="on")
    report, told = migrate_here(engine, config)
    assert definition(db) == wanted
    assert report.indexes_deferred == [
        f"{db.name}.t.{name}"
        for name in (
            "plain", "prefix", "down", "unseen", "said", "odd, `name(", "hashed", "sized",
            "kept_s", "wide_one", "named", "fresh",
        )
    ]  # fmt: skip
    assert report.index_build_tries == 1
    assert report.phases["index"] > 0
    assert report.differences_found == 0, told.text
    assert db.query("CHECK TABLE t")[-1][-2:] == ("status", "OK")
    assert_nothing_left(db)


@pytest.mark.slow
def test_indexes_of_a_partitioned_table_come_back(db, engine):
    """One ADD INDEX builds them in every partition."""
    db.execute(
        "CREATE TABLE t (id INT NOT NULL, n INT, c VARCHAR(30), PRIMARY KEY (id), KEY n (n),"
        " KEY c (c(5), n)) PARTITION BY HASH (id) PARTITIONS 3"
    )
    db.execute(
        "INSERT INTO t SELECT n, n * 3 MOD 100, CONCAT('c', n) FROM"
        " (WITH RECURSIVE m (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM m WHERE n < 300)"
        " SELECT n FROM m) x"
    )
    change = "ADD COLUMN z INT NOT NULL DEFAULT 5, ADD INDEX z (z)"
    wanted = native(db, change)
    config = config_for(db, table="t", alter=change, no_shortcut=True, defer_indexes="on")
    report, _ = migrate_here(engine, config)
    assert definition(db) == wanted
    assert len(report.indexes_deferred) == 3
    assert report.differences_found == 0


@pytest.mark.slow
def test_nothing_is_deferred_where_it_is_not_asked_for(db, engine):
    """Off leaves all indexes in place, and auto those of a table that fits into memory."""
    for mode in ("off", "auto"):
        db.execute("DROP TABLE IF EXISTS t")
        make_table(db, 100)
        report = start(engine, db, defer_indexes=mode).end()
        assert report.indexes_deferred == []
        assert "index" not in report.phases
        assert len(report.indexes_plan) == 1


@pytest.mark.slow
def test_a_dry_run_builds_the_indexes_too(db, engine):
    """The rehearsal is the migration but for the swap, and leaves nothing behind."""
    make_table(db, 500)
    report = start(engine, db, defer_indexes="on", dry_run=True).end()
    assert report.outcome == "rehearsed"
    assert report.indexes_deferred == [f"{db.name}.t.b"]
    assert_nothing_left(db)


@pytest.mark.kills
@pytest.mark.draws(2)
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("point", "nth"), kills.OF_AN_INDEX_BUILD)
def test_killed_in_the_build_the_same_command_finishes(db, engine, points, point, nth):
    """Kill -9 around and in the build, writers that go on: every row and every index is there."""
    make_table(db)
    wanted = native(db, "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5, ADD INDEX (b)")
    with Writers(db) as writers:
        kill_at(db, points, point, nth, "--defer-indexes", "on")
        run = start(engine, db, defer_indexes="on")
        report = run.end(600)
    assert report.outcome == "done"
    assert report.resumed, run.told.text
    assert report.differences_found == 0, run.told.text
    assert definition(db) == wanted
    writers.assert_kept()
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_stop_request_ends_the_build_and_the_next_run_does_it(db, engine, monkeypatch):
    """A build that waits for a lock ends at once, and the other mode does not matter afterwards.

    A plan counts the build as long as it is to come.
    """
    given = {"table": "t", "alter": ALTER, "no_shortcut": True}
    make_table(db)
    with Writers(db) as writers:
        for point, mode, left in (("index.building", "on", True), ("checksum.begin", "off", False)):
            Interruption(monkeypatch).at(engine, db, point, defer_indexes=mode)
            assert "_t_new" in tables(db)
            for other in ("on", "off"):
                (table,) = make_plan(config_for(db, **given, defer_indexes=other)).tables
                assert ("index" in {one.phase for one in table.time.phases}) == left
        report = start(engine, db, defer_indexes="off").end()
    assert report.indexes_deferred == [f"{db.name}.t.b"]
    assert report.differences_found == 0
    writers.assert_kept()
    assert_nothing_left(db)


def test_a_table_of_any_name_has_its_indexes_deferred(db, engine):
    """The feed takes the program's own DDL on the new table for its own, whatever the names."""
    name = "Tä`ble é.x"
    quoted = "`" + name.replace("`", "``") + "`"
    db.execute(
        f"CREATE TABLE {quoted} (id INT PRIMARY KEY, `Grö``ße` INT, KEY `ключ ``t`` x` (`Grö``ße`)"
        " COMMENT 'ALTER TABLE t')"
    )
    db.execute(f"INSERT INTO {quoted} VALUES (1, 1), (2, 3)")
    config = config_for(
        db, table=name, alter="ADD COLUMN z INT", no_shortcut=True, defer_indexes="on"
    )
    report, _ = migrate_here(engine, config)
    assert report.indexes_deferred == [f"{db.name}.{name}.ключ `t` x"]
    assert report.differences_found == 0
