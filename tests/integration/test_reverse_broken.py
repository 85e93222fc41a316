"""Reverse replication under DDL by hand, processes that ended, stale requests."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py import points
from spirit_py.checkpoint.live import REVERT, LiveFigures, Request
from spirit_py.checkpoint.queue import RequestQueue
from spirit_py.checkpoint.record import ENDED, FOLLOWING, REVERTING, ReverseRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.errors import Interrupted, MigrationFailure, Refusal, SpiritError, StatementWrite
from spirit_py.migration import auxiliary
from spirit_py.migration.cleanup import clean_up
from spirit_py.migration.entry import migrate
from spirit_py.migration.listing import migrations
from spirit_py.migration.reverse.keeper import ReverseReplicationLost
from spirit_py.migration.reverse.swap_back import KeptRecord, SwapBack
from spirit_py.mysql.connect import connect
from spirit_py.threads import StopSwitch
from tests.kits.background import BackgroundCall
from tests.kits.cleanup import clean
from tests.kits.connection import connection_options
from tests.kits.engine import SharedEngine
from tests.kits.locking import await_lock_freed
from tests.kits.point_listener import PointListener
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import kill_at, start
from tests.kits.reverse import QUICK, SwappedTable, reverse_config
from tests.kits.tables import tables
from tests.kits.waiting import DEADLINE, until

if TYPE_CHECKING:
    from spirit_py.migration.migration_status import MigrationShown

DAY = 86400.0


@pytest.fixture
def table(db):
    """A small table."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL, c INT)")
    db.execute("INSERT INTO t (v, c) VALUES (1, 10), (2, 20)")
    return db


def shown(db) -> MigrationShown:
    """Return what ``spirit-py status`` shows."""
    (one,) = migrations(connection_options(db), database=db.name, table="t", max_age=7 * DAY)
    return one


def assert_lost(changed: SwappedTable, reason: str) -> None:
    """The change stays, and why the old table follows no more is written down."""
    stored = changed.stored()
    assert stored is not None
    assert stored.state == ENDED
    assert reason in stored.reason
    assert "extra" in changed.columns()


@pytest.mark.slow
def test_ddl_on_the_old_table_ends_reverse_replication(table, engine):
    """The application is never given a table that somebody else has altered."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    following = changed.keep()
    table.execute("ALTER TABLE _t_old DROP COLUMN c, ADD COLUMN stray INT")
    with pytest.raises(SpiritError, match="another session changed the definition of") as failed:
        changed.revert()
    assert failed.value.exit_code == 1
    with pytest.raises(ReverseReplicationLost, match="_t_old since the swap"):
        following.result()
    assert_lost(changed, "another session changed the definition of")


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False], ids=["asked", "in its place"])
def test_ddl_on_the_old_table_is_seen_just_before_the_swap_back(table, engine, monkeypatch, kept):
    """What comes after the comparison is seen under the lock, whoever makes the swap."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    prove = SwapBack.prove

    def prove_and_alter(self: SwapBack) -> None:
        prove(self)
        table.execute("ALTER TABLE _t_old ADD COLUMN stray INT")

    monkeypatch.setattr(SwapBack, "prove", prove_and_alter)
    following = changed.keep() if kept else None
    with pytest.raises(
        SpiritError, match="is lost: another session changed the definition"
    ) as failed:
        changed.revert()
    assert failed.value.exit_code == 1
    if following is not None:
        with pytest.raises(ReverseReplicationLost):
            following.result()
    assert_lost(changed, "another session changed the definition of")


