"""A replication channel into the server, on two real servers."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import replace
from typing import Any

import pytest

from spirit_py.codes import ErrorCode
from spirit_py.config import MigrationConfig, RevertConfig
from spirit_py.errors import Interrupted, MigrationFailure, Refusal
from spirit_py.migration.reverse.revert import revert
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.new_table import create_sentinel
from spirit_py.phases import Phase
from spirit_py.preflight.checks import other_writers
from spirit_py.preflight.preflight import prepare
from tests.fixtures.mysql import Database
from tests.kits.cleanup import clean
from tests.kits.connection import connection_options, options_of
from tests.kits.migrate import Migrating, config_for
from tests.kits.replica import replicated_pair
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import ALTER, Interruption, make_table, start
from tests.kits.tables import tables
from tests.kits.waiting import until


def found(server, **more):
    """Return the findings of the check for a table."""
    config = MigrationConfig(
        connection=options_of(server), database="rehearsed", table="w", alter="ADD c INT", **more
    )
    with connect(config.connection, role="test") as session:
        session.execute("CREATE DATABASE IF NOT EXISTS rehearsed")
        session.execute("CREATE TABLE IF NOT EXISTS rehearsed.w (id INT PRIMARY KEY)")
        (context,) = prepare(session, config)
        return list(other_writers.other_writers(context))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_running_channel_is_refused_without_writes_only_here():
    """The source has none; the replica has one, and a filter on the table or its end is enough."""
    with replicated_pair() as servers:
        assert found(servers.source) == []
        (finding,) = until(lambda: found(servers.replica), "the channel to run")
        assert "the default replication channel replicates to this server" in finding.cause
        assert "--writes-only-here" in finding.remedy
        assert found(servers.replica, writes_only_here=True) == []
        with connect(options_of(servers.replica), role="test") as session:
            session.execute("STOP REPLICA")
            assert found(servers.replica) == []
            session.execute("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (rehearsed.w)")
            session.execute("START REPLICA")
        assert found(servers.replica) == []


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_nothing_of_a_migration_is_written_or_dropped_on_a_replica(engine, monkeypatch):
    """Its record, its tables and its old table have come there by replication."""
    with replicated_pair() as servers:
        db, there = Database(servers.source, "r"), options_of(servers.replica)
        make_table(db, 3000)
        config: dict[str, Any] = {
            "target_chunk_time": 0.05,
            "drop_old_after": 3600.0,
            "table": "t",
            "alter": ALTER,
        }
        Interruption(monkeypatch).at(engine, db, "chunk.committed", 2, **config)

        def migrated():
            asked = replace(config_for(db, **config), connection=there, no_shortcut=True)
            Migrating(engine, asked).end()

        def cleaned():
            clean(db, account=there, old=True)

        def reverted():
            asked = RevertConfig(connection=there, database="r", table="t", threads=2)
            revert(asked, reporter=RecordingReporter(), engine_factory=lambda _: engine)

        def refused(what, cause):
            executed = db.query("SELECT @@GLOBAL.gtid_executed")
            servers.of.execute("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 60)", executed[0])
            assert servers.of.fetchall()[0][0] == 0
            with pytest.raises(Refusal, match=cause) as error:
                what()
            servers.of.execute("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, %s)", executed[0])
            assert servers.of.fetchall()[0][0] == ""
            return error.value.error_code

        for what in (migrated, cleaned):
            assert refused(what, "this is a replica") is ErrorCode.OTHER_WRITERS
        servers.of.execute("SET GLOBAL super_read_only = ON")
        for what in (migrated, cleaned):
            assert refused(what, "super_read_only=ON") is ErrorCode.SERVER_SETTINGS
        servers.of.execute("SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF")
        while servers.of.nextset():
            pass
        run = start(engine, db, **config)
        run.wait_until(
            lambda: run.told.snapshots and run.told.snapshots[-1].phase is Phase.GRACE, "grace"
        )
        run.stop.request(Interrupted(signal.SIGTERM))
        with pytest.raises(Interrupted):
            run.end()
        for what in (migrated, cleaned, reverted):
            assert refused(what, "this is a replica") is ErrorCode.OTHER_WRITERS
        db.close()


@contextlib.contextmanager
def demoted(db):
    """Let the server take no writes, as a switchover leaves a primary; root's are taken still."""
    db.set_global("read_only", "ON")
    yield ErrorCode.SERVER_SETTINGS
    db.execute("SET GLOBAL read_only = OFF")


