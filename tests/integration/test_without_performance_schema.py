"""A server with performance_schema=OFF, as small managed instances have it: all of it works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mysql_server import ServerOptions, running
from spirit_py.copier import copier
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import earlier_sessions, kill_own
from spirit_py.mysql.own_sessions import run_label
from spirit_py.mysql.processlist import performance_schema_shows_sessions
from spirit_py.spark.server_mailbox import TableMailbox
from tests.fixtures.mysql import PROVIDER, Database
from tests.integration.test_reverse import test_a_revert_loses_no_write as revert_under_load
from tests.kits.compare import Comparison, copy, make
from tests.kits.connection import options_of
from tests.kits.engine import ThreadEngine
from tests.kits.point_listener import PointListener
from tests.kits.resume import Writers, kill_at, make_table, start
from tests.kits.tables import tables
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mysql_server import MySQLServer

OFF = ServerOptions(extra=("--performance-schema=OFF",))
pytestmark = [pytest.mark.gtid, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def blind(request: pytest.FixtureRequest) -> Iterator[MySQLServer]:
    """Return a server that shows nothing of its sessions in performance_schema."""
    with running(OFF, provider=request.config.stash[PROVIDER]) as server:
        yield server


@pytest.fixture
def db(blind: MySQLServer, request: pytest.FixtureRequest) -> Iterator[Database]:
    """Return a fresh schema there; no session is left that began after it was made."""
    database = Database(blind, f"t_{abs(hash(request.node.name)) % 10**12}")
    with connect(options_of(blind), role="test") as session:
        try:
            yield database
        finally:
            database.close()
        until(
            lambda: not [row for row in session.query("SHOW PROCESSLIST") if row[0] > session.id],
            "the end of all sessions",
        )


def test_the_server_shows_no_sessions(db):
    """The tests here are about what they should be."""
    with connect(options_of(db.server), role="test") as session:
        assert not performance_schema_shows_sessions(session)


@pytest.mark.slow
@pytest.mark.parametrize("executors", ["driver", "spark"])
def test_a_migration_under_load_loses_nothing(db, request, monkeypatch, executors):
    """By threads, and by Spark, whose messages are rows of the checkpoint table."""
    opened: list[str] = []
    post = TableMailbox.post

    def posted(mailbox: TableMailbox, *given: Any) -> None:
        opened.append(mailbox.name)
        post(mailbox, *given)

    monkeypatch.setattr(TableMailbox, "post", posted)
    monkeypatch.setattr(copier, "_WORTHWHILE_SECONDS", 0.0001)
    on_spark = executors == "spark"
    spark: Any = request.getfixturevalue("spark_engine") if on_spark else ThreadEngine()
    make_table(db)
    with Writers(db) as writers:
        run = start(spark, db, defer_indexes="on")
        report = run.end()
    writers.assert_kept()
    assert report.outcome == "done"
    assert (report.differences_found, report.chunks_repaired) == (0, 0)
    assert bool(opened) == on_spark
    assert tables(db) == ["t"]
    assert any("performance_schema is OFF: index builds" in line for line in report.warnings)


@pytest.mark.slow
@pytest.mark.kills
def test_a_killed_run_is_resumed_and_its_sessions_are_ended(db, engine, tmp_path):
    """What the dead run has left on the server writes no more, and nothing is copied anew."""
    make_table(db)
    with Writers(db) as writers, PointListener(tmp_path / "points") as listener:
        kill_at(db, listener, "chunk.committed", 3, "--spark-master", "local[2]")
        report = start(engine, db).end()
    writers.assert_kept()
    assert report.outcome == "done"
    assert report.resumed
    assert (report.differences_found, report.chunks_repaired) == (0, 0)
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_a_revert_loses_no_write(db, engine):
    """Reverse replication and the swap back need no performance_schema either."""
    revert_under_load(db, engine)


@pytest.mark.slow
def test_tables_are_compared_by_the_driver_alone(db):
    """There is no checkpoint table for the messages of Spark's tasks, and the operator is told."""
    make(db)
    copy(db)
    comparison = Comparison(db)
    report = comparison.run(spark_master="local[2]")
    assert report.outcome == "equal"
    assert any("Spark is not used" in line for line in report.warnings)


@pytest.mark.slow
def test_only_proven_sessions_are_killed(db):
    """Neither an application's nor another origin's, whatever number is remembered (R24)."""
    mine, other = options_of(db.server), options_of(db.server)
    with (
        connect(mine, role="test") as asking,
        connect(mine, role="test") as second,
        connect(other, role="test") as stranger,
        db.connect() as application,
    ):
        for number in (application.thread_id(), stranger.id, second.id):
            assert kill_own(asking, number) == ""
        application.ping()
        assert stranger.alive()
        assert not second.alive()


def test_an_application_is_no_session_of_an_earlier_run(db):
    """Only sessions that hold a lock of the table are found."""
    with connect(options_of(db.server), role="test") as asking, db.connect():
        assert earlier_sessions(asking, run_label([(db.name, "t")])) == []
