"""R23: who is in front of a lock is seen before it is requested, and waited for meanwhile."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest

from spirit_py.attached.implied_locks import implied_locks
from spirit_py.errors import CutoverFailure, HeldBack, Interrupted
from spirit_py.events.event import untold
from spirit_py.locks import look, turns
from spirit_py.locks.blockers import KillPolicy
from spirit_py.locks.look import (
    LockRequest,
    find_in_front,
    why_locks_are_unseen,
)
from spirit_py.locks.turns import Front, LockTurns
from spirit_py.migration.swap.swap import Stopwatch
from spirit_py.mysql.connect import connect
from spirit_py.mysql.processlist import FRESH_SECONDS
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
from tests.kits.locking import looking, policy
from tests.kits.reporter import lines_to
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Everybody in front counts as old: no test has to wait for somebody to grow old.
STRICT: dict[str, Any] = {"old": 0.0}


class Holder:
    """A session of the application that is in front until it is ended."""

    def __init__(self, db: Any, *statements: str) -> None:
        self.connection = db.connect(autocommit=False)
        self.id = self.connection.thread_id()
        for statement in statements:
            self.connection.cursor().execute(statement)

    def end(self) -> None:
        """Release what it holds."""
        self.connection.cursor().execute("UNLOCK TABLES")
        self.connection.cursor().execute("UNLOCK INSTANCE")
        self.connection.rollback()


class LongSelect:
    """A statement that reads the table until it is ended."""

    def __init__(self, db: Any) -> None:
        self._db, connection = db, db.connect()
        self.id = connection.thread_id()
        self.call = BackgroundCall(
            lambda: connection.cursor().execute("SELECT SLEEP(600) FROM t LIMIT 1")
        )
        sleeps = (
            "SELECT 1 FROM performance_schema.threads WHERE processlist_id = %s"
            " AND processlist_state = 'User sleep'"
        )
        until(lambda: db.query(sleeps, (self.id,)), "the long statement")

    def end(self) -> None:
        """Let it end."""
        self._db.execute(f"KILL QUERY {self.id}")
        with contextlib.suppress(MySQLdb.Error):
            self.call.result()


def idle_transaction(db: Any) -> Holder:
    """Return a session that idles in a transaction that has written to the table."""
    return Holder(db, "UPDATE t SET v = 77 WHERE id = 1")


@pytest.fixture
def start(db):
    """Return a function that starts a swap in the background."""
    swap = make_tables(db)

    def started(**settings: Any) -> Swapping:
        return Swapping(db, swap, **settings)

    return started


class Swapping:
    """A swap under way, and what it says."""

    def __init__(self, db: Any, swap: Any, *, connection: Any = None, **settings: Any) -> None:
        self.swap = swap
        self.said: list[str] = []
        self.shown: list[str] = []
        self.source = SnapshotSource(swap)
        self.stop = StopSwitch()
        plan = {name: settings.pop(name) for name in ("held_back",) if name in settings}
        self._limits = looking(**STRICT | settings)
        self._cutover = ProvenCutover(
            db,
            [swap],
            self.source,
            connection=connection,
            stop=self.stop,
            limits=self._limits,
            tell=lines_to(self.said.append),
            show=self.shown.append,
            **plan,
        )
        self.call = BackgroundCall(self._cutover.run)

    def waits_for(self, holder: Any) -> None:
        """Wait until it says that it waits for a session, and prove that it requests nothing."""
        who = f"session {holder.id} of root"
        until(lambda: any(who in text for text in self.said), "the message")
        assert "is not requested while it is blocked by" in self.said[-1]
        until(lambda: who in "".join(self.shown[-1:]), "what is waited for")
        assert self.requests == 0

    @property
    def requests(self) -> int:
        """How often it was about to request the lock."""
        return self.source.calls.count("applies_paused")


@pytest.mark.parametrize("kind", [idle_transaction, LongSelect])
def test_nothing_is_requested_while_somebody_old_is_in_front(db, start, kind):
    """The swap waits without a request, names the session, and is made when it has ended."""
    holder = kind(db)
    swapping = start()
    swapping.waits_for(holder)
    assert lock_request(db) is None
    holder.end()
    result = swapping.call.result()
    assert (result.attempts, result.failures, result.killed) == (1, (), ())
    assert swapping.shown[-1] == ""
    assert swapped(db, swapping.swap)


def test_somebody_who_comes_between_look_and_request_is_seen(db):
    """The last look is right before the request; what it finds costs no try."""
    swap = make_tables(db)
    source = SnapshotSource(swap)
    came: list[Holder] = []

    def come() -> None:
        if not came:
            came.append(idle_transaction(db))

    # The feed's own applying is paused after everything else, right before the last look.
    source.hooks["applies_paused"] = come
    said: list[str] = []
    swapping = ProvenCutover(
        db, [swap], source, stop=StopSwitch(), limits=looking(**STRICT), tell=lines_to(said.append)
    )
    call = BackgroundCall(swapping.run)
    until(lambda: said, "the message")
    assert f"session {came[0].id} of" in said[0]
    assert lock_request(db) is None
    came[0].end()
    assert call.result().attempts == 1
    assert source.calls.count("applies_paused") == 2


def test_a_stop_ends_the_wait_without_a_request(db, start):
    """R23: a stop is heard while nothing is requested."""
    holder = idle_transaction(db)
    swapping = start()
    swapping.waits_for(holder)
    swapping.stop.request(Interrupted(15))
    with pytest.raises(Interrupted):
        swapping.call.result()
    assert swapping.requests == 0
    holder.end()
    assert untouched(db, swapping.swap)


@pytest.mark.slow
def test_a_sentinel_is_seen_while_the_lock_is_waited_for(db, start):
    """A swap that waits is deferred like one that was not begun."""
    holder = idle_transaction(db)
    swapping = start(held_back=lambda: "table shop._t_snt")
    with pytest.raises(HeldBack, match=r"shop\._t_snt"):
        swapping.call.result()
    assert swapping.requests == 0
    holder.end()


def test_the_wait_ends_at_its_time(db, start):
    """R23: after --cutover-timeout the run ends resumably, and names who was in front."""
    holder = idle_transaction(db)
    swapping = start(timeout=0.0)
    with pytest.raises(CutoverFailure, match="was not requested") as failed:
        swapping.call.result()
    assert f"session {holder.id} of root" in failed.value.message
    assert failed.value.resumable
    assert swapping.requests == 0
    holder.end()
    assert untouched(db, swapping.swap)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "kind"), [("idle", idle_transaction), ("all", idle_transaction), ("all", LongSelect)]
)
def test_whom_the_operator_gave_up_is_killed_without_a_request(db, start, mode, kind):
    """R23: the time in front counts while nothing is requested."""
    holder = kind(db)
    swapping = start(kill=mode, kill_after=0.5)
    result = swapping.call.result()
    assert result.attempts == 1
    (killed,) = result.killed
    assert f"session {holder.id} of root" in killed
    assert swapping.requests == 1
    assert swapped(db, swapping.swap)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "kind"), [("never", idle_transaction), ("idle", LongSelect)])
def test_nobody_else_is_killed(db, start, mode, kind):
    """R23: by default nobody; with idle no running statement."""
    holder = kind(db)
    swapping = start(kill=mode, kill_after=0.1)
    swapping.waits_for(holder)
    if mode == "idle":
        spared = "not killed, it is executing a statement (--kill-blockers idle)"
        until(lambda: spared in swapping.shown[-1], "the reason")
    until(lambda: len(swapping.shown) > 4, "further looks")
    holder.end()
    assert swapping.call.result().killed == ()


@pytest.fixture
def account(db) -> Iterator[Any]:
    """Return how an account reaches the server that sees every session and may kill none."""
    user = f"{db.name}_sees"
    db.execute(f"CREATE USER `{user}` IDENTIFIED BY 'pw'; GRANT ALL ON `{db.name}`.* TO `{user}`")
    db.execute(f"GRANT SELECT ON performance_schema.* TO `{user}`")
    db.execute(f"GRANT PROCESS ON *.* TO `{user}`")
    yield dataclasses.replace(connection_options(db), user=user, password="pw")
    db.execute(f"DROP USER `{user}`")


@pytest.mark.slow
def test_an_account_that_may_not_kill_says_so_and_waits(db, start, account):
    """Without CONNECTION_ADMIN the session goes on, and so does the wait."""
    holder = idle_transaction(db)
    swapping = start(kill="all", kill_after=0.1, connection=account)
    refused = f"session {holder.id} of root@localhost"
    until(lambda: "grant CONNECTION_ADMIN" in "".join(swapping.shown[-1:]), "the reason")
    assert refused in swapping.shown[-1]
    assert swapping.requests == 0
    holder.connection.commit()
    assert swapping.call.result().killed == ()
    assert db.query("SELECT v FROM t WHERE id = 1") == [(77,)]


@pytest.mark.slow
def test_the_procedure_of_a_managed_server_kills(db, start, account):
    """Where KILL is refused, CALL mysql.rds_kill is what Amazon's servers have for it."""
    # A procedure of ours may not kill in the name of its definer: it leaves word for the test.
    db.execute("CREATE TABLE killed (thread BIGINT)")
    insert = f"INSERT INTO `{db.name}`.killed VALUES (thread)"
    db.execute(f"CREATE PROCEDURE mysql.rds_kill(IN thread BIGINT) {insert}")
    try:
        db.execute(f"GRANT EXECUTE ON PROCEDURE mysql.rds_kill TO `{account.user}`")
        holder = idle_transaction(db)
        swapping = start(kill="all", kill_after=0.1, connection=account)
        assert until(lambda: db.query("SELECT * FROM killed"), "the call") == [(holder.id,)]
        db.execute(f"KILL {holder.id}")
        result = swapping.call.result()
        assert [f"session {holder.id} of root" in text for text in result.killed] == [True]
    finally:
        db.execute("DROP PROCEDURE mysql.rds_kill")