@pytest.mark.slow
@pytest.mark.usefixtures("never_logged")
def test_an_old_table_that_is_exchanged_while_the_lock_is_waited_for(table, engine, monkeypatch):
    """Under the lock it is proven again which table is swapped back (R24)."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    left = ["RENAME TABLE _t_old TO elsewhere; CREATE TABLE _t_old LIKE elsewhere"]

    def passed(name: str) -> None:
        if name == "cutover.lock" and left:
            table.execute(left.pop())

    monkeypatch.setattr(points, "_listener", "here")
    monkeypatch.setattr(points, "_announce", passed)
    with pytest.raises(SpiritError, match="_t_old was replaced") as failed:
        changed.revert()
    assert failed.value.exit_code == 1
    assert "extra" in changed.columns()
    assert {"_t_old", "elsewhere", "t"} <= changed.tables()


@pytest.mark.slow
def test_a_write_in_text_ends_the_process_and_a_revert_goes_on_behind_it(table, engine):
    """R13: a revert that names the other table goes on; the migration's own cannot be named."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    following = changed.keep()
    table.execute("CREATE TABLE other (a INT)")
    with contextlib.closing(table.connect()) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = STATEMENT")
        cursor.execute("INSERT INTO other VALUES (1)")
    with pytest.raises(MigrationFailure, match="has stopped: a session wrote to") as ended:
        following.result()
    for part in (
        f"--pass-statement-writes {table.name}.other",
        "spirit-py revert still swaps back",
    ):
        assert part in ended.value.hint
    with pytest.raises(MigrationFailure, match="has stopped: a session wrote to") as ended:
        changed.revert()
    assert isinstance(ended.value.__cause__, StatementWrite)
    for own in ("t", "_t_old", "_t_undone"):
        with pytest.raises(Refusal, match="which is migrated"):
            changed.revert(feed=replace(QUICK, passable=((table.name, own),)))
    stored = changed.stored()
    assert stored is not None
    assert stored.state == FOLLOWING
    changed.revert(feed=replace(QUICK, passable=((table.name, "other"),)))
    assert changed.tables() == {"t", "other"}


@pytest.mark.parametrize("more", ["", ", DROP INDEX c"], ids=["replaced", "inserted"])
def test_a_value_that_does_not_fit_is_not_written(db, engine, more):
    """The old table never holds a value that was not written, not even when replication ends."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(5,1), c INT UNIQUE)")
    db.execute("INSERT INTO t VALUES (1, 1.0, 1), (2, 2.0, 2)")
    changed = SwappedTable(db, f"MODIFY v DECIMAL(9,3){more}", engine=engine)
    following = changed.keep()
    db.execute("UPDATE t SET v = 1.125 WHERE id = 1")
    with pytest.raises(ReverseReplicationLost, match=r"column v of .*1265"):
        following.result()
    assert db.query("SELECT CAST(v AS CHAR) FROM _t_old ORDER BY id") == [("1.0",), ("2.0",)]
    assert db.query("SELECT CAST(v AS CHAR) FROM t ORDER BY id") == [("1.125",), ("2.000",)]


def test_a_key_that_would_merge_rows_is_refused_before_the_copy(db):
    """A row that comes and goes in the new table would take the dropped values of another along."""
    db.execute(
        "CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL PRIMARY KEY, v INT,"
        " gone VARCHAR(30) DEFAULT 'dflt') CHARACTER SET utf8mb4"
    )
    clauses = "MODIFY k VARCHAR(20) COLLATE utf8mb4_bin NOT NULL, DROP COLUMN gone"
    with pytest.raises(
        Refusal,
        match=r"reverse replication is not possible: .* the old key column k may be the same",
    ):
        SwappedTable(db, clauses)


@pytest.mark.slow
def test_a_request_of_a_revert_that_ended_is_not_carried_out(table, engine):
    """A revert that was killed has asked in vain; the next one is answered."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    queue = RequestQueue(changed.db.name, "t")
    with connect(changed.connection, role="test") as session:
        request = Request.of(REVERT, {})
        following = changed.keep()
        until(lambda: queue.is_ours(session), "the table of the requests")
        stale = queue.put(session, request)
        until(lambda: changed.notes.said("no longer waits for the answer"), "the refusal")
        until(lambda: queue.answer_to(session, stale, request.token) is not None, "the answer")
        assert queue.waiting(session) == []
    assert "extra" in changed.columns()
    changed.revert()
    assert following.result() is True
    assert "extra" not in changed.columns()


