"""Table locks that prove themselves, named locks, and who stands in the way, on a real server."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import socket
import threading

import pytest

from spirit_py.errors import CutoverFailure, MigrationFailure, Refusal, ServerFault
from spirit_py.locks.blockers import Blocker, kill_blocker
from spirit_py.locks.look import LockRequest, _blocker, find_blockers, find_in_front
from spirit_py.locks.named import AdvisoryLock, migration_lock, named_lock_holder, take_named_lock
from spirit_py.locks.table import LockWatch, TableLock
from spirit_py.locks.turns import Front
from spirit_py.mysql.connect import connect
from spirit_py.mysql.own_sessions import run_label
from spirit_py.mysql.processlist import FRESH_SECONDS, open_transactions
from spirit_py.table.names import lock_name
from spirit_py.threads import StopSwitch
from tests.kits.background import BackgroundCall
from tests.kits.connection import connection_options
from tests.kits.cutover import lock_request, make_tables
from tests.kits.locking import await_lock_freed
from tests.kits.waiting import until


@pytest.fixture
def session(db):
    """Return a session of the program."""
    with connect(connection_options(db), role="test", lock_wait_timeout=1) as opened:
        yield opened


@pytest.fixture
def lock(db, session):
    """Return a table lock on the tables of a swap, not yet taken."""
    make_tables(db)
    return TableLock(session, [(db.name, "t"), (db.name, "_t_new")])


def test_a_table_lock_proves_itself_and_keeps_others_out(db, session, lock):
    """A taken lock proves itself, keeps others out, and is gone when it is given back."""
    lock.acquire()
    lock.verify()
    db.execute("SET SESSION lock_wait_timeout = 1")
    with pytest.raises(Exception, match="Lock wait timeout"):
        db.query("SELECT * FROM t")

    lock.release()

    assert len(db.query("SELECT * FROM t")) == 10
    assert lock.waited_ms > 0


def test_proof_does_not_disturb(db, session, lock):
    """A proof, an error inside the server, leaves the lock and the session's work intact."""
    lock.acquire()
    session.execute(f"INSERT INTO `{db.name}`._t_new (id, v) VALUES (1, 1)")
    for _ in range(3):
        lock.verify()
    session.execute(f"RENAME TABLE `{db.name}`.t TO `{db.name}`._t_old")
    lock.release()
    assert db.query("SELECT COUNT(*) FROM _t_new") == [(1,)]


def short_watch(watcher, session, lock, wait, again) -> LockWatch:
    """Watch over a lock that may be held for a moment."""
    front = Front(LockRequest(tables=lock.tables))
    return LockWatch(
        watcher, session.id, again=again, wait=wait, hold=0.01, front=front, stop=StopSwitch()
    )


def test_a_lock_that_is_granted_as_its_request_ends_is_held_no_longer_than_another(db, lock):
    """R23: the KILL QUERY came too late for LOCK TABLES; what holds the lock is ended in time."""
    watching = functools.partial(connect, connection_options(db), role="watch")
    with watching() as watcher, watching() as session:
        TableLock(session, lock.tables).acquire()
        with short_watch(watcher, session, lock, 0.01, watching) as watch:
            until(lambda: watch.verdict, "the end of the request")
            watch.holding()
            until(lambda: not session.alive(), "the end of the session")
            assert "was held" in watch.verdict


def test_a_watch_that_loses_its_session_ends_the_lock_all_the_same(db, lock):
    """R23: an operator's KILL of the watching session does not lengthen the lock."""
    watching = functools.partial(connect, connection_options(db), role="watch")
    with watching() as watcher, watching() as session:
        TableLock(session, lock.tables).acquire()
        db.execute(f"KILL {watcher.id}")
        with short_watch(watcher, session, lock, 60, watching) as watch:
            watch.holding()
            until(lambda: not session.alive(), "the end of the session")
            assert not watch.finish()


