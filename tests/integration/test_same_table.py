"""The tables of the swap are those that were compared, whatever is not in the binlog (R25)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest

from spirit_py.binlog.source import BinlogSource
from spirit_py.config import FeedOptions
from spirit_py.errors import SchemaChanged, SpiritError
from spirit_py.migration.reverse.keeper import ReverseReplicationLost
from spirit_py.migration.swap import same_tables
from tests.kits.migrate import Migrating, config_for
from tests.kits.resume import Interruption, once_at
from tests.kits.reverse import SwappedTable
from tests.kits.tables import tables
from tests.kits.waiting import until

if TYPE_CHECKING:
    from tests.fixtures.mysql import Database

PLAIN = "(id INT PRIMARY KEY, v INT NOT NULL)"
PARTS = f"{PLAIN} PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (50), PARTITION high"
PARTS += " VALUES LESS THAN MAXVALUE)"
ROWS = [(number, number) for number in range(100)]
OTHER_ROWS = [(number, -number) for number in range(40)]
#: As a dump of a server with GTIDs restores the table.
RESTORE = f"DROP TABLE t; CREATE TABLE t {PLAIN}; INSERT INTO t VALUES " + ", ".join(
    map(str, OTHER_ROWS)
)


def make(db: Database, definition: str = PLAIN, name: str = "t") -> None:
    """Make a small table."""
    db.execute(f"CREATE TABLE {name} {definition}")
    db.execute(f"INSERT INTO {name} VALUES " + ", ".join(map(str, ROWS)))


def unlogged(db: Database, *statements: str) -> None:
    """Execute statements of which nothing is in the binlog."""
    connection = db.connect()
    with connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        for statement in statements:
            for one in statement.split("; "):
                cursor.execute(one)


def begin(engine: Any, db: Database, **more: Any) -> Migrating:
    """Begin a migration that adds a column."""
    given = {"table": "t", "alter": "ADD COLUMN z INT NOT NULL DEFAULT 5", "no_shortcut": True}
    return Migrating(engine, config_for(db, **{**given, **more}))


def refused(run: Migrating, what: str) -> None:
    """The run ends because the table is another one, and the source stays as it is."""
    with pytest.raises(SchemaChanged, match=what) as raised:
        run.end()
    assert raised.value.exit_code == 1
    assert raised.value.hint


SWAPS_OTHER_ROWS = (
    "CREATE TABLE other LIKE t; ALTER TABLE other REMOVE PARTITIONING; INSERT INTO other VALUES"
    " (3, 33); ALTER TABLE t EXCHANGE PARTITION low WITH TABLE other; DROP TABLE other"
)
LATER = """
SELECT CREATE_TIME < NOW() FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 't'"""
#: Number and definition are the same afterwards, and all values are 0.
LOSES_VALUES = (
    "ALTER TABLE t DROP COLUMN v, ALGORITHM=INSTANT;"
    " ALTER TABLE t ADD COLUMN v INT NOT NULL, ALGORITHM=INSTANT"
)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["chunk.dispatched", "cutover.begin", "cutover.lock"])
@pytest.mark.usefixtures("never_logged")
def test_a_restore_without_the_binlog_is_not_swapped_out(db, engine, monkeypatch, point):
    """A dump that is restored under sql_log_bin=0 makes another table, of the same definition."""
    make(db)
    once_at(monkeypatch, point, lambda: unlogged(db, RESTORE))
    refused(begin(engine, db), "was replaced")
    assert db.query("SELECT id, v FROM t ORDER BY id") == OTHER_ROWS
    assert tables(db) == ["t"]


@pytest.mark.slow
@pytest.mark.usefixtures("never_logged")
def test_a_table_that_create_if_not_exists_has_made_is_not_swapped_out(db, engine, monkeypatch):
    """The feed passes it over, because the table was there; one that it has made has no rows."""
    make(db)

    def restart() -> None:
        unlogged(db, "DROP TABLE t")
        db.execute(f"CREATE TABLE IF NOT EXISTS t {PLAIN}")

    once_at(monkeypatch, "cutover.begin", restart)
    refused(begin(engine, db), "was replaced")
    assert db.query("SELECT COUNT(*) FROM t") == [(0,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("definition", "statements"),
    [
        pytest.param(PLAIN, "ALTER TABLE t ADD COLUMN w INT", id="alter"),
        pytest.param(PLAIN, LOSES_VALUES, id="a column that is made anew"),
        pytest.param(PARTS, "ALTER TABLE t TRUNCATE PARTITION low", id="truncate"),
        pytest.param(PARTS, SWAPS_OTHER_ROWS, id="exchange"),
        pytest.param(PARTS, "ALTER TABLE _t_new TRUNCATE PARTITION low", id="new table"),
    ],
)
@pytest.mark.usefixtures("never_logged")
def test_ddl_without_the_binlog_ends_the_run_before_the_swap(
    db, engine, monkeypatch, definition, statements
):
    """One column, or one of several partitions, is enough, of the source and of the new table."""
    make(db, definition)

    def change() -> None:
        # An ALTER is known by its second.
        until(lambda: db.query(LATER) == [(1,)], "the second after that of the table")
        unlogged(db, statements)

    once_at(monkeypatch, "cutover.begin", change)
    run = begin(engine, db)
    refused(run, "changed|was replaced")
    assert [row[0] for row in db.query("SHOW COLUMNS FROM t")][-1] != "z"
    assert "_t_old" not in tables(db)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "statement"),
    [
        ("chunk.dispatched", "ALTER TABLE t ENGINE=InnoDB, ALGORITHM=INPLACE"),
        ("cutover.begin", "OPTIMIZE TABLE t"),
        ("cutover.lock", "OPTIMIZE TABLE _t_new"),
        ("chunk.dispatched", "/*!40000 ALTER TABLE t DISABLE KEYS */"),
    ],
)
def test_a_rebuild_that_the_feed_saw_is_taken_over(db, engine, monkeypatch, point, statement):
    """OPTIMIZE TABLE gives source or new table another number; the run compares, and swaps."""
    make(db)
    once_at(monkeypatch, point, lambda: db.query(statement))
    run = begin(engine, db)
    assert run.end().outcome == "done"
    assert db.query("SELECT id, v, z FROM t ORDER BY id") == [(*row, 5) for row in ROWS]
    assert tables(db) == ["t"]
    name = "_t_new" if "_t_new" in statement else "t"
    assert f"{db.name}.{name} was rebuilt" in run.told.text


@pytest.mark.slow
@pytest.mark.parametrize("what", ["REBUILD PARTITION p0, p2", "OPTIMIZE PARTITION ALL"])
def test_a_rebuild_of_partitions_that_the_feed_saw_is_taken_over(db, engine, monkeypatch, what):
    """Some of them, or all, have other numbers: no row is another one."""
    make(db)
    db.query("ALTER TABLE t PARTITION BY KEY (id) PARTITIONS 3")
    once_at(monkeypatch, "chunk.dispatched", lambda: db.query(f"ALTER TABLE t {what}"))
    run = begin(engine, db)
    assert run.end().outcome == "done"
    assert sorted(db.query("SELECT id, v, z FROM t")) == [(*row, 5) for row in ROWS]
    assert f"{db.name}.t was rebuilt" in run.told.text


@pytest.mark.slow
def test_a_rebuild_right_before_the_feed_s_place_is_none_of_a_change(db, engine, monkeypatch):
    """R25: it is in no event that the feed will see, and nothing is copied yet."""
    make(db)
    begins = BinlogSource.begin

    def rebuilt_before(*given: Any) -> Any:
        db.query("ALTER TABLE t FORCE")
        return begins(*given)

    monkeypatch.setattr(BinlogSource, "begin", rebuilt_before)
    assert begin(engine, db).end().outcome == "done"
    assert db.query("SELECT id, v, z FROM t ORDER BY id") == [(*row, 5) for row in ROWS]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "statement"),
    [
        ("chunk.dispatched", "ALTER TABLE t MODIFY v INT NOT NULL"),
        ("cutover.begin", "ALTER TABLE t AUTO_INCREMENT=9000"),
        ("cutover.lock", "ALTER TABLE t CHANGE v v INT NOT NULL, COMMENT=''"),
    ],
)
def test_an_alter_to_what_is_there_is_taken_over(db, engine, monkeypatch, point, statement):
    """R14, R25: the server logs it; the run compares all rows after it, and swaps."""
    rows = ROWS[1:]
    db.execute(f"CREATE TABLE t {PLAIN.replace('KEY', 'KEY AUTO_INCREMENT')}")
    db.execute(f"INSERT INTO t VALUES {', '.join(map(str, rows))}")
    once_at(monkeypatch, point, lambda: db.query(statement))
    run = begin(engine, db)
    assert run.end().outcome == "done"
    assert db.query("SELECT id, v, z FROM t ORDER BY id") == [(*row, 5) for row in rows]
    assert tables(db) == ["t"]
    assert f"{db.name}.t was rebuilt or altered without effect" in run.told.text
    assert ("AUTO_INCREMENT=9000" in definition(db)) == ("9000" in statement)


def definition(db: Database) -> str:
    """Return what SHOW CREATE TABLE prints."""
    return str(db.query("SHOW CREATE TABLE t")[0][1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t MODIFY v BIGINT NOT NULL",
        "ALTER TABLE t COMMENT='mine'",
        "CREATE TABLE IF NOT EXISTS c (t INT, FOREIGN KEY (t) REFERENCES t (id))",
        "CREATE TRIGGER IF NOT EXISTS k BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
    ],
)
def test_an_alter_that_changes_something_still_ends_the_run(db, engine, monkeypatch, statement):
    """R14: at once, not at the next comparison."""
    make(db)
    once_at(monkeypatch, "chunk.dispatched", lambda: db.query(statement))
    refused(begin(engine, db, defer_cutover=True), "another session changed the definition")
    assert "_t_old" not in tables(db)


@pytest.mark.slow
def test_a_child_and_a_trigger_that_are_there_are_not_created_again(db, engine, monkeypatch):
    """R14: an application that starts creates what it needs unless it is there."""
    make(db)
    child = "TABLE {} c (t INT, CONSTRAINT k FOREIGN KEY (t) REFERENCES t (id))"
    db.execute(f"CREATE {child.format('')}")
    db.execute("INSERT INTO c VALUES (7)")
    trigger = "TRIGGER {} tr BEFORE INSERT ON t FOR EACH ROW SET NEW.v = NEW.v + 1"
    db.execute(f"CREATE {trigger.format('')}")

    def start() -> None:
        for what in (child, trigger):
            db.query(f"CREATE {what.format('IF NOT EXISTS')}")

    once_at(monkeypatch, "cutover.begin", start)
    run = begin(engine, db)
    assert run.end().outcome == "done"
    assert "without effect" not in run.told.text
    assert tables(db) == ["c", "t"]
    with pytest.raises(MySQLdb.IntegrityError):
        db.execute("INSERT INTO c VALUES (700)")


@pytest.mark.slow
def test_statistics_of_a_partition_end_no_run(db, engine, monkeypatch):
    """The server logs ANALYZE PARTITION as an ALTER TABLE, which changes nothing."""
    make(db, PARTS)
    once_at(
        monkeypatch, "cutover.begin", lambda: db.query("ALTER TABLE t ANALYZE PARTITION low, high")
    )
    run = begin(engine, db)
    assert run.end().outcome == "done"
    assert db.query("SELECT id, v, z FROM t ORDER BY id") == [(*row, 5) for row in ROWS]


@pytest.mark.slow
def test_a_rebuild_of_several_tables_is_waited_for(db, engine, monkeypatch):
    """The binlog has OPTIMIZE TABLE t, u when u is done, which may be hours after t."""
    make(db)
    make(db, name="u")
    holder, optimizing = db.connect(), db.connect()
    rebuild = threading.Thread(target=optimizing.query, args=("OPTIMIZE TABLE t, u",))

    def numbers() -> Any:
        return db.query(
            "SELECT TABLE_ID FROM information_schema.INNODB_TABLES WHERE NAME = %s",
            (f"{db.name}/t",),
        )

    def optimize() -> None:
        before = numbers()
        rebuild.start()
        until(lambda: numbers() not in ([], before), "the first table to be built again")

    holder.query("LOCK TABLES u READ")
    monkeypatch.setattr(same_tables, "_LOGGED_WITHIN", 0.0)
    once_at(monkeypatch, "cutover.begin", optimize)
    run = begin(engine, db)
    until(lambda: "OPTIMIZE" in str([one.waiting_for for one in run.told.snapshots]), "it to wait")
    holder.query("UNLOCK TABLES")
    assert run.end().outcome == "done"
    rebuild.join()
    assert db.query("SELECT id, v, z FROM t ORDER BY id") == [(*row, 5) for row in ROWS]


@pytest.mark.slow
@pytest.mark.usefixtures("never_logged")
def test_one_of_several_tables_is_enough(db, engine, monkeypatch):
    """A table that was restored keeps the others from being swapped."""
    make(db)
    make(db, name="u")
    once_at(monkeypatch, "cutover.begin", lambda: unlogged(db, RESTORE))
    clause = "ADD COLUMN z INT NOT NULL DEFAULT 5"
    both = f"ALTER TABLE t {clause}; ALTER TABLE u {clause}"
    run = begin(engine, db, table="", alter="", statement=both)
    refused(run, "was replaced")
    assert tables(db) == ["t", "u"]
    assert db.query("SELECT id, v FROM u ORDER BY id") == ROWS


def interrupted(monkeypatch: Any, engine: Any, db: Database, **more: Any) -> None:
    """Leave a run behind whose copy is under way."""
    given = {"alter": "ADD COLUMN z INT NOT NULL DEFAULT 5", **more}
    Interruption(monkeypatch).at(engine, db, "drain.begun", **given)
    assert "_t_new" in tables(db)


@pytest.mark.slow
@pytest.mark.usefixtures("never_logged")
def test_a_restore_between_two_runs_is_noticed(db, engine, monkeypatch):
    """The next run drops the copy, which is of another table, and says to begin again."""
    make(db)
    interrupted(monkeypatch, engine, db)
    unlogged(db, RESTORE)
    refused(begin(engine, db), "was replaced")
    assert tables(db) == ["t"]
    assert begin(engine, db).end().outcome == "done"
    assert db.query("SELECT id, v FROM t ORDER BY id") == OTHER_ROWS


@pytest.mark.slow
@pytest.mark.parametrize("seen_by", ["the next run", "the first run"])
def test_a_rebuild_before_a_run_that_resumes_is_taken_over(db, engine, monkeypatch, seen_by):
    """The binlog has it: either run reads that, and the later one compares all rows."""
    make(db)

    def rebuild() -> bool:
        db.query("OPTIMIZE TABLE t")
        db.execute("INSERT INTO t VALUES (1000, 1000)")
        return True

    def rebuild_and_follow() -> bool:
        rebuild()
        until(lambda: db.query("SELECT 1 FROM _t_new WHERE id = 1000"), "the row to be applied")
        return True

    often = FeedOptions(flush_interval=0.1)
    first = seen_by == "the first run"
    when = {"when": rebuild_and_follow} if first else {}
    interrupted(monkeypatch, engine, db, feed=often, **when)
    if not first:
        rebuild()
    assert begin(engine, db).end().outcome == "done"
    assert db.query("SELECT id, v, z FROM t ORDER BY id") == [
        *((*row, 5) for row in ROWS),
        (1000, 1000, 5),
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("never_logged")
def test_a_table_that_was_restored_since_the_swap_is_not_swapped_back(db, engine):
    """Its rows are no changes of those that the old table has, so the way back is lost."""
    make(db)
    changed = SwappedTable(db, "MODIFY v INT NOT NULL", engine=engine)
    following = changed.keep()
    db.execute("UPDATE t SET v = 7 WHERE id = 1")
    until(lambda: (1, 7) in db.query("SELECT id, v FROM _t_old"), "the old table to follow")
    unlogged(db, RESTORE)
    with pytest.raises(SpiritError, match="was replaced"):
        changed.revert()
    with pytest.raises(ReverseReplicationLost, match="was replaced"):
        following.result()
    assert db.query("SELECT id, v FROM t ORDER BY id") == OTHER_ROWS


@pytest.mark.slow
def test_a_table_that_was_rebuilt_since_the_swap_is_swapped_back(db, engine):
    """The feed has seen it; no process needs to have followed meanwhile."""
    make(db)
    changed = SwappedTable(db, "MODIFY v BIGINT NOT NULL", engine=engine)
    db.query("OPTIMIZE TABLE t")
    db.execute("UPDATE t SET v = 7 WHERE id = 1")
    said = changed.revert()
    assert said.said("was rebuilt")
    assert db.query("SELECT id, v FROM t ORDER BY id") == [ROWS[0], (1, 7), *ROWS[2:]]
    assert changed.tables() == {"t"}