@pytest.mark.slow
def test_requests_reach_a_process_whose_table_another_one_has_dropped(table, engine):
    """As a revert does at its end that had taken the work over while this one had no lock."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    queue = RequestQueue(changed.db.name, "t")
    with connect(changed.connection, role="test") as session:
        following = changed.keep()
        until(lambda: queue.is_ours(session), "the table of the requests")
        queue.drop(session)
        until(lambda: queue.is_ours(session), "the table of the requests once more")
    changed.revert()
    assert following.result() is True


@pytest.mark.slow
def test_a_second_revert_is_answered_as_the_first(table, engine, monkeypatch):
    """Two reverts ask one process; it swaps back once, and both end well."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    prove, proving, go_on = SwapBack.prove, threading.Event(), threading.Event()

    def held(self: SwapBack) -> None:
        proving.set()
        assert go_on.wait(DEADLINE)
        prove(self)

    monkeypatch.setattr(SwapBack, "prove", held)
    following = changed.keep()
    reverts = [BackgroundCall(changed.revert)]
    assert proving.wait(DEADLINE)
    with connect(changed.connection, role="test") as session:
        reverts.append(BackgroundCall(changed.revert))
        queue = RequestQueue(changed.db.name, "t")
        until(lambda: len(queue.waiting(session)) == 1, "the second request")
    go_on.set()
    for revert in reverts:
        said = revert.result()
        assert said.said("has its old definition again")
        assert not said.said("taking over")
    assert following.result() is True
    assert "extra" not in changed.columns()


@pytest.mark.slow
def test_a_signal_to_the_asked_process_does_not_end_the_revert(table, engine, monkeypatch):
    """The revert goes on in its place, and ends well."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    prove = SwapBack.prove

    def interrupted(self: SwapBack) -> None:
        monkeypatch.setattr(SwapBack, "prove", prove)
        changed.stop.request(Interrupted(15))
        self._pairs[0].stop.wait(DEADLINE)
        self._pairs[0].stop.check()

    monkeypatch.setattr(SwapBack, "prove", interrupted)
    following = changed.keep()
    said = changed.revert()
    with pytest.raises(Interrupted):
        following.result()
    assert said.said("taking over")
    assert changed.tables() == {"t"}
    assert "extra" not in changed.columns()


@pytest.mark.slow
def test_the_migrations_own_command_after_a_revert_that_was_killed(table, engine):
    """Between RENAME and drop the change is undone: the command ends that, and makes no new one.

    Before it, and until it is done, another change of the table is refused with what to do.
    """
    shared: Any = SharedEngine(engine)
    config = reverse_config(table, table="t", alter="ADD COLUMN extra INT")
    other = replace(config, alter="ADD COLUMN more INT", keep_old_current=0.0)

    def run(asked, notes=None, stop=None):
        return migrate(
            asked, reporter=notes or RecordingReporter(), engine_factory=lambda _: shared, stop=stop
        )

    notes, stop = RecordingReporter(), StopSwitch()
    running = BackgroundCall(lambda: run(config, notes, stop))
    until(lambda: notes.said("runs for"), "reverse replication")
    stop.request(Interrupted(2))
    with pytest.raises(Interrupted):
        running.result()
    assert shown(table).after_swap == "done; reverse replication is kept"
    with pytest.raises(Refusal, match=r"reverse replication of .* is kept until \d{4}-") as refused:
        run(other)
    assert "spirit-py revert" in refused.value.hint
    assert "DROP" not in refused.value.hint

    store = CheckpointTable(table.name, "t")
    with connect(connection_options(table), role="test") as session:
        record = store.read(session, ReverseRecord)
        assert record is not None
        store.write(session, replace(record, state=REVERTING))
    table.execute("RENAME TABLE t TO _t_undone, _t_old TO t")
    await_lock_freed(table)
    seen = shown(table)
    assert seen.after_swap == "undone by a revert; only the cleanup is left"
    assert seen.lines()[-1] == "  reverse    reverted: the old definition is in place again"
    assert (seen.again, seen.worked_on_by) == ("resume", None)
    assert "a revert has brought the old definition of" in seen.reason
    with pytest.raises(Refusal, match="a revert has brought the old definition"):
        run(other)
    report = run(replace(config, keep_old_current=0.0))
    assert (report.outcome, report.reverted) == ("reverted", True)
    assert {name for (name,) in table.query("SHOW TABLES")} == {"t"}
    assert [row[0] for row in table.query("SHOW COLUMNS FROM t")] == ["id", "v", "c"]


def test_what_an_earlier_revert_kept_is_refused_before_anything_is_written(
    table, engine, monkeypatch
):
    """The swap back needs the name: said before there is a table to be dropped again."""

    def create(*_: object) -> None:
        raise AssertionError("tables were created")

    monkeypatch.setattr(auxiliary, "mark", create)
    table.execute("CREATE TABLE _t_undone (id INT)")
    shared: Any = SharedEngine(engine)
    config = reverse_config(table, table="t", alter="ADD COLUMN extra INT")
    with pytest.raises(Refusal, match="table _t_undone exists: a revert needs the name"):
        migrate(config, reporter=RecordingReporter(), engine_factory=lambda _: shared)


def test_cleanup_after_a_revert_that_was_killed(table, engine):
    """What a revert swapped out is asked for like an old table; the table itself is not touched."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    with connect(changed.connection, role="test") as session:
        changed.checkpoint.write(session, replace(changed.record, state=REVERTING))
    table.execute("RENAME TABLE t TO _t_undone, _t_old TO t")
    asked: list[str] = []

    def ask_old(question: str) -> bool:
        asked.append(question)
        return True

    clean_up(
        changed.connection,
        database=table.name,
        table="t",
        ask=lambda _: True,
        ask_old=ask_old,
        say=lambda _: None,
    )
    assert "_t_undone" in asked[0]
    assert changed.tables() == {"t"}
    assert changed.columns() == ["id", "v", "c"]


