"""``--drop-old-after``: how long the old table stays after the swap, and who drops it then."""

from __future__ import annotations

import contextlib
import math
import signal
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from spirit_py.checkpoint import drop
from spirit_py.checkpoint.codec import FORMAT
from spirit_py.checkpoint.drop import drop_checkpoint, drop_old_table, free_partitions
from spirit_py.checkpoint.examination import old_table_of
from spirit_py.checkpoint.record import ReverseRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.checkpoint.writer import note_of_old
from spirit_py.codes import ErrorCode
from spirit_py.config import RevertConfig
from spirit_py.errors import Interrupted, MigrationFailure, Refusal, ServerFault, SpiritError
from spirit_py.migration import auxiliary, cleanup, throttling
from spirit_py.migration.control import listener
from spirit_py.migration.listing import migrations
from spirit_py.migration.reverse import swap_back
from spirit_py.migration.reverse.revert import Revert
from spirit_py.migration.swap import old_tables
from spirit_py.migration.swap.same_tables import FORWARD
from spirit_py.mysql.connect import connect
from spirit_py.mysql.facts import server_now
from spirit_py.mysql.tables.identity import NOTHING, drop_if, identity
from spirit_py.phases import Phase
from spirit_py.threads import StopSwitch
from tests.kits.cleanup import clean
from tests.kits.engine import SharedEngine
from tests.kits.migrate import Migrating, config_for
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import once_at, start
from tests.kits.tables import tables
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.checkpoint.record import OldTableRecord
    from spirit_py.status.report import MigrationReport

ALTER = "ADD COLUMN z INT NOT NULL DEFAULT 5"
HOUR = 3600.0


@pytest.fixture
def change(db, engine) -> Callable[..., Migrating]:
    """Make a small table; return what begins to change it."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    # Without a time it is 0s that is asked for, not none.
    named = frozenset({"drop_old_after"})
    given = {"table": "t", "alter": ALTER, "no_shortcut": True, "named": named}
    return lambda **more: start(engine, db, **{**given, **more})


def in_grace(running: Migrating) -> bool:
    """Whether a run waits until the old table may be dropped, and shows until when."""
    last = running.told.snapshots[-1] if running.told.snapshots else None
    return bool(last and last.phase is Phase.GRACE and "is kept until" in last.waiting_for)


def interrupted_in_grace(change: Callable[..., Migrating], **more: Any) -> Interrupted:
    """Run until the grace, and stop there."""
    running = change(drop_old_after=HOUR, **more)
    running.wait_until(lambda: in_grace(running), "grace")
    running.stop.request(Interrupted(signal.SIGTERM))
    with pytest.raises(Interrupted) as ended:
        running.end()
    return ended.value


def noted(db, table: str = "t") -> OldTableRecord:
    """Return what is noted of the old table."""
    with connect(config_for(db).connection, role="test") as session:
        found = old_table_of(session, (db.name, table))
    assert found is not None
    return found


def swapped_earlier(db, seconds: float, table: str = "t") -> None:
    """Note that the swap was made so much earlier, by the server's clock."""
    found = noted(db, table)
    with connect(config_for(db).connection, role="test") as session:
        moved = replace(found, swapped_at=found.swapped_at - seconds)
        CheckpointTable(db.name, table).write(session, moved)


#: The home's checkpoint goes last, and stays where another one could not be dropped.
_LEFT_OF = {"t": ["_t_chkpnt", "t", "u"], "u": ["_t_chkpnt", "_u_chkpnt", "t", "u"]}


def keep_a_checkpoint(monkeypatch, module, of: str) -> None:
    """Let the drop of a table's checkpoint fail, as where a process ends before it."""

    def drop(session, table):
        if table[1] == of:
            raise ServerFault(1142, "DROP command denied", where="test")
        drop_checkpoint(session, table)

    monkeypatch.setattr(module, "drop_checkpoint", drop)


def shown(db) -> str:
    """Return what ``spirit-py status`` shows."""
    found = migrations(config_for(db).connection, database=db.name, table="t", max_age=1e6)
    return "\n".join(line for one in found for line in one.lines())


def waits_for(db) -> str:
    """Return what the run has written last on the server of what it waits for."""
    found = migrations(config_for(db).connection, database=db.name, table="t", max_age=1e6)
    return next((one.live.waiting_for for one in found if one.live is not None), "")


