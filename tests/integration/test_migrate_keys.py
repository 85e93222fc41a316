"""Migrations of tables with foreign keys, whose swap is stopped at each of its statements."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest

from spirit_py.config import RevertConfig
from spirit_py.errors import Interrupted, Refusal, ServerFault
from spirit_py.migration.reverse.revert import revert
from spirit_py.mysql.session import Session
from spirit_py.table.names import lock_name
from tests.faults.hooks import PACKET_VARIABLE
from tests.kits.attached import definitions, loose_ends
from tests.kits.command import command_line, environment, run_here
from tests.kits.connection import connection_options
from tests.kits.engine import SharedEngine
from tests.kits.migrate import Migrating, config_for, migrate_here
from tests.kits.reporter import RecordingReporter
from tests.kits.tables import tables

if TYPE_CHECKING:
    from collections.abc import Iterator

ADD = "ADD COLUMN extra INT, ENGINE=InnoDB"
FAMILY = """
CREATE TABLE p (id INT PRIMARY KEY);
CREATE TABLE t (id INT PRIMARY KEY, p INT, up INT,
  FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE,
  CONSTRAINT own FOREIGN KEY (up) REFERENCES t (id));
CREATE TABLE c (id INT PRIMARY KEY, t INT, u INT, KEY u (u),
  FOREIGN KEY (t) REFERENCES t (id) ON DELETE SET NULL ON UPDATE CASCADE,
  CONSTRAINT child FOREIGN KEY (u) REFERENCES t (id) ON DELETE CASCADE);
