"""The deferred cutover: the migration waits for its sentinel, and goes on checking."""

from __future__ import annotations

import threading
import time

import pytest

from spirit_py import points
from spirit_py.errors import Interrupted, MigrationFailure, SpiritError
from spirit_py.events.copy import ChecksumDone
from spirit_py.events.swap import CutoverDeferred
from spirit_py.locks.blockers import LockPolicy
from spirit_py.phases import Phase
from tests.kits.migrate import Migrating, config_for
from tests.kits.tables import tables
from tests.kits.waiting import until

ALTER = "MODIFY v BIGINT"


@pytest.fixture
def table(db):
    """A small table."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    return db


def waits(migrating):
    """Whether the migration waits for its sentinel."""
    seen = migrating.told.snapshots
    return bool(seen) and seen[-1].phase is Phase.SENTINEL and "dropped" in seen[-1].waiting_for


def passes(migrating):
    """Count the clean passes that were told."""
    return sum("clean" in line for line in migrating.told.lines)


def type_of_v(db):
    """Return the type of the column that changes."""
    return db.query("SHOW COLUMNS FROM t LIKE 'v'")[0][1]


@pytest.mark.slow
def test_it_swaps_when_the_sentinel_is_dropped(table, engine):
    """It creates the sentinel, keeps applying and checking, and swaps when it is gone.

    A comparison every ten minutes without a difference has no line, or two days had hundreds.
    """
    migrating = Migrating(
        engine,
        config_for(table, table="t", alter=ALTER, defer_cutover=True, recheck_interval=0.2),
    )
    try:
        migrating.wait_until(lambda: waits(migrating), "the wait for the operator")
        table.execute("UPDATE t SET v = 11 WHERE id = 1")
        before = passes(migrating)
        migrating.wait_until(lambda: passes(migrating) >= before + 2, "two more passes")
        assert type_of_v(table) == "int"
    finally:
        table.execute("DROP TABLE IF EXISTS _t_snt")
    report = migrating.end()
    assert type_of_v(table) == "bigint"
    assert table.query("SELECT v FROM t ORDER BY id") == [(11,), (20,), (30,)]
    assert [row[0] for row in table.query("SHOW TABLES")] == ["t"]
    assert report.checksum_passes >= 3
    assert report.phases["sentinel"] > 0
    done = [one for one in migrating.told.events if isinstance(one, ChecksumDone)]
    assert len(done) >= 3
    assert [one.is_shown(verbose=False) for one in done[:3]] == [True, False, False]


@pytest.mark.slow
def test_a_difference_that_comes_while_waiting_is_found(table, engine):
    """A row changed behind the feed's back is found and repaired before the swap."""
    migrating = Migrating(
        engine,
        config_for(table, table="t", alter=ALTER, defer_cutover=True, recheck_interval=0.2),
    )
    try:
        migrating.wait_until(lambda: waits(migrating), "the wait for the operator")
        table.execute("UPDATE _t_new SET v = 99 WHERE id = 2")
        migrating.wait_until(lambda: repaired(migrating), "a repair")
    finally:
        table.execute("DROP TABLE IF EXISTS _t_snt")
    report = migrating.end()
    assert report.chunks_repaired == 1
    assert table.query("SELECT v FROM t ORDER BY id") == [(10,), (20,), (30,)]


def repaired(migrating):
    """Whether a checksum has reported a repaired chunk."""
    return any(" 1 chunk repaired" in line for line in migrating.told.lines)


@pytest.mark.slow
def test_the_wait_ends_with_its_time(table, engine):
    """After the time limit the migration ends cleanly, and says that it can go on.

    The run that goes on reports the sentinel, which it has not created.
    """
    config = config_for(table, table="t", alter=ALTER, defer_cutover=True, defer_timeout=1.0)
    with pytest.raises(MigrationFailure, match="deferred") as failed:
        Migrating(engine, config).end()
    assert failed.value.resumable
    assert "same command" in failed.value.hint
    assert type_of_v(table) == "int"
    again = Migrating(engine, config)
    with pytest.raises(MigrationFailure, match="deferred"):
        again.end()
    (deferred,) = again.told.named(CutoverDeferred)
    assert deferred.fields["sentinel"] == f"{table.name}._t_snt"


@pytest.mark.slow
def test_a_signal_ends_the_wait(table, engine):
    """SIGINT while it waits ends it as anywhere else."""
    migrating = Migrating(engine, config_for(table, table="t", alter=ALTER, defer_cutover=True))
    migrating.wait_until(lambda: waits(migrating), "the wait for the operator")
    migrating.stop.request(Interrupted(2))
    with pytest.raises(Interrupted):
        migrating.end()
    assert type_of_v(table) == "int"


class AtPoint:
    """Drops the sentinel when a comparison of the wait passes a point, and is seen to have.

    Attributes:
        migrating: the migration, once it runs.
        shown: its figures at that moment.
    """

    migrating: Migrating

    def __init__(self, db, monkeypatch, point):
        self._db = db
        self._point = point
        self._waited = False
        self.shown = None
        monkeypatch.setattr(points, "_listener", "here")
        monkeypatch.setattr(points, "_announce", self._passed)

    def wait(self):
        """Wait until the migration waits for its sentinel; from then on the point counts."""
        self.migrating.wait_until(lambda: waits(self.migrating), "the wait for the operator")
        self._waited = True

    def _passed(self, name):
        if name != self._point or not self._waited or self.shown:
            return
        before = len(self.migrating.told.snapshots)
        self.migrating.wait_until(
            lambda: len(self.migrating.told.snapshots) > before + 1, "a snapshot"
        )
        self.shown = self.migrating.told.snapshots[-1]
        self._db.execute("DROP TABLE _t_snt")
        deadline = time.monotonic() + 60
        while any(one.name == "spirit-py-sentinel" for one in threading.enumerate()):
            assert time.monotonic() < deadline, "nobody saw that the sentinel is gone"
            time.sleep(0.05)


