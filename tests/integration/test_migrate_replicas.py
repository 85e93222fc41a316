"""Whole migrations of a source with a replica: the copy waits for it, and goes on."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from spirit_py.batch.listing import batches, give_up_batch
from spirit_py.batch.store import BatchRecord, BatchTable, TableRecord
from spirit_py.config import DEFAULT_MAX_LAG, MigrationConfig
from spirit_py.errors import Refusal
from spirit_py.migration.control.command import control
from spirit_py.migration.listing import migrations
from spirit_py.migration.migration_status import MigrationShown
from spirit_py.mysql.connect import connect as connected
from spirit_py.mysql.facts import server_uuid
from spirit_py.throttle.lag import LagThrottler
from tests.fixtures.mysql import connect
from tests.kits.connection import options_of
from tests.kits.migrate import Migrating
from tests.kits.replica import ACCOUNT, replicated_pair
from tests.kits.resume import once_at
from tests.kits.waiting import until

pytestmark = pytest.mark.draws(3)

ROWS = 20_000


@pytest.fixture(scope="module")
def pair():
    """Run a source and a replica that reports no address, with a table of some chunks."""
    with replicated_pair() as both:
        both.at.execute("CREATE DATABASE r")
        both.at.execute(f"GRANT ALL ON *.* TO {ACCOUNT}")
        yield both


@pytest.fixture
def table(pair):
    """Make the table anew, on a replica that nothing holds up."""
    pair.of.execute("UNLOCK TABLES")
    pair.of.execute("START REPLICA")
    pair.at.execute("DROP TABLE IF EXISTS r.t, r._t_new, r._t_chkpnt, r.brake")
    until(lambda: not pair.rows(), "the replica without the table")
    pair.at.execute("CREATE TABLE r.t (id INT PRIMARY KEY, v INT, w VARCHAR(100))")
    pair.at.execute("SET SESSION cte_max_recursion_depth = 1000000")
    pair.at.execute(
        "INSERT INTO r.t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
        f" {ROWS}) SELECT i, i * 3, REPEAT('x', 100) FROM n"
    )
    until(lambda: pair.rows() == ROWS, "the rows on the replica")
    return pair


def config(pair, **more):
    """Return the configuration of a migration that watches the replica."""
    return MigrationConfig(
        **{
            "connection": pair.options,
            "database": "r",
            "table": "t",
            "alter": "ADD COLUMN z INT NOT NULL DEFAULT 5",
            "no_shortcut": True,
            "threads": 2,
            "target_chunk_time": 0.02,
            "replicas": (pair.named,),
            "max_lag": 0.5,
            "named": frozenset({"max_lag"}),
            **more,
        }
    )


def copied(pair):
    """Count the rows of the new table on the source."""
    pair.at.execute("SELECT COUNT(*) FROM r._t_new")
    return int(pair.at.fetchall()[0][0])


def chunk_at_work(pair):
    """Whether a chunk has begun and not ended: its named lock is held, in its rests too."""
    pair.at.execute(
        "SELECT 1 FROM performance_schema.metadata_locks"
        " WHERE object_type = 'USER LEVEL LOCK' AND object_name LIKE 'spirit-py:chunk:%'"
    )
    return bool(pair.at.fetchall())


def hold_copy(monkeypatch, first=lambda: None):
    """Hold the copy after its first chunk until the replicas are found to be a reason to wait.

    Args:
        first: done when it is held: what makes them one.
    """
    found = [""]
    look = LagThrottler.look

    def recorded(throttler):
        found.append(look(throttler))
        return found[-1]

    def wait():
        first()
        until(lambda: found[-1], "a replica that is waited for")

    monkeypatch.setattr(LagThrottler, "look", recorded)
    once_at(monkeypatch, "chunk.committed", wait)


def assert_waiting(pair, migrating, about):
    """While the replica is waited for no chunk begins, however often the copy asks."""
    migrating.wait_until(lambda: migrating.told.said("waiting for replica"), "a wait")
    assert migrating.told.said(about), migrating.told.text
    until(lambda: not chunk_at_work(pair), "the chunks that had begun")
    before = copied(pair)
    assert before < ROWS
    seen = len(migrating.told.snapshots)
    migrating.wait_until(lambda: len(migrating.told.snapshots) > seen + 2, "more looks")
    assert copied(pair) == before
    assert "waiting for" in migrating.told.text


def assert_migrated(pair, report):
    """Every row is on both servers, and the report has the wait."""
    assert report.outcome == "done"
    assert report.throttled_seconds["replica lag"] > 0
    pair.at.execute("SELECT COUNT(*), SUM(v = id * 3 AND z = 5) FROM r.t")
    assert [int(value) for value in pair.at.fetchall()[0]] == [ROWS, ROWS]
    until(lambda: pair.rows("z = 5") == ROWS, "the rows on the replica")


@pytest.mark.slow
def test_the_copy_waits_for_a_stopped_replica_and_goes_on(table, engine):
    """Its applier is stopped before the first chunk: nothing is copied until it runs again."""
    table.of.execute("STOP REPLICA SQL_THREAD")
    migrating = Migrating(engine, config(table))
    assert_waiting(table, migrating, "is OFF")
    table.of.execute("START REPLICA SQL_THREAD")
    assert_migrated(table, migrating.end())


@pytest.mark.slow
def test_the_copy_waits_for_a_replica_that_applies_nothing(table, engine, monkeypatch):
    """A lock on the replica, as a backup takes it: by default, without --max-lag."""
    table.of.execute("FLUSH TABLES WITH READ LOCK")
    hold_copy(monkeypatch)
    migrating = Migrating(engine, config(table, max_lag=DEFAULT_MAX_LAG, named=frozenset()))
    assert_waiting(table, migrating, "(--max-lag 1.5s)")
    table.of.execute("UNLOCK TABLES")
    assert_migrated(table, migrating.end())


@pytest.mark.slow
def test_replicas_that_nothing_proves_are_refused_with_max_lag(table, engine):
    """They cannot be watched; without the option the run warns of it and goes on."""
    migrating = Migrating(engine, config(table, replicas=()))
    with pytest.raises(
        Refusal, match=r"proves that these replicas are yours \(localhost"
    ) as caught:
        migrating.end()
    assert "--replica" in caught.value.hint
    table.at.execute("SHOW TABLES FROM r LIKE '\\_t\\_%'")
    assert not table.at.fetchall(), "something was made before the refusal"
    migrating = Migrating(engine, config(table, replicas=(), named=frozenset()))
    report = migrating.end()
    assert any("no verified TLS proves" in text for text in report.warnings)


@pytest.mark.slow
def test_a_replica_that_is_lost_is_waited_for_until_it_is_back(table, engine, monkeypatch):
    """Killed in the middle of the copy: it is named, nothing begins, and the copy ends well."""
    hold_copy(monkeypatch, table.replica.kill)
    migrating = Migrating(engine, config(table))
    assert_waiting(table, migrating, f"{table.named}, which cannot be relied on")
    table.replica.resume()
    table.of = connect(table.replica).cursor()
    assert_migrated(table, migrating.end())


@pytest.mark.slow
def test_a_query_of_the_operator_holds_copy_and_swap_back(table, engine):
    """While its row is there nothing is copied; it is shown, and the copy goes on without it."""
    table.at.execute("CREATE TABLE r.brake (why VARCHAR(50))")
    table.at.execute("INSERT INTO r.brake VALUES ('the billing run')")
    query = "SELECT MAX(why) FROM brake"
    migrating = Migrating(engine, config(table, throttle_query=query))
    migrating.wait_until(
        lambda: migrating.told.said("waiting for the billing run (--throttle-query)"), "a wait"
    )
    assert copied(table) == 0
    table.at.execute("DELETE FROM r.brake")
    report = migrating.end()
    assert report.outcome == "done"
    assert report.throttled_seconds["query"] > 0


@pytest.mark.slow
def test_what_holds_the_swap_back_between_two_tries_is_waited_for(table, engine):
    """A transaction keeps the lock away, then the operator's query: the swap comes after both."""
    table.at.execute("CREATE TABLE r.brake (why VARCHAR(50))")
    with connect(table.source) as session:
        blocker = session.cursor()
        blocker.execute("BEGIN")
        blocker.execute("SELECT COUNT(*) FROM r.t")
        more = {"throttle_query": "SELECT MAX(why) FROM brake", "replicas": (), "max_lag": None}
        migrating = Migrating(engine, config(table, lock_wait_timeout=1.0, **more))
        migrating.wait_until(lambda: phase(migrating) == "cutover", "the swap")
        table.at.execute("INSERT INTO r.brake VALUES ('the billing run')")
        migrating.wait_until(
            lambda: migrating.told.said("waiting for the billing run (--throttle-query)"), "a wait"
        )
        blocker.execute("COMMIT")
        assert migrating.running
        table.at.execute("DELETE FROM r.brake")
        assert migrating.end().outcome == "done"


