"""Migrations of tables with foreign keys, whose swap is stopped at each of its statements."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest

from spirit_py.config import RevertConfig
from spirit_py.errors import Interrupted, ServerFault
from spirit_py.migration.reverse.revert import revert
from spirit_py.mysql.session import Session
from tests.faults.hooks import PACKET_VARIABLE
from tests.kits.attached import definitions, loose_ends
from tests.kits.command import command_line, environment, run
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


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(8))
def test_a_run_that_died_within_its_packet_is_carried_on_by_the_same_command(
    family, spark_engine, number
):
    """After each statement: the next run settles the keys first, and ends as a native ALTER."""
    before = definitions(family, TABLES)
    stop_in_packet(family, number)
    report, told = migrate_here(spark_engine, config_for(family, table="t", alter=ADD))
    assert report.resumed, told.text
    assert definitions(family, TABLES) == before
    assert loose_ends(family) == []
    assert set(tables(family)) == set(TABLES)
    assert_keys_work(family)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [2, 4])
def test_cleanup_settles_the_keys_before_it_drops_a_table(family, number):
    """Before and after the RENAME: children refer to a table that stays."""
    before = definitions(family, TABLES)
    stop_in_packet(family, number)
    assert loose_ends(family) != []
    done = run(family, "cleanup", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert definitions(family, TABLES) == before
    assert loose_ends(family) == []
    assert_keys_work(family)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(8))
def test_a_session_killed_within_its_packet_costs_at_most_a_try(
    family, spark_engine, monkeypatch, number
):
    """After each statement: the migration ends as a native ALTER, and no key is lost or loose."""
    before = definitions(family, TABLES)
    killed = KilledAfter(family, number)
    monkeypatch.setattr(Session, "execute_packet", killed.method())
    report, told = migrate_here(spark_engine, config_for(family, table="t", alter=ADD))
    assert 0 <= number <= killed.length, told.text
    assert report.outcome == "done"
    assert definitions(family, TABLES, added="extra") == before
    assert loose_ends(family) == []
    assert set(tables(family)) == set(TABLES)
    assert_keys_work(family)


@pytest.mark.timeout(600)
def test_a_revert_brings_the_keys_back(family, spark_engine):
    """To the old table, with those of its children; meanwhile it has none of its own."""
    before = definitions(family, TABLES)
    with kept(family, spark_engine) as migrating:
        assert loose_ends(family) == []
        assert definitions(family, TABLES) == before
        family.execute("INSERT INTO t (id, p, extra) VALUES (5, 1, 7)")
        family.execute("INSERT INTO p VALUES (8)")
        family.execute("INSERT INTO t (id, p) VALUES (8, 8)")
        family.execute("DELETE FROM p WHERE id = 8")
        revert(
            RevertConfig(connection=connection_options(family), database=family.name, table="t"),
            reporter=RecordingReporter(),
            engine_factory=lambda _: SharedEngine(spark_engine),
        )
        migrating.end()
    assert definitions(family, TABLES) == before
    assert loose_ends(family) == []
    assert set(tables(family)) == set(TABLES)
    family.execute("DELETE FROM t WHERE id = 5")
    assert_keys_work(family)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(8))
def test_a_revert_whose_session_is_killed_within_its_packet_still_brings_them_back(
    family, spark_engine, monkeypatch, number
):
    """After each statement: the same as for the swap."""
    before = definitions(family, TABLES)
    with kept(family, spark_engine) as migrating:
        killed = KilledAfter(family, number)
        monkeypatch.setattr(Session, "execute_packet", killed.method())
        revert(
            RevertConfig(connection=connection_options(family), database=family.name, table="t"),
            reporter=RecordingReporter(),
            engine_factory=lambda _: SharedEngine(spark_engine),
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