def test_no_rename_is_sent_after_the_time_of_a_lock_that_nobody_watches(db, lock):
    """R23: where no other session can be opened, the lock lives on, and the try ends."""
    options = connection_options(db)
    refused = functools.partial(connect, dataclasses.replace(options, password="x"), role="watch")
    with connect(options, role="watch") as watcher, connect(options, role="test") as session:
        held = TableLock(session, lock.tables)
        held.acquire()
        db.execute(f"KILL {watcher.id}")
        with short_watch(watcher, session, lock, 60, refused) as watch:
            until(lambda: not watch._thread.running, "the end of the watch")
            watch.holding()
            until(lambda: watch._left() <= 0, "the end of the time")
            assert not watch.finish()
            assert "was held" in watch.verdict
        held.verify()


@pytest.mark.parametrize(
    ("thread", "system"),
    [("replica_worker", True), ("slave_worker", True), ("one_connection", False)],
)
def test_appliers_are_the_servers_own_whoever_has_started_them(thread, system):
    """They have that account's name; terminology_use_previous gives their threads the old ones."""
    row = (8, 1, 7, "root", "localhost", "s", "Query", 0, None, f"thread/sql/{thread}", None, 0)
    assert _blocker(row, set(), None).system is system


@pytest.mark.parametrize("statement", ["UNLOCK TABLES", "START TRANSACTION"])
def test_lock_lost_in_a_living_session(session, lock, statement):
    """A session that lives on without its lock fails the proof."""
    lock.acquire()
    session.execute(statement)

    with pytest.raises(CutoverFailure, match="no longer holds"):
        lock.verify()


def test_lock_lost_with_the_session(db, session, lock):
    """A killed session fails the proof."""
    lock.acquire()
    db.execute(f"KILL {session.id}")

    with pytest.raises(CutoverFailure, match="was lost"):
        lock.verify()


def test_a_lock_that_was_never_taken_fails_the_proof(lock):
    """A lock that was never taken fails the proof."""
    with pytest.raises(CutoverFailure):
        lock.verify()


@pytest.mark.slow
def test_the_wait_for_a_lock_is_bounded(db, lock):
    """A lock that is not granted is an error after the session's lock_wait_timeout."""
    other = db.connect(autocommit=False).cursor()
    other.execute("SELECT * FROM t")

    with pytest.raises(ServerFault) as fault:
        lock.acquire()

    assert fault.value.code == 1205
    assert lock.waited_ms >= 1000
    other.connection.rollback()


def blockers_of(db, session, lock, rows=0):
    """Ask for the lock in the background; give who stands in the way, having changed ``rows``."""
    session.execute("SET SESSION lock_wait_timeout = 30")
    asking = BackgroundCall(lock.acquire)
    until(lambda: lock_request(db), "the lock request")
    with connect(connection_options(db), role="test") as watcher:

        def look() -> list[Blocker]:
            found = find_blockers(watcher, session.id)
            return found if sum(b.rows_modified or 0 for b in found) == rows else []

        found = until(look, "blockers with fresh sizes", pause=FRESH_SECONDS)
    return asking, found


def test_every_blocker_is_found_with_its_size_and_statement(db, session, lock):
    """Every session with a lock in the way is found, with its size and what it was doing."""
    reader = db.connect(autocommit=False).cursor()
    writer = db.connect(autocommit=False).cursor()
    reader.execute("SELECT v FROM t WHERE id = 3")
    writer.execute("UPDATE t SET v = 77 WHERE id < 5")
    asking, found = blockers_of(db, session, lock, rows=4)

    by_id = {blocker.session: blocker for blocker in found}
    assert set(by_id) == {reader.connection.thread_id(), writer.connection.thread_id()}
    read = by_id[reader.connection.thread_id()]
    written = by_id[writer.connection.thread_id()]
    assert (read.rows_modified, written.rows_modified) == (0, 4)
    assert (read.user, read.idle, read.table_locks, read.defining, read.system) == (
        "root", True, False, False, False,
    )  # fmt: skip
    assert written.statement == "UPDATE `t` SET `v` = ? WHERE `id` < ?"
    reader.connection.rollback()
    writer.connection.rollback()
    asking.result()