INSERT INTO p VALUES (1), (2);
INSERT INTO t VALUES (1, 1, NULL), (2, 1, 1), (3, 2, 1);
INSERT INTO c VALUES (1, 1, 2), (2, 3, 3)
"""
TABLES = ("p", "t", "c")


class KilledAfter:
    """Kills the session that sends a packet once it has sent so many statements of it."""

    def __init__(self, db: Any, number: int) -> None:
        self._db = db
        self._number = number
        self._send = Session.execute_packet
        self.killed = False
        self.length = 0

    def method(self) -> Any:
        """Return what takes the place of the method of a session."""

        def execute_packet(session: Session, statements: Any) -> Any:
            return self._execute(session, statements)

        return execute_packet

    def _execute(self, session: Session, statements: Any) -> Any:
        """Send the packet, or its beginning the first time."""
        if self.killed or len(statements) == 1:
            return self._send(session, statements)
        self.killed, self.length = True, len(statements)
        if self._number:
            assert self._send(session, statements[: self._number]) == (self._number, None)
        self._db.execute(f"KILL {session.id}")
        return self._number, ServerFault(2013, "Lost connection to server", where="test")


@pytest.fixture
def family(db):
    """Make a table with parents, children and a reference to itself."""
    db.execute(FAMILY)
    return db


def stop_in_packet(db: Any, number: int) -> None:
    """Run the command, which is killed within the packet of its swap, as is its session."""
    ended = subprocess.run(
        command_line(
            db, "migrate", "--table", "t", "--alter", ADD, "--threads", "2", hooks="stop-in-packet"
        ),
        env=environment(db, **{PACKET_VARIABLE: str(number)}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.draws(4)
@pytest.mark.parametrize("number", range(8))
def test_a_run_that_died_within_its_packet_is_carried_on_by_the_same_command(
    family, engine, number
):
    """After each statement: the next run settles the keys first, and ends as a native ALTER."""
    before = definitions(family, TABLES)
    stop_in_packet(family, number)
    report, told = migrate_here(engine, config_for(family, table="t", alter=ADD))
    assert report.resumed, told.text
    assert definitions(family, TABLES) == before
    assert loose_ends(family) == []
    assert set(tables(family)) == set(TABLES)
    assert_keys_work(family)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [2, 4])
def test_cleanup_settles_the_keys_before_it_drops_a_table(family, number):
    """Before and after the RENAME: children refer to a table that stays."""
    before = definitions(family, TABLES)
    stop_in_packet(family, number)
    assert loose_ends(family) != []
    done = run_here(family, "cleanup", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert definitions(family, TABLES) == before
    assert loose_ends(family) == []
    assert_keys_work(family)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.draws(4)
@pytest.mark.parametrize("number", range(8))
def test_a_session_killed_within_its_packet_costs_at_most_a_try(
    family, engine, monkeypatch, number
):
    """After each statement: the migration ends as a native ALTER, and no key is lost or loose."""
    before = definitions(family, TABLES)
    killed = KilledAfter(family, number)
    monkeypatch.setattr(Session, "execute_packet", killed.method())
    report, told = migrate_here(engine, config_for(family, table="t", alter=ADD))
    assert 0 <= number <= killed.length, told.text
    assert report.outcome == "done"
    assert definitions(family, TABLES, added="extra") == before
    assert loose_ends(family) == []
    assert set(tables(family)) == set(TABLES)
    assert_keys_work(family)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_revert_brings_the_keys_back(family, engine):
    """To the old table, with those of its children; meanwhile it has none of its own."""
    before = definitions(family, TABLES)
    with kept(family, engine) as migrating:
        assert loose_ends(family) == []
        assert definitions(family, TABLES) == before
        family.execute("INSERT INTO t (id, p, extra) VALUES (5, 1, 7)")
        family.execute("INSERT INTO p VALUES (8)")
        family.execute("INSERT INTO t (id, p) VALUES (8, 8)")
        family.execute("DELETE FROM p WHERE id = 8")
        revert(
            RevertConfig(connection=connection_options(family), database=family.name, table="t"),
            reporter=RecordingReporter(),
            engine_factory=lambda _: SharedEngine(engine),
        )
        migrating.end()
    assert definitions(family, TABLES) == before
    assert loose_ends(family) == []
    assert set(tables(family)) == set(TABLES)
    family.execute("DELETE FROM t WHERE id = 5")
    assert_keys_work(family)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.draws(4)
@pytest.mark.parametrize("number", range(8))
def test_a_revert_whose_session_is_killed_within_its_packet_still_brings_them_back(
    family, engine, monkeypatch, number
):
    """After each statement: the same as for the swap."""
    before = definitions(family, TABLES)
    with kept(family, engine) as migrating:
        killed = KilledAfter(family, number)
        monkeypatch.setattr(Session, "execute_packet", killed.method())
        revert(
            RevertConfig(connection=connection_options(family), database=family.name, table="t"),
            reporter=RecordingReporter(),
            engine_factory=lambda _: SharedEngine(engine),
        )
        migrating.end()
    assert killed.killed
    assert definitions(family, TABLES) == before
    assert loose_ends(family) == []
    assert set(tables(family)) == set(TABLES)
    assert_keys_work(family)


@contextlib.contextmanager
def kept(db: Any, engine: Any) -> Iterator[Migrating]:
    """Migrate the table, whose old one follows it while the context is open."""
    config = config_for(db, table="t", alter=ADD, keep_old_current=600.0)
    migrating = Migrating(engine, config)
    try:
        migrating.wait_until(
            lambda: "reverse replication of" in migrating.told.text, "reverse replication"
        )
        yield migrating
    finally:
        migrating.stop.request(Interrupted(signal.SIGINT))


def assert_keys_work(db: Any) -> None:
    """Prove that every key refuses and cascades as it is to."""
    for refused in (
        "INSERT INTO t (id, p) VALUES (9, 9)",
        "INSERT INTO t (id, up) VALUES (9, 8)",
        "INSERT INTO c (id, t) VALUES (9, 9)",
        "DELETE FROM t WHERE id = 1",
    ):
        with pytest.raises(MySQLdb.IntegrityError):
            db.execute(refused)
    db.execute("DELETE FROM p WHERE id = 2")
    assert db.query("SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    assert db.query("SELECT id, t, u FROM c") == [(1, 1, 2)]
    db.execute("INSERT INTO t (id, p) VALUES (4, 1)")
    db.execute("INSERT INTO c (id, t) VALUES (4, 4)")


LONG = "k" * 64
ODD = """
SET SESSION restrict_fk_on_non_standard_key = OFF;
CREATE TABLE {0}.p (id INT PRIMARY KEY, n INT, KEY n (n));
CREATE TABLE {0}.`t``é` (id INT PRIMARY KEY, `a b` INT, n INT, gone INT, u INT,
  UNIQUE KEY u (u, id),
  CONSTRAINT {2} FOREIGN KEY (`a b`) REFERENCES {0}.p (id) ON UPDATE CASCADE,
  FOREIGN KEY (n) REFERENCES {0}.p (n),
  CONSTRAINT gone FOREIGN KEY (gone) REFERENCES {0}.p (id));
