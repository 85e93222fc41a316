"""The swap on a real server: done, or cleanly not done, whatever happens in between."""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from spirit_py.checkpoint.drop import drop_old_table
from spirit_py.cutover import guard, rename
from spirit_py.errors import (
    AnotherServer,
    ChangesNotFlushed,
    CutoverFailure,
    DuplicateForUnique,
    FeedFailure,
    Interrupted,
    OutcomeUnknown,
)
from spirit_py.locks.look import LockedBy
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.identity import NOTHING, identity
from spirit_py.threads import StopSwitch
from tests.kits.background import BackgroundCall
from tests.kits.connection import connection_options
from tests.kits.cutover import (
    ProvenCutover,
    SnapshotSource,
    lock_request,
    make_tables,
    swapped,
    untouched,
)
from tests.kits.locking import Clock, blind
from tests.kits.reporter import lines_to
from tests.kits.tables import tables
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.events.event import Event

DAYS = 7 * 86_400.0
QUICK = blind(wait=2)


class Once:
    """A hook that acts on the first call only."""

    def __init__(self, action: Callable[..., object]) -> None:
        self.action: Callable[..., object] | None = action

    def __call__(self, *arguments: object) -> None:
        """Act, once."""
        action, self.action = self.action, None
        if action:
            action(*arguments)


@pytest.fixture
def cutover(db):
    """Return a function that builds a cutover."""

    def build(source, *, limits=QUICK, proxy=None, stop=None, **more):
        return ProvenCutover(
            db,
            source.swaps,
            source,
            connection=connection_options(db, proxy),
            stop=stop or StopSwitch(),
            limits=limits,
            **more,
        )

    return build


def write_locked(db) -> set[str]:
    """Return the tables that are locked with LOCK TABLES ... WRITE."""
    rows = db.query(
        "SELECT object_name FROM performance_schema.metadata_locks"
        " WHERE lock_type = 'SHARED_NO_READ_WRITE' AND object_schema = %s",
        (db.name,),
    )
    return {name for (name,) in rows}


def test_a_swap_puts_the_new_table_in_place_with_every_row(db, cutover):
    """A swap puts the new table in place with every row, and stops the feed before it unlocks."""
    swap = make_tables(db)
    source = SnapshotSource(swap)
    locked: dict[str, set[str]] = {}
    turns = []
    usual = sys.getswitchinterval()
    source.hooks["flush_under_table_lock"] = lambda _: turns.append(sys.getswitchinterval())
    for moment in ("stop", "applies_resumed"):
        source.hooks[moment] = lambda moment=moment: locked.update({moment: write_locked(db)})

    result = cutover(source).run()

    assert turns[0] < usual == sys.getswitchinterval()
    assert locked == {"stop": {"_t_old", "t"}, "applies_resumed": set()}
    assert swapped(db, swap)
    assert db.query("SELECT id, v, extra FROM t ORDER BY id") == [(n + 1, n, 7) for n in range(10)]
    assert result.attempts == 1
    assert result.position == "here"
    assert not result.answer_lost
    assert list(result.steps_ms) == ["receive", "flush", "checks", "guard", "rename"]
    assert result.lock_held_ms >= sum(result.steps_ms.values())
    assert source.calls == [
        "block_wait",
        "flush",
        "flush",
        "applies_paused",
        "block_wait",
        "flush_under_table_lock",
        "all_changes_flushed",
        "expect_own_ddl",
        "stop",
        "applies_resumed",
    ]


def test_locking_session_ends_before_the_feed_goes_on(db, cutover):
    """While anything of the locking session is left, the feed's own applying is held back."""
    swap = make_tables(db)
    source = SnapshotSource(swap)
    source.hooks["flush_under_table_lock"] = Once(lambda session: db.execute(f"KILL {session.id}"))
    ended: list[bool] = []
    alive = "SELECT 1 FROM performance_schema.threads WHERE processlist_id = %s"

    def see_it_end() -> None:
        session = source.sessions.pop()
        until(lambda: not db.query(alive, (session,)), "the end of the locking session")
        ended.append(True)

    source.hooks["applies_resumed"] = see_it_end
    # With a limit so far away the server does not end the session for having idled.
    limits = dataclasses.replace(QUICK, lock_hold=300)

    assert cutover(source, limits=limits).run().attempts == 2
    assert ended == [True, True]


