"""Throttlers that ask the server: what they find on a real one."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import MySQLdb
import pytest

from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.facts import data_folder, written_folders
from spirit_py.mysql.own_sessions import run_label
from spirit_py.throttle.adaptive import Adaptive
from spirit_py.throttle.latency import CommitLatency
from spirit_py.throttle.server import (
    binlog_space_throttler,
    checkpoint_age_throttler,
    global_lock_throttler,
    history_throttler,
    query_throttler,
    redo_use,
    require_query,
)
from spirit_py.throttle.settings import LiveSettings, PaceSettings
from tests.kits.background import BackgroundCall
from tests.kits.connection import account, connection_options
from tests.kits.reporter import lines_to
from tests.kits.waiting import until


def test_a_query_decides_and_follows_the_data(db):
    """By the table of the operator, in the schema of the migration."""
    db.execute("CREATE TABLE brake (why VARCHAR(50))")
    throttler = query_throttler(
        connection_options(db), "SELECT MAX(why) FROM brake", database=db.name
    )
    assert throttler.look() == ""
    db.execute("INSERT INTO brake VALUES ('billing runs')")
    assert throttler.look() == "billing runs (--throttle-query)"
    db.execute("DELETE FROM brake")
    assert throttler.look() == ""
    throttler.close()


@pytest.mark.parametrize("query", ["SELEKT 1", "SELECT a FROM nowhere", "DROP TABLE t"])
def test_a_query_that_cannot_be_one_is_refused_before_anything_is_done(db, query):
    """A wrong query, and one that writes: the session cannot."""
    db.execute("CREATE TABLE t (id INT)")
    with pytest.raises(Refusal, match="--throttle-query"):
        require_query(connection_options(db), query, database=db.name)
    assert db.query("SHOW TABLES") == [("t",)]


@pytest.mark.slow
def test_a_query_that_takes_long_is_ended_on_the_server(db):
    """After two seconds, as an error: the operator's query is no load of its own."""
    throttler = query_throttler(connection_options(db), "SELECT COUNT(*), SLEEP(20)")
    assert throttler.look() in {"", "the query of --throttle-query"}
    slow = "SELECT COUNT(*) FROM information_schema.COLLATIONS a, information_schema.COLLATIONS b,"
    slow += " information_schema.COLLATIONS c, information_schema.COLLATIONS d"
    throttler.close()
    throttler = query_throttler(connection_options(db), slow)
    with pytest.raises(ServerFault) as caught:
        throttler.look()
    assert caught.value.code == 3024


def test_the_history_and_the_redo_log_have_figures(db):
    """Below any limit that is large, above any that is small."""
    options = connection_options(db)
    with connect(options, role="test") as session:
        age, capacity = redo_use(session)
    assert 0 <= age < capacity
    for kind, most in ((history_throttler, 10**9), (checkpoint_age_throttler, 100)):
        throttler = kind(options, most)
        assert throttler.look() == ""
        throttler.close()
    throttler = history_throttler(options, -1)
    assert "InnoDB's history, which is" in throttler.look()
    throttler.close()
    throttler = checkpoint_age_throttler(options, -1)
    assert "the redo log, of which" in throttler.look()
    throttler.close()


