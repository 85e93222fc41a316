"""Whole migrations of tables with foreign keys: in place, and copied beside writers."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.config import FeedOptions
from spirit_py.errors import Refusal
from spirit_py.locks.blockers import LockPolicy
from spirit_py.migration import in_place
from spirit_py.phases import Phase
from spirit_py.statement import alter_of
from tests.integration.test_foreign_key_feed import FAMILIES, WRITERS, logged, write
from tests.kits.migrate import Migrating, config_for
from tests.kits.tables import open_session
from tests.kits.waiting import DEADLINE, until

TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1), (2);"
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, v VARCHAR(10), CONSTRAINT of_t FOREIGN KEY (a)"
    " REFERENCES p (id)); INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b');"
    "CREATE TABLE c (id INT PRIMARY KEY, CONSTRAINT to_t FOREIGN KEY (id) REFERENCES t (id));"
    "INSERT INTO c VALUES (1)"
)


def definition(db, table: str) -> str:
    """Return what SHOW CREATE TABLE prints."""
    return str(db.query(f"SHOW CREATE TABLE {table}")[0][1])


def await_sentinel(run: Migrating) -> None:
    """Wait until the first comparison is over, and the next one an hour away."""
    shown = run.told.snapshots
    run.wait_until(
        lambda: shown and shown[-1].phase is Phase.SENTINEL and "dropped" in shown[-1].waiting_for,
        "wait for the sentinel",
    )


@pytest.mark.parametrize(
    ("alter", "locked"),
    [
        ("DROP FOREIGN KEY of_t", {"t", "c", "p"}),
        ("DROP CONSTRAINT OF_T", {"t", "c", "p"}),
        ("DROP CONSTRAINT positive", {"t", "c"}),
        ("ADD z INT", {"t", "c"}),
    ],
)
def test_who_is_on_a_parent_is_waited_for_where_its_key_is_dropped(db, alter, locked):
    """The server locks the parents then, and the children always."""
    db.execute(TABLES)
    db.execute("ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0)")
    context: Any = SimpleNamespace(
        schema=db.name, table="t", statement=alter_of(db.name, "t", alter)
    )
    with open_session(db) as session:
        found = in_place.locked_tables(session, context)
    assert set(found) == {(db.name, name) for name in locked}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alter", "algorithm"),
    [
        ("ADD z INT", "instant"),
        ("RENAME COLUMN a TO b", "inplace"),
        ("RENAME COLUMN id TO number", "inplace"),
        ("MODIFY v VARCHAR(20)", "inplace"),
        ("DROP FOREIGN KEY of_t", "inplace"),
        ("DROP CONSTRAINT of_t", "inplace"),
    ],
)
def test_a_change_in_place_needs_no_swap_of_keys_and_triggers(db, engine, alter, algorithm):
    """The server keeps them by itself, on every version and with any account."""
    db.execute(TABLES)
    db.execute(
        "ALTER TABLE t ADD up INT, ADD UNIQUE KEY both_ (id, a),"
        " ADD FOREIGN KEY (up, a) REFERENCES t (id, a) ON DELETE CASCADE"
    )
    db.execute("CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 'tr'")
    report = Migrating(engine, config_for(db, table="t", alter=alter)).end()
    assert report.algorithm == algorithm
    assert definition(db, "t").count("FOREIGN KEY") == 2 - alter.startswith("DROP")
    assert db.query("SHOW TRIGGERS")


def test_a_key_that_would_not_fit_is_refused_with_what_to_do(db, engine):
    """INSTANT is tried first; its refusal is about the key, and no statement is to be corrected."""
    db.execute(TABLES)
    with pytest.raises(Refusal, match=r"to_t.*error 3780") as refused:
        Migrating(engine, config_for(db, table="t", alter="MODIFY id BIGINT")).end()
    assert "--statement 'ALTER TABLE ...; ALTER TABLE ...'" in refused.value.hint


@pytest.mark.parametrize(
    ("alter", "table"),
    [("ADD z INT", "c"), ("DROP FOREIGN KEY of_t", "c"), ("DROP FOREIGN KEY of_t", "p")],
)
def test_a_change_in_place_is_not_sent_behind_users_of_a_child(
    db, engine, monkeypatch, alter, table
):
    """R23: the server takes the lock of all children, and of a parent whose key is dropped."""
    monkeypatch.setattr(LockPolicy, "old_after", lambda *_: 0.0)
    db.execute(TABLES)
    other = db.connect()
    other.query("BEGIN")
    other.query(f"SELECT * FROM {table}")
    other.store_result()
    run = Migrating(engine, config_for(db, table="t", alter=alter))
    run.wait_until(lambda: "is not requested while" in run.told.text, "wait")
    waits = "SELECT 1 FROM performance_schema.metadata_locks WHERE LOCK_STATUS = 'PENDING'"
    assert not db.query(waits)
    other.commit()
    assert run.end().algorithm in {"instant", "inplace"}


def test_users_of_a_parent_are_not_waited_for_where_no_key_is_dropped(db, engine, monkeypatch):
    """The server takes no exclusive lock on it."""
    monkeypatch.setattr(LockPolicy, "old_after", lambda *_: 0.0)
    db.execute(TABLES)
    other = db.connect()
    other.query("BEGIN")
    other.query("SELECT * FROM p")
    other.store_result()
    report = Migrating(engine, config_for(db, table="t", alter="ADD z INT")).end()
    assert report.algorithm == "instant"
    other.commit()


@pytest.mark.slow
@pytest.mark.logged_cascades
@pytest.mark.parametrize("name", ["cascade", "two levels", "part of the key", "to itself"])
def test_what_keys_do_after_the_last_checksum_is_swapped_in(db, engine, name):
    """R21: nothing looks at these rows any more, and there is nothing that would repair them."""
    family = FAMILIES[name]
    if not logged(db):
        pytest.skip("this server writes what foreign keys do into no binlog")
    db.execute(f"{family.parents}; CREATE TABLE t ({family.columns})")
    write(db, family, 7)
    run = Migrating(
        engine,
        config_for(
            db,
            table="t",
            # Writers that are late write to the new table without naming columns.
            alter="ADD z INT INVISIBLE",
            no_shortcut=True,
            defer_cutover=True,
            recheck_interval=3600.0,
            drop_old_after=math.inf,
        ),
    )
    await_sentinel(run)
    writers = [
        threading.Thread(target=write, args=(db, family, 70 + number)) for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    db.execute("DROP TABLE _t_snt")
    report = run.end()
    for writer in writers:
        writer.join(DEADLINE)
    assert report.chunks_repaired == 0
    assert "FOREIGN KEY" not in definition(db, "_t_old")
    n, parent = "n", "t" if name.startswith("to itself") else "p"
    orphans = (
        f"SELECT COUNT(*) FROM t WHERE {n} IS NOT NULL AND {n} NOT IN (SELECT id FROM {parent})"
    )
    assert db.query(orphans) == [(0,)]


@pytest.mark.slow
def test_neither_copy_nor_feed_waits_for_rows_of_a_parent(db, engine):
    """R1: the application may hold them locked until the swap."""
    db.execute(TABLES)
    other = db.connect()
    other.query("BEGIN")
    other.query("SELECT * FROM p FOR UPDATE")
    other.store_result()
    run = Migrating(
        engine,
        config_for(
            db,
            table="t",
            alter="ADD z INT",
            no_shortcut=True,
            defer_cutover=True,
            feed=FeedOptions(flush_interval=0.2),
        ),
    )
    await_sentinel(run)
    db.execute("UPDATE t SET v = 'c'")
    until(lambda: db.query("SELECT COUNT(*) FROM _t_new WHERE v = 'c'") == [(2,)], "rows")
    other.commit()
    db.execute("DROP TABLE _t_snt")
    run.end()
    assert definition(db, "t").count("FOREIGN KEY") == 1
    assert "REFERENCES `t`" in definition(db, "c")


def test_a_refused_key_leaves_nothing_behind(db, engine):
    """The new table and the trial's are dropped again."""
    db.execute(TABLES)
    before = db.query("SHOW TABLES")
    run = Migrating(engine, config_for(db, table="t", alter="MODIFY a BIGINT", no_shortcut=True))
    with pytest.raises(Refusal, match="foreign key of_t of"):
        run.end()
    assert db.query("SHOW TABLES") == before