@pytest.mark.slow
def test_cleanup_leaves_the_way_back_until_it_is_told_to_end_it(table, engine):
    """Without --drop-old nothing goes that proves the old table, or that a revert needs."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    assert changed.tables() == {"t", "_t_old", "_t_chkpnt"}
    said = clean(table)
    assert said.startswith(f"a finished migration of {table.name}.t has left:")
    assert "_t_chkpnt (stays as long as" in said
    assert "spirit-py revert will not be possible any more" in said
    assert "_t_old: spirit-py revert still swaps back, as long as the binlog reaches to" in said
    assert "Drop 1 table?" not in said
    assert changed.tables() == {"t", "_t_old", "_t_chkpnt"}
    changed.revert()
    assert changed.columns() == ["id", "v", "c"]
    assert changed.tables() == {"t"}


def test_cleanup_drops_the_way_back_with_the_old_table(table, engine):
    """With --drop-old both go, and the question says what that ends."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    said = clean(table, old=True)
    question = next(line for line in said.splitlines() if line.startswith("Drop "))
    assert "That ends the way back: spirit-py revert will not be" in question
    assert changed.tables() == {"t"}


def test_cleanup_keeps_the_proof_of_an_old_table_that_was_to_be_dropped(table, engine):
    """A run that ended between its swap and the drop: what proves the old table stays with it."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    with connect(changed.connection, role="test") as session:
        changed.checkpoint.forget(session, ReverseRecord)
    assert "spirit-py revert" not in clean(table)
    assert changed.tables() == {"t", "_t_old", "_t_chkpnt"}
    clean(table, old=True)
    assert changed.tables() == {"t"}


@pytest.mark.slow
def test_a_revert_that_was_killed_keeps_what_it_was_asked_to_keep(table, engine):
    """``--skip-drop`` holds for whoever ends the revert."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    with connect(changed.connection, role="test") as session:
        record = replace(changed.record, state=REVERTING, skip_drop=True)
        changed.checkpoint.write(session, record)
    table.execute("RENAME TABLE t TO _t_undone, _t_old TO t")
    changed.revert()
    assert changed.tables() == {"t", "_t_undone", "_t_chkpnt"}
    seen = shown(table)
    assert seen.after_swap == "undone by a revert; only the cleanup is left"
    assert "_t_undone is kept until spirit-py cleanup --drop-old" in seen.old_table
    assert seen.again == "refuse"
    assert "was undone" in seen.reason
    clean(table)
    assert changed.tables() == {"t", "_t_undone", "_t_chkpnt"}
    clean(table, old=True)
    assert changed.tables() == {"t"}


