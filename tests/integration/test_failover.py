"""A replica takes its source's place in the middle of a migration, and the migration goes on."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mysql_server import SERVER_VARIABLE, ServerOptions, choose, running
from spirit_py import points
from spirit_py.config import RevertConfig
from spirit_py.errors import AnotherServer, Interrupted, OutcomeUnknown, Refusal, SpiritError
from spirit_py.migration.cleanup import clean_up
from spirit_py.migration.reverse.revert import Revert
from spirit_py.phases import Phase
from spirit_py.threads import StopSwitch
from tests.fixtures.mysql import Database
from tests.kits.engine import SharedEngine
from tests.kits.migrate import Migrating, config_for
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import ALTER, assert_nothing_left, make_table
from tests.kits.reverse import QUICK
from tests.kits.tables import tables
from tests.kits.tcp_proxy import TcpProxy
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mysql_server import MySQLServer
    from spirit_py.config import MigrationConfig
    from spirit_py.spark.gang import GangEngine


class Couple:
    """A source, a replica of it, and an address that leads to one of them.

    Args:
        others: tables that the replica has made by itself: its numbers of tables are higher by so
            many (R24).
    """

    def __init__(
        self, source: MySQLServer, replica: MySQLServer, address: TcpProxy, others: int
    ) -> None:
        self.address = address
        self.source = source
        self.replica = replica
        self.first = Database(source, "lone")
        self.second = Database(replica, "other")
        host, port = source.peer_address()
        # Accounts come by replication, unlike the passwords of root.
        for user, grants in (("follower", "REPLICATION SLAVE"), ("migrator", "ALL")):
            self.first.execute(f"CREATE USER {user} IDENTIFIED BY '{source.password}'")
            self.first.execute(f"GRANT {grants} ON *.* TO {user}")
        self.second.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{host}', SOURCE_PORT = {port},"
            f" SOURCE_USER = 'follower', SOURCE_PASSWORD = '{source.password}',"
            " GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1, SOURCE_AUTO_POSITION = 1"
        )
        local = "".join(f"CREATE TABLE apart.n{n} (i INT);" for n in range(others))
        self.second.execute(f"SET SESSION sql_log_bin = 0; CREATE DATABASE apart; {local}")
        self.second.execute("SET SESSION sql_log_bin = 1; START REPLICA")

    def stop_replica(self) -> None:
        """Let the replica come as far as the source is now, and no further."""
        ((executed,),) = self.first.query("SELECT @@GLOBAL.gtid_executed")
        asked = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 60)"
        assert int(self.second.query(asked, (executed,))[0][0]) == 0
        self.second.execute("STOP REPLICA; RESET REPLICA ALL")

    def leave_a_gap(self) -> None:
        """Let the replica lack a transaction between others that it has."""
        self.stop_replica()
        ((source,),) = self.first.query("SELECT @@GLOBAL.server_uuid")
        ((executed,),) = self.second.query("SELECT @@GLOBAL.gtid_executed")
        (last,) = re.findall(rf"{source}:1-(\d+)", str(executed))
        self.second.execute(
            f"SET gtid_next = '{source}:{int(last) + 2}'; BEGIN; COMMIT;"
            " SET gtid_next = 'AUTOMATIC'"
        )

    def fail_over(self) -> None:
        """End the source and let the replica take its place."""
        self.address.targets = [(self.replica.host, self.replica.port)]
        self.source.kill()
        self.address.cut()

    @property
    def config(self) -> MigrationConfig:
        """What is asked for, at the address."""
        config = config_for(
            self.first, table="t", alter=ALTER, no_shortcut=True, target_chunk_time=0.02
        )
        connection = replace(
            config.connection, host=self.address.host, port=self.address.port, user="migrator"
        )
        return replace(config, connection=connection)

    def migrating(self, engine: GangEngine) -> Migrating:
        """Begin, or resume."""
        return Migrating(engine, self.config)


@pytest.fixture
def couple(request: pytest.FixtureRequest) -> Iterator[Couple]:
    """Return two servers of the test's own."""
    provider = choose({k: v for k, v in os.environ.items() if k != SERVER_VARIABLE})
    numbers = [
        ServerOptions(gtid=True, buffer_pool="32M", extra=(f"--server-id={n}",)) for n in (21, 22)
    ]
    with contextlib.ExitStack() as stack:
        source, replica = (stack.enter_context(running(one, provider=provider)) for one in numbers)
        address = stack.enter_context(TcpProxy((source.host, source.port)))
        yield Couple(source, replica, address, getattr(request, "param", 7))