def test_by_default_the_old_table_is_dropped_at_once(db, change):
    """Nothing is noted, no phase waits, nothing is left."""
    report = change().end()
    assert tables(db) == ["t"]
    assert Phase.GRACE.value not in report.phases
    assert report.old_table == ""


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"keep_old_current": HOUR}, {"drop_old_after": HOUR}])
def test_a_migration_beside_one_that_keeps_its_old_table_hears_that_it_has_swapped(
    db, change, more
):
    """And what ends the wait: not only that a run is running. Its own locks are no other run's."""
    db.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    first = change(**more)
    left = "is kept until" if "drop_old_after" in more else "reverse replication ends in"
    # The panel has it first; another run hears what is written to the server once a second.
    first.wait_until(lambda: left in waits_for(db), "the wait, as others see it")
    with pytest.raises(Refusal, match="it has made its swap, and keeps the old table") as refused:
        change(**more).end()
    assert left in refused.value.message
    assert "spirit-py ctl abort, then spirit-py cleanup" in refused.value.hint
    both = {"table": "", "alter": "", "statement": f"ALTER TABLE a FORCE; ALTER TABLE t {ALTER}"}
    with pytest.raises(Refusal, match=r"t is running .* it has made its swap, and keeps the old"):
        change(**both, **more).end()
    first.stop.request(Interrupted(signal.SIGTERM))
    with pytest.raises(Interrupted):
        first.end()


@pytest.mark.slow
def test_the_old_table_stays_until_its_grace_is_over(db, change):
    """A stop in the grace is resumable, the same command waits on, and drops it when it is due."""
    stopped = interrupted_in_grace(change)
    assert stopped.exit_code == 128 + signal.SIGTERM
    assert "the change is done; _t_old is kept until" in stopped.hint
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    assert "old table  " + f"{db.name}._t_old is kept until" in shown(db)

    first = noted(db)
    again = change(drop_old_after=HOUR)
    again.wait_until(lambda: in_grace(again), "second grace")
    assert noted(db).swapped_at == first.swapped_at
    again.stop.request(Interrupted(signal.SIGINT))
    with pytest.raises(Interrupted):
        again.end()
    assert "_t_old" in tables(db)

    swapped_earlier(db, HOUR)
    report = change(drop_old_after=HOUR).end()
    assert tables(db) == ["t"]
    assert "the swap was done already" in report.resumed
    assert db.query("SELECT COUNT(*), SUM(z) FROM t") == [(3, 15)]


@pytest.mark.slow
def test_a_server_that_became_a_replica_in_the_grace_drops_nothing_alone(db, change):
    """The account may write there still: its DROP would be on the replica alone."""
    running = change(drop_old_after=HOUR)
    running.wait_until(lambda: in_grace(running), "grace")
    running.stop.request(Interrupted(signal.SIGTERM))
    with pytest.raises(Interrupted):
        running.end()
    swapped_earlier(db, HOUR)
    db.set_global("read_only", "ON")
    with pytest.raises(Refusal, match=r"takes no writes \(read_only=ON\)") as ended:
        change(drop_old_after=HOUR).end()
    assert ended.value.error_code is ErrorCode.SERVER_SETTINGS
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    db.execute("SET GLOBAL read_only = OFF")
    change(drop_old_after=HOUR).end()
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_a_server_that_became_a_replica_while_the_drop_waited_drops_nothing(
    db, change, monkeypatch
):
    """A pause, or a server under load, may hold it back for hours behind the first look."""
    held_back = []

    def held(_turn, _job, what, *_):
        held_back.append(what)
        db.set_global("read_only", "ON")

    with monkeypatch.context() as patch:
        patch.setattr(old_tables.DropTurn, "wait", held)
        with pytest.raises(MigrationFailure, match=r"takes no writes \(read_only=ON\)") as ended:
            change().end()
    assert ended.value.error_code is ErrorCode.OLD_TABLE_LEFT
    assert held_back == ["drop of _t_old"]
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    db.execute("SET GLOBAL read_only = OFF")
    change().end()
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_a_note_that_is_lost_shortens_no_grace(db, change):
    """Nothing says when the swap was made: the whole time begins again."""
    interrupted_in_grace(change)
    db.execute("DELETE FROM _t_chkpnt WHERE id = 9")
    again = change(drop_old_after=HOUR)
    again.wait_until(lambda: in_grace(again), "second grace")
    assert "_t_old" in tables(db)
    db.execute("DELETE FROM _t_chkpnt WHERE id = 9")
    again.stop.request(Interrupted(signal.SIGINT))
    with pytest.raises(Interrupted):
        again.end()
    with connect(config_for(db).connection, role="test") as session:
        left, _ = old_tables._seconds_left(session, [(db.name, "t")], HOUR, FORWARD)
    assert left > HOUR / 2
    assert noted(db).until
    change().end()
    assert tables(db) == ["t"]


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"until": 0.0, "finished": True}, {"until": 0.0}])
def test_an_old_table_that_another_run_has_left_for_good_stays(db, change, monkeypatch, more):
    """A run that was away may have its lock again, and finds what another one noted meanwhile."""
    monkeypatch.setattr(old_tables, "_LOOK_SECONDS", 0.1)
    running = change(drop_old_after=HOUR)
    running.wait_until(lambda: in_grace(running), "grace")
    with connect(config_for(db).connection, role="test") as session:
        CheckpointTable(db.name, "t").write(session, replace(noted(db), **more))
    report = running.end()
    assert report.old_table == "_t_old"
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    assert noted(db).finished


