"""Replica lag on real servers: how far a replica is behind, and when the work waits for it."""

from __future__ import annotations

import contextlib
import secrets
import struct
from dataclasses import replace
from typing import Any, cast

import pymysql
import pytest

from spirit_py.config import MigrationConfig
from spirit_py.errors import Refusal
from spirit_py.mysql.connect import connect as session_at
from spirit_py.plan.environment import replicas_of
from spirit_py.throttle.lag import LagThrottler, Replicas
from spirit_py.throttle.option_checks import require_throttlers, unwatched
from spirit_py.throttle.replica import NO_REPLICA, OF_ANOTHER, Way
from spirit_py.throttle.settings import LiveSettings, PaceSettings
from tests.fixtures.mysql import connect
from tests.kits.certificates import Authority
from tests.kits.connection import options_of
from tests.kits.greedy_server import GreedyServer
from tests.kits.replica import ACCOUNT, replicated_pair
from tests.kits.tls import material, named, server_tls
from tests.kits.waiting import DEADLINE, until

LIMIT = 0.5


class Watching:
    """A lag throttler on a pair of servers, looked at by the test."""

    def __init__(self, options, *named, strict=True, limit=LIMIT, heartbeat=""):
        """Build it; :meth:`look` is what its thread would do."""
        self.settings = LiveSettings(PaceSettings(threads=1, max_lag=limit))
        self.replicas = Replicas(options, named, heartbeat=heartbeat)
        self.warned: list[str] = []
        self.throttler = LagThrottler(
            self.replicas, self.settings, strict=strict, warn=self.warned.append
        )

    def look(self) -> str:
        """Look once."""
        return self.throttler.look()

    def until(self, part: str) -> None:
        """Look until the reason has a part, or is empty for an empty one."""
        until(lambda: part in self.look() if part else not self.look(), f"{part!r} as a reason")

    def known(self) -> bool:
        """Whether the lag of a replica is known."""
        return self.throttler.lag() is not None

    @property
    def way(self) -> Way | None:
        """How the one replica is compared."""
        (one,) = self.replicas.watched()
        return one.way


@contextlib.contextmanager
def watching(options, *named, **more):
    """Watch until the end of a ``with`` block."""
    made = Watching(options, *named, **more)
    try:
        yield made
    finally:
        made.throttler.close()