def dropped_during(engine, db, monkeypatch, point, between=""):
    """Run a migration whose sentinel is dropped at a point of a later comparison."""
    at = AtPoint(db, monkeypatch, point)
    at.migrating = Migrating(
        engine,
        config_for(db, table="t", alter=ALTER, defer_cutover=True, recheck_interval=0.2),
    )
    at.wait()
    if between:
        db.execute(between)
    at.migrating.end()
    assert type_of_v(db) == "bigint"
    assert db.query("SELECT v FROM t ORDER BY id") == [(10,), (20,), (30,)]
    assert [row[0] for row in db.query("SHOW TABLES")] == ["t"]
    return at


@pytest.mark.slow
def test_a_clean_comparison_under_way_is_given_up(table, engine, monkeypatch):
    """The sentinel goes while a comparison runs: it swaps on the proof of the earlier passes."""
    at = dropped_during(engine, table, monkeypatch, "checksum.compare")
    assert at.shown.phase is Phase.SENTINEL
    assert "pass 1, 0 differences" in at.shown.note
    assert "anew" not in at.migrating.told.text


@pytest.mark.slow
def test_a_comparison_that_found_a_difference_is_made_anew(table, engine, monkeypatch):
    """The sentinel goes after a difference was found: nothing is swapped without a clean pass."""
    at = dropped_during(
        engine, table, monkeypatch, "checksum.repair", "UPDATE _t_new SET v = 99 WHERE id = 2"
    )
    assert "pass 1, 1 differences" in at.shown.note
    assert "t again: a difference had been found" in at.migrating.told.text


@pytest.mark.slow
def test_an_instant_change_waits_for_the_operator_too(table, engine):
    """With --defer-cutover nothing changes before the sentinel goes, however fast it could."""
    migrating = Migrating(
        engine,
        config_for(
            table,
            table="t",
            alter="ADD COLUMN z INT",
            defer_cutover=True,
            recheck_interval=3600.0,
        ),
    )
    try:
        migrating.wait_until(lambda: waits(migrating), "the wait for the operator")
        assert [row[0] for row in table.query("SHOW COLUMNS FROM t")] == ["id", "v"]
    finally:
        table.execute("DROP TABLE IF EXISTS _t_snt")
    report = migrating.end()
    assert "--defer-cutover" in report.reason
    assert [row[0] for row in table.query("SHOW COLUMNS FROM t")] == ["id", "v", "z"]
    assert report.checksum_age_seconds > 0


@pytest.mark.parametrize("how", ["dry run", "duplicates"])
def test_a_sentinel_made_by_hand_is_never_dropped(table, engine, how):
    """Whatever the end of a run: a table that this program has not made stays, with its rows."""
    table.execute("CREATE TABLE _t_snt (id INT PRIMARY KEY, v VARCHAR(20))")
    table.execute("INSERT INTO _t_snt VALUES (1, 'precious')")
    if how == "dry run":
        config = config_for(table, table="t", alter="ADD COLUMN z INT", dry_run=True)
        assert Migrating(engine, config).end().outcome == "rehearsed"
    else:
        table.execute("UPDATE t SET v = 7")
        config = config_for(table, table="t", alter="ADD UNIQUE KEY (v)")
        with pytest.raises(SpiritError, match="unique key v"):
            Migrating(engine, config).end()
    assert table.query("SELECT v FROM _t_snt") == [("precious",)]
    assert tables(table) == ["_t_snt", "t"]


@pytest.mark.slow
def test_a_sentinel_while_the_swap_waits_for_its_lock_counts(table, engine):
    """A swap that waits for its lock is deferred like one that was not begun."""
    migrating = Migrating(
        engine,
        config_for(
            table,
            table="t",
            alter=ALTER,
            defer_cutover=True,
            recheck_interval=3600.0,
        ),
    )
    with table.connect() as reader, reader.cursor() as cursor:
        try:
            migrating.wait_until(lambda: waits(migrating), "the wait for the operator")
            cursor.execute("BEGIN")
            cursor.execute("SELECT NOW(6), COUNT(*) FROM t")
            ((began, _),) = cursor.fetchall()
            old = "SELECT NOW(6) > %s + INTERVAL %s SECOND"
            until(
                lambda: table.query(old, (began, LockPolicy().wait)) == [(1,)],
                "a transaction that no lock is requested behind",
            )
            table.execute("DROP TABLE _t_snt")
            asked_not = "is not requested while it is blocked by"
            migrating.wait_until(lambda: asked_not in migrating.told.text, "the wait for the lock")
            migrating.told.snapshots.clear()
            table.execute("CREATE TABLE _t_snt (id INT)")
            migrating.wait_until(lambda: waits(migrating), "the wait once more")
            assert "waiting again" in migrating.told.text
            cursor.execute("COMMIT")
        finally:
            table.execute("DROP TABLE IF EXISTS _t_snt")
        assert migrating.end().cutover_attempts == 1
    assert type_of_v(table) == "bigint"