def in_front(db: Any, *, read_only: bool = False, defines: bool = False) -> list[Any]:
    """Return the sessions in front of a request for the lock on table ``t``."""
    tables = [(db.name, "t")]
    request = LockRequest(tables=tables, read_only=tables if read_only else (), defines=defines)
    with connect(connection_options(db), role="test") as session:
        return find_in_front(session, request)


@pytest.mark.parametrize(
    ("statement", "write", "read", "define"),
    [
        ("SELECT * FROM t", True, False, True),
        ("SELECT * FROM t FOR UPDATE", True, True, True),
        ("INSERT INTO t (v) VALUES (1)", True, True, True),
        ("LOCK TABLES t READ", True, False, True),
        ("LOCK TABLES t WRITE", True, True, True),
        ("FLUSH TABLES WITH READ LOCK", True, False, True),
        ("LOCK INSTANCE FOR BACKUP", False, False, True),
        ("SELECT * FROM _t_new", False, False, False),
    ],
)
def test_only_who_would_be_waited_for_is_in_front(db, statement, write, read, define):
    """As the server's own table of compatible locks has it."""
    make_tables(db)
    holder = Holder(db, statement)
    looks = (in_front(db), in_front(db, read_only=True), in_front(db, defines=True))
    expected = tuple([holder.id] if blocks else [] for blocks in (write, read, define))
    assert tuple([each.session for each in found] for found in looks) == expected
    holder.end()