@pytest.mark.slow
def test_an_old_table_that_another_version_keeps_stays(db, change):
    """Neither cleanup nor the same command drops it, nor what proves whose it is."""
    change(drop_old_after=float("inf")).end()
    other = "UPDATE _t_chkpnt SET record = REPLACE(record, %s, %s)"
    assert db.execute(other, (f'"format": {FORMAT}', '"format": 99'))
    for attempt in (lambda: clean(db, old=True), change().end):
        with pytest.raises(Refusal, match="cannot be read: it has format 99"):
            attempt()
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]


@pytest.mark.slow
def test_a_revert_says_that_another_version_kept_the_old_table(db, change, engine):
    """An older version noted no place of a swap; what it noted elsewhere may be the reason."""
    change(drop_old_after=float("inf")).end()
    db.execute("DELETE FROM _t_chkpnt WHERE id = 2")
    other = "UPDATE _t_chkpnt SET record = REPLACE(record, %s, %s)"
    assert db.execute(other, (f'"format": {FORMAT}', '"format": 3'))
    asked = RevertConfig(connection=config_for(db).connection, database=db.name, table="t")
    with pytest.raises(Refusal, match="cannot be read: it has format 3") as refused:
        Revert(asked, RecordingReporter(), engine_factory=lambda _: engine, stop=StopSwitch()).run()
    assert refused.value.error_code == ErrorCode.CHECKPOINT_UNREADABLE
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]


@pytest.mark.slow
def test_a_shorter_grace_given_later_counts(db, change):
    """The grace is that of the command that runs: with 0 s the old table goes at once."""
    interrupted_in_grace(change)
    report = change().end()
    assert tables(db) == ["t"]
    assert not any("checksum" in line for line in report.summary())