def fail_over_in_the_middle(
    couple: Couple,
    engine: GangEngine,
    monkeypatch: pytest.MonkeyPatch,
    stopped: str = "chunk.committed",
    killed: str = "chunk.committed",
) -> None:
    """Run a migration until the replica is stopped at a point, and the source killed at one."""
    steps = [(stopped, couple.stop_replica), (killed, couple.fail_over)]
    fail_over_at(couple, engine, monkeypatch, steps)
    couple.second.execute("USE lone")
    assert tables(couple.second) == ["_t_chkpnt", "_t_ctl", "_t_new", "t"]


def numbers(couple: Couple) -> tuple[int, int]:
    """Return the first server's number of the new table, and the second one's of the source."""
    found = couple.second.query("SELECT record FROM lone._t_chkpnt WHERE id = 5")[0][0]
    here = couple.second.query(
        "SELECT TABLE_ID FROM information_schema.INNODB_TABLES WHERE NAME = 'lone/t'"
    )
    return json.loads(found)["new"]["numbers"][0], here[0][0]


def fail_over_at(
    couple: Couple,
    engine: GangEngine,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[tuple[str, Callable[[], None]]],
    ends: type[SpiritError] = AnotherServer,
) -> None:
    """Run until the other server answers; each step is taken at its point, one after the other."""
    written, one_at_a_time = 0, threading.Lock()

    def passed(name: str) -> None:
        nonlocal written
        written += name == "checkpoint.written"
        with one_at_a_time:
            while written and steps and steps[0][0] == name:
                steps.pop(0)[1]()

    with monkeypatch.context() as patched:
        patched.setattr(points, "_listener", "here")
        patched.setattr(points, "_announce", passed)
        with pytest.raises(ends):
            couple.migrating(engine).end()