CREATE TABLE {1}.`c``é` (id INT PRIMARY KEY, t INT, u INT, KEY both_of (u, t),
  CONSTRAINT `c``1` FOREIGN KEY (t) REFERENCES {0}.`t``é` (id)
  ON DELETE RESTRICT ON UPDATE SET NULL,
  FOREIGN KEY (u, t) REFERENCES {0}.`t``é` (u, id) ON DELETE CASCADE);
CREATE TABLE {1}.d (t INT PRIMARY KEY, FOREIGN KEY (t) REFERENCES {0}.`t``é` (id));
INSERT INTO {0}.p VALUES (1, 1), (2, 2);
INSERT INTO {0}.`t``é` VALUES (1, 1, 1, 1, 1), (2, 2, 2, 2, 2);
INSERT INTO {1}.`c``é` VALUES (1, 1, 1);
INSERT INTO {1}.d VALUES (2)
"""
ODD_ALTER = (
    "CHANGE `a b` `b a` INT COMMENT 'renamed', RENAME COLUMN id TO key_id, DROP FOREIGN KEY gone,"
    " ADD COLUMN extra INT FIRST, ENGINE=InnoDB"
)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_keys_of_odd_names_and_columns_end_as_after_a_native_alter(db, engine):
    """In two schemas, of 64 letters, to an index that is not unique, renamed, dropped."""
    schemas = [f"{db.name}{end}" for end in ("", "_c", "_n", "_nc")]
    for schema in schemas[1:]:
        db.execute(f"CREATE DATABASE `{schema}`")
    try:
        for pair in (schemas[:2], schemas[2:]):
            db.execute(ODD.format(*(f"`{schema}`" for schema in pair), LONG))
        db.execute(f"ALTER TABLE `{schemas[2]}`.`t``é` {ODD_ALTER}")
        report, _ = migrate_here(engine, config_for(db, table="t`é", alter=ODD_ALTER))
        assert report.outcome == "done"
        assert len(report.attached) == 5
        places = (("", "p"), ("", "t``é"), ("_c", "c``é"), ("_c", "d"))
        for end, table in places:
            native = {"": "_n", "_c": "_nc"}[end]
            ours = db.query(f"SHOW CREATE TABLE `{db.name}{end}`.`{table}`")[0][1]
            theirs = db.query(f"SHOW CREATE TABLE `{db.name}{native}`.`{table}`")[0][1]
            assert ours == theirs.replace(f"`{db.name}_n`", f"`{db.name}`"), table
    finally:
        for schema in schemas[1:][::-1]:
            db.execute(f"SET foreign_key_checks = 0; DROP DATABASE `{schema}`")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tables_of_one_run_that_refer_to_each_other_are_swapped_together(db, engine):
    """A cycle of two, with a child beside: no key is left at an old table."""
    db.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, b INT);"
        "CREATE TABLE b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id));"
        "CREATE TABLE c (id INT PRIMARY KEY, a INT, b INT, FOREIGN KEY (a) REFERENCES a (id)"
        " ON DELETE CASCADE, FOREIGN KEY (b) REFERENCES b (id));"
        "ALTER TABLE a ADD CONSTRAINT round FOREIGN KEY (b) REFERENCES b (id) ON DELETE SET NULL;"
        "INSERT INTO a VALUES (1, NULL); INSERT INTO b VALUES (1, 1);"
        "INSERT INTO c VALUES (1, 1, 1)"
    )
    before = definitions(db, "abc")
    statement = "; ".join(f"ALTER TABLE {table} {ADD}" for table in "ab")
    report, _ = migrate_here(engine, config_for(db, statement=statement))
    assert report.outcome == "done"
    assert definitions(db, "abc") == before
    assert loose_ends(db) == []
    assert set(tables(db)) == set("abc")
    with pytest.raises(MySQLdb.IntegrityError):
        db.execute("INSERT INTO a (id, b) VALUES (2, 2)")
    with pytest.raises(MySQLdb.IntegrityError):
        db.execute("DELETE FROM b WHERE id = 1")


@pytest.mark.parametrize("other", ["c", "p"])
def test_a_run_on_a_child_or_a_parent_refuses_this_one(family, engine, other):
    """The swap of either would be DDL on a table that the other run follows (R14)."""
    with contextlib.closing(family.connect()) as holding:
        with contextlib.closing(holding.cursor()) as cursor:
            cursor.execute("SELECT GET_LOCK(%s, 0)", (lock_name("migration", family.name, other),))
        with pytest.raises(Refusal, match=f"another run works on .*{other}"):
            migrate_here(engine, config_for(family, table="t", alter=ADD))
    assert set(tables(family)) == set(TABLES)