@pytest.mark.slow
def test_a_server_clock_that_is_set_forward_shortens_no_grace(db, change, monkeypatch):
    """The run counts the seconds by its own clock as well."""
    monkeypatch.setattr(old_tables, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(old_tables, "_SHOW_SECONDS", 0.05)
    moved: list[float] = []
    begun: list[Migrating] = []
    asked = server_now

    def now(session: Any) -> float:
        waits = any(in_grace(running) for running in begun)
        moved.append(asked(session) + (2 * HOUR if waits else 0.0))
        return moved[-1]

    monkeypatch.setattr(old_tables, "server_now", now)
    begun.append(running := change(drop_old_after=HOUR))
    running.wait_until(lambda: in_grace(running), "grace")
    looks = len(moved)
    running.wait_until(lambda: len(moved) > looks + 20, "looks at the clock")
    assert moved[-1] - moved[0] > HOUR
    running.stop.request(Interrupted(signal.SIGINT))
    with pytest.raises(Interrupted):
        running.end()
    assert "_t_old" in tables(db)


@pytest.mark.slow
def test_what_others_do_to_the_table_in_the_grace_changes_nothing(db, change):
    """The table is in use: a rebuild by another session does not confuse the run that resumes.

    Nor is another migration of it begun meanwhile.
    """
    interrupted_in_grace(change)
    db.execute("ALTER TABLE t ADD COLUMN other INT, ENGINE=InnoDB")
    with pytest.raises(Refusal, match="an earlier change is done, and its old table is there"):
        change(alter="DROP COLUMN a").end()
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    change().end()
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_an_old_table_that_is_dropped_by_hand_ends_the_grace(db, change):
    """Nobody waits for a table that is gone."""
    interrupted_in_grace(change)
    db.execute("DROP TABLE _t_old")
    change(drop_old_after=HOUR).end()
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_a_swap_that_was_undone_by_hand_is_no_change_that_is_done(db, change, monkeypatch):
    """Whoever waits in the grace says so, and forgets nothing; a later run makes it anew."""
    monkeypatch.setattr(old_tables, "_LOOK_SECONDS", 0.1)
    running = change(drop_old_after=HOUR)
    running.wait_until(lambda: in_grace(running), "grace")
    db.execute("RENAME TABLE t TO t_bad, _t_old TO t")
    with pytest.raises(SpiritError, match="was undone") as ended:
        running.end()
    assert ended.value.error_code is ErrorCode.OLD_TABLE_LEFT
    assert tables(db) == ["_t_chkpnt", "t", "t_bad"]


def put_another_in_its_place(db) -> None:
    """Drop the old table, and put a table of somebody's own under its name, at one moment."""
    db.execute("CREATE TABLE theirs (id INT PRIMARY KEY, a INT)")
    db.execute("INSERT INTO theirs VALUES (7, 7)")
    db.execute("RENAME TABLE _t_old TO dropped, theirs TO _t_old")
    db.execute("DROP TABLE dropped")


@pytest.mark.slow
def test_another_table_in_the_old_ones_place_is_not_dropped(db, change):
    """What somebody put there between two runs stays (R24): the next one is refused."""
    interrupted_in_grace(change)
    put_another_in_its_place(db)
    with pytest.raises(Refusal, match="_t_old is not the table from before the swap"):
        change().end()
    clean(db, old=True)
    assert tables(db) == ["_t_old", "t"]
    assert db.query("SELECT * FROM _t_old") == [(7, 7)]


@pytest.mark.slow
def test_a_table_that_is_put_there_in_the_grace_is_not_dropped(db, change, monkeypatch):
    """The run sees that the old table is gone, leaves the other one alone, and ends."""
    monkeypatch.setattr(old_tables, "_LOOK_SECONDS", 0.1)
    running = change(drop_old_after=HOUR)
    running.wait_until(lambda: in_grace(running), "grace")
    put_another_in_its_place(db)
    with pytest.raises(MigrationFailure, match="or is another table") as left:
        running.end()
    assert left.value.error_code is ErrorCode.OLD_TABLE_LEFT
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    assert db.query("SELECT * FROM _t_old") == [(7, 7)]
    clean(db, old=True)
    assert tables(db) == ["_t_old", "t"]


@pytest.mark.slow
def test_an_old_table_that_is_rebuilt_in_the_grace_ends_it_with_an_error(db, change, monkeypatch):
    """Days early, exit 0 would say that the way back was kept for as long as was asked."""
    monkeypatch.setattr(old_tables, "_LOOK_SECONDS", 0.1)
    running = change(drop_old_after=HOUR)
    running.wait_until(lambda: in_grace(running), "grace")
    db.execute("OPTIMIZE TABLE _t_old")
    with pytest.raises(MigrationFailure, match="OPTIMIZE TABLE") as left:
        running.end()
    assert left.value.error_code is ErrorCode.OLD_TABLE_LEFT
    assert "the way back is lost" in left.value.message
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    assert "to drop " not in clean(db, old=True)


@pytest.mark.slow
def test_an_old_table_that_is_dropped_by_hand_ends_the_grace_beside_a_strangers(
    db, change, monkeypatch
):
    """Another program's table of the name that a move would leave is no old table of this."""
    monkeypatch.setattr(old_tables, "_LOOK_SECONDS", 0.1)
    db.execute("CREATE TABLE _t_moved (id INT PRIMARY KEY)")
    running = change(drop_old_after=HOUR)
    running.wait_until(lambda: in_grace(running), "grace")
    db.execute("DROP TABLE _t_old")
    running.end()
    assert tables(db) == ["_t_moved", "t"]


@pytest.mark.slow
def test_of_two_old_tables_the_one_that_is_proven_goes_when_it_is_due(db, change, monkeypatch):
    """A rebuild of the other one ends the grace, but keeps no table for ever."""
    monkeypatch.setattr(old_tables, "_LOOK_SECONDS", 0.1)
    db.execute("CREATE TABLE u (id INT PRIMARY KEY, a INT)")
    statement = f"ALTER TABLE u {ALTER}; ALTER TABLE t {ALTER}"
    both = {"table": "", "alter": "", "statement": statement}
    interrupted_in_grace(change, **both)
    db.execute("OPTIMIZE TABLE _u_old")
    with pytest.raises(MigrationFailure, match="the way back is lost") as left:
        change(drop_old_after=HOUR, **both).end()
    assert "--drop-old-after 0s, drops what is proven" in left.value.hint
    report = change(drop_old_after=0.001, **both).end()
    assert any("_u_old" in warning for warning in report.warnings)
    assert tables(db) == ["_u_old", "t", "u"]


def kept(db, change: Callable[..., Migrating]) -> MigrationReport:
    """Change the table, and leave the old one to the operator."""
    report = change(drop_old_after=math.inf).end()
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    return report


@pytest.mark.slow
def test_never_leaves_the_old_table_to_cleanup(db, change):
    """The proof stays: cleanup knows whose it is, drops it when told to, and only then."""
    report = kept(db, change)
    assert report.old_table == "_t_old"
    assert "kept until spirit-py cleanup --drop-old drops it" in shown(db)
    said = clean(db, old=False)
    assert "spirit-py cleanup --drop-old drops it" in said
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    clean(db, old=True)
    assert tables(db) == ["t"]
    assert change(alter="DROP COLUMN z", drop_old_after=0.0).end().outcome == "done"
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_a_migration_beside_a_kept_old_table_is_refused(db, change):
    """Of another statement and of the same one: the change is done, and cleanup drops it."""
    kept(db, change)
    for alter in (ALTER, "DROP COLUMN a"):
        with pytest.raises(Refusal) as refused:
            change(alter=alter).end()
        assert "_t_old is kept until spirit-py cleanup" in refused.value.message
        assert "spirit-py cleanup" in refused.value.hint
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]