def test_the_place_behind_the_rename_is_read_under_the_lock(db, cutover):
    """The place after the RENAME is read in the locking session, before anybody can write."""
    swap = make_tables(db)
    source = SnapshotSource(swap)
    seen = []
    source.hooks["position_here"] = lambda session: seen.append((session.id, write_locked(db)))

    result = cutover(source, note_position=True).run()

    assert result.after_rename == "behind"
    assert seen == [(source.own_ddl[0], {"_t_old", "t"})]
    assert source.calls.index("stop") < source.calls.index("position_here")


def test_swap_stands_without_the_place(db, cutover):
    """A place that could not be read changes nothing about the swap."""
    swap = make_tables(db)
    source = SnapshotSource(swap)

    def refuse(_session) -> None:
        raise FeedFailure("no place")

    source.hooks["position_here"] = refuse

    result = cutover(source, note_position=True).run()

    assert result.after_rename == ""
    assert swapped(db, swap)


def test_two_tables_are_swapped_by_one_rename(db, cutover):
    """Several tables are swapped by one RENAME under one lock."""
    swaps = [make_tables(db, "a"), make_tables(db, "b")]

    cutover(SnapshotSource(*swaps)).run()

    assert all(swapped(db, swap) for swap in swaps)


def test_waits_for_an_uncommitted_transaction(db, cutover):
    """The lock waits for a running transaction, whose row is then in the swapped table."""
    swap = make_tables(db)
    other = db.connect(autocommit=False).cursor()
    other.execute("INSERT INTO t (id, v) VALUES (500, 5)")
    running = BackgroundCall(cutover(SnapshotSource(swap), limits=blind(wait=30)).run)
    until(lambda: lock_request(db), "the lock request")

    other.connection.commit()

    assert running.result().lock_wait_ms > 0
    assert swapped(db, swap)
    assert db.query("SELECT v FROM t WHERE id = 500") == [(5,)]


@pytest.mark.slow
def test_a_transaction_held_through_all_tries(db, cutover):
    """A transaction that never ends fails the cutover, which names it and leaves all as it was."""
    swap = make_tables(db)
    other = db.connect(autocommit=False).cursor()
    other.execute("INSERT INTO t (v) VALUES (5)")
    source = SnapshotSource(swap)
    clock = Clock()

    who = f"session {other.connection.thread_id()} of root"
    tries: list[str] = []

    def give_up(text: str) -> None:
        # On a busy machine the look for who is in the way may come too late for a try.
        tries.extend([text] if "cut-over try" in text else [])
        if len(tries) >= 3 and who in text:
            clock.put_forward(DAYS)

    failing = cutover(source, limits=blind(wait=1), clock=clock, tell=lines_to(give_up))

    with pytest.raises(CutoverFailure) as failure:
        failing.run()

    assert not failing.swapped

    assert len(failure.value.details) >= 3
    assert who in failure.value.details[-1]
    assert "idle in a transaction" in failure.value.message
    assert not source.stopped
    assert untouched(db, swap)
    other.connection.commit()


def test_kills_who_is_in_the_way(db, cutover):
    """At its time the session in the way is killed; result and warning say what it was doing."""
    swap = make_tables(db)
    other = db.connect(autocommit=False)
    other.cursor().execute("UPDATE t SET v = 99 WHERE id = 1")
    limits = blind(wait=20, timeout=0, kill="all", kill_after=0.5)
    told: list[Event] = []

    result = cutover(SnapshotSource(swap), limits=limits, tell=told.append).run()

    (killed,) = result.killed
    assert f"session {other.thread_id()} of root" in killed
    assert "idle in a transaction" in killed
    assert "UPDATE `t` SET `v` = ?" in killed
    # A line with a time, and counted: an event.
    assert [each.line for each in told if each.level == "warning"] == [
        f"warning: killed for the table lock: {killed}"
    ]
    assert swapped(db, swap)
    assert db.query("SELECT v FROM t WHERE id = 1") == [(0,)]