def test_reverse_replication_that_is_lost_is_shown_as_such(table, engine):
    """The status says what the same command would do: fail, with the reason."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    with connect(changed.connection, role="test") as session:
        changed.checkpoint.write(
            session, replace(changed.record, state=ENDED, reason="a value does not fit")
        )
    seen = shown(table)
    assert seen.after_swap == "done; reverse replication is lost"
    assert seen.again == "fail"
    assert "is lost: a value does not fit" in seen.reason
    assert not any("resume" in line for line in seen.lines())


@pytest.mark.slow
def test_killed_before_it_began_the_old_table_stays_until_cleanup_drops_it(db, engine, tmp_path):
    """The swap is made and its place is lost: the values of a dropped column are only there."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, c INT)")
    db.execute("INSERT INTO t VALUES (1, 1, 10), (2, 2, 20)")
    change = ("--table", "t", "--alter", "DROP COLUMN c")
    keep = ("--keep-old-current", "1h")
    with PointListener(tmp_path / "points") as listener:
        assert kill_at(db, listener, "cutover.unlocked", 1, *keep, change=change)
    again = {"alter": "DROP COLUMN c", "keep_old_current": 3600.0}
    for _ in range(2):
        with pytest.raises(ReverseReplicationLost, match="ended before it began") as lost:
            start(engine, db, **again).end()
        assert f"{db.name}._t_old is as it was at the swap" in lost.value.hint
        assert db.query("SELECT id, c FROM _t_old") == [(1, 10), (2, 20)]
    seen = shown(db)
    assert (seen.again, seen.after_swap) == ("fail", "done; reverse replication is lost")
    clean(db, old=True)
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_a_run_that_was_away_ends_where_another_one_has_worked(table, engine):
    """Its named lock was free meanwhile, and is its own again: the figures show the other one."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    following = changed.keep()
    with connect(changed.connection, role="test") as session:
        mine = until(lambda: changed.checkpoint.read(session, LiveFigures), "figures")

        def another_writes() -> bool:
            # Again, where it came between the other's look and its writing.
            changed.checkpoint.write(session, replace(mine, run="another"))
            return changed.stop.requested

        until(another_writes, "the end of the run")
        with pytest.raises(MigrationFailure, match="another run has worked on") as failed:
            following.result()
        assert failed.value.error_code == ErrorCode.RUN_LOCK_LOST
        last = changed.checkpoint.read(session, LiveFigures)
    assert last is not None
    assert last.run == "another"


@pytest.mark.parametrize("forgets", [False, True])
def test_the_way_back_of_another_run_is_not_written_over(table, engine, forgets):
    """A run that was away may have its lock again, and another one may have worked meanwhile."""
    changed = SwappedTable(table, "ADD COLUMN extra INT", engine=engine)
    kept = KeptRecord(changed.process(), changed.record)
    with contextlib.closing(kept), connect(changed.connection, role="test") as session:
        kept.write(position="")
        theirs = None if forgets else replace(changed.record, position="elsewhere")
        if theirs is None:
            changed.checkpoint.forget(session, ReverseRecord)
        else:
            changed.checkpoint.write(session, theirs)
        with pytest.raises(MigrationFailure, match="another run has worked on") as failed:
            kept.write(position="here")
        assert failed.value.error_code == ErrorCode.RUN_LOCK_LOST
        kept.save("there")
        kept.note_end("it is lost")
    assert changed.stored() == theirs
