"""A running migration steps back when the server is busy, and comes back, with nothing lost."""

from __future__ import annotations

import contextlib
import math
import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import MySQLdb
import pytest

from spirit_py import points
from spirit_py.errors import Aborted, CriticalLoad, Refusal
from spirit_py.locks.look import waits_for_all
from spirit_py.migration.control.command import control
from spirit_py.mysql import duplicates
from spirit_py.plan import make_plan
from spirit_py.throttle import server
from spirit_py.units import Window, parse_windows
from tests.kits.background import BackgroundCall
from tests.kits.connection import connection_options
from tests.kits.engine import ThreadEngine
from tests.kits.migrate import Migrating, config_for
from tests.kits.resume import once_at
from tests.kits.waiting import DEADLINE, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import MigrationConfig

ROWS = 40_000
ALTER = "ADD COLUMN extra INT NOT NULL DEFAULT 7"
BUSY = 30
LIMIT = (("Threads_running", 15.0),)


@pytest.fixture
def filled(db):
    """Return the test's schema with a table of some rows."""
    db.execute("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(200) NOT NULL)")
    db.execute("INSERT INTO t (v) VALUES (REPEAT('x', 200))")
    while db.query("SELECT COUNT(*) FROM t")[0][0] < ROWS:
        db.execute("INSERT INTO t (v) SELECT v FROM t")
    db.execute("ANALYZE TABLE t")
    return db