def test_a_history_whose_metric_is_switched_off_is_read_from_elsewhere(db):
    """The metric keeps its last value then, and would never hold anything back."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES (1, 0)")
    for how in ("disable", "reset_all"):
        db.execute(f"SET GLOBAL innodb_monitor_{how} = 'trx_rseg_history_len'")
    reader = db.connect(autocommit=False).cursor()
    try:
        reader.execute("SELECT * FROM t")
        for number in range(1, 41):
            db.execute(f"UPDATE t SET v = {number}")
        throttler = history_throttler(connection_options(db), 30)
        assert "InnoDB's history, which is" in throttler.look()
        throttler.close()
    finally:
        reader.execute("ROLLBACK")
        db.execute("SET GLOBAL innodb_monitor_enable = 'trx_rseg_history_len'")


def test_an_account_that_may_not_ask_is_an_error(db):
    """Whoever watches the throttler turns that into a reason after a grace."""
    with account(db) as options:
        for throttler in (history_throttler(options, 1), binlog_space_throttler(options, 1)):
            with pytest.raises(ServerFault, match="denied"):
                throttler.look()


def test_an_account_that_sees_no_global_lock_does_not_wait_for_one(db):
    """SELECT on performance_schema is not required: without it a run would never go on."""
    with account(db) as options:
        throttler = global_lock_throttler(options, lines_to(print))
        assert throttler.look() == ""
        throttler.close()


@pytest.mark.slow
def test_a_global_lock_does_not_wait_behind_a_statement_of_ours(db):
    """The statement is ended, who waits is named, and a statement of another client is not."""
    db.execute("CREATE TABLE t (id INT)")
    db.execute("INSERT INTO t VALUES (1)")
    options = replace(connection_options(db), label=run_label([(db.name, "t")]))
    said: list[str] = []
    throttler = global_lock_throttler(options, lines_to(said.append))
    assert throttler.look() == ""
    slow = f"SELECT SLEEP(600) FROM {db.name}.t"
    ours, other, backup = connect(options, role="test"), db.connect(), db.connect()
    other_id, backup_id = other.thread_id(), backup.thread_id()
    calls = [
        BackgroundCall(lambda: ours.query(slow)),
        BackgroundCall(lambda: other.query(slow)),
    ]
    try:
        until(lambda: running(db, ours.id) and running(db, other_id), "the statements")
        calls.append(BackgroundCall(lambda: backup.query("FLUSH TABLES WITH READ LOCK")))
        who = f"session {backup_id} of "
        until(lambda: who in throttler.look(), "the look")
        until(lambda: throttler.look() and said, "the end of the statement")
        until(lambda: not running(db, ours.id), "its end")
        assert running(db, other_id)
        assert all(f"waits for session {ours.id} of this run" in line for line in said)
        assert who in said[0]
    finally:
        db.execute(f"KILL {other_id}")
        for call in calls:
            with contextlib.suppress(ServerFault, MySQLdb.Error):
                call.result()
        backup.close()
        ours.close()
    until(lambda: throttler.look() == "", "nobody who waits")
    throttler.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theirs", "statement"),
    [
        ("SELECT * FROM {0}.t FOR SHARE", "ALTER TABLE {0}.t ADD INDEX (id)"),
        ("LOCK INSTANCE FOR BACKUP", "CREATE TABLE {0}.u (id INT)"),
    ],
)
def test_a_statement_of_ours_that_waits_keeps_no_global_lock_waiting(db, theirs, statement):
    """Behind a dump, or a backup, it has the lock already for which the other waits."""
    db.execute("CREATE TABLE t (id INT)")
    options = replace(connection_options(db), label=run_label([(db.name, "t")]))
    said: list[str] = []
    throttler = global_lock_throttler(options, lines_to(said.append))
    ours, dump, backup = connect(options, role="test"), db.connect(), db.connect()
    dump.query("BEGIN")
    dump.query(theirs.format(db.name))
    dump.store_result()
    state = "SELECT PROCESSLIST_STATE FROM performance_schema.threads WHERE PROCESSLIST_ID = %s"
    calls = [BackgroundCall(lambda: ours.query(statement.format(db.name)))]
    try:
        until(lambda: "Waiting" in str(db.query(state, (ours.id,))), "the wait of ours")
        calls.append(BackgroundCall(lambda: backup.query("FLUSH TABLES WITH READ LOCK")))
        until(lambda: throttler.look() == "" and said, "the lock")
        with pytest.raises(ServerFault, match="interrupted"):
            calls[0].result()
        calls[1].result()
        assert f"session {ours.id} of this run" in said[0]
    finally:
        for one in (dump, backup):
            db.execute(f"KILL {one.thread_id()}")
            one.close()
        for call in calls:
            with contextlib.suppress(ServerFault, MySQLdb.Error):
                call.result()
        ours.close()
        throttler.close()


@pytest.mark.parametrize("how", ["FLUSH\nTABLES", "/* backup; /app */ flush tables"])
def test_a_global_lock_is_seen_however_it_is_written(db, how):
    """Frameworks and backup tools put a comment in front; a word elsewhere is no such request."""
    db.execute("CREATE TABLE t (id INT)")
    db.execute("INSERT INTO t VALUES (1)")
    throttler = global_lock_throttler(connection_options(db), lines_to(print))
    slow, backup, writer = db.connect(), db.connect(), db.connect()
    slow_id, backup_id, writer_id = (one.thread_id() for one in (slow, backup, writer))
    calls = [BackgroundCall(lambda: slow.query(f"SELECT SLEEP(600) FROM {db.name}.t"))]
    try:
        until(lambda: running(db, slow_id), "the statement")
        calls.append(BackgroundCall(lambda: backup.query(f"{how} WITH READ LOCK")))
        until(lambda: f"session {backup_id} of" in throttler.look(), "the look")
        db.execute(f"KILL {slow_id}")
        until(lambda: throttler.look() == "", "the lock")
        write = f"UPDATE {db.name}.t SET id = 2 /* flush, read_only */"
        calls.append(BackgroundCall(lambda: writer.query(write)))
        state = "SELECT PROCESSLIST_STATE FROM performance_schema.threads WHERE PROCESSLIST_ID = %s"
        waits = [("Waiting for global read lock",)]
        until(lambda: db.query(state, (writer_id,)) == waits, "the write")
        assert throttler.look() == ""
    finally:
        for number in (slow_id, backup_id, writer_id):
            with contextlib.suppress(MySQLdb.Error):
                db.execute(f"KILL {number}")
        for call in calls:
            with contextlib.suppress(MySQLdb.Error):
                call.result()
    throttler.close()


@pytest.mark.slow
@pytest.mark.parametrize("aggressive", [False, True])
def test_whoever_holds_the_global_read_lock_is_named(db, aggressive):
    """No session may write: the probe's commit, which cannot be made, says why."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")

    def beat(session):
        session.execute(f"REPLACE {db.name}.t VALUES (1)")

    probe = CommitLatency(
        connection_options(db),
        LiveSettings(PaceSettings(threads=1, aggressive=aggressive)),
        Adaptive(),
        beat=beat,
    )
    probe.look()
    backup = db.connect()
    backup.query("FLUSH TABLES WITH READ LOCK")
    assert probe.look() == (
        f"the global read lock of session {backup.thread_id()} (FLUSH TABLES WITH READ LOCK):"
        " no session may write"
    )
    backup.query("UNLOCK TABLES")
    assert "read lock" not in probe.look()
    backup.query(f"LOCK TABLES {db.name}.t READ")
    with pytest.raises(ServerFault, match="Lock wait timeout"):
        probe.look()
    backup.close()
    probe.close()