@pytest.fixture(scope="module")
def pair():
    """Run a source with GTIDs and a replica of it that reports its address."""
    with replicated_pair(report_host=True) as both:
        both.at.execute("CREATE DATABASE r")
        both.at.execute("CREATE TABLE r.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
        until(both.listed, "SHOW REPLICAS")
        yield both


class At:
    """A server of the pair (``at`` or ``of``), for what changes its certificate."""

    def __init__(self, pair, which):
        """Use the cursor that the pair has when a statement is sent."""
        self._pair, self._which = pair, which
        #: Of its files.
        self.name = f"{which}-{secrets.token_hex(4)}"

    def execute(self, sql, parameters=None):
        """Run a statement."""
        getattr(self._pair, self._which).execute(sql, parameters)

    def query(self, sql):
        """Return a statement's rows."""
        self.execute(sql)
        return getattr(self._pair, self._which).fetchall()


@pytest.fixture
def show(pair, tmp_path):
    """Have both servers show a certificate with their names; return what shows it again."""
    authority = Authority(tmp_path)
    shown = authority.sign("servers", "DNS:localhost", named(pair.source.host))
    at, of = cast("Any", At(pair, "at")), cast("Any", At(pair, "of"))
    with server_tls(at) as first, server_tls(of) as second:

        def again():
            first.show(shown, authority)
            second.show(shown, authority)
            return authority

        yield again


@pytest.fixture
def proved(pair, show):
    """Return options that verify both servers."""
    return replace(pair.options, ssl_mode="VERIFY_CA", tls=material(show().file))


@contextlib.contextmanager
def registered(source, host, port):
    """Register as a replica at an address, as any account with REPLICATION SLAVE may."""
    dump = pymysql.connect(
        host=source.host, port=source.port, user="follower", password=source.password
    )
    try:
        said = struct.pack("<IB", 4711, len(host)) + host.encode() + b"\0\0"
        client: Any = dump
        client._execute_command(0x15, said + struct.pack("<HII", port, 0, 0))
        assert client._read_packet().is_ok_packet()
        yield
    finally:
        dump.close()


def write(both):
    """Commit a row on the source."""
    both.at.execute("INSERT INTO r.t (v) VALUES (1)")


@pytest.mark.slow
def test_a_replica_whose_applier_waits_is_waited_for(pair):
    """A lock on the replica: its lag grows beyond the limit, and is gone with the lock."""
    with watching(pair.options, pair.named) as seen, connect(pair.replica) as other:
        seen.until("")
        assert seen.way is Way.GTID
        lock = other.cursor()
        lock.execute("LOCK TABLES r.t READ")
        write(pair)
        seen.until(f"replica {pair.named}, which is ")
        lag = seen.throttler.lag()
        assert lag is not None
        assert lag > LIMIT
        seen.settings.change(max_lag=600.0)
        assert seen.look() == ""
        seen.settings.change(max_lag=LIMIT)
        assert "behind" in seen.look()
        lock.execute("UNLOCK TABLES")
        seen.until("")
    assert seen.warned == []


@pytest.mark.slow
@pytest.mark.parametrize("thread", ["SQL_THREAD", "IO_THREAD"])
def test_a_replica_that_was_stopped_is_waited_for(pair, thread):
    """Applier or receiver: named, although nothing is written; and free after the start."""
    with watching(pair.options, pair.named, limit=600.0) as seen:
        seen.until("")
        pair.of.execute(f"STOP REPLICA {thread}")
        seen.until("is OFF")
        pair.of.execute(f"START REPLICA {thread}")
        seen.until("")


def test_whoever_registers_as_a_replica_gets_no_password(pair, proved):
    """R26: REPLICATION SLAVE is enough to register any address. It is named, and left out.

    Under verified TLS it is asked for its certificate, and told neither user nor password.
    """
    with GreedyServer() as thief, registered(pair.source, thief.host, thief.port):
        where = f"{thief.host}:{thief.port}"
        with watching(pair.options, strict=False) as seen:
            assert seen.look() == ""
            assert [text for text in seen.warned if where in text and "no password" in text]
            assert seen.replicas.watched() == []
        named = frozenset({"max_lag"})
        relied = MigrationConfig(connection=pair.options, database="r", named=named)
        with session_at(pair.options, role="test") as session:
            planned = replicas_of(session, relied, copied=True, deferred=False)
            assert f"{where}, which no verified TLS proves" in "".join(planned)
            with pytest.raises(Refusal, match=f"no verified TLS proves that these .*{where}"):
                require_throttlers(relied, session)
        assert (thief.callers, thief.heard) == (0, b"")
        with watching(proved, strict=False) as seen:
            until(lambda: not seen.look() and where in str(seen.warned), "a warning")
        assert pair.options.user.encode() not in thief.heard
        assert pair.options.password.encode() not in thief.heard


def test_a_login_that_a_found_replica_refuses_is_the_only_one(pair, proved):
    """R26: the account is locked there. It is tried once, named, and left out."""
    pair.of.execute("SET SESSION sql_log_bin = 0")
    pair.of.execute(f"ALTER USER {ACCOUNT} ACCOUNT LOCK")
    try:
        before = locked_logins(pair)
        with watching(proved, strict=False) as seen:
            seen.look()
            (one,) = seen.replicas.watched()
            until(lambda: not one._thread.running, "the end of the tries")
            until(lambda: not seen.look() and "locked" in str(seen.warned), "a warning")
        assert locked_logins(pair) - before == 1
    finally:
        pair.of.execute(f"ALTER USER {ACCOUNT} ACCOUNT UNLOCK")
        pair.of.execute("SET SESSION sql_log_bin = 1")


def locked_logins(pair):
    """Count the logins of locked accounts that the replica has refused."""
    return int(At(pair, "of").query("SHOW GLOBAL STATUS LIKE 'Locked_connects'")[0][1])


@pytest.mark.slow
def test_a_replica_that_the_server_knows_is_found(pair, proved):
    """Without a name, where TLS proves it: at the address that it reports."""
    with watching(proved, strict=False) as seen:
        seen.look()
        (one,) = seen.replicas.watched()
        assert one.address == f"localhost:{pair.replica.port}"
        until(lambda: seen.look() == "" and one.state.behind is not None, "a look at the replica")


@pytest.mark.slow
def test_a_replica_that_reports_no_address_is_found_where_it_is_connected_from(tmp_path):
    """By the session that is sent the binlog for it, at its port, and only where TLS proves it.

    Who may not see that session is told so.
    """
    authority = Authority(tmp_path)
    with replicated_pair() as silent, contextlib.ExitStack() as stack:
        until(silent.listed, "SHOW REPLICAS")
        where = f"localhost:{silent.replica.port}"
        shown = authority.sign("servers", "DNS:localhost", named(silent.source.host))
        for which in ("at", "of"):
            server = stack.enter_context(server_tls(cast("Any", At(silent, which))))
            server.show(shown, authority)
        with watching(silent.options, strict=False) as seen:
            assert seen.look() == ""
            assert f"replica {where} is not watched: no verified TLS" in seen.warned[0]
        proved = replace(silent.options, ssl_mode="VERIFY_CA", tls=material(authority.file))
        with watching(proved, strict=False) as seen:
            seen.look()
            (one,) = seen.replicas.watched()
            assert one.address == where
            until(lambda: seen.look() == "" and one.state.behind is not None, "a look")
        silent.at.execute("CREATE USER blind IDENTIFIED BY 'x'")
        silent.at.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO blind")
        blind = replace(proved, user="blind", password="x")
        with watching(blind, strict=False) as seen:
            assert seen.look() == ""
            assert "where it is connected from cannot be seen" in seen.warned[0]
        relied = MigrationConfig(connection=blind, database="r", named=frozenset({"max_lag"}))
        with (
            session_at(blind, role="test") as session,
            pytest.raises(Refusal, match=r"where replicas are is not known \(server_id 12\)"),
        ):
            require_throttlers(relied, session)


def test_a_replica_is_asked_with_an_account_of_its_own(pair):
    """Not the source's: that one may be unknown there."""
    pair.of.execute("SET SESSION sql_log_bin = 0")
    pair.of.execute("CREATE USER watcher IDENTIFIED BY 'w'")
    config = MigrationConfig(
        connection=options_of(pair.source),
        database="r",
        replicas=(pair.named,),
        replica_user="watcher",
        replica_password="w",
    )
    with session_at(config.connection, role="test") as session:
        require_throttlers(config, session)
        refused = replace(config, replica_password="wrong")
        with pytest.raises(Refusal, match=rf"{pair.named} cannot be watched: Access denied"):
            require_throttlers(refused, session)
    pair.of.execute("DROP USER watcher")
    pair.of.execute("SET SESSION sql_log_bin = 1")


def test_who_is_relied_on_and_cannot_be_asked_ends_preflight(pair):
    """Instead of a migration that stands at 0 %; where nobody relies on it, a plan says so."""
    itself, nowhere = f"127.0.0.1:{pair.source.port}", "127.0.0.1:1"
    config = MigrationConfig(connection=pair.options, database="r", replicas=(pair.named, nowhere))
    with session_at(pair.options, role="test") as session:
        with pytest.raises(Refusal, match=f"the lag of {nowhere} cannot be watched") as refused:
            require_throttlers(config, session)
        assert pair.named not in refused.value.message
        assert "--replica-user" in refused.value.hint
        with pytest.raises(Refusal, match=f"{itself} cannot be watched: {NO_REPLICA}"):
            require_throttlers(replace(config, replicas=(itself,)), session)
        require_throttlers(replace(config, max_lag=None), session)
        assert unwatched(config, session) == []
        ((cause, remedy),) = unwatched(replace(config, replicas=()), session)
        assert "no verified TLS proves" in cause
        assert "--replica" in remedy


@pytest.mark.slow
def test_a_replica_that_is_lost_holds_the_work_only_if_someone_relies_on_it(pair, proved, show):
    """Killed: named, the work waits until it is back; found by itself, it is left out."""
    with (
        watching(pair.options, pair.named) as relied,
        watching(proved, strict=False) as found,
    ):
        for seen in (relied, found):
            seen.until("")
            until(seen.known, "a look at the replica")
        pair.replica.kill()
        relied.until("cannot be relied on")
        until(lambda: found.look() == "" and found.warned, "a warning")
        assert "--replica" in relied.look()
        assert "not watched" in found.warned[0]
        pair.replica.resume()
        with contextlib.suppress(Exception):
            pair.of.close()
        pair.of = connect(pair.replica).cursor()
        show()
        relied.until("")
        until(lambda: found.look() == "" and not found.throttler.told, "a look")
        assert len(found.warned) == 1


def test_a_replica_that_is_delayed_on_purpose_is_not_behind(pair):
    """What SOURCE_DELAY holds back is not due; what is older is."""
    with watching(pair.options, pair.named) as seen:
        pair.of.execute("STOP REPLICA SQL_THREAD")
        pair.of.execute("CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 3600")
        pair.of.execute("START REPLICA SQL_THREAD")
        seen.until("")
        (one,) = seen.replicas.watched()
        until(lambda: one._delay == 3600, "the delay")
        write(pair)
        until(lambda: seen.look() == "" and one._unapplied._waiting, "a mark that is not due")
        pair.of.execute("STOP REPLICA SQL_THREAD")
        pair.of.execute("CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 0")
        pair.of.execute("START REPLICA SQL_THREAD")
        seen.until("")


def test_a_replica_with_filters_keeps_up(pair):
    """What it leaves out counts as applied: its GTIDs are recorded."""
    pair.of.execute("STOP REPLICA SQL_THREAD")
    pair.of.execute("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (r.t)")
    pair.of.execute("START REPLICA SQL_THREAD")
    before = pair.rows()
    with watching(pair.options, pair.named) as seen:
        seen.until("")
        write(pair)
        (one,) = seen.replicas.watched()
        seen.look()
        assert one.looked.wait(DEADLINE)
        until(lambda: not one._unapplied._waiting, "the GTID")
        seen.until("")
        assert pair.rows() == before
    pair.of.execute("STOP REPLICA SQL_THREAD")
    pair.of.execute("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = ()")
    pair.of.execute("START REPLICA SQL_THREAD")


@pytest.mark.slow
def test_what_is_no_replica_holds_the_work(pair):
    """The source itself, named by mistake, and an address where nobody answers."""
    itself, nowhere = f"127.0.0.1:{pair.source.port}", "127.0.0.1:1"
    with watching(pair.options, itself, nowhere) as seen:
        seen.until(NO_REPLICA)
        seen.until(f"replica {nowhere}, which cannot be relied on")


def test_a_replica_of_another_server_is_not_waited_for_as_if_it_would_catch_up(pair, db):
    """Named by mistake: refused at the beginning; without GTIDs it may be a replica's replica."""
    other = options_of(db.server)
    db.execute("CREATE TABLE t (id INT)")
    config = MigrationConfig(connection=other, database=db.name, replicas=(pair.named,))
    config = replace(config, replica_user=ACCOUNT, replica_password=pair.source.password)
    refused = pytest.raises(Refusal, match=f"{pair.named} cannot be watched: {OF_ANOTHER}")
    seen = db.query("SELECT @@gtid_mode = 'ON'")[0][0]
    with session_at(other, role="test") as session, refused if seen else contextlib.nullcontext():
        require_throttlers(config, session)


def test_an_account_without_privileges_on_the_replica_sees_its_lag(pair):
    """GTIDs can be compared without any. On the source: none is found, which is reported."""
    pair.at.execute("CREATE USER bare IDENTIFIED BY 'x'")
    bare = replace(options_of(pair.source), user="bare", password="x")
    with watching(bare, pair.named) as seen:
        seen.until("")
        assert seen.way is Way.GTID
        assert seen.throttler.lag() is not None
    with watching(bare, strict=False) as seen:
        assert seen.look() == ""
        assert "cannot be listed" in seen.warned[0]


@pytest.fixture(scope="module")
def plain_pair():
    """Run a source without GTIDs and a replica of it, with a heartbeat table."""
    with replicated_pair(gtid=False) as both:
        both.at.execute("CREATE DATABASE r")
        both.at.execute("CREATE TABLE r.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
        both.at.execute("CREATE TABLE r.beat (id INT PRIMARY KEY, written_at TIMESTAMP(6))")
        yield both


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "privileges"),
    [
        (Way.PLACE, ("REPLICATION CLIENT ON *.*",)),
        (Way.HEARTBEAT, ("SELECT ON r.*",)),
        (Way.TIMES, ("SELECT ON performance_schema.*",)),
    ],
)
def test_without_gtids_there_are_other_ways(plain_pair, way, privileges):
    """The place of a direct replica, the heartbeat, and what the applier says it works on."""
    both = plain_pair
    both.at.execute("SET SESSION sql_log_bin = 0")
    try:
        both.of.execute(f"REVOKE ALL ON *.* FROM {both.options.user}")
        both.of.execute(f"REVOKE IF EXISTS SELECT ON r.* FROM {both.options.user}")
        for privilege in privileges:
            both.of.execute(f"GRANT {privilege} TO {both.options.user}")
    finally:
        both.at.execute("SET SESSION sql_log_bin = 1")

    def beat():
        both.at.execute("REPLACE INTO r.beat VALUES (1, NOW(6))")

    query = "SELECT written_at FROM r.beat WHERE id = 1"
    beat()
    with (
        watching(both.options, both.named, heartbeat=query) as seen,
        connect(both.replica) as other,
    ):
        until(lambda: beat() or (seen.look() == "" and seen.way is way), f"{way}")
        lock = other.cursor()
        lock.execute("LOCK TABLES r.t READ, r.beat READ")
        write(both)
        until(lambda: beat() or "behind" in seen.look(), "the lag")
        lock.execute("UNLOCK TABLES")
        seen.until("")
