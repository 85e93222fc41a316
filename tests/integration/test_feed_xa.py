"""XA transactions: rows wait for their decision (R8)."""

from __future__ import annotations

import contextlib
import itertools
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from spirit_py.binlog import source
from spirit_py.binlog.position import GtidFrontier, read_position
from spirit_py.binlog.xa import Undecided
from spirit_py.errors import FeedFailure, PreparedBefore
from tests.fixtures.feed import fill
from tests.kits.chunks import chunk
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import ConnectionOptions
    from tests.fixtures.feed import Scene


def prepare(scene: Scene, xid: str, *statements: str) -> None:
    """Prepare an XA transaction in a session that ends with it undecided."""
    work = "; ".join(statements)
    scene.run(f"XA START '{xid}'; {work}; XA END '{xid}'; XA PREPARE '{xid}'")


def prepared_polls(scene: Scene) -> int:
    """Count how often anybody has asked the server for undecided transactions."""
    rows = scene.db.query("SHOW GLOBAL STATUS LIKE 'Com_xa_recover'")
    return int(rows[0][1])


@pytest.mark.parametrize("decision", ["COMMIT", "ROLLBACK"])
def test_a_format_id_of_more_than_32_bits_is_known_at_its_decision(
    scene: Scene, decision: str
) -> None:
    """The event of the PREPARE has its lower bits alone."""
    scene.tables()
    scene.open()
    fill(scene.db, 3)
    scene.drain()
    xid = f"'x','b',{(1 << 33) + 5}"
    work = "UPDATE t SET v = 'xa' WHERE id = 2"
    scene.run(f"XA START {xid}; {work}; XA END {xid}; XA PREPARE {xid}")
    scene.run(f"XA {decision} {xid}")
    scene.drain()
    scene.assert_equal()
    assert any(row[1] == "xa" for row in scene.rows("_t_new")) == (decision == "COMMIT")


@pytest.mark.parametrize("decision", ["COMMIT", "ROLLBACK"])
def test_rows_wait_for_the_decision(either: Scene, decision: str) -> None:
    """R8: committed rows arrive at XA COMMIT, rolled back rows never; no phantom."""
    either.tables()
    feed = either.open()
    fill(either.db, 10)
    either.drain()
    prepare(
        either,
        "x1",
        "UPDATE t SET v = 'xa', id = id + 100 WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
        "INSERT INTO t VALUES (50, 'xa', 1)",
    )
    feed.block_wait()
    feed.flush()
    assert feed.pending() == 0
    assert not feed.all_changes_flushed(), "an undecided transaction has rows of the table"
    assert [row[0] for row in either.rows("_t_new")].count(50) == 0
    either.run(f"XA {decision} 'x1'")
    either.drain()
    either.assert_equal()
    assert any(row[0] == 50 for row in either.rows("_t_new")) == (decision == "COMMIT")


def test_a_one_phase_commit_is_applied_at_once(either: Scene) -> None:
    """XA COMMIT ... ONE PHASE has no decision that comes later."""
    either.tables()
    either.open()
    either.run(
        "XA START 'x'; INSERT INTO t VALUES (1, 'a', 1); XA END 'x'; XA COMMIT 'x' ONE PHASE"
    )
    either.drain()
    either.assert_equal()
    assert len(either.rows("t")) == 1


def test_the_safe_position_stays_before_an_undecided_transaction(scene: Scene) -> None:
    """R7: resumed from the position, the rows of the transaction come again."""
    scene.tables()
    feed = scene.open()
    fill(scene.db, 5)
    scene.drain()
    prepare(scene, "x2", "UPDATE t SET v = 'xa' WHERE id = 1")
    for n in range(20):
        scene.db.execute(f"INSERT INTO t VALUES ({100 + n}, 'later', 0)")
    scene.feed.block_wait()
    scene.feed.flush()
    assert feed.pending() == 0
    safe = feed.position()
    scene.close()
    scene.run("XA COMMIT 'x2'")
    scene.open(position=safe)
    scene.drain()
    scene.assert_equal()
    assert ("xa" in [row[1] for row in scene.rows("_t_new")]) is True
    before, later = (read_position(text) for text in (safe, scene.feed.position()))
    assert type(before) is type(later)
    if isinstance(before, GtidFrontier) and isinstance(later, GtidFrontier):
        assert later.gtids.contains(before.gtids)