@pytest.mark.slow
def test_a_kept_old_table_that_was_dropped_by_hand_is_in_nobodys_way(db, change):
    """The next migration begins as if nothing had been left, and status says why."""
    kept(db, change)
    db.execute("DROP TABLE _t_old")
    afresh = "it would start afresh: the earlier change is done, and its old table is gone"
    assert afresh in shown(db)
    report = change(alter="DROP COLUMN z").end()
    assert (report.outcome, report.resumed) == ("done", "")
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_the_grace_counts_from_the_swap_and_follows_reverse_replication(db, change):
    """After its time the old table follows no more, stays for the grace, and is dropped then."""
    both = {"keep_old_current": 1.0}
    stopped = interrupted_in_grace(change, **both)
    assert "the change is done" in stopped.hint
    with connect(config_for(db).connection, role="test") as session:
        record = CheckpointTable(db.name, "t").read(session, ReverseRecord)
    assert record is not None
    assert record.is_noted
    db.execute("INSERT INTO t (id, a) VALUES (9, 9)")
    assert db.query("SELECT COUNT(*) FROM _t_old WHERE id = 9") == [(0,)]

    again = change(drop_old_after=HOUR, **both)
    again.wait_until(lambda: in_grace(again), "grace without reverse replication")
    assert not again.told.said("no reverse replication")
    again.stop.request(Interrupted(signal.SIGINT))
    with pytest.raises(Interrupted):
        again.end()
    swapped_earlier(db, HOUR)
    change(drop_old_after=HOUR, **both).end()
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_a_drop_that_fails_leaves_the_proof(db, change, monkeypatch):
    """A reader still has the old table open: the change is done, and cleanup drops it later."""
    quick = partial(drop_old_table, lock_wait=1, attempts=1)
    monkeypatch.setattr(old_tables, "drop_old_table", quick)
    interrupted_in_grace(change)
    reader = db.connect(autocommit=False).cursor()
    reader.execute("SELECT * FROM _t_old")
    report = change().end()
    assert (report.outcome, report.old_table) == ("done", "_t_old")
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    reader.connection.rollback()
    clean(db, old=True)
    assert tables(db) == ["t"]


def test_a_large_partitioned_table_is_emptied_partition_by_partition(db):
    """The largest first; the smallest stays to the end, and with it the proof (R24).

    A table into which rows of another one were brought is not dropped.
    """
    db.execute(
        "CREATE TABLE _t_old (id INT PRIMARY KEY, a VARCHAR(4000)) PARTITION BY RANGE (id)"
        " (PARTITION one VALUES LESS THAN (10), PARTITION `two two` VALUES LESS THAN (1000),"
        " PARTITION three VALUES LESS THAN (2000))"
    )
    for first, last in ((10, 500), (1000, 1100)):
        db.execute(
            "INSERT INTO _t_old WITH RECURSIVE n (i) AS (SELECT %s UNION ALL SELECT i + 1 FROM n"
            " WHERE i < %s) SELECT i, REPEAT('x', 4000) FROM n",
            (first, last),
        )
    db.query("ANALYZE TABLE _t_old")
    seen = []

    def look() -> None:
        counted = [
            f"COUNT(IF(id BETWEEN {a} AND {b}, 1, NULL))" for a, b in ((10, 999), (1000, 2000))
        ]
        seen.append(db.query(f"SELECT {', '.join(counted)} FROM _t_old")[0])

    with connect(config_for(db).connection, role="test") as session:
        proof = identity(session, db.name, "_t_old")
        assert free_partitions(session, db.name, "_t_old", proof, before_each=look) == 0
        freed = free_partitions(session, db.name, "_t_old", proof, before_each=look, large=1 << 20)
        assert freed == 2
        look()
        assert seen == [(491, 101), (0, 101), (0, 0)]
        db.execute("CREATE TABLE other LIKE _t_old; ALTER TABLE other REMOVE PARTITIONING")
        db.execute("INSERT INTO other VALUES (1500, 'of somebody else')")
        exchange = "ALTER TABLE _t_old EXCHANGE PARTITION three WITH TABLE other"
        db.execute(exchange)
        assert not drop_if(session, db.name, "_t_old", proof), "it has rows of another table"
        db.execute(f"{exchange}; DROP TABLE other")
        assert drop_if(session, db.name, "_t_old", proof)
    assert tables(db) == []