def test_a_later_transaction_has_another_key(db, session, lock):
    """The same session in its next transaction is not taken for the one seen before."""
    other = db.connect(autocommit=False).cursor()
    keys = set()
    for _ in range(2):
        other.execute("SELECT v FROM t")
        asking, found = blockers_of(db, session, lock)
        keys |= {blocker.key for blocker in found}
        other.connection.commit()
        asking.result()
        lock.release()
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("take", "give"),
    [
        ("LOCK TABLES t READ", "UNLOCK TABLES"),
        ("LOCK TABLES t WRITE", "UNLOCK TABLES"),
        ("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"),
        ("FLUSH TABLES t WITH READ LOCK", "UNLOCK TABLES"),
        ("LOCK INSTANCE FOR BACKUP; BEGIN; SELECT * FROM t", "ROLLBACK; UNLOCK INSTANCE"),
    ],
)
def test_blockers_with_table_locks_are_told_apart(db, session, lock, take, give):
    """Sessions that hold table locks, of one table or of all, are told apart."""
    other = db.connect()
    for statement in take.split("; "):
        other.cursor().execute(statement)
    asking, found = blockers_of(db, session, lock)

    assert [(b.session, b.table_locks) for b in found] == [(other.thread_id(), True)]
    for statement in give.split("; "):
        other.cursor().execute(statement)
    asking.result()


def test_blocker_that_changes_the_table(db, session, lock):
    """A session that changes the definition of the table is told apart."""
    reader, other = db.connect(autocommit=False).cursor(), db.connect()
    other_id = other.thread_id()
    reader.execute("SELECT v FROM t")
    altering = BackgroundCall(lambda: other.cursor().execute("ALTER TABLE t ADD COLUMN x INT"))
    waiting = (
        "SELECT 1 FROM performance_schema.threads WHERE processlist_info LIKE 'ALTER%'"
        f" AND processlist_state LIKE 'Waiting%' AND processlist_id = {other_id}"
    )
    until(lambda: db.query(waiting), "the ALTER")
    asking, found = blockers_of(db, session, lock)

    assert {b.session: b.defining for b in found} == {
        reader.connection.thread_id(): False,
        other_id: True,
    }
    reader.connection.rollback()
    altering.result()
    asking.result()


def test_a_blocker_without_a_session_is_found(db, session, lock):
    """A prepared XA transaction whose session has gone is found, without a session to kill."""
    other = db.connect()
    cursor = other.cursor()
    for statement in ("XA START 'x'", "UPDATE t SET v = 1", "XA END 'x'", "XA PREPARE 'x'"):
        cursor.execute(statement)
    other.close()
    until(db.xa_transactions, "the prepared XA transaction")
    asking, found = blockers_of(db, session, lock)

    assert [blocker.session for blocker in found] == [None]
    assert "prepared XA transaction" in str(found[0])
    db.execute("XA ROLLBACK 'x'")
    asking.result()


def test_without_the_process_privilege_a_transactions_size_is_unknown(db, session, lock):
    """Without PROCESS the size of a transaction is unknown, not zero."""
    other = db.connect(autocommit=False).cursor()
    other.execute("UPDATE t SET v = 77")
    user = f"{db.name}_watch"
    db.execute(f"CREATE USER `{user}` IDENTIFIED BY 'pw'")
    db.execute(f"GRANT SELECT ON performance_schema.* TO `{user}`")
    plain = dataclasses.replace(connection_options(db), user=user, password="pw")
    asking = BackgroundCall(lock.acquire)
    until(lambda: lock_request(db), "the lock request")

    with connect(plain, role="test") as watcher:
        found = find_blockers(watcher, session.id)

    assert [blocker.rows_modified for blocker in found] == [None]
    other.connection.rollback()
    asking.result()
    db.execute(f"DROP USER `{user}`")


def test_who_was_judged_is_killed_only_while_it_is_in_the_way(db, session, lock):
    """A session whose transaction ended since is left alone, as is another of its number (R24)."""
    other = db.connect(autocommit=False).cursor()
    other.execute("SELECT * FROM t")
    asking, (blocker,) = blockers_of(db, session, lock)
    thread, event = blocker.key
    with connect(connection_options(db), role="test") as watcher:
        for key in ((thread, event + 999), (thread + 999, event)):
            another = dataclasses.replace(blocker, key=key)
            assert "no longer blocks" in kill_blocker(watcher, another)
        # It has been idle for longer than that when it was judged, and has worked since.
        judged = dataclasses.replace(blocker, seconds=30)
        assert "begun another statement" in kill_blocker(watcher, judged)
        other.connection.rollback()
        asking.result()
        assert "no longer blocks" in kill_blocker(watcher, blocker)
    other.connection.ping()