def test_a_transaction_without_rows_of_ours_holds_nothing(scene: Scene) -> None:
    """Other tables' XA transactions are decided like any transaction."""
    scene.tables()
    scene.db.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    feed = scene.open()
    prepare(scene, "x3", "INSERT INTO other VALUES (1)")
    fill(scene.db, 5)
    before = feed.position()
    scene.drain()
    assert feed.position() != before
    scene.run("XA COMMIT 'x3'")
    scene.drain()
    scene.assert_equal()


def test_a_transaction_prepared_before_the_start_is_waited_for(either: Scene) -> None:
    """R8: its rows are before our start; decided, every chunk sees them."""
    either.tables()
    fill(either.db, 5)
    prepare(either, "x4", "UPDATE t SET v = 'xa' WHERE id = 1")
    polls = prepared_polls(either)
    opened = threading.Thread(target=either.open, name="opening")
    opened.start()
    until(lambda: prepared_polls(either) > polls + 1)
    assert opened.is_alive()
    either.run("XA COMMIT 'x4'")
    opened.join(30)
    assert not opened.is_alive()
    either.db.execute("INSERT INTO _t_new (id, v, n) SELECT * FROM t")
    either.drain()
    either.assert_equal()
    assert either.stop.reason is None


def test_an_older_transaction_that_stays_undecided_stops_the_start(scene: Scene) -> None:
    """R8: after the stated time the error names it and says what to do."""
    scene.tables()
    fill(scene.db, 5)
    prepare(scene, "x5", "UPDATE t SET v = 'xa' WHERE id = 1")
    try:
        with pytest.raises(FeedFailure, match="0x7835") as caught:
            scene.open(wait_timeout=1.0)
    finally:
        scene.run("XA ROLLBACK 'x5'")
    assert "XA COMMIT" in caught.value.hint


@pytest.fixture
def blind(scene: Scene) -> Iterator[ConnectionOptions]:
    """Return how an account without XA_RECOVER_ADMIN reaches the server."""
    scene.db.execute("CREATE USER blind IDENTIFIED BY 'secret'")
    try:
        scene.db.execute("GRANT ALL ON *.* TO blind; REVOKE XA_RECOVER_ADMIN ON *.* FROM blind")
        yield scene.options(user="blind", password="secret")
    finally:
        scene.close()
        scene.db.execute("DROP USER blind")


@pytest.mark.slow
def test_without_the_privilege_to_look_a_prepared_transaction_is_waited_for(
    scene: Scene, blind: ConnectionOptions
) -> None:
    """It has no session and has changed rows: it may be prepared, and it is named (R8)."""
    scene.tables()
    fill(scene.db, 5)
    prepare(scene, "x6", "UPDATE t SET v = 'xa' WHERE id = 1")
    try:
        with pytest.raises(FeedFailure, match="without a session") as caught:
            scene.open(connection=blind, wait_timeout=0.5)
    finally:
        scene.run("XA ROLLBACK 'x6'")
    assert "XA_RECOVER_ADMIN" in caught.value.hint


@pytest.mark.slow
def test_without_the_privilege_to_look_what_is_decided_in_the_wait_ends_nothing(
    scene: Scene, blind: ConnectionOptions
) -> None:
    """Its XA COMMIT comes behind the start, and every chunk reads its rows (R8)."""
    scene.tables()
    fill(scene.db, 5)
    prepare(scene, "x8", "UPDATE t SET v = 'xa' WHERE id = 1")
    deciding = threading.Timer(1.0, scene.run, ["XA COMMIT 'x8'"])
    deciding.start()
    try:
        scene.open(connection=blind, wait_timeout=20)
    finally:
        deciding.join()
    assert scene.rows("t")[0][1] == "xa"
    scene.db.execute("INSERT INTO t (id, v, n) VALUES (9, 'later', 9)")
    scene.feed.block_wait()
    assert scene.feed.pending() >= 1