def test_nobody_is_killed_for_a_name_in_a_trigger_but_by_the_request_that_waits(db):
    """A trigger's body names columns, too; who holds the lock that is waited for is certain."""
    make_tables(db)
    db.execute(
        "CREATE TABLE l (customer INT); CREATE TABLE customer (id INT PRIMARY KEY);"
        "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW INSERT INTO l (customer) VALUES (NEW.id)"
    )
    table, kills = (db.name, "t"), KillPolicy(mode="all", after=0.0)
    column, used = Holder(db, "SELECT * FROM customer"), Holder(db, "SELECT * FROM l")
    asking = db.connect()
    number = asking.thread_id()
    with connect(connection_options(db), role="test") as session:
        implied = implied_locks(session, [table])
        request = LockRequest(tables=[table]).including(
            written=implied.written, read=implied.read, guessed=implied.guessed
        )
        front = Front(request, kills)
        assert used.id in {one.session for one in front.look(session)}
        front.kill(session)
        assert front.killed == []
        call = BackgroundCall(lambda: asking.cursor().execute("LOCK TABLES t WRITE"))
        until(lambda: front.look(session, number), "the blocker")
        front.kill(session)
        (killed,) = front.killed
        assert f"session {used.id} of" in killed
    call.result()
    asking.close()
    column.end()


def test_a_table_that_a_request_has_waited_for_is_no_guess_any_more(db):
    """Between the requests whoever uses it is waited for, and killed in its time."""
    make_tables(db)
    db.execute("CREATE TABLE customer (id INT PRIMARY KEY); CREATE TABLE l (id INT PRIMARY KEY)")
    db.execute("CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW INSERT INTO l VALUES (NEW.id)")
    now, names = [0.0], [(db.name, "customer"), (db.name, "l")]
    request = LockRequest(tables=[(db.name, "t"), *names], guessed=names)
    front = Front(request, KillPolicy(mode="all", after=30.0), clock=lambda: now[0])
    used = Holder(db, "SELECT * FROM customer", "SELECT * FROM l")
    asking = db.connect()
    number = asking.thread_id()
    with connect(connection_options(db), role="test") as session:
        assert [one.certain for one in front.look(session)] == [False]
        call = BackgroundCall(lambda: asking.cursor().execute("LOCK TABLES t WRITE"))
        until(lambda: front.look(session, number), "the blocker")
        db.execute(f"KILL QUERY {number}")
        with pytest.raises(MySQLdb.Error):
            call.result()
        now[0] = 30.0
        assert [one.certain for one in front.look(session)] == [True]
        front.kill(session)
        (killed,) = front.killed
    assert f"session {used.id} of" in killed
    asking.close()