@contextlib.contextmanager
def replicating(db):
    """Let a channel of the server run; there is no source at its end."""
    db.execute(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1,"
        " SOURCE_USER = 'nobody', SOURCE_PASSWORD = 'none' FOR CHANNEL 'new_primary'"
    )
    try:
        db.execute("START REPLICA FOR CHANNEL 'new_primary'")
        yield ErrorCode.OTHER_WRITERS
    finally:
        db.execute("STOP REPLICA FOR CHANNEL 'new_primary'")
        db.execute("RESET REPLICA ALL FOR CHANNEL 'new_primary'")


@pytest.mark.parametrize("how", [demoted, replicating])
def test_a_sentinel_without_a_checkpoint_stays_on_a_replica_too(db, how):
    """It has come there by replication, and nothing says from where."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with connect(connection_options(db), role="test") as session:
        create_sentinel(session, db.name, "_t_snt")
    with how(db) as code:
        with pytest.raises(Refusal) as refused:
            clean(db)
        assert refused.value.error_code is code
        assert "_t_snt" in tables(db)
    assert "dropped" in clean(db)


def waits(migrating):
    """Whether the migration waits for its operator."""
    seen = migrating.told.snapshots
    return bool(seen) and seen[-1].phase is Phase.SENTINEL


@pytest.mark.slow
@pytest.mark.parametrize("change", [demoted, replicating])
@pytest.mark.parametrize("again", [0.2, 600.0])
def test_a_primary_that_became_a_replica_meanwhile_swaps_nothing(db, engine, change, again):
    """Neither while it waits for the operator nor when it is let go; the copy stays."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 10)")
    config = config_for(
        db, table="t", alter="MODIFY v BIGINT", defer_cutover=True, recheck_interval=again
    )
    migrating = Migrating(engine, config)
    try:
        migrating.wait_until(lambda: waits(migrating), "the wait for the operator")
        with change(db) as code:
            if again > 1:
                db.execute("DROP TABLE _t_snt")
            with pytest.raises(MigrationFailure) as ended:
                migrating.end(60)
    finally:
        db.execute("DROP TABLE IF EXISTS _t_snt")
    assert ended.value.error_code is code
    assert ended.value.resumable
    assert db.query("SHOW COLUMNS FROM t LIKE 'v'")[0][1] == "int"
    report = Migrating(engine, config_for(db, table="t", alter="MODIFY v BIGINT")).end()
    assert report.resumed
    assert db.query("SHOW COLUMNS FROM t LIKE 'v'")[0][1] == "bigint"


@pytest.mark.slow
def test_an_alter_that_has_waited_for_its_lock_is_not_sent_to_a_replica(db, engine):
    """The server would make it in place, and its new primary would not."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 10)")
    other = db.connect()
    other.query("BEGIN")
    other.query("INSERT INTO t VALUES (2, 20)")
    migrating = Migrating(engine, config_for(db, table="t", alter="ADD c INT"))
    migrating.wait_until(
        lambda: "is not requested while" in migrating.told.text, "the wait for the lock"
    )
    with demoted(db) as code:
        other.commit()
        with pytest.raises(MigrationFailure) as ended:
            migrating.end(60)
    assert ended.value.error_code is code
    assert db.query("SHOW COLUMNS FROM t LIKE 'c'") == []