@pytest.mark.slow
def test_a_drop_that_was_stopped_in_the_middle_is_shown_as_such(db, engine, monkeypatch):
    """Nobody is told that a table is kept whose partitions are emptied already; how it ends."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
        " PARTITION BY RANGE (id) (PARTITION one VALUES LESS THAN (2),"
        " PARTITION two VALUES LESS THAN (3), PARTITION three VALUES LESS THAN (99))"
    )
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    monkeypatch.setattr(drop, "free_partitions", partial(free_partitions, large=0))
    monkeypatch.setattr(old_tables, "_REST_SECONDS", 0.0)
    given = {"no_shortcut": True, "named": frozenset({"drop_old_after"})}
    change = partial(start, engine, db, table="t", alter=ALTER, **given)
    interrupted_in_grace(change)
    assert "_t_old is kept until" in shown(db)
    running: list[Migrating] = []

    def stop_at_the_second(*_: object) -> None:
        if len(running) == 2:
            running[0].stop.request(Interrupted(signal.SIGTERM))
            running[0].stop.check()
        running.append(running[0])

    monkeypatch.setattr(old_tables, "_between_partitions", stop_at_the_second)
    running.append(change())
    with pytest.raises(Interrupted):
        running[0].end()
    assert "_t_old is being dropped: 1 of 3 partitions are emptied; the same command" in shown(db)
    assert "kept until" not in shown(db)
    monkeypatch.setattr(old_tables, "_between_partitions", lambda *_: None)
    assert "1 of 3 partitions are emptied" in change().end().resumed
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_cleanup_drops_a_large_partitioned_table_as_gently(db, engine, monkeypatch):
    """Partition by partition, with a rest before each; what was emptied before is said."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT) PARTITION BY HASH (id) PARTITIONS 4")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    start(engine, db, table="t", alter=ALTER, no_shortcut=True, drop_old_after=math.inf).end()
    db.execute("ALTER TABLE _t_old TRUNCATE PARTITION p3")
    emptied: list[int] = []

    def free(*given: Any, **more: Any) -> int:
        emptied.append(free_partitions(*given, **more, large=0))
        return emptied[-1]

    monkeypatch.setattr(drop, "free_partitions", free)
    monkeypatch.setattr(cleanup, "_REST_SECONDS", 0.0)
    said = clean(db, old=True)
    assert "_t_old (1 of 4 partitions are emptied already; asked for separately" in said
    assert emptied == [2]
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_a_cleanup_that_was_stopped_in_the_middle_leaves_no_way_back(db, engine, monkeypatch):
    """What is half emptied is not swapped back, and nobody is told that it could be."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT) PARTITION BY HASH (id) PARTITIONS 4")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    start(engine, db, table="t", alter=ALTER, no_shortcut=True, drop_old_after=math.inf).end()

    def free(*given: Any, **more: Any) -> NoReturn:
        free_partitions(*given, **more, large=0)
        raise KeyboardInterrupt

    monkeypatch.setattr(drop, "free_partitions", free)
    monkeypatch.setattr(cleanup, "_REST_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        clean(db, old=True)
    said = clean(db)
    assert "_t_old (3 of 4 partitions are emptied already; asked for separately" in said
    assert "spirit-py revert still swaps back" not in said
    assert "the way back" not in said
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]


def test_a_partitioned_table_of_others_is_not_emptied(db):
    """Without the proof no partition is touched (R24)."""
    db.execute("CREATE TABLE _t_old (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3")
    db.execute("INSERT INTO _t_old VALUES (1), (2), (3)")
    with connect(config_for(db).connection, role="test") as session:
        free_partitions(session, db.name, "_t_old", NOTHING, before_each=int, large=0)
    assert db.query("SELECT COUNT(*) FROM _t_old") == [(3,)]


@pytest.mark.slow
def test_a_drop_waits_until_nothing_holds_it_back(db, change):
    """What holds back the copy holds back the drop, too, and is shown; a stop ends the wait."""
    interrupted_in_grace(change)
    running = change(max_load=(("Threads_connected", 0.0),))
    running.wait_until(
        lambda: any("drop of _t_old" in one.waiting_for for one in running.told.snapshots[-1:]),
        "drop that waits",
    )
    assert "_t_old" in tables(db)
    running.stop.request(Interrupted(signal.SIGINT))
    with pytest.raises(Interrupted):
        running.end()
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    change().end()
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_a_critical_load_before_the_drop_says_that_the_change_is_done(db, change):
    """So does a lock that is lost in the grace: whatever has ended the run."""
    running = change(drop_old_after=HOUR)
    running.wait_until(lambda: in_grace(running), "grace")
    lost = MigrationFailure("another run", error_code=ErrorCode.RUN_LOCK_LOST)
    running.stop.request(lost)
    with pytest.raises(MigrationFailure, match=r"the change is done, .* another run") as left:
        running.end()
    assert left.value.error_code is ErrorCode.OLD_TABLE_LEFT
    limits: dict[str, Any] = {"critical_load": (("Threads_connected", 0.0),)}
    running = change(max_load=(("Threads_connected", 0.0),), **limits)
    with pytest.raises(MigrationFailure, match=r"is done, .* the load .* is critical") as left:
        running.end()
    assert left.value.error_code is ErrorCode.OLD_TABLE_LEFT
    assert "the same command" in left.value.hint
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]


@pytest.mark.slow
def test_the_old_tables_of_several_stay_and_go_together(db, change):
    """Each has its note, each of them finds the migration, and one command drops both."""
    db.execute("CREATE TABLE u (id INT PRIMARY KEY, a INT)")
    db.execute("INSERT INTO u VALUES (1, 1)")
    statement = f"ALTER TABLE t {ALTER}; ALTER TABLE u {ALTER}"
    both = {"table": "", "alter": "", "statement": statement}
    interrupted_in_grace(change, **both)
    assert tables(db) == ["_t_chkpnt", "_t_old", "_u_chkpnt", "_u_old", "t", "u"]
    with pytest.raises(Refusal, match="_u_old is kept until"):
        change(table="u", alter="DROP COLUMN a").end()
    for name in "tu":
        swapped_earlier(db, HOUR, name)
    change(drop_old_after=HOUR, **both).end()
    assert tables(db) == ["t", "u"]


@pytest.mark.slow
def test_a_table_that_is_to_be_dropped_at_once_is_not_called_kept(change, db):
    """A run notes that the way back has ended, and may be killed before the drop."""
    interrupted_in_grace(change)
    db.execute("DELETE FROM _t_chkpnt WHERE id = 9")
    with connect(config_for(db).connection, role="test") as session:
        note_of_old(session, (db.name, "t"), followed=True)
    assert "to be dropped by the same command" in shown(db)
    change().end()
    assert tables(db) == ["t"]


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["t", "u"])
def test_a_run_that_was_killed_between_two_checkpoints_is_carried_on(change, db, monkeypatch, kept):
    """That of the record's home goes last; a table whose own one is gone had the same RENAME."""
    db.execute("CREATE TABLE u (id INT PRIMARY KEY, a INT)")
    statement = f"ALTER TABLE u {ALTER}; ALTER TABLE t {ALTER}"
    both = {"table": "", "alter": "", "statement": statement}
    with monkeypatch.context() as patched:
        keep_a_checkpoint(patched, auxiliary, of=kept)
        change(**both).end()
    assert tables(db) == _LEFT_OF[kept]
    again = change(**both)
    again.end()
    assert "the swap was done already" in again.told.text
    assert tables(db) == ["t", "u"]


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["t", "u"])
def test_a_revert_that_was_killed_between_two_checkpoints_is_carried_on(
    change, db, engine, monkeypatch, kept
):
    """The same migrate command ends the revert, and migrates nothing.

    A revert of the table whose checkpoint is gone names the one that leads to what is left.
    """
    db.execute("CREATE TABLE u (id INT PRIMARY KEY, a INT)")
    statement = f"ALTER TABLE u {ALTER}; ALTER TABLE t {ALTER}"
    both = {"table": "", "alter": "", "statement": statement}
    before = db.query("SHOW CREATE TABLE t")
    interrupted_in_grace(change, **both)
    with monkeypatch.context() as patched:
        keep_a_checkpoint(patched, swap_back, of=kept)
        config = RevertConfig(connection=config_for(db).connection, database=db.name, table="u")
        shared: Any = SharedEngine(engine)
        stop, told = StopSwitch(), RecordingReporter()
        made = partial(Revert, config, told, engine_factory=lambda _: shared, stop=stop)
        made().run()
    assert tables(db) == _LEFT_OF[kept]
    if kept == "t":
        with pytest.raises(Refusal, match="is not noted") as refused:
            made().run()
        assert f"swapped back together with {db.name}.t: the revert" in refused.value.hint
    assert "undone by a revert; only the cleanup is left" in shown(db)
    again = change(drop_old_after=HOUR, **both)
    assert again.end().reverted
    assert tables(db) == ["t", "u"]
    with pytest.raises(Refusal, match="is not noted") as refused:
        made().run()
    assert "together" not in refused.value.hint
    assert db.query("SHOW CREATE TABLE t") == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "more"),
    [
        ("cleanup.old_table", {}),
        ("cleanup.checkpoint", {}),
        ("cleanup.checkpoint", {"dry_run": True}),
    ],
    ids=["old table", "checkpoint", "rehearsal"],
)
def test_a_server_that_is_read_only_for_a_moment_after_the_change_keeps_nothing(
    change, db, monkeypatch, point, more
):
    """The drops are tried again: the change is done, and its exit code promises that all is."""
    refusals = (
        "SELECT SUM_ERRORS FROM performance_schema.events_statements_summary_global_by_event_name"
        " WHERE EVENT_NAME = 'statement/sql/drop_table'"
    )
    before = db.query(refusals)
    with contextlib.closing(db.connect()) as operator:
        switch = operator.cursor()
        once_at(monkeypatch, point, lambda: switch.execute("SET GLOBAL super_read_only = ON"))
        running = change(**more)
        try:
            until(lambda: db.query(refusals) != before, "a drop that was refused")
        finally:
            db.execute("SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF")
        report = running.end()
    assert report.outcome == ("rehearsed" if more else "done")
    assert tables(db) == ["t"]
    assert not any("could not be dropped" in line for line in report.warnings)