@pytest.mark.slow
def test_does_not_kill_when_told_so(db, cutover):
    """With killing switched off the session in the way goes on, and the cutover gives up."""
    swap = make_tables(db)
    other = db.connect(autocommit=False)
    other.cursor().execute("UPDATE t SET v = 99 WHERE id = 1")
    limits = blind(wait=3, timeout=0, kill_after=0.1)

    with pytest.raises(CutoverFailure, match=f"session {other.thread_id()} of root"):
        cutover(SnapshotSource(swap), limits=limits).run()

    other.commit()
    assert db.query("SELECT v FROM t WHERE id = 1") == [(99,)]
    assert untouched(db, swap)


@pytest.mark.slow
def test_readers_wait_no_longer_than_the_request(db, cutover):
    """Readers that queue behind the lock request go on when it gives up, blocked or not."""
    swap = make_tables(db)
    other = db.connect(autocommit=False).cursor()
    other.execute("INSERT INTO t (v) VALUES (5)")
    cursors = [db.connect().cursor() for _ in range(8)]
    limits = blind(wait=5, timeout=0)
    running = BackgroundCall(cutover(SnapshotSource(swap), limits=limits).run)
    until(lambda: lock_request(db), "the lock request")

    readers = [BackgroundCall(partial(each.execute, "SELECT COUNT(*) FROM t")) for each in cursors]
    queued = (
        "SELECT 1 FROM performance_schema.threads WHERE processlist_info LIKE"
        " 'SELECT COUNT(*) FROM t' AND processlist_state = 'Waiting for table metadata lock'"
    )
    until(lambda: db.query(queued), "readers in the queue")

    with pytest.raises(CutoverFailure):
        running.result()
    assert [reader.result() for reader in readers] == [1] * 8
    other.connection.rollback()
    assert untouched(db, swap)


@pytest.mark.slow
def test_a_session_with_lock_tables_is_never_killed(db, cutover):
    """A session that holds LOCK TABLES is never killed; the failure says so."""
    swap = make_tables(db)
    other = db.connect()
    other.cursor().execute("LOCK TABLES t READ")
    limits = blind(wait=3, timeout=0, kill="all", kill_after=0.3)

    with pytest.raises(CutoverFailure, match="not killed, it holds LOCK TABLES"):
        cutover(SnapshotSource(swap), limits=limits).run()

    other.cursor().execute("UNLOCK TABLES")
    assert untouched(db, swap)


def test_locking_session_killed_under_the_lock(db, cutover):
    """A lock lost before RENAME is a failed try; the next one, in a new session, succeeds."""
    swap = make_tables(db)
    source = SnapshotSource(swap)
    source.hooks["flush_under_table_lock"] = Once(lambda session: db.execute(f"KILL {session.id}"))

    result = cutover(source).run()

    assert result.attempts == 2
    assert "the locking session was lost" in result.failures[0]
    assert len(set(source.own_ddl)) == 1
    assert swapped(db, swap)


def test_lock_lost_in_a_living_session(db, cutover):
    """RENAME is not sent when the session lives on but its table lock is gone."""
    swap = make_tables(db)
    source = SnapshotSource(swap)

    with pytest.raises(CutoverFailure, match="no longer holds the table lock"):
        cutover(source, final_checks=lambda session: session.execute("UNLOCK TABLES")).run()

    assert source.own_ddl == []
    assert untouched(db, swap)


def waiting_rename(db):
    """Return the session whose RENAME waits for another lock, or None."""
    rows = db.query(
        "SELECT processlist_id FROM performance_schema.threads"
        " WHERE processlist_info LIKE 'RENAME%%' AND processlist_state LIKE 'Waiting for%%'"
    )
    return rows[0][0] if rows else None


def test_locking_session_killed_during_rename(db, cutover):
    """A session killed while its RENAME runs has not renamed, which the next try makes good."""
    swap = make_tables(db)
    other = db.connect().cursor()
    other.execute("LOCK INSTANCE FOR BACKUP")
    told: list[str] = []
    running = BackgroundCall(
        cutover(SnapshotSource(swap), guard="off", tell=lines_to(told.append)).run
    )

    def killed() -> bool:
        # RENAME waits for a second: it may be over before its session is killed.
        if session := waiting_rename(db):
            db.kill(session)
        return any("before RENAME took effect" in each for each in told)

    until(killed, "a RENAME whose session was killed")
    other.execute("UNLOCK INSTANCE")

    result = running.result()

    # More tries where they met the backup's lock before that was given back.
    assert result.attempts >= 2
    assert any("before RENAME took effect" in each for each in result.failures)
    assert swapped(db, swap)