@contextlib.contextmanager
def running_sessions(db, number: int) -> Iterator[None]:
    """Keep so many sessions of somebody else running."""
    sessions = [db.connect() for _ in range(number)]
    numbers = [session.thread_id() for session in sessions]

    def sleep(session) -> None:
        with contextlib.suppress(Exception), session.cursor() as cursor:
            cursor.execute("SELECT SLEEP(600)")

    threads = [threading.Thread(target=sleep, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    until(lambda: running(db) > number, "the sessions to run")
    try:
        yield
    finally:
        for one in numbers:
            db.execute(f"KILL {one}")
        for thread in threads:
            thread.join()


def running(db) -> int:
    """Return Threads_running."""
    return int(db.query("SHOW GLOBAL STATUS LIKE 'Threads_running'")[0][1])


class Held:
    """Holds a copy behind its first chunk, so that it cannot end before the load is there."""

    def __init__(self, monkeypatch) -> None:
        self.begun, self._go_on = threading.Event(), threading.Event()
        once_at(monkeypatch, "chunk.committed", self._hold)

    def _hold(self) -> None:
        self.begun.set()
        assert self._go_on.wait(DEADLINE)

    def release(self) -> None:
        """Let it go on."""
        self._go_on.set()


def slowly(db, **more) -> MigrationConfig:
    """Return the configuration of a copy of many chunks, with rests between them."""
    given = {"table": "t", "alter": ALTER, "no_shortcut": True, "target_chunk_time": 0.02}
    return config_for(db, **{**given, "nice": 4.0, **more})


def assert_changed(db) -> None:
    """Every row is there, with the new column."""
    rows, new, length = db.query("SELECT COUNT(*), SUM(extra = 7), SUM(LENGTH(v)) FROM t")[0]
    assert rows >= ROWS
    assert (int(new), int(length)) == (rows, 200 * rows)


@pytest.mark.slow
def test_the_copy_waits_while_the_load_is_high_and_comes_back(filled, engine, monkeypatch):
    """No chunk is handed out above --max-load; the reason is shown, logged and in the report."""
    held = Held(monkeypatch)
    run = Migrating(engine, slowly(filled, max_load=LIMIT))
    run.wait_until(held.begun.is_set, "the copy to begin")
    with running_sessions(filled, BUSY):
        held.release()
        run.wait_until(lambda: run.told.said("waiting for the server's load"), "the wait")
        assert any("Threads_running" in one.waiting_for for one in run.told.snapshots)
        # What was handed out before has ended: two counts, some looks apart, are equal.
        until(lambda: _stands_still(filled), "the copy to stand still")
        assert run.running
    report = run.end()
    assert run.told.said("no longer waiting for: load")
    assert report.throttled_seconds["load"] > 0
    assert report.differences_found == 0
    assert_changed(filled)


def _stands_still(db) -> bool:
    """Return whether no row is added to the new table between two counts."""
    before = db.query("SELECT COUNT(*) FROM _t_new")
    threading.Event().wait(0.3)
    return before == db.query("SELECT COUNT(*) FROM _t_new")


@pytest.mark.slow
def test_a_critical_load_ends_the_run_and_the_same_command_carries_on(filled, engine, monkeypatch):
    """The error names the counter; the next run copies what is left."""
    held = Held(monkeypatch)
    run = Migrating(engine, slowly(filled, critical_load=LIMIT))
    run.wait_until(held.begun.is_set, "the copy to begin")
    with running_sessions(filled, BUSY):
        held.release()
        with pytest.raises(CriticalLoad, match="Threads_running"):
            run.end()
    report = Migrating(engine, slowly(filled, nice=0.0)).end()
    assert report.rows_copied_before > 0
    assert_changed(filled)


@pytest.mark.slow
def test_a_limit_of_no_counter_is_refused(filled, engine):
    """A misspelt name would be a limit that is never reached."""
    limit = (("Threads_runing", 25.0),)
    run = Migrating(engine, slowly(filled, max_load=limit))
    with pytest.raises(Refusal, match="Threads_runing"):
        run.end()


IN_PLACE = {"table": "t", "alter": "DROP COLUMN n"}
CLOSED = (("Threads_running", 0.0),)


@pytest.fixture
def small(db):
    """Return the test's schema with a table of two rows, and what may hold the work back."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT, n INT)")
    db.execute("INSERT INTO t VALUES (1, 5, 5), (2, 5, 6)")
    db.execute("CREATE TABLE gate (why TEXT); INSERT INTO gate VALUES ('office hours')")
    return db


def asked(db, verb: str, **arguments: str) -> str:
    """Ask the process for something; return its answer."""
    said: list[str] = []
    control(
        connection_options(db),
        database=db.name,
        table="t",
        verb=verb,
        arguments=arguments,
        say=said.append,
    )
    return "\n".join(said)


def columns(db) -> list[str]:
    """Return the columns of the table."""
    return [row[0] for row in db.query("SHOW COLUMNS FROM t")]


def held(db, engine, reason: str, **more) -> Migrating:
    """Begin a change that is held back; return it once it says why."""
    run = Migrating(engine, config_for(db, **{**IN_PLACE, **more}))
    run.wait_until(lambda: run.told.said(f"waiting for {reason}"), "the wait")
    return run


def assert_nothing_left(db) -> None:
    """Nothing is beside the table."""
    assert {row[0] for row in db.query("SHOW TABLES")} == {"t", "gate"}


def closed_window() -> tuple[Window, ...]:
    """Return a window of a minute in half a day."""
    then = datetime.now(UTC) + timedelta(hours=12)
    return parse_windows(f"{then:%H:%M}-{then + timedelta(minutes=1):%H:%M}Z")


@pytest.mark.slow
def test_a_change_in_place_waits_for_its_time_and_can_be_aborted_meanwhile(small, engine):
    """Outside of --allow the ALTER is not sent; control answers; nothing is left of it."""
    run = held(small, engine, "", allow=closed_window())
    assert columns(small) == ["id", "v", "n"]
    assert "stopping" in asked(small, "abort")
    with pytest.raises(Aborted):
        run.end()
    assert columns(small) == ["id", "v", "n"]
    assert_nothing_left(small)


@pytest.mark.slow
@pytest.mark.draws(2)
def test_a_change_in_place_waits_for_the_load_until_the_limit_is_taken_back(small, engine):
    """--max-load holds the ALTER back, and ctl set lets it go on."""
    run = held(small, engine, "the server's load", max_load=CLOSED)
    assert columns(small) == ["id", "v", "n"]
    asked(small, "set", **{"max-load": "off"})
    assert run.end().algorithm == "instant"
    assert columns(small) == ["id", "v"]
    assert_nothing_left(small)


@pytest.mark.slow
@pytest.mark.draws(2)
def test_a_change_in_place_waits_for_the_query_and_for_a_pause(small, engine):
    """--throttle-query holds the ALTER back, and so does a pause that was asked for meanwhile."""
    run = held(small, engine, "", throttle_query="SELECT why FROM gate")
    assert "paused" in asked(small, "pause")
    small.execute("UPDATE gate SET why = NULL")
    run.wait_until(
        lambda: (
            run.told.said("no longer waiting for: query")
            and run.told.said("waiting for the end of the pause")
        ),
        "the pause alone",
    )
    assert columns(small) == ["id", "v", "n"]
    asked(small, "resume")
    assert run.end().algorithm == "instant"
    assert columns(small) == ["id", "v"]
    assert_nothing_left(small)


@pytest.mark.slow
@pytest.mark.draws(2)
def test_a_wait_before_a_change_in_place_outlives_its_sessions(small, engine):
    """A window may be further away than a session may idle: they are opened again."""
    run = held(small, engine, "", throttle_query="SELECT why FROM gate")
    end_waiting_sessions(small)
    small.execute("UPDATE gate SET why = NULL")
    assert run.end().algorithm == "instant"
    assert columns(small) == ["id", "v"]
    assert_nothing_left(small)


def end_waiting_sessions(db) -> None:
    """End what idles while a change in place is held back, as wait_timeout does."""
    found = db.query(
        "SELECT t.PROCESSLIST_ID FROM performance_schema.user_variables_by_thread v"
        " JOIN performance_schema.threads t USING (THREAD_ID) WHERE v.VARIABLE_NAME ="
        " 'spirit_py_role' AND CONVERT(v.VARIABLE_VALUE USING utf8mb4) IN ('driver', 'shortcut')"
    )
    assert len(found) == 2
    for (number,) in found:
        db.kill(number)


@pytest.mark.slow
@pytest.mark.draws(2)
def test_a_sentinel_that_comes_while_a_change_in_place_waits_has_it_copied(small, engine):
    """``ctl postpone`` holds back the moment of the change, which only a copy can choose."""
    run = held(small, engine, "", throttle_query="SELECT why FROM gate")
    end_waiting_sessions(small)
    asked(small, "postpone")
    small.execute("UPDATE gate SET why = NULL")
    run.wait_until(lambda: run.told.said("phase sentinel"), "the sentinel")
    assert columns(small) == ["id", "v", "n"]
    asked(small, "cutover")
    assert run.end().algorithm == "copy"
    assert columns(small) == ["id", "v"]


@pytest.mark.slow
def test_what_only_the_server_makes_is_not_postponed(small, engine):
    """No copy could wait: the run would end, and the next one make it. A pause holds it back."""
    gate = {"throttle_query": "SELECT why FROM gate", "native": 1 << 20}
    run = held(small, engine, "", alter="ADD INDEX i (v)", **gate)
    with pytest.raises(Refusal, match="only a copy can wait"):
        asked(small, "postpone")
    small.execute("UPDATE gate SET why = NULL")
    assert run.end().outcome == "done"
    assert small.query("SHOW INDEX FROM t WHERE Key_name = 'i'")
    assert_nothing_left(small)


@pytest.mark.slow
def test_a_search_for_duplicates_waits(small, engine):
    """The rows are not read for a new UNIQUE key while something holds the work back."""
    run = held(
        small,
        engine,
        "",
        alter="ADD UNIQUE u (v)",
        throttle_query="SELECT why FROM gate",
    )
    assert run.running
    asked(small, "pause")
    small.execute("UPDATE gate SET why = NULL")
    run.wait_until(lambda: run.told.said("waiting for the end of the pause"), "the pause")
    asked(small, "resume")
    with pytest.raises(Refusal, match="meets duplicates"):
        run.end()
    assert_nothing_left(small)


@pytest.mark.slow
def test_a_search_in_front_of_a_global_lock_is_ended_and_goes_on(small, engine, monkeypatch):
    """All writes of the server would wait for the statement; it is sent again when they do not."""
    built, gate = duplicates.duplicates_sql, f"gate of {small.name}"
    backup = small.connect()
    backup.query(f"SELECT GET_LOCK('{gate}', 0)")
    backup.store_result()
    wait = f"SLEEP(IF(IS_USED_LOCK('{gate}') IS NULL, 0, 600))"
    slow = f"(SELECT {wait} AS s FROM {small.name}.t LIMIT 1) w"
    sent: list[str] = []

    def slowly_built(*given) -> str:
        sent.append(built(*given))
        return f"SELECT q.* FROM {slow} STRAIGHT_JOIN ({sent[-1]}) q ON w.s = 0"

    def lock() -> None:
        backup.query("FLUSH TABLES WITH READ LOCK")
        backup.query(f"DO RELEASE_LOCK('{gate}')")
        backup.query("UNLOCK TABLES")

    monkeypatch.setattr(duplicates, "duplicates_sql", slowly_built)
    small.execute("UPDATE t SET v = id; ALTER TABLE t ADD INDEX (v)")
    run = Migrating(engine, config_for(small, table="t", alter="ADD UNIQUE u (v)"))
    run.wait_until(lambda: sent, "the search")
    call = BackgroundCall(lock)
    try:
        run.end()
        call.result()
    finally:
        backup.close()
    assert run.told.said("all writes of the server wait behind")
    assert len(small.query("SHOW INDEX FROM t WHERE Key_name = 'u'")) == 1


@pytest.mark.slow
def test_an_old_table_that_is_asked_for_is_there_after_a_column_was_dropped(small, engine):
    """With --drop-old-after a change in place that loses values is a copy; plan says so."""
    config = config_for(small, **IN_PLACE, drop_old_after=math.inf)
    (planned,) = make_plan(config, sample=False).tables
    assert (planned.method.algorithm, planned.method.certain) == ("copy", True)
    assert "--drop-old-after" in planned.method.why
    report = Migrating(engine, config).end()
    assert report.algorithm == "copy"
    assert small.query("SELECT id, n FROM _t_old ORDER BY id") == [(1, 5), (2, 6)]


def test_an_old_table_is_not_made_where_no_value_is_lost(small, engine):
    """What another ALTER can undo needs no old table."""
    config = config_for(small, table="t", alter="ADD COLUMN z INT", drop_old_after=math.inf)
    assert Migrating(engine, config).end().algorithm == "instant"
    assert_nothing_left(small)


@pytest.mark.draws(2)
def test_a_change_in_place_that_waits_for_its_lock_can_be_paused(small, engine):
    """While others keep the table from it, operators reach the run; nothing is sent in a pause."""
    other = small.connect()
    other.query("BEGIN")
    other.query("INSERT INTO t VALUES (3, 1, 1)")
    run = Migrating(engine, config_for(small, **IN_PLACE))
    run.wait_until(lambda: run.told.said("is not requested while it is blocked by"), "the wait")
    requests = partial(small.query, "SHOW TABLES LIKE '%%ctl'")
    run.wait_until(requests, "the table of the requests")
    asked(small, "pause")
    other.commit()
    run.wait_until(lambda: run.told.said("waiting for the end of the pause"), "the pause")
    assert columns(small) == ["id", "v", "n"]
    asked(small, "resume")
    assert run.end().algorithm == "instant"
    assert columns(small) == ["id", "v"]
    assert_nothing_left(small)


@pytest.mark.draws(2)
@pytest.mark.parametrize("verb", ["postpone", "abort"])
def test_behind_a_blocker_the_message_says_how_to_copy_instead_and_that_works(small, engine, verb):
    """``ctl postpone`` needs no free lock first; nor does --no-shortcut after ``ctl abort``."""
    other = small.connect()
    other.query("BEGIN")
    other.query("INSERT INTO t VALUES (3, 1, 1)")
    run = Migrating(engine, config_for(small, **IN_PLACE))
    hint = "to copy the table meanwhile: spirit-py ctl postpone, or spirit-py ctl abort and"
    run.wait_until(lambda: run.told.said(hint), "the message")
    run.wait_until(partial(small.query, "SHOW TABLES LIKE '%%ctl'"), "the table of the requests")
    asked(small, verb)
    if verb == "abort":
        with pytest.raises(Aborted):
            run.end()
        run = Migrating(engine, config_for(small, **IN_PLACE, no_shortcut=True))
    run.wait_until(lambda: run.told.said("copying, because"), "the copy")
    other.commit()
    if verb == "postpone":
        asked(small, "cutover")
    assert run.end().algorithm == "copy"
    assert columns(small) == ["id", "v"]
    assert_nothing_left(small)


@pytest.mark.slow
def test_a_sentinel_made_by_hand_while_a_lock_is_waited_for_has_the_table_copied(small, engine):
    """Nobody tells the run of it: it looks before each request."""
    other = small.connect()
    other.query("BEGIN")
    other.query("INSERT INTO t VALUES (3, 1, 1)")
    run = Migrating(engine, config_for(small, **IN_PLACE))
    run.wait_until(lambda: run.told.said("is not requested while it is blocked by"), "the wait")
    small.execute("CREATE TABLE _t_snt (id INT)")
    other.commit()
    run.wait_until(lambda: run.told.said("phase sentinel"), "the sentinel")
    assert columns(small) == ["id", "v", "n"]
    small.execute("DROP TABLE _t_snt")
    assert run.end().algorithm == "copy"
    assert columns(small) == ["id", "v"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["LOCK INSTANCE FOR BACKUP", "FLUSH TABLES WITH READ LOCK"])
def test_a_migration_that_is_started_during_a_backup_waits_for_its_end(small, how):
    """Who holds up the first table is named, and nothing waits behind a request of ours."""
    backup = small.connect()
    backup.query(how)
    run = Migrating(
        ThreadEngine(), config_for(small, table="t", alter="ADD l INT", no_shortcut=True)
    )
    try:
        who = f"session {backup.thread_id()} of "
        what = "before the first table of the migration is requested"
        run.wait_until(
            lambda: any(
                who in seen.waiting_for and what in seen.waiting_for for seen in run.told.snapshots
            ),
            "the wait",
        )
        assert small.query("SHOW TABLES LIKE '%chkpnt'") == []
    finally:
        backup.close()
    assert run.end().outcome == "done"


@pytest.mark.slow
def test_the_copy_waits_while_a_backup_waits_for_its_lock(small, monkeypatch):
    """FLUSH TABLES WITH READ LOCK, behind somebody's SELECT: nothing of ours begins meanwhile."""
    seen, look = threading.Event(), waits_for_all

    def noted(session):
        if (found := look(session))[0]:
            seen.set()
        return found

    monkeypatch.setattr(server, "waits_for_all", noted)
    small.execute("CREATE TABLE w (id INT)")
    small.execute("INSERT INTO w VALUES (1)")
    reader, backup = small.connect(), small.connect()
    reader_id = reader.thread_id()
    calls: list[BackgroundCall] = []

    def passed(name):
        if name == "feed.started" and not calls:
            calls.append(BackgroundCall(lambda: reader.query("SELECT SLEEP(600) FROM w")))
            running = "SELECT 1 FROM performance_schema.threads WHERE PROCESSLIST_INFO LIKE %s"
            until(lambda: small.query(running, ("SELECT SLEEP%",)), "the reader")
            calls.append(BackgroundCall(lambda: backup.query("FLUSH TABLES WITH READ LOCK")))
            assert seen.wait(DEADLINE)

    monkeypatch.setattr(points, "_listener", "here")
    monkeypatch.setattr(points, "_announce", passed)
    config = config_for(small, table="t", alter="ADD later INT", no_shortcut=True)
    run = Migrating(ThreadEngine(), config)
    try:
        run.wait_until(
            lambda: any("the global lock of" in seen.waiting_for for seen in run.told.snapshots),
            "the wait",
        )
    finally:
        small.execute(f"KILL {reader_id}")
        for call in calls:
            with contextlib.suppress(MySQLdb.Error):
                call.result()
        backup.close()
    assert run.end().outcome == "done"


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize(
    ("point", "statement", "more"),
    [
        ("", "SELECT id FROM t LIMIT 1", {"no_shortcut": False}),
        ("", "SELECT id FROM t LIMIT 1", {}),
        ("drain.begun", "UPDATE t SET v = v WHERE id = 1", {}),
    ],
    ids=["in place", "swap", "comparison"],
)
def test_what_stands_in_front_of_a_lock_is_shown_and_counted_as_throttling(
    db, engine, monkeypatch, point, statement, more
):
    """Display, page, metrics and report have it beside the throttlers, whichever lock it is."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)")
    db.execute("INSERT INTO t VALUES (1, 1)")
    holder = db.connect(autocommit=False)

    def come() -> None:
        holder.cursor().execute(statement)

    if point:
        once_at(monkeypatch, point, come)
    else:
        come()
    config = config_for(db, table="t", alter=ALTER, **{"no_shortcut": True, **more})
    run = Migrating(engine, config)
    who = f"session {holder.thread_id()} of"

    def shown() -> bool:
        seen = run.told.snapshots[-1:]
        return any(who in one.throttled and one.totals.throttled.get("table lock") for one in seen)

    run.wait_until(shown, "the wait for the lock")
    counted = run.told.snapshots[-1].totals.throttled["table lock"]
    holder.rollback()
    report = run.end()
    assert report.throttled_seconds["table lock"] >= round(counted, 1)
    assert who not in run.told.snapshots[-1].throttled
