"""What a rehearsal measures, on real servers: disk, binlog, and a replica that falls behind."""

from __future__ import annotations

import threading
import time

import pytest

from spirit_py.config import ConnectionOptions
from spirit_py.migration.rehearsal import Rehearsal
from tests.fixtures.mysql import Database, connect
from tests.kits.connection import options_of
from tests.kits.replica import replicated_pair
from tests.kits.waiting import until

PATIENCE = 60.0
FILLER = "x" * 1000


def write(db: Database, table: str, rows: int) -> None:
    """Make a table and put rows of about a kilobyte into it."""
    db.execute(f"CREATE TABLE `{table}` (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(1000))")
    for _ in range(rows // 100):
        db.execute(f"INSERT INTO `{table}` (v) VALUES " + ", ".join([f"('{FILLER}')"] * 100))


def test_disk_and_binlog_are_measured_across_purges(db):
    """The bytes of a table's files and of what the server logged meanwhile, purges included."""
    rehearsal = Rehearsal(options_of(db.server), interval=0.05)
    rehearsal.start()
    write(db, "_a b_new", 2000)
    db.execute("CREATE TABLE _p_new (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3")
    seen = rehearsal._looked
    until(lambda: rehearsal._looked > seen + 1, "a look at the binlog")
    db.execute("FLUSH BINARY LOGS")
    ((last, *_),) = db.query("SHOW BINARY LOGS")[-1:]
    db.execute("PURGE BINARY LOGS TO %s", (last,))
    rehearsal.note_lock("snapshot", 3.0, 2)
    rehearsal.note_lock("cutover", 8.5)
    rehearsal.measure_tables([(db.name, "_a b_new"), (db.name, "_p_new"), (db.name, "absent")])
    db.execute("DROP TABLE `_a b_new`, _p_new")
    figures = rehearsal.stop(own_binlog_bytes=12)
    assert figures.binlog_bytes is not None
    assert 2000 * 1000 < figures.binlog_bytes < 2 * 2000 * 1000
    sizes = {table.name: table.size for table in figures.tables}
    assert sizes.keys() == {"_a b_new", "_p_new"}
    assert 2000 * 1000 < sizes["_a b_new"] < 10 * 2000 * 1000
    assert sizes["_p_new"] >= 3 * 4 * 16384
    assert all(table.exact for table in figures.tables)
    assert (figures.longest_lock, figures.longest_lock_ms, figures.locks) == ("cutover", 8.5, 3)
    assert figures.trouble == ()
    assert rehearsal.stop() is not None


def test_a_replica_that_cannot_be_reached_is_named_with_the_reason(db):
    """A replica that does not answer, and a server that is none, are named with the reason."""
    nowhere = "127.0.0.1:1"
    itself = f"127.0.0.1:{db.server.port}"
    rehearsal = Rehearsal(options_of(db.server), (nowhere, itself), interval=0.05)
    rehearsal.start()
    figures = {one.address: one for one in rehearsal.stop().replicas}
    assert figures[nowhere].lag_max is None
    assert "connect" in figures[nowhere].trouble.lower()
    assert figures[itself].trouble == "it is no replica"


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("gtid", [True, False])
def test_a_replica_that_falls_behind_is_measured(gtid):
    """A lock on the replica makes it fall behind, the figures say by how much, and that it ended.

    The replica with GTIDs reports no address, which is said until it is named; the one without
    reports its address and is named too, and counts once.
    """
    with replicated_pair(gtid=gtid, report_host=not gtid) as both, connect(both.replica) as other:
        both.at.execute("CREATE DATABASE r")
        both.at.execute("CREATE TABLE r.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
        if gtid:
            until(both.listed, "SHOW REPLICAS")
            rehearsal = Rehearsal(both.options, interval=0.05)
            rehearsal.start()
            (one,) = rehearsal.stop().replicas
            assert one.address == f"localhost:{both.replica.port}"
            assert "--replica" in one.trouble
        rehearsal = Rehearsal(both.options, (both.named,), interval=0.05)
        rehearsal.start()

        def figures_now():
            return rehearsal._figures[both.named]

        until(lambda: figures_now().lag_last == 0.0, "a replica that has caught up")
        lock = other.cursor()
        lock.execute("LOCK TABLES r.t READ")
        began = time.monotonic()
        both.at.execute("INSERT INTO r.t (v) VALUES (1)")
        until(lambda: (figures_now().lag_last or 0.0) > 1.0, "a second of lag")
        assert (figures_now().lag_last or 0.0) <= time.monotonic() - began + 0.1
        lock.execute("UNLOCK TABLES")
        until(lambda: both.rows() == 1, "the row on the replica")
        until(lambda: figures_now().lag_last == 0.0, "the end of the lag")

        both.of.execute("STOP REPLICA IO_THREAD")
        both.at.execute("INSERT INTO r.t (v) VALUES (2)")
        until(lambda: (figures_now().lag_last or 0.0) > 0.5, "the lag of a receiver that stopped")
        until(lambda: figures_now().trouble.startswith("its receiver is OFF"), "the reason")
        both.of.execute("START REPLICA IO_THREAD")
        until(lambda: figures_now().lag_last == 0.0, "the end of the lag")
        until(lambda: not figures_now().trouble, "the end of the reason")

        figures = rehearsal.stop()
        assert figures.trouble == ()
        one = next(one for one in figures.replicas if one.address == both.named)
        assert one.lag_max is not None
        assert one.lag_max > 1.0
        assert (one.lag_last, one.trouble) == (0.0, "")
        assert str(one).startswith(f"{both.named} fell behind {one.lag_max:.1f}s at most, 0.0s")
        if both.replica.pid is not None:  # In a container it reports a port that is not ours.
            assert len(figures.replicas) == 1


def test_figures_never_fail_a_run(db):
    """A server that cannot be asked leaves figures without numbers, and no exception."""
    rehearsal = Rehearsal(
        ConnectionOptions(host="127.0.0.1", port=1, user="nobody", connect_timeout=1),
        interval=0.05,
    )
    rehearsal.start()
    rehearsal.measure_tables([("a", "b")])
    assert "spirit-py-rehearsal" in [thread.name for thread in threading.enumerate()]
    figures = rehearsal.stop()
    assert figures.binlog_bytes is None
    assert len(figures.trouble) == 2
    assert "spirit-py-rehearsal" not in [thread.name for thread in threading.enumerate()]