def test_without_the_privilege_to_look_plain_transactions_are_not_waited_for(
    scene: Scene, blind: ConnectionOptions
) -> None:
    """The server shows that they are no XA transactions; what they commit later arrives (R8)."""
    scene.tables()
    fill(scene.db, 5)
    with contextlib.closing(scene.db.connect()) as session, session.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        cursor.execute("UPDATE t SET v = 'plain' WHERE id = 1")
        scene.open(connection=blind, wait_timeout=20)
        cursor.execute("COMMIT")
    scene.feed.block_wait()
    assert scene.feed.pending() == 1


def test_an_unknown_decision_is_fatal_without_the_privilege_to_look(
    scene: Scene, blind: ConnectionOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that is out of date misses a transaction: its rows are lost to this feed (R8)."""
    scene.tables()
    fill(scene.db, 5)
    prepare(scene, "x6", "UPDATE t SET v = 'xa' WHERE id = 1")
    monkeypatch.setattr(source, "undecided", lambda _: (set(), False))
    scene.open(connection=blind)
    scene.run("XA COMMIT 'x6'")
    fault = scene.fault()
    assert isinstance(fault, PreparedBefore)
    assert not fault.resumable
    assert "XA_RECOVER_ADMIN" in fault.hint


def test_rows_that_come_with_a_decision_wait_for_chunks_in_flight(scene: Scene) -> None:
    """R4: the rows count as arriving at XA COMMIT, whenever they were prepared."""
    scene.tables()
    feed = scene.open(copying=True)
    fill(scene.db, 5)
    prepare(scene, "x7", "UPDATE t SET v = 'xa' WHERE id = 1")
    feed.block_wait()
    scene.subscription.dispatch(chunk(0, None, None))
    scene.run("XA COMMIT 'x7'")
    feed.block_wait()
    feed.flush()
    assert scene.rows("_t_new") == []
    # Without GTIDs nothing is left to the copy (R3): the rows of before are pending, too.
    assert feed.pending() == (1 if isinstance(read_position(feed.position()), GtidFrontier) else 5)
    scene.db.execute("INSERT INTO _t_new (id, v, n) SELECT id, 'older', n FROM t")
    scene.subscription.committed(chunk(0, None, None))
    scene.subscription.copy_finished()
    scene.drain()
    assert ("xa", 1) in [(row[1], row[0]) for row in scene.rows("_t_new")]


@pytest.mark.slow
def test_a_large_undecided_transaction_is_spilled(scene: Scene) -> None:
    """R19: rows that wait for a decision do not stay in memory."""
    scene.tables()
    feed = scene.open(soft_limit_bytes=1 << 20)
    scene.run(
        "XA START 'big'; SET cte_max_recursion_depth = 1000000;"
        " INSERT INTO t WITH RECURSIVE s AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM s WHERE"
        " i < 30000) SELECT i, REPEAT('x', 190), i FROM s; XA END 'big'; XA PREPARE 'big'"
    )
    feed.block_wait()
    assert feed.statistics().peak_buffered_bytes < 4 << 20
    (rows,) = feed._dispatcher._xa._prepared.values()  # type: ignore[union-attr]
    assert rows is not None
    assert rows.bytes > 5 << 20
    assert rows.spilled
    scene.run("XA COMMIT 'big'")
    feed.block_wait()
    scene.drain()
    scene.assert_equal()
    assert feed.statistics().peak_buffered_bytes < 4 << 20


def test_the_start_waits_as_long_as_xa_transactions_are_decided(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R8: time limits follow progress; only transactions of which none is decided end the wait."""
    scene.tables()
    prepared_rows = [(1, 1, 0, name) for name in "abc"]
    seconds = itertools.count(0, 20)

    def prepared(_: object) -> tuple[set[Undecided], bool]:
        found = {Undecided(str(row), row[3]) for row in prepared_rows}
        del prepared_rows[-1:]
        return found, True

    monkeypatch.setattr(source, "undecided", prepared)
    monkeypatch.setattr(source, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    scene.open(wait_timeout=30.0)
    assert not prepared_rows