def test_a_session_that_waits_for_nothing_has_no_blocker(db, session):
    """A session that waits for nothing has nobody in its way."""
    with connect(connection_options(db), role="test") as watcher:
        assert find_blockers(watcher, session.id) == []


def test_a_named_lock_has_one_holder_until_its_session_ends(db, session):
    """A named lock has one holder, who can be asked for, until its session ends."""
    name = lock_name("test", db.name)
    with connect(connection_options(db), role="other") as other:
        assert take_named_lock(other, name)
        assert not take_named_lock(session, name)
        assert named_lock_holder(session, name) == other.id
    until(lambda: named_lock_holder(session, name) is None, "the end of the session")
    assert take_named_lock(session, name)


@pytest.fixture
def name(db):
    """Return the name of the migration's lock."""
    return lock_name("migration", db.name)


@pytest.fixture
def advisory(db, name):
    """Return a function that builds the lock of a migration, with a short keep-alive."""

    def build(stop: StopSwitch, **more) -> AdvisoryLock:
        settings = {"keep_alive": 0.02} | more
        return AdvisoryLock(
            connection_options(db), name, stop=stop, purpose="migration of t", **settings
        )

    return build


@pytest.mark.slow
def test_one_session_holds_the_locks_of_all_tables_of_a_run(db):
    """A schema may have hundreds of tables, and the application needs the connections, too."""
    options = connection_options(db)
    names = [(db.name, f"t{number}") for number in range(200)]
    with migration_lock(options, *names, stop=StopSwitch()) as lock:
        with pytest.raises(Refusal, match=rf"another migration of {db.name}.t7 is running"):
            migration_lock(options, names[7], stop=StopSwitch()).acquire()
        locks = (lock.name, *lock.also)
        holders = {db.query(f"SELECT IS_USED_LOCK('{one}')")[0][0] for one in locks}
    assert (len(locks), len(holders), None in holders) == (200, 1, False)


@pytest.mark.slow
def test_one_migration_of_a_table_runs_at_a_time(db, advisory):
    """A second migration of the same table is refused, and may run after the first."""
    with (
        advisory(StopSwitch()),
        pytest.raises(Refusal, match=r"another migration of t is running \(server session \d+"),
    ):
        advisory(StopSwitch()).acquire()
    with advisory(StopSwitch()):
        pass


def test_the_lock_of_a_run_that_is_just_ending_is_waited_for(db, advisory, name):
    """The server may hold the lock of a killed run for a moment: the next run is not refused."""
    with connect(connection_options(db), role="test") as ending:
        assert take_named_lock(ending, name)
        second = advisory(StopSwitch())
        call = BackgroundCall(second.acquire)
        until(lambda: waits_for_named_lock(db), "the second run's request")
    call.result()
    second.close()


def waits_for_named_lock(db) -> bool:
    """Return whether a session waits for a named lock."""
    return bool(
        db.query(
            "SELECT 1 FROM performance_schema.threads WHERE processlist_state = 'User lock' LIMIT 1"
        )
    )


def test_advisory_lock_comes_back(db, advisory, name, session):
    """A lost session is opened again, and the lock taken again, without a stop."""
    stop = StopSwitch()
    with advisory(stop):
        first = until(lambda: named_lock_holder(session, name), "the lock")
        db.execute(f"KILL {first}")
        until(
            lambda: named_lock_holder(session, name) not in {first, None},
            "the lock in another session",
        )
    assert not stop.requested