def phase(migrating):
    """Return the phase of the last snapshot."""
    return migrating.told.snapshots[-1].phase if migrating.told.snapshots else ""


@pytest.mark.slow
@pytest.mark.parametrize("former", [False, True])
def test_a_batch_is_given_up_on_no_replica(table, former):
    """Its record came by replication: dropped there, the next row of it would stop the applier.

    Also on the server that has begun it, which was the primary.
    """
    store = BatchTable("r", "_spirit_py_batch_0123456789ab")
    said: list[str] = []
    given: Any = {"batch": str(store), "ask": lambda _: True, "say": said.append}
    there = replace(options_of(table.replica), user=ACCOUNT, password=table.source.password)
    with (
        connected(table.options, role="test") as session,
        connected(there, role="test") as behind,
    ):
        here, first = server_uuid(session), server_uuid(behind if former else session)
        record = BatchRecord(
            home="r",
            server_uuid=first,
            asked="FORCE",
            started_at="1970-01-01T00:00:00+00:00",
            runs=1,
            parallel=1,
            on_failure="stop",
            program="",
        )
        store.create(session, record)
        store.note(session, TableRecord(schema="r", table="t", statement="ALTER TABLE t FORCE"))
    asked = {"database": "r", "table": "t"}
    (shown,) = until(lambda: batches(there, **asked), "the record on the replica")
    assert "no process is seen from this server" in "\n".join(shown.lines())
    with pytest.raises(Refusal, match="this is a replica"):
        give_up_batch(there, **given)
    assert said == []
    with connected(table.options, role="test") as session:
        assert store.begin_again(session, here) == 2
        again = store.read(session)
    assert again is not None
    assert again.server_uuid == here
    (shown,) = batches(table.options, **asked)
    assert "the same command resumes" in "\n".join(shown.lines())
    give_up_batch(table.options, **given)
    until(lambda: not batches(there, **asked), "the drop on the replica")


def test_a_replica_does_not_call_a_running_migration_stopped(table, engine, monkeypatch):
    """It has the checkpoint and the figures, and no named lock: the command would resume there."""
    there = replace(options_of(table.replica), user=ACCOUNT, password=table.source.password)
    asked = []

    def ask():
        until(lambda: listed()[0].live is not None, "the figures on the replica")
        asked.extend(listed())
        with pytest.raises(Refusal) as refused:
            control(there, database="r", table="t", verb="pause", arguments={}, say=asked.append)
        asked.append(refused.value)

    def listed():
        shown = migrations(there, database="r", table="t", max_age=7 * 86400)
        return [one for one in shown if one.phase] or [MigrationShown(checkpoint="")]

    once_at(monkeypatch, "chunk.committed", ask)
    assert Migrating(engine, config(table)).end().outcome == "done"
    shown, refusal = asked
    assert (shown.state, shown.again, shown.command) == ("unseen", "refuse", "")
    for text in ("\n".join(shown.lines()), refusal.message):
        assert "no process is seen from this server" in text
        assert f"of process {os.getpid()} on " in text
        assert "stopped" not in text
