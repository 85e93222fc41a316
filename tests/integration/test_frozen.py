"""A process that is frozen or cut off under its table lock: the application does not wait (R23)."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from spirit_py.checksum.result import ChecksumOptions
from spirit_py.checksum.snapshot import SnapshotLock
from spirit_py.checksum.worker import Comparison
from spirit_py.locks import table as table_lock
from spirit_py.mysql import session as session_module
from spirit_py.threads import StopSwitch
from tests.kits.checksum import Pair
from tests.kits.connection import connection_options
from tests.kits.cutover import ProvenCutover, SnapshotSource, make_tables, swapped
from tests.kits.engine import ThreadEngine
from tests.kits.held_command import ROWS, fill, migration

if TYPE_CHECKING:
    from collections.abc import Callable

#: What the server is to do in 5 s gets this long, because the machine may be busy.
BOUND = 15


def write(db, sql: str) -> None:
    """Write from a session of the application; the server gives up at the bound."""
    cursor = db.connect().cursor()
    cursor.execute(f"SET SESSION lock_wait_timeout = {BOUND}")
    cursor.execute(sql)


def let_go_after(db, role: str) -> set[int]:
    """Return the seconds of silence after which the server ends a session of ours."""
    rows = db.query(
        "SELECT s.VARIABLE_VALUE FROM performance_schema.variables_by_thread s"
        " JOIN performance_schema.user_variables_by_thread r USING (THREAD_ID)"
        " WHERE r.VARIABLE_NAME = 'spirit_py_role' AND r.VARIABLE_VALUE = %s AND s.VARIABLE_NAME"
        " IN ('wait_timeout', 'net_read_timeout', 'net_write_timeout')",
        (role,),
    )
    return {int(row[0]) for row in rows}


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize(
    ("point", "role"),
    [
        ("checksum.locked", "checksum-lock"),
        ("cutover.locked", "cutover"),
        ("cutover.rename", "cutover"),
        ("cutover.renamed", "cutover"),
    ],
)
def test_a_process_frozen_under_the_lock_lets_writes_through(db, tmp_path, point, role):
    """A write gets through while the process stands still; afterwards the run goes on."""
    fill(db)
    with migration(db, tmp_path, "--checksum", "snapshot") as (command, listener):
        hold = listener.hold(point)
        command.wait_held(hold)
        seconds = let_go_after(db, role)
        assert seconds
        assert seconds <= {1, 2, 3, 4}
        command.process.send_signal(signal.SIGSTOP)
        try:
            write(db, "UPDATE t SET b = 'written meanwhile' WHERE id = 7")
        finally:
            hold.release()
            command.process.send_signal(signal.SIGCONT)
        command.finish()
    assert db.query("SELECT COUNT(*), SUM(z) FROM t") == [(ROWS, 5 * ROWS)]
    assert db.query("SELECT b FROM t WHERE id = 7") == [("written meanwhile",)]
    assert db.query("SHOW TABLES") == [("t",)]


def test_a_black_hole_under_the_cutovers_lock_costs_one_try(db, proxy):
    """A network that swallows everything under the lock costs one try."""
    swap = make_tables(db)
    source = SnapshotSource(swap)

    def swallow(_session) -> None:
        source.hooks.clear()
        proxy.black_hole = True
        write(db, "INSERT INTO t (v) VALUES (77)")
        proxy.black_hole = False

    source.hooks["flush_under_table_lock"] = swallow
    cutover = ProvenCutover(
        db, source.swaps, source, connection=connection_options(db, proxy), stop=StopSwitch()
    )
    assert cutover.run().attempts == 2
    assert swapped(db, swap)
    assert db.query("SELECT v FROM t ORDER BY id DESC LIMIT 1") == [(77,)]


def snapshot_lock(db, connection, **given) -> SnapshotLock:
    """Make what locks two equal tables for a moment."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)")
    what = Comparison(
        mapping=Pair(db).mapping,
        source=connection,
        target=None,
        engine=ThreadEngine(),
        stop=StopSwitch(),
        feed=None,
        options=ChecksumOptions(**given),
    )
    return SnapshotLock(what, on_wait=lambda _: None)


class Moments:
    """What is done under the lock, the first time; how often it was held."""

    def __init__(self, first: Callable[[], None]) -> None:
        self.count = 0
        self._first = first

    def __call__(self) -> None:
        """Open the snapshots."""
        self.count += 1
        if self.count == 1:
            self._first()


def test_a_black_hole_under_the_checksums_lock_costs_one_request(db, proxy):
    """A network that swallows everything under the lock costs one request."""

    def swallow() -> None:
        proxy.black_hole = True
        write(db, "UPDATE t SET v = 2")
        proxy.black_hole = False

    moments = Moments(swallow)
    lock = snapshot_lock(db, connection_options(db, proxy))
    assert lock.take(moments).attempts == 2
    assert moments.count == 2


@pytest.mark.slow
def test_a_lock_that_is_held_too_long(db):
    """The checksum's lock has a limit, also while the process is well; it is asked for anew."""
    moments = Moments(lambda: write(db, "UPDATE t SET v = 2"))
    lock = snapshot_lock(db, connection_options(db), lock_hold=1.0)
    assert lock.take(moments).attempts == 2


@pytest.mark.slow
def test_a_wait_under_the_lock_keeps_it(db, monkeypatch):
    """As long as the process is well, waiting for the snapshots does not lose the lock."""
    monkeypatch.setattr(table_lock, "LETS_GO_AFTER", 2)
    # A busy machine may be a second late with a sign of life.
    monkeypatch.setattr(session_module, "_PING_SECONDS", 0.2)
    lock = snapshot_lock(db, connection_options(db))
    moments = Moments(lambda: db.query("SELECT SLEEP(4)"))
    assert lock.take(moments).attempts == 1
    assert moments.count == 1