@pytest.mark.slow
def test_the_requests_go_with_the_checkpoint_though_the_session_that_reads_them_was_lost(
    change, db, monkeypatch
):
    """Without the checkpoint no later run looks for them."""
    # The listener does not look again before its end: it does not see that its session is lost.
    monkeypatch.setattr(listener, "_LOOK_SECONDS", HOUR)
    monkeypatch.setattr(listener, "_SETTLING_SECONDS", HOUR)

    def lose() -> None:
        ((session,),) = db.query(
            "SELECT t.processlist_id FROM performance_schema.user_variables_by_thread v"
            " JOIN performance_schema.threads t USING (thread_id)"
            " WHERE v.variable_name = 'spirit_py_role' AND v.variable_value = 'control'"
        )
        db.execute(f"KILL {session}")

    once_at(monkeypatch, "cleanup.old_table", lose)
    change().end()
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_a_drop_that_nothing_can_be_looked_at_for_says_that_the_change_is_done(
    change, db, monkeypatch
):
    """The same command drops the old table."""

    def denied(*_: Any) -> Any:
        monkeypatch.undo()
        raise ServerFault(1142, "SELECT command denied", where="look")

    once_at(
        monkeypatch,
        "cutover.unlocked",
        lambda: monkeypatch.setattr(throttling, "surroundings", denied),
    )
    with pytest.raises(MigrationFailure, match="the change is done, and its old table") as left:
        change().end()
    assert left.value.error_code is ErrorCode.OLD_TABLE_LEFT
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    change().end()
    assert tables(db) == ["t"]


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"keep_old_current": 600.0}, {"drop_old_after": HOUR}])
def test_what_is_noted_after_the_swap_is_noted_on_a_server_that_was_read_only(
    change, db, monkeypatch, more
):
    """The way back begins, and the grace: without the first note both would be lost."""
    with contextlib.closing(db.connect()) as operator:
        switch = operator.cursor()
        on = "SET GLOBAL super_read_only = ON"
        once_at(monkeypatch, "cutover.unlocked", lambda: switch.execute(on))
        running = change(**more)

        def shown() -> str:
            return running.told.snapshots[-1].waiting_for if running.told.snapshots else ""

        try:
            running.wait_until(lambda: "read-only" in shown(), "the refusal")
        finally:
            db.execute("SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF")
        running.wait_until(lambda: "ends in" in shown() or in_grace(running), "the note")
        running.stop.request(Interrupted(signal.SIGTERM))
        with pytest.raises(Interrupted):
            running.end()
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