@pytest.mark.slow
def test_backup_lock_stops_rename_only_briefly(db, cutover):
    """A running backup makes RENAME fail after a second, and the table is free meanwhile."""
    swap = make_tables(db)
    other = db.connect().cursor()
    other.execute("LOCK INSTANCE FOR BACKUP")

    with pytest.raises(CutoverFailure, match="Lock wait timeout"):
        cutover(SnapshotSource(swap), limits=blind(timeout=0)).run()

    assert untouched(db, swap)
    other.execute("UNLOCK INSTANCE")


def test_answer_to_rename_lost(db, proxy, cutover):
    """When the answer to RENAME is lost, the tables tell that it was done."""
    swap = make_tables(db)
    source = SnapshotSource(swap)
    proxy.lose_reply(b"RENAME TABLE")

    result = cutover(source, proxy=proxy).run()

    assert proxy.lost.is_set()
    assert result.answer_lost
    assert result.attempts == 1
    assert source.stopped
    assert swapped(db, swap)


def test_a_rename_that_never_arrived_is_seen_by_the_tables(db, proxy, cutover):
    """When the connection breaks before RENAME arrives, the tables tell that it was not done."""
    swap = make_tables(db)
    source = SnapshotSource(swap)
    source.hooks["expect_own_ddl"] = Once(lambda *_: proxy.cut())

    result = cutover(source, proxy=proxy).run()

    assert result.attempts == 2
    assert not result.answer_lost
    assert swapped(db, swap)


@pytest.mark.slow
def test_an_answer_that_is_lost_for_good_is_an_outcome_of_its_own(db, proxy, cutover):
    """When the server cannot be asked after a lost answer, that is an outcome of its own."""
    swap = make_tables(db)
    source = SnapshotSource(swap)
    proxy.lose_reply(b"RENAME TABLE")
    limits = blind(look=0.3)

    with pytest.raises(OutcomeUnknown) as unknown:
        cutover(source, proxy=proxy, limits=limits, tell=lines_to(lambda _: proxy.stop())).run()

    assert unknown.value.exit_code == 3
    assert f"`{db.name}`.`_t_old`" in unknown.value.hint
    assert source.stopped


def test_another_server_that_answers_after_the_rename_shows_no_outcome(
    db, proxy, cutover, monkeypatch
):
    """R14, R15: a primary that is lost with the answer to RENAME may have made it."""
    swap = make_tables(db)
    source = SnapshotSource(swap)
    proxy.lose_reply(b"RENAME TABLE")

    def elsewhere(options, **more):
        return connect(dataclasses.replace(options, server_uuid="of the first"), **more)

    def fail_over(_said: str) -> None:
        monkeypatch.setattr(rename, "connect", elsewhere)

    swapping = cutover(source, proxy=proxy, tell=lines_to(fail_over))
    with pytest.raises(OutcomeUnknown, match="another server answers") as unknown:
        swapping.run()

    assert unknown.value.exit_code == 3
    assert swapping.renaming
    assert source.stopped
    assert swapped(db, swap)


def test_another_server_that_answers_after_the_swap_makes_no_failed_try_of_it(
    db, cutover, monkeypatch
):
    """R14, R15: which transactions are old is not known then, and that is all."""
    swap = make_tables(db)

    def elsewhere(*_: object, **__: object) -> None:
        raise AnotherServer("another server answers")

    monkeypatch.setattr(guard, "connect", elsewhere)
    result = cutover(SnapshotSource(swap)).run()

    assert (result.attempts, result.snapshots) == (1, ())
    assert swapped(db, swap)