@pytest.mark.draws(1)
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("stopped", "killed"),
    [
        ("chunk.committed", "chunk.committed"),
        ("checksum.compare", "checksum.compare"),
        ("checkpoint.written", "checksum.compare"),
    ],
    ids=["copy", "checksum", "behind"],
)
def test_a_promoted_replica_carries_the_migration_on(
    couple: Couple,
    engine: GangEngine,
    monkeypatch: pytest.MonkeyPatch,
    stopped: str,
    killed: str,
) -> None:
    """R14: the run ends where another server answers; the same command goes on there.

    A replica that was behind has an older checkpoint, and goes on from that.
    """
    make_table(couple.first, 20_000)
    rows = list(couple.first.query("SELECT id, a, b FROM t ORDER BY id"))
    fail_over_in_the_middle(couple, engine, monkeypatch, stopped, killed)
    second = couple.second
    second.execute("UPDATE t SET a = -1 WHERE id = 2; DELETE FROM t WHERE id = 4")
    run = couple.migrating(engine)
    report = run.end()
    assert "this is another server" in report.resumed
    assert (report.outcome, report.runs) == ("done", 2)
    assert report.differences_found == 0, run.told.text
    expected = [(i, -1 if i == 2 else a, b, 5) for i, a, b in rows if i != 4]
    assert list(second.query("SELECT id, a, b, z FROM t ORDER BY id")) == expected
    assert_nothing_left(second)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("point", "ends", "left", "then"),
    [
        ("cutover.rename", OutcomeUnknown, "_t_new", "this is another server"),
        ("cutover.unlocked", SpiritError, "_t_old", "the swap was done already"),
    ],
)
def test_a_replica_is_promoted_at_the_swap(
    couple: Couple,
    engine: GangEngine,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    ends: type[SpiritError],
    left: str,
    then: str,
) -> None:
    """R14, R15, R24: the guard has altered the new table under the lock; it is ours all the same.

    Whether the RENAME was made is not known where its answer was lost with the server.
    """
    make_table(couple.first, 2000)
    rows = list(couple.first.query("SELECT id, a, b, 5 FROM t ORDER BY id"))
    # The note has another second than the guard: times of creation are whole seconds.
    later = "SELECT NOW() > CREATE_TIME FROM information_schema.TABLES WHERE TABLE_NAME = '_t_new'"
    steps: list[tuple[str, Callable[[], None]]] = [
        ("cutover.lock", lambda: until(lambda: couple.first.query(later) == [(1,)])),
        (point, couple.stop_replica),
        (point, couple.fail_over),
    ]
    fail_over_at(couple, engine, monkeypatch, steps, ends)
    second = couple.second
    second.execute("USE lone")
    assert left in tables(second)
    run = couple.migrating(engine)
    report = run.end()
    assert then in report.resumed
    assert report.outcome == "done"
    assert list(second.query("SELECT id, a, b, z FROM t ORDER BY id")) == rows
    assert_nothing_left(second)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_replica_that_lacks_a_transaction_is_refused(
    couple: Couple, engine: GangEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R14, R17: what was copied may tell of a change that this server never had."""
    make_table(couple.first, 20_000)
    steps = [("chunk.committed", couple.leave_a_gap), ("chunk.committed", couple.fail_over)]
    fail_over_at(couple, engine, monkeypatch, steps)
    with pytest.raises(Refusal, match="there are gaps"):
        couple.migrating(engine).end()
    couple.second.execute("USE lone")
    assert tables(couple.second) == ["_t_chkpnt", "_t_ctl", "_t_new", "t"]
    assert int(couple.second.query("SELECT COUNT(*) FROM t")[0][0]) == 20_000


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("couple", [9], indirect=True)
def test_numbers_of_another_server_prove_no_swap(
    couple: Couple, engine: GangEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R24: the source has the number there that the new table had on the first server."""
    make_table(couple.first, 20_000)
    fail_over_in_the_middle(couple, engine, monkeypatch)
    second = couple.second
    new, source = numbers(couple)
    assert new == source
    second.execute("DROP TABLE _t_new")
    run = couple.migrating(engine)
    report = run.end()
    assert "_t_new is gone" in report.resumed
    assert report.outcome == "done"
    assert second.query("SELECT COUNT(*), SUM(z) FROM t") == [(20_000, 100_000)]
    assert_nothing_left(second)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_only_the_new_table_that_was_replicated_is_taken_over(
    couple: Couple, engine: GangEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R24: another one of the same definition is refused; cleanup knows the one from the other."""
    make_table(couple.first, 20_000)
    fail_over_in_the_middle(couple, engine, monkeypatch)
    second = couple.second
    # Creation times are whole seconds: another table of the same second could not be told apart.
    later = "SELECT NOW() > CREATE_TIME FROM information_schema.TABLES WHERE TABLE_NAME = '_t_new'"
    until(lambda: second.query(later) == [(1,)])
    second.execute("RENAME TABLE _t_new TO aside; CREATE TABLE _t_new LIKE aside")
    with pytest.raises(Refusal, match="_t_new is not the table that the migration"):
        couple.migrating(engine).end()
    assert tables(second) == ["_t_chkpnt", "_t_ctl", "_t_new", "aside", "t"]

    second.execute("RENAME TABLE _t_new TO theirs, aside TO _t_new")
    said: list[str] = []
    clean_up(
        couple.config.connection,
        database="lone",
        table="t",
        ask=lambda _: True,
        ask_old=lambda _: False,
        say=said.append,
    )
    assert "dropped lone._t_new" in said
    assert tables(second) == ["t", "theirs"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("altered", [False, True], ids=["proven", "altered"])
def test_a_promoted_replica_swaps_back(couple: Couple, engine: GangEngine, altered: bool) -> None:
    """R14: the old table is known there by another number; one that is not proven stays as it is.

    A refusal notes nothing: the way back is not ended by an attempt on the wrong server.
    """
    make_table(couple.first, 100)
    running = Migrating(engine, replace(couple.config, drop_old_after=3600.0))
    running.wait_until(
        lambda: running.told.snapshots and running.told.snapshots[-1].phase is Phase.GRACE, "grace"
    )
    running.stop.request(Interrupted(signal.SIGTERM))
    with pytest.raises(Interrupted):
        running.end()
    couple.stop_replica()
    couple.fail_over()
    second = couple.second
    second.execute("USE lone; UPDATE t SET a = -1 WHERE id = 2; DELETE FROM t WHERE id = 4")
    if altered:
        later = (
            "SELECT NOW() > CREATE_TIME FROM information_schema.TABLES WHERE TABLE_NAME = '_t_old'"
            " AND TABLE_SCHEMA = DATABASE()"
        )
        until(lambda: second.query(later) == [(1,)])
        second.execute("ALTER TABLE _t_old FORCE")
    noted = "SELECT record FROM _t_chkpnt WHERE id = 2"
    before = second.query(noted)
    asked = RevertConfig(
        connection=couple.config.connection, database="lone", table="t", threads=2, feed=QUICK
    )
    own: Any = SharedEngine(engine)
    made = Revert(asked, RecordingReporter(), engine_factory=lambda _: own, stop=StopSwitch())
    if altered:
        with pytest.raises(Refusal, match="nothing proves that this one has the same"):
            made.run()
        assert second.query(noted) == before
        return
    made.run()
    assert tables(second) == ["t"]
    assert second.query("SELECT COUNT(*) FROM t WHERE id <> 4") == [(99,)]
    assert second.query("SELECT a FROM t WHERE id = 2") == [(-1,)]
    assert [row[0] for row in second.query("SHOW COLUMNS FROM t")] == ["id", "a", "b"]