def running(db, session):
    """Whether a session executes the slow statement."""
    return db.query(
        "SELECT 1 FROM performance_schema.threads WHERE PROCESSLIST_ID = %s"
        " AND PROCESSLIST_INFO LIKE 'SELECT SLEEP%%'",
        (session,),
    )


def test_the_binary_logs_are_added_up(db):
    """What SHOW BINARY LOGS lists, together."""
    throttler = binlog_space_throttler(connection_options(db), 10)
    assert "old binary logs to be dropped: they have" in (said := throttler.look())
    # Without writes the server begins no other file, and drops none.
    assert "FLUSH BINARY LOGS" in said
    throttler.close()


def test_the_disk_of_a_server_on_another_machine_is_not_taken_for_this_one(
    db, tmp_path, monkeypatch
):
    """The folders are known only where auto.cnf has the server's uuid."""
    with connect(connection_options(db), role="test") as session:
        found = written_folders(session)
        # Of a server in a container there is no such folder here.
        assert found or db.server.pid is None
        assert all(folder.is_dir() for folder in found)
        ((uuid,),) = session.query("SELECT @@GLOBAL.server_uuid")
        monkeypatch.setattr(
            "spirit_py.mysql.facts.data_folder", lambda _, uuid: data_folder(str(tmp_path), uuid)
        )
        assert written_folders(session) == ()
        (tmp_path / "auto.cnf").write_text(f"[auto]\nserver-uuid={uuid}\n")
        assert written_folders(session)[0] == tmp_path
        (tmp_path / "auto.cnf").write_text(f"[auto]\nserver-uuid={uuid[::-1]}\n")
        assert written_folders(session) == ()