def test_a_lock_request_without_a_client_leaves_the_queue(db, proxy, cutover):
    """A lock request whose client is gone does not stay in the queue."""
    swap = make_tables(db)
    other = db.connect(autocommit=False).cursor()
    other.execute("INSERT INTO t (v) VALUES (5)")
    limits = blind(wait=30, timeout=0)
    running = BackgroundCall(cutover(SnapshotSource(swap), proxy=proxy, limits=limits).run)
    until(lambda: lock_request(db), "the lock request")

    proxy.cut()

    with pytest.raises(CutoverFailure):
        running.result()
    assert lock_request(db) is None
    other.connection.commit()
    assert untouched(db, swap)


@pytest.mark.slow
def test_a_server_cut_off_under_the_lock_frees_the_table(db, proxy, cutover):
    """When nothing passes between us and the server any more, it frees the table by itself."""
    swap = make_tables(db)
    source = SnapshotSource(swap)

    held = []

    def lose_network(_session) -> None:
        held.append(write_locked(db))
        proxy.black_hole = True

    source.hooks["flush_under_table_lock"] = Once(lose_network)
    limits = blind(wait=1, timeout=0, lock_hold=0.3, look=1)
    running = BackgroundCall(cutover(source, proxy=proxy, limits=limits).run)
    until(lambda: proxy.black_hole, "the lock")
    assert held == [{"t", "_t_new"}]

    until(lambda: not write_locked(db), "the end of the lock")

    assert untouched(db, swap)
    proxy.cut()
    proxy.black_hole = False
    with pytest.raises(CutoverFailure):
        running.result()


def test_a_table_in_the_old_ones_place_fails_before_any_lock(db, cutover):
    """A table in the old one's place is a clean failure, without a lock and without a retry."""
    swap = make_tables(db)
    db.execute("CREATE TABLE _t_old (id INT)")
    source = SnapshotSource(swap)

    with pytest.raises(CutoverFailure, match="_t_old` exists already"):
        cutover(source).run()

    assert "flush_under_table_lock" not in source.calls
    assert "extra" not in str(db.query("SHOW COLUMNS FROM t"))


def test_a_table_that_appears_in_the_old_ones_place_fails_cleanly(db, cutover):
    """A table that appears in the old one's place at the last moment is a clean failure too."""
    swap = make_tables(db)
    source = SnapshotSource(swap)
    source.hooks["expect_own_ddl"] = lambda *_: db.execute("CREATE TABLE _t_old (id INT)")

    with pytest.raises(CutoverFailure, match="already exists"):
        cutover(source).run()

    db.execute("DROP TABLE _t_old")
    assert not source.stopped
    assert untouched(db, swap)


def test_without_the_new_table_nothing_is_locked(db, cutover):
    """Without the new table nothing is locked."""
    swap = make_tables(db)
    db.execute("DROP TABLE _t_new")

    with pytest.raises(CutoverFailure, match="_t_new` is gone"):
        cutover(SnapshotSource(swap)).run()


@pytest.mark.slow
def test_short_timeouts_of_the_server_end_none_of_our_sessions(db, cutover):
    """The server's own wait_timeout and lock_wait_timeout do not end our sessions or waits."""
    swap = make_tables(db)
    db.set_global("wait_timeout", 2)
    db.set_global("lock_wait_timeout", 1)
    other = db.connect(autocommit=False).cursor()
    other.execute("SET SESSION wait_timeout = 100")
    other.execute("INSERT INTO t (id, v) VALUES (500, 5)")
    running = BackgroundCall(cutover(SnapshotSource(swap), limits=blind(wait=30)).run)
    request = until(lambda: lock_request(db), "the lock request")
    waited = "SELECT processlist_time > 2 FROM performance_schema.threads WHERE processlist_id = %s"
    until(lambda: db.query(waited, (request,)) == [(1,)], "a wait above both timeouts")
    other.connection.commit()

    assert running.result().attempts == 1
    assert swapped(db, swap)


@pytest.fixture
def plain(db):
    """Return how an account reaches the server that has privileges on its schema only."""
    user = f"{db.name}_plain"
    db.execute(f"CREATE USER `{user}` IDENTIFIED BY 'pw'; GRANT ALL ON `{db.name}`.* TO `{user}`")
    yield dataclasses.replace(connection_options(db), user=user, password="pw")
    db.execute(f"DROP USER `{user}`")