def test_another_request_for_the_lock_is_waited_for(db):
    """Who waits for the table's lock itself is in front, however young; it is never killed."""
    make_tables(db)
    holder = Holder(db, "SELECT * FROM t")
    asking = db.connect()
    number = asking.thread_id()
    call = BackgroundCall(lambda: asking.cursor().execute("LOCK TABLES t WRITE"))
    until(lambda: lock_request(db), "the other request")
    found = {each.session: each for each in in_front(db)}
    assert set(found) == {holder.id, number}
    assert found[number].requesting
    assert found[number].age == float("inf")
    assert not found[holder.id].requesting
    holder.end()
    call.result()
    asking.close()


@pytest.mark.slow
@pytest.mark.parametrize("noted", ["YES", "NO"])
def test_the_age_is_that_of_the_transaction(db, noted):
    """A session that works on in an old transaction is as old as that, also by InnoDB alone."""
    make_tables(db)
    switch = (
        "UPDATE performance_schema.setup_consumers SET ENABLED = '{}'"
        " WHERE NAME = 'events_transactions_current'"
    )
    db.execute(switch.format(noted))
    try:
        holder = Holder(db, "SELECT * FROM t")
    finally:
        db.execute(switch.format("YES"))

    def look() -> Any:
        holder.connection.cursor().execute("SELECT 1")
        (found,) = in_front(db)
        return found if found.open_seconds > found.seconds + 1 else None

    found = until(look, "a transaction older than its statement")
    assert found.age == found.open_seconds
    assert "transaction open for" in str(found)
    holder.end()


def test_an_age_by_local_time_is_not_asked_for_where_there_is_a_better_one(db, monkeypatch):
    """After the change to summer time InnoDB's transactions look an hour older."""
    make_tables(db)
    real = look._transactions

    def an_hour_older(session: Any, ids: list[int]) -> Any:
        seen = real(session, ids) or {}
        return {one: (rows, at, age + 3600) for one, (rows, at, age) in seen.items()}

    monkeypatch.setattr(look, "_transactions", an_hour_older)
    holder = Holder(db, "SELECT * FROM t")
    (found,) = in_front(db)
    assert 0 < found.open_seconds < 3600
    holder.end()


@pytest.fixture
def blind_server(db) -> Iterator[None]:
    """Let the server show no metadata locks."""
    switch = (
        "UPDATE performance_schema.setup_instruments SET ENABLED = '{}'"
        " WHERE NAME = 'wait/lock/metadata/sql/mdl'"
    )
    db.execute(switch.format("NO"))
    yield
    db.execute(switch.format("YES"))


def test_a_server_that_notes_no_locks_now_is_told_from_one_without_any(db):
    """Its table is read, and shows not even those of the session that asks."""
    switch = (
        "UPDATE performance_schema.setup_consumers SET ENABLED = '{}'"
        " WHERE NAME = 'global_instrumentation'"
    )
    db.execute(switch.format("NO"))
    try:
        with connect(connection_options(db), role="test") as session:
            assert "does not show those of this session" in why_locks_are_unseen(session)
    finally:
        db.execute(switch.format("YES"))
    with connect(connection_options(db), role="test") as session:
        assert why_locks_are_unseen(session) == ""


@pytest.mark.slow
@pytest.mark.usefixtures("blind_server")
def test_without_the_instrument_old_transactions_are_waited_for(db, start):
    """What is left is used, and said; nobody is killed on a guess."""
    with connect(connection_options(db), role="test") as session:
        assert "wait/lock/metadata/sql/mdl is disabled" in why_locks_are_unseen(session)
    holder = idle_transaction(db)
    # Transactions that may be on other tables count from a second on.
    seen = (
        "SELECT 1 FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id = %s"
        " AND TIMESTAMPDIFF(SECOND, trx_started,"
        " CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) >= 2"
    )
    until(lambda: db.query(seen, (holder.id,)), "the transaction", pause=FRESH_SECONDS)
    swapping = start(kill="all", kill_after=0.1)
    who = f"session {holder.id} of root"
    until(lambda: any(who in text for text in swapping.said), "the message")
    assert "metadata locks cannot be seen" in swapping.said[0]
    unsure = "not killed, it is not visible whether it uses the table"
    until(lambda: unsure in swapping.shown[-1], "the reason")
    assert swapping.requests == 0
    holder.end()
    result = swapping.call.result()
    assert (result.attempts, result.killed) == (1, ())
    assert swapped(db, swapping.swap)