@pytest.mark.slow
def test_an_advisory_lock_is_taken_from_a_session_that_the_server_takes_for_living(
    db, proxy, session
):
    """R18: where the server is not told that the connection is gone, the run goes on."""
    plain = connection_options(db, proxy)
    options = dataclasses.replace(plain, label=run_label([(db.name, "t")]))
    name = lock_name("migration", db.name, "t")
    stop = StopSwitch()
    with AdvisoryLock(options, name, stop=stop, purpose="migration of t", keep_alive=0.02) as lock:
        first = named_lock_holder(session, name)
        proxy.silent = True
        lost = lock._session
        assert lost is not None
        # As a network that has forgotten the connection.
        with socket.socket(fileno=os.dup(lost.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)
        until(
            lambda: named_lock_holder(session, name) not in {first, None} or stop.requested,
            "the lock in another session",
        )
        proxy.silent = False
    assert not stop.requested


@pytest.mark.slow
def test_an_advisory_lock_taken_by_another_stops_the_run(db, advisory, name, session):
    """When another has taken the lock meanwhile, the migration is stopped."""
    stop = StopSwitch()
    with advisory(stop, keep_alive=0.5):
        first = named_lock_holder(session, name)
        # It waits for the lock already, or the run might have it again before.
        other = BackgroundCall(lambda: take_named_lock(session, name, timeout=60))
        until(lambda: waits_for_named_lock(db), "the other's request")
        db.execute(f"KILL {first}")
        assert other.result()
        until(lambda: stop.requested, "the stop")

    assert isinstance(stop.reason, MigrationFailure)
    assert "migration of t" in str(stop.reason)


def test_an_advisory_lock_without_a_server_stops_the_run(db, proxy, name):
    """When the server stays away for too long, the migration is stopped."""
    stop = StopSwitch()
    lock = AdvisoryLock(
        connection_options(db, proxy),
        name,
        stop=stop,
        purpose="migration of t",
        keep_alive=0.02,
        patience=0.1,
    )
    with lock:
        proxy.stop()
        until(lambda: stop.requested, "the stop")

    assert "lock that keeps a second migration of t away" in str(stop.reason)


def test_a_session_of_a_run_that_was_taken_over_is_refused(db):
    """A worker that outlived its run cannot write once another run has the lock (R18)."""
    plain, replace = connection_options(db), dataclasses.replace
    dead, alive = (replace(plain, label=run_label([(db.name, "t")])) for _ in range(2))
    connect(dead, role="chunk").close()
    name = lock_name("migration", db.name, "t")
    with AdvisoryLock(alive, name, stop=StopSwitch(), purpose="migration of t"):
        with pytest.raises(MigrationFailure, match="taken this migration over") as refused:
            connect(dead, role="chunk")
        connect(alive, role="chunk").close()
        connect(replace(dead, label=run_label([(db.name, "u")])), role="chunk").close()
    assert refused.value.resumable
    await_lock_freed(db)
    connect(dead, role="chunk").close()


def test_a_statement_with_an_emoji_hides_the_sizes_of_transactions_only(db, session):
    """INNODB_TRX cannot be read while such a statement runs; blockers are still found."""
    make_tables(db)
    with contextlib.closing(db.connect()) as holder, contextlib.closing(db.connect()) as writer:
        numbers = {holder.thread_id(), writer.thread_id()}
        holder.cursor().execute("BEGIN")
        holder.cursor().execute("SELECT * FROM t WHERE id = 1 FOR UPDATE")
        writer.cursor().execute("SET NAMES utf8mb4")
        # Bytes, because the driver would encode text for the server's own default.
        sql = "UPDATE t SET v = 7 WHERE id = 1 AND v <> LENGTH('😀')".encode()
        update = BackgroundCall(lambda: writer.cursor().execute(sql))
        trx = "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX"
        until(
            lambda: (
                threading.Event().wait(FRESH_SECONDS)
                or open_transactions(session, trx, tries=1) is None
            )
        )

        found = find_in_front(session, LockRequest(tables=[(db.name, "t")]))

        assert {each.session for each in found} == numbers
        assert {each.rows_modified for each in found} == {None}
        holder.rollback()
        update.result()
        assert open_transactions(session, trx) is not None


def test_the_lock_of_a_machine_that_is_gone_is_free_within_minutes(db):
    """The server ends its session, which is asked every two seconds; its own limit is hours."""
    name = lock_name("migration", db.name, "t")
    with AdvisoryLock(connection_options(db), name, stop=StopSwitch(), purpose="test"):
        ((seconds,),) = db.query(
            "SELECT VARIABLE_VALUE FROM performance_schema.variables_by_thread JOIN"
            " performance_schema.threads USING (THREAD_ID) WHERE VARIABLE_NAME = 'wait_timeout'"
            f" AND PROCESSLIST_ID = IS_USED_LOCK('{name}')"
        )
    assert 60 <= int(seconds) <= 300