def test_an_account_without_global_privileges_swaps(db, plain):
    """An account that cannot see or kill other sessions still swaps."""
    swap = make_tables(db)

    ProvenCutover(
        db, [swap], SnapshotSource(swap), connection=plain, stop=StopSwitch(), limits=QUICK
    ).run()

    assert swapped(db, swap)


@pytest.mark.slow
def test_waits_are_bounded_without_global_privileges(db, plain):
    """An account that cannot see who is in the way still gives up in time."""
    swap = make_tables(db)
    other = db.connect(autocommit=False).cursor()
    other.execute("INSERT INTO t (v) VALUES (5)")
    limits = blind(wait=1, timeout=0)

    with pytest.raises(CutoverFailure, match=r"did not happen in 0.0s, 1 tries"):
        ProvenCutover(
            db, [swap], SnapshotSource(swap), connection=plain, stop=StopSwitch(), limits=limits
        ).run()

    other.connection.commit()
    assert untouched(db, swap)


@pytest.mark.slow
def test_hold_is_bounded_without_global_privileges(db, plain):
    """An account that cannot see who is in the way still ends a lock that is held too long."""
    swap = make_tables(db)
    source = SnapshotSource(swap)
    source.hooks["flush_under_table_lock"] = lambda session: session.query("SELECT SLEEP(60)")
    limits = blind(wait=20, timeout=0, lock_hold=0.3)
    other = db.connect(autocommit=False).cursor()
    other.execute("INSERT INTO t (v) VALUES (5)")
    running = BackgroundCall(
        ProvenCutover(db, [swap], source, connection=plain, stop=StopSwitch(), limits=limits).run
    )
    request = until(lambda: lock_request(db), "the lock request")
    waited = "SELECT processlist_time > 1 FROM performance_schema.threads WHERE processlist_id = %s"
    until(lambda: db.query(waited, (request,)) == [(1,)], "a look at who is in the way")
    other.connection.commit()

    with pytest.raises(CutoverFailure, match="it was held for"):
        running.result()
    assert untouched(db, swap)


def test_backlog_that_does_not_drain(db, cutover):
    """A feed that cannot keep up is asked in each try, and never under the lock."""
    swap = make_tables(db)
    source = SnapshotSource(swap)

    clock = Clock()

    def refuse() -> None:
        if source.calls.count("flush") == 2:
            clock.put_forward(DAYS)
        raise ChangesNotFlushed("20000 changes pending")

    source.hooks["flush"] = refuse

    with pytest.raises(CutoverFailure, match="20000 changes pending"):
        cutover(source, clock=clock).run()

    assert source.calls.count("flush") == 2
    assert "applies_paused" not in source.calls
    assert untouched(db, swap)


def test_lock_is_not_held_for_long(db, cutover):
    """A flush under the lock that takes too long is ended together with the lock."""
    swap = make_tables(db)
    source = SnapshotSource(swap)
    source.hooks["flush_under_table_lock"] = lambda session: session.query("SELECT SLEEP(60)")
    limits = blind(timeout=0, lock_hold=0.3)

    with pytest.raises(CutoverFailure, match=r"the table lock was released: it was held for 0.3 s"):
        cutover(source, limits=limits).run()

    assert untouched(db, swap)


def test_stop_while_waiting_for_the_lock(db, cutover):
    """A stop request ends the wait for the lock at once."""
    swap = make_tables(db)
    stop = StopSwitch()
    other = db.connect(autocommit=False).cursor()
    other.execute("INSERT INTO t (v) VALUES (5)")
    limits = blind(wait=300, timeout=0)
    running = BackgroundCall(cutover(SnapshotSource(swap), stop=stop, limits=limits).run)
    until(lambda: lock_request(db), "the lock request")

    stop.request(Interrupted(15))

    with pytest.raises(Interrupted):
        running.result()
    other.connection.commit()
    assert untouched(db, swap)


def test_stop_under_the_lock(db, cutover):
    """A stop request under the lock ends the try before RENAME is sent."""
    swap = make_tables(db)
    stop = StopSwitch()
    source = SnapshotSource(swap)
    source.hooks["all_changes_flushed"] = lambda: stop.request(Interrupted(2))

    with pytest.raises(Interrupted):
        cutover(source, stop=stop).run()

    assert untouched(db, swap)