@pytest.mark.slow
@pytest.mark.parametrize(("kill", "timeout"), [("never", 2.0), ("idle", 60.0)])
def test_limits_go_on_after_what_has_held_the_swap_back(db, monkeypatch, kill, timeout):
    """R23: the time of the swap, and of those in front, counts over all calls, not in between."""
    monkeypatch.setattr(turns, "_ATTEND_SECONDS", 0.1)
    # Each time that it is read it is later, by the same on a busy machine.
    ticks = itertools.count()
    swap, holder = make_tables(db), idle_transaction(db)
    watch, in_front = Stopwatch(lambda: 0.05 * next(ticks)), holder.id

    def held_back_meanwhile():
        there = "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = %s"
        return "a postponement" if db.query(there, (in_front,)) else ""

    swapping = ProvenCutover(
        db,
        [swap],
        SnapshotSource(swap),
        stop=StopSwitch(),
        limits=looking(**STRICT, kill=kill, kill_after=1.0, timeout=timeout),
        held_back=held_back_meanwhile,
        clock=watch,
    )
    held_back, ended = 0, False
    while held_back < 200 and not ended:
        try:
            with watch:
                ended = swapping.run().attempts > 0
        except HeldBack:
            held_back += 1
        except CutoverFailure:
            ended = True
    assert ended
    assert held_back > 1
    assert swapped(db, swap) is (kill == "idle")
    with contextlib.suppress(MySQLdb.Error):
        holder.end()


def test_short_transactions_of_a_thread_without_events_are_no_long_one(db):
    """The server numbers no events of a thread that is not instrumented: their locks are alike."""
    make_tables(db)
    front = Front(LockRequest(tables=[(db.name, "t")]), clock=iter((0.0, 100.0, 100.0)).__next__)
    other = db.connect()
    db.execute(
        "UPDATE performance_schema.threads SET INSTRUMENTED = 'NO' WHERE PROCESSLIST_ID = %s",
        (other.thread_id(),),
    )

    listed = (
        "SELECT trx_id, trx_started FROM information_schema.INNODB_TRX"
        " WHERE trx_mysql_thread_id = %s"
    )
    numbers, moments = set(), set()

    def shown():
        # The server's list is of up to 0.1 s before.
        found = db.query(listed, (other.thread_id(),))
        return [row for row in found if row[0] not in numbers]

    def begun():
        """Begin a transaction; return whether it is of another second than those before."""
        other.rollback()
        other.query("BEGIN")
        other.query("INSERT INTO t (v) VALUES (1)")
        ((number, moment),) = until(shown, "the transaction", pause=FRESH_SECONDS)
        anew = moment not in moments
        numbers.add(number)
        moments.add(moment)
        return anew

    with connect(connection_options(db), role="test") as session:
        keys = []
        for _ in range(2):
            until(begun, "a transaction of another second")
            (blocker,) = front.look(session)
            keys.append(blocker.key)
        other.rollback()
        assert len(set(keys)) == 1
        assert front.older_than(50.0) == []


def test_whether_locks_are_seen_is_asked_in_each_wait(db):
    """The instrument may be switched off while a swap is deferred for days."""
    make_tables(db)
    front = Front(LockRequest(tables=[(db.name, "t")]))
    waits = LockTurns(
        [(connection_options(db), front)],
        policy(),
        StopSwitch(),
        what="swap",
        show=lambda _: None,
        tell=untold,
    )
    switch = "UPDATE performance_schema.setup_instruments SET ENABLED = %s WHERE NAME = %s"
    assert waits.await_free()
    assert front.unseen == ""
    try:
        db.execute(switch, ("NO", "wait/lock/metadata/sql/mdl"))
        assert waits.await_free()
        assert "is disabled" in front.unseen
    finally:
        db.execute(switch, ("YES", "wait/lock/metadata/sql/mdl"))
    assert waits.await_free()
    assert front.unseen == ""