def test_final_checks_end_the_cutover(db, cutover):
    """An error of the final checks leaves the table unlocked and is not tried again."""
    swap = make_tables(db)
    source = SnapshotSource(swap)

    def refuse(_session) -> None:
        raise DuplicateForUnique("two rows with v = 1")

    with pytest.raises(DuplicateForUnique):
        cutover(source, final_checks=refuse).run()

    assert source.calls.count("flush_under_table_lock") == 1
    assert untouched(db, swap)


def test_work_before_the_lock_may_change_the_new_table(db, cutover):
    """Work given for before the lock may still change the new table's definition."""
    swap = make_tables(db)

    cutover(
        SnapshotSource(swap),
        before_lock=lambda session: session.execute(
            f"ALTER TABLE `{db.name}`.`_t_new` AUTO_INCREMENT = 1000"
        ),
    ).run()

    db.execute("INSERT INTO t (v) VALUES (1)")
    assert db.query("SELECT MAX(id) FROM t") == [(1000,)]
    assert set(tables(db)) == {"t", "_t_old"}


def test_the_old_table_is_dropped_and_a_missing_one_is_no_trouble(db):
    """The old table is dropped, and dropping what is not there is no trouble."""
    make_tables(db)

    proof = number_of(db, "t")

    assert (
        drop_old_table(connection_options(db), db.name, "t", proof=proof, stop=StopSwitch()) == ""
    )
    assert (
        drop_old_table(connection_options(db), db.name, "t", proof=proof, stop=StopSwitch()) == ""
    )
    assert set(tables(db)) == {"_t_new"}


def number_of(db, name):
    """Return what proves which table it is."""
    with connect(connection_options(db), role="test") as session:
        return identity(session, db.name, name)


def test_another_table_in_the_old_ones_place_is_kept(db):
    """A table that somebody made under the old table's name stays, and that is told (R24)."""
    make_tables(db)
    proof = number_of(db, "t")
    db.execute("RENAME TABLE t TO elsewhere; CREATE TABLE t LIKE elsewhere")

    for known in (proof, NOTHING):
        why = drop_old_table(connection_options(db), db.name, "t", proof=known, stop=StopSwitch())
        assert "nothing proves" in why
    assert set(tables(db)) == {"_t_new", "elsewhere", "t"}


@pytest.mark.slow
def test_old_table_in_use(db):
    """An old table that a reader still has open stays, and the reason is told."""
    make_tables(db)
    reader = db.connect(autocommit=False).cursor()
    reader.execute("SELECT * FROM t")

    proof = number_of(db, "t")
    why = drop_old_table(
        connection_options(db),
        db.name,
        "t",
        proof=proof,
        stop=StopSwitch(),
        lock_wait=1,
        attempts=1,
    )

    assert "Lock wait timeout" in why
    reader.connection.rollback()
    assert "t" in tables(db)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 120.0])
def test_a_backup_in_front_of_a_drop_is_waited_for_as_long_as_is_said(db, monkeypatch, seconds):
    """Its lock is named, and the table goes when the backup is over."""
    make_tables(db)
    backup = db.connect().cursor()
    backup.execute("LOCK INSTANCE FOR BACKUP")
    looked: list[str] = []
    looking = LockedBy.__call__

    def look(self):
        looked.append(looking(self))
        backup.connection.close()
        return looked[-1]

    monkeypatch.setattr(LockedBy, "__call__", look)
    why = drop_old_table(
        connection_options(db),
        db.name,
        "t",
        proof=number_of(db, "t"),
        stop=StopSwitch(),
        lock_wait=1,
        attempts=1,
        backups=seconds,
    )
    assert bool(why) is (seconds == 0.0)
    assert all("the end of a lock on the whole server: session" in one for one in looked)
    assert bool(looked) is (seconds > 0)


def test_a_server_that_is_away_after_the_swap_is_reported_not_raised(db, proxy):
    """A server that is away after the swap is told, not raised."""
    through = connection_options(db, proxy)
    proxy.stop()

    assert drop_old_table(through, db.name, "t", proof=NOTHING, stop=StopSwitch(), patience=0)
