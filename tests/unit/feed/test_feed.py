"""The feed's threads, filters and positions over the in-memory stream."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.binlog.events import (
    Advanced,
    Began,
    Committed,
    Failed,
    Hidden,
    Place,
    Restarted,
    RowsChanged,
    StatementSeen,
    XaDecided,
    XaPrepared,
)
from spirit_py.codes import ErrorCode
from spirit_py.config import FeedOptions
from spirit_py.errors import (
    ChangesNotFlushed,
    FeedFailure,
    FeedSilent,
    HiddenChange,
    Interrupted,
    PositionNotFound,
    RowsMeet,
    SchemaChanged,
    ServerFault,
    UnreadableChange,
    ValueLost,
)
from spirit_py.feed import dispatch
from spirit_py.feed import flusher as module
from spirit_py.feed.feed import ChangeFeed, _as_fault
from spirit_py.feed.flusher import OWN_ROWS, Flusher
from spirit_py.feed.partitions import SPLIT_ROWS
from tests.kits.chunks import chunk, rest
from tests.kits.definitions import column
from tests.kits.feed_scene import DEADLINE, Recorder, Scene, until
from tests.kits.memory_stream import CountFrontier, _Prepared, delete, upsert
from tests.kits.row_images import mapping

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.binlog.events import Event
    from spirit_py.table.mapping import TableMapping

T = ("s", "t")
RENAME = "RENAME TABLE t TO x, _t_new TO t"


def flusher(feed: ChangeFeed) -> Flusher:
    """Return the flusher of a feed that was started."""
    assert feed._flusher is not None
    return feed._flusher


def test_changes_are_received_and_applied(scene: Scene) -> None:
    """The life of a feed: start, wait, flush, nothing left."""
    feed, _ = scene.open()
    scene.stream.commit(T, upsert(1, "(1, 'a')"), upsert(2, "(2, 'b')"))
    scene.stream.commit(T, delete(1), upsert(3, "(3, 'c')", before=2))
    feed.block_wait()
    assert feed.pending() == 3
    assert not feed.all_changes_flushed()
    feed.flush()
    assert scene.applier.table == {"3": "(3, 'c')"}
    assert feed.all_changes_flushed()
    found = feed.statistics()
    assert (found.received, found.applied, found.deduplicated) == (5, 3, 2)
    assert found.pending == 0
    assert found.buffered_bytes == 0


def test_keys_that_are_not_comparable_are_applied_in_order(scene: Scene) -> None:
    """R6: runs of one kind are joined, their order is kept."""
    key = column("id", "double")
    feed, _ = scene.open(table=mapping(key=key))
    scene.stream.commit(T, upsert(1), upsert(2), delete(1), upsert(1), upsert(1, before=2))
    feed.block_wait()
    feed.flush()
    assert scene.applier.calls == [
        ("upsert", ["(1)", "(2)"]),
        ("delete", ["(1)"]),
        ("upsert", ["(1)"]),
        ("delete", ["(2)"]),
        ("upsert", ["(1)"]),
    ]


def test_large_batches_are_applied_in_parallel(scene: Scene) -> None:
    """R5: every change once, in parts of the batch size."""
    feed, _ = scene.open(batch_rows=10, apply_threads=3)
    scene.stream.commit(T, *(upsert(n) for n in range(95)), *(delete(n) for n in range(200, 215)))
    feed.block_wait()
    feed.flush()
    assert sorted(scene.applier.table) == sorted(map(str, range(95)))
    assert all(len(items) <= 10 for _, items in scene.applier.calls)
    assert len(scene.applier.calls) == 12


def test_a_slow_batch_stalls_no_other_partition(scene: Scene) -> None:
    """What waits elsewhere is applied meanwhile, also what comes later; the position waits (R7)."""
    rows = 8 * SPLIT_ROWS
    feed, subscription = scene.open(flush_interval=0.01)
    slow = threading.Event()
    blocked = threading.Event()

    class Slow(Recorder):
        def take(self, kind: str, items: list[str]) -> None:
            """Wait where the first row is."""
            if "(0)" in items:
                blocked.set()
                assert slow.wait(DEADLINE)
            super().take(kind, items)

    applier = feed._applier._applier = Slow()
    scene.stream.commit(T, *(upsert(n) for n in range(rows)))
    feed.block_wait()
    assert blocked.wait(DEADLINE)
    until(lambda: str(rows - 1) in applier.table)
    partitions = subscription.buffer.partitions
    assert partitions.splits > 0
    scene.stream.commit(T, upsert(rows - 1, f"({rows - 1}, 'later')"), upsert(rows))
    feed.block_wait()
    until(lambda: str(rows) in applier.table)
    until(lambda: feed.pending() <= rows // 4 + OWN_ROWS)
    assert applier.table[str(rows - 1)] == f"({rows - 1}, 'later')"
    assert "0" not in applier.table
    assert feed.position() == "memory;0"
    slow.set()
    feed.flush()
    until(feed.all_changes_flushed)
    assert len(applier.table) == rows + 1
    assert feed.position() == "memory;2"


def test_pausing_waits_for_every_partition(scene: Scene) -> None:
    """A repair, or the lock's session, must not meet a batch that is still being written."""
    feed, _ = scene.open(flush_interval=0.01)
    scene.applier.gate.clear()
    scene.stream.commit(T, *(upsert(n) for n in range(4 * SPLIT_ROWS)))
    until(lambda: flusher(feed)._running() == 2)
    paused: list[int] = []

    def pause() -> None:
        with feed.applies_paused():
            paused.append(flusher(feed)._running())

    thread = threading.Thread(target=pause)
    thread.start()
    assert not paused
    scene.applier.gate.set()
    thread.join(DEADLINE)
    assert paused == [0]
    feed.flush()
    until(feed.all_changes_flushed)


def test_a_bounded_table_takes_no_more_than_its_bound(scene: Scene) -> None:
    """What was being applied ends first; then about so many bytes are applied, and the rest later.

    So an index build's log of concurrent changes has room for them.
    """
    feed, subscription = scene.open(flush_interval=0.01)
    scene.applier.gate.clear()
    scene.stream.commit(T, upsert(1))
    until(lambda: flusher(feed)._running() == 1)
    threading.Timer(0.05, scene.applier.gate.set).start()
    with subscription.applies_bounded(1000, scene.stop):
        assert flusher(feed)._running() == 0
        scene.stream.commit(T, *(upsert(n) for n in range(2, 1000)))
        feed.block_wait()
        until(lambda: subscription.room is not None and subscription.room <= 0)
        until(lambda: flusher(feed)._running() == 0)
        assert 1 < len(scene.applier.table) < 10
    with subscription.applies_bounded(0, scene.stop):
        before = len(scene.applier.table)
        assert not flusher(feed).request(wait=0.05)
        assert len(scene.applier.table) == before
    feed.flush()
    assert len(scene.applier.table) == 999


def test_a_stop_ends_the_wait_for_batches_before_a_bound(scene: Scene) -> None:
    """On a frozen server one hangs; afterwards nothing is bounded any more."""
    feed, subscription = scene.open(flush_interval=3600.0)
    scene.applier.gate.clear()
    scene.stream.commit(T, upsert(1))
    feed.block_wait()
    flusher(feed).request(wait=0.0)
    until(lambda: flusher(feed)._running() == 1)
    met: list[Exception] = []

    def wait() -> None:
        try:
            with subscription.applies_bounded(1000, scene.stop):
                pass
        except Interrupted as error:
            met.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    scene.stop.request(Interrupted(2))
    thread.join(DEADLINE / 4)
    assert len(met) == 1
    assert subscription.room is None


@pytest.mark.parametrize("paused", [False, True], ids=["flush", "pause"])
def test_a_stop_does_not_wait_for_a_batch_that_hangs(scene: Scene, paused: bool) -> None:
    """On a frozen server the answer would come after minutes, or never."""
    feed, _ = scene.open(flush_interval=0.01)
    scene.applier.gate.clear()
    scene.stream.commit(T, upsert(1))
    until(lambda: flusher(feed)._running() == 1)

    def wait() -> None:
        with contextlib.suppress(Exception):
            if not paused:
                feed.flush()
            else:
                with feed.applies_paused():
                    pass

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    scene.stop.request(Interrupted(2))
    thread.join(DEADLINE / 4)
    assert not thread.is_alive()


def test_changes_are_held_within_a_bound_alone(scene: Scene) -> None:
    """Who looks at an index build may see the other user of the table after the build's end."""
    _, subscription = scene.open()
    may_apply = []
    with subscription.applies_bounded(1000, scene.stop):
        subscription.hold_applies(held=True)
        may_apply.append(subscription.may_apply)
    may_apply.append(subscription.may_apply)
    subscription.hold_applies(held=True)
    may_apply.append(subscription.may_apply)
    assert may_apply == [False, True, True]


def test_a_change_in_a_chunk_in_flight_waits(scene: Scene) -> None:
    """R4: flushed once the chunk has committed."""
    feed, subscription = scene.open(copying=True)
    scene.stream.has_gtids = False
    subscription.dispatch(chunk(0, None, 10))
    scene.stream.commit(T, upsert(5), upsert(50))
    feed.block_wait()
    feed.flush()
    assert scene.applier.table == {"50": "(50)"}
    subscription.committed(chunk(0, None, 10))
    feed.flush()
    assert set(scene.applier.table) == {"5", "50"}
    assert scene.stream.proofs >= 2, "without GTIDs each flush proves what it applies"


@pytest.mark.parametrize("code", [1205, 1317])
def test_a_backup_in_front_of_a_proof_is_waited_for(scene: Scene, code: int) -> None:
    """R4: nothing is applied, and nothing fails, until the proof is made."""
    feed, _ = scene.open(copying=True)
    scene.stream.has_gtids = False
    scene.stream.unprovable += [behind_a_backup(code) for _ in range(3)]
    scene.stream.commit(T, upsert(50))
    feed.block_wait()
    feed.flush()
    assert scene.applier.table == {"50": "(50)"}
    assert not scene.stream.unprovable
    scene.stream.unprovable += [behind_a_backup(code) for _ in range(3)]
    with feed.applies_paused():
        assert not scene.stream.unprovable


def behind_a_backup(code: int) -> FeedSilent:
    """Return the failure of a proof that a backup delays."""
    silent = FeedSilent("it does not say whether commits are visible")
    silent.__cause__ = ServerFault(code, "not now", where="x")
    return silent


def test_a_try_of_the_swap_does_not_wait_behind_a_backup(scene: Scene) -> None:
    """R23: the next one does, in the time of the tries, and shows it; the feed goes on."""
    feed, _ = scene.open(copying=True)
    scene.stream.has_gtids = False
    scene.stream.unprovable.append(behind_a_backup(1205))
    with pytest.raises(FeedSilent), feed.applies_paused(patient=False):
        pass
    scene.stream.commit(T, upsert(50))
    feed.block_wait()
    feed.flush()
    assert scene.applier.table == {"50": "(50)"}


def test_the_drop_filter_and_the_dispatch_are_one(scene: Scene) -> None:
    """R3: what was received before a dispatch, dropped or not, is in the set to wait for."""
    scene.stream.has_gtids = True
    feed, subscription = scene.open(copying=True)
    uuid = "16e8969d-e4d3-11f1-b00c-02fc00000001"

    def commit(number: int, key: int) -> None:
        place = Place("m.000001", len(scene.stream._transactions) + 1, uuid, number)
        codec: Any = _Prepared([upsert(key)])
        scene.stream.append(Began(place), RowsChanged(T, 0, b"", codec), Committed(place))

    commit(7, 5)
    feed.block_wait()
    assert subscription.dispatch(chunk(0, None, 10)) == f"{uuid}:7"
    commit(8, 11)
    commit(9, 10)
    feed.block_wait()
    assert subscription.dispatch(chunk(1, 10, 20)) == f"{uuid}:7-9"
    subscription.committed(chunk(0, None, 10))
    subscription.committed(chunk(1, 10, 20))
    assert subscription.dispatch(chunk(2, 20, None)) == ""
    found = feed.statistics()
    assert (found.received, found.dropped_above_high_watermark, found.pending) == (3, 2, 1)


def test_a_second_unique_key_drops_nothing_and_waits_for_all(scene: Scene) -> None:
    """R5 with R4: a chunk that read before a value moved may push out a row anywhere."""
    scene.stream.has_gtids = True
    feed, subscription = scene.open(copying=True, table=mapping(unique=("v",)))
    subscription.dispatch(chunk(0, None, 10))
    scene.stream.commit(T, upsert(5), upsert(500))
    feed.block_wait()
    feed.flush()
    assert scene.applier.table == {}
    assert feed.statistics().dropped_above_high_watermark == 0
    subscription.committed(chunk(0, None, 10))
    feed.flush()
    assert set(scene.applier.table) == {"5", "500"}


def test_a_resumed_run_drops_nothing_that_was_copied(scene: Scene) -> None:
    """R17: up to the largest key of the new table in its lane every change is kept."""
    scene.stream.has_gtids = True
    feed = ChangeFeed(
        scene.stream,
        scene.applier,
        options=FeedOptions(wait_timeout=DEADLINE, flush_interval=3600.0),
        stop=scene.stop,
    )
    scene.feeds.append(feed)
    feed.add_subscription(mapping(), rests=[rest(50, 200, (100,)), rest(300, None, (310,))])
    feed.start()
    kept = (40, 90, 100, 250, 300, 305, 310)
    scene.stream.commit(T, *map(delete, kept), *map(delete, (101, 200, 311)))
    feed.block_wait()
    assert feed.pending() == len(kept)
    assert feed.statistics().dropped_above_high_watermark == 3


def test_of_a_table_that_an_earlier_run_has_copied_nothing_is_dropped_or_held(scene: Scene) -> None:
    """Resumed after its copy: every change is applied, whatever its key."""
    scene.stream.has_gtids = True
    feed = ChangeFeed(
        scene.stream,
        scene.applier,
        options=FeedOptions(wait_timeout=DEADLINE, flush_interval=3600.0),
        stop=scene.stop,
    )
    scene.feeds.append(feed)
    feed.add_subscription(mapping(), rests=())
    feed.start()
    scene.stream.commit(T, upsert(5, "(5, 'a')"), upsert(10**6, "(1000000, 'b')"))
    feed.block_wait()
    feed.flush()
    assert set(scene.applier.table) == {"5", "1000000"}


def test_the_position_moves_only_behind_applied_changes(scene: Scene) -> None:
    """R7: and a resumed feed gets the rest again."""
    feed, subscription = scene.open(copying=True)
    assert feed.position() == "memory;0"
    scene.stream.commit(T, upsert(50, "(50, 'a')"))
    feed.block_wait()
    feed.flush()
    assert feed.position() == "memory;1"
    subscription.dispatch(chunk(0, None, 10))
    scene.stream.commit(T, upsert(5, "(5, 'held')"))
    scene.stream.commit(T, upsert(60))
    feed.block_wait()
    feed.flush()
    assert feed.position() == "memory;1"
    feed.close()
    again, _ = scene.open(position="memory;1")
    again.block_wait()
    again.flush()
    assert set(scene.applier.table) == {"5", "50", "60"}
    assert again.position() == "memory;3"


def test_what_is_in_no_log_is_in_the_position_though_nobody_waits(scene: Scene) -> None:
    """R12: a run that copies for days, or keeps a table current, would not be resumed from it."""
    feed, _ = scene.open(copying=True)
    scene.stream.unlogged = CountFrontier(7)
    assert feed.position() == "memory;0"
    feed._look()
    assert feed.position() == "memory;7"


@pytest.mark.parametrize("position", ["memory;1", "memory;9", "gtid;x"])
def test_a_position_that_is_gone_is_not_found(scene: Scene, position: str) -> None:
    """Purged, never reached, or of another kind."""
    for n in range(5):
        scene.stream.commit(T, upsert(n))
    scene.stream.purged = 3
    with pytest.raises(PositionNotFound):
        scene.open(position=position)


def test_a_fault_travels_behind_what_came_before_it(scene: Scene) -> None:
    """The stop switch learns it, and every waiting call raises it."""
    feed, _ = scene.open()
    scene.stream.commit(T, upsert(1))
    scene.stream.append(Failed(UnreadableChange("hidden")))
    assert scene.stop.wait(DEADLINE)
    assert isinstance(scene.stop.reason, UnreadableChange)
    assert feed.pending() == 1
    for call in (feed.flush, feed.block_wait):
        with pytest.raises(UnreadableChange):
            call()


def hide(scene: Scene) -> None:
    """Append a transaction whose rows of the table are not in the stream."""
    place = Place("memory.000001", len(scene.stream._transactions) + 1)
    scene.stream.append(Hidden(place, HiddenChange("hidden")), Committed(place))


def test_what_was_hidden_before_a_resumption_is_passed_over(scene: Scene) -> None:
    """R13: only in a run that says so, only what was committed when it began, and it tells."""
    hide(scene)
    feed, subscription = scene.open(position="memory;0", pass_hidden=True)
    feed.block_wait()
    assert feed.has_unread_changes(subscription.mapping)
    feed.compared(subscription.mapping)
    assert not feed.has_unread_changes(subscription.mapping)
    assert feed.position() == "memory;1"
    hide(scene)
    assert scene.stop.wait(DEADLINE)
    assert isinstance(scene.stop.reason, HiddenChange)


def test_without_leave_nothing_is_passed_over(scene: Scene) -> None:
    """R13: a feed of which nobody compares what it made stops in front of what is hidden."""
    hide(scene)
    scene.open(position="memory;0")
    assert scene.stop.wait(DEADLINE)
    assert isinstance(scene.stop.reason, HiddenChange)


def test_a_blind_merging_table_has_no_exact_state(scene: Scene) -> None:
    """R13, R21: until it is compared, rows are written over others, in later runs neither."""
    table = tightened()
    hide(scene)
    feed, _ = scene.open(position="memory;0", pass_hidden=True, table=table)
    scene.stream.commit(T, upsert(1))
    feed.block_wait()
    feed.flush()
    assert scene.applier.states == []
    assert feed.position() == "memory;0"
    feed.compared(table)
    feed.block_wait()
    scene.stream.commit(T, upsert(2))
    feed.block_wait()
    feed.flush()
    assert [complete for complete, _ in scene.applier.states] == [True]
    assert feed.position() == "memory;3"


def test_an_unforeseen_error_is_a_fault_too(scene: Scene) -> None:
    """A bug in a thread never looks like a quiet stream."""
    feed, _ = scene.open()
    broken: Any = None
    scene.stream.append(RowsChanged(T, 0, b"", broken), Committed(Place("m.000001", 1)))
    assert scene.stop.wait(DEADLINE)
    with pytest.raises(FeedFailure, match="broke"):
        feed.flush()
    put, got, acknowledged = feed._store._put, feed._store._get, feed._store._ack
    assert (put, got) == (2, acknowledged), "the batch was not taken over"


def test_a_failed_flush_loses_nothing(scene: Scene) -> None:
    """The batch waits again, the error is raised, the next flush applies it."""
    feed, _ = scene.open()
    scene.stream.commit(T, upsert(1), upsert(2))
    feed.block_wait()
    scene.applier.fail = ServerFault(1205, "lock wait", where="test")
    with pytest.raises(ServerFault):
        feed.flush()
    assert feed.pending() == 2
    assert feed.position() == "memory;0"
    scene.applier.fail = None
    feed.flush()
    assert set(scene.applier.table) == {"1", "2"}
    assert feed.position() == "memory;1"


def test_a_failed_periodic_flush_stops_the_migration(scene: Scene) -> None:
    """Nobody waits for the flusher, so the stop switch must know."""
    scene.applier.fail = ServerFault(1146, "no such table", where="test")
    scene.open(flush_interval=0.001)
    scene.stream.commit(T, upsert(1))
    assert scene.stop.wait(DEADLINE)
    assert isinstance(scene.stop.reason, ServerFault)


def test_a_flush_ends_when_rows_that_met_are_applied(scene: Scene, monkeypatch) -> None:
    """A row of another source may be in the way for a while: to wait for it is no fault (R15)."""
    monkeypatch.setattr(module, "MEETING_PAUSE", 0.001)
    feed, _ = scene.open()
    met, write = [0], scene.applier.upsert_rows

    def upsert_rows(*given: Any, **named: Any) -> int:
        met[0] += 1
        if met[0] < 4:
            raise RowsMeet("Duplicate entry '1'")
        return write(*given, **named)

    monkeypatch.setattr(scene.applier, "upsert_rows", upsert_rows)
    scene.stream.commit(T, upsert(1))
    feed.block_wait()
    feed.flush()
    assert met == [4]
    assert set(scene.applier.table) == {"1"}
    assert feed.position() == "memory;1"
    assert not flusher(feed)._meetings


def test_rows_that_meet_for_too_long_end_the_feed(scene: Scene, monkeypatch) -> None:
    """Both sources have them: nothing is written over."""
    monkeypatch.setattr(module, "MEETING_PAUSE", 0.001)
    monkeypatch.setattr(module, "MEETING_SECONDS", 0.02)
    scene.applier.fail = RowsMeet("Duplicate entry '1'")
    feed, _ = scene.open(flush_interval=0.001)
    scene.stream.commit(T, upsert(1))
    assert scene.stop.wait(DEADLINE)
    assert isinstance(scene.stop.reason, RowsMeet)
    assert not scene.applier.table
    assert feed.pending() == 1


def test_a_flush_raises_that_rows_meet_for_too_long(scene: Scene, monkeypatch) -> None:
    """It does not request one round after the other for ever."""
    monkeypatch.setattr(module, "MEETING_PAUSE", 0.001)
    monkeypatch.setattr(module, "MEETING_SECONDS", 0.02)
    feed, _ = scene.open()
    scene.stream.commit(T, upsert(1))
    feed.block_wait()
    scene.applier.fail = RowsMeet("Duplicate entry '1'")
    with pytest.raises(RowsMeet):
        feed.flush()
    assert feed.pending() == 1


def test_under_a_table_lock_rows_that_meet_are_left_to_the_caller(scene: Scene) -> None:
    """Others wait for the lock, and the row in the way may be the next one's to delete."""
    feed, subscription = scene.open()
    scene.stream.commit(T, upsert(1))
    feed.block_wait()
    scene.applier.fail = RowsMeet("Duplicate entry '1'")
    session: Any = None
    with feed.applies_paused():
        with pytest.raises(ChangesNotFlushed) as caught:
            feed.flush_under_table_lock(session, subscription.mapping)
        assert isinstance(caught.value.__cause__, RowsMeet)
        scene.applier.fail = None
        feed.flush_under_table_lock(session, subscription.mapping)
    assert set(scene.applier.table) == {"1"}


def test_foreign_ddl_and_statement_writes_are_fatal(scene: Scene) -> None:
    """R13, R14: the error names table, session and statement."""
    scene.open()
    place = Place("m.000001", 1)
    scene.stream.append(StatementSeen(place, "s", "TRUNCATE t", 77), Committed(place))
    assert scene.stop.wait(DEADLINE)
    assert isinstance(scene.stop.reason, SchemaChanged)
    assert "s.t" in str(scene.stop.reason)
    assert "session 77" in str(scene.stop.reason)


def test_an_alter_that_has_changed_nothing_ends_no_feed(scene: Scene) -> None:
    """R14, R25: it is looked at before anything behind it is handed on; it counts as a rebuild."""
    looks: list[int] = []

    def unaltered() -> bool:
        looks.append(feed.pending())
        return True

    feed, _ = scene.open(unaltered=unaltered)

    def logged(sql: str, number: int) -> None:
        place = Place("m.000001", number)
        scene.stream.append(StatementSeen(place, "s", sql, 77), Committed(place))

    logged("ALTER TABLE t COMMENT 'x'", 1)
    scene.stream.commit(T, upsert(1))
    feed.block_wait()
    assert (looks, feed.pending(), feed.rebuilt(T)) == ([0], 1, 1)
    logged("CREATE TABLE IF NOT EXISTS c (t INT REFERENCES t (id))", 3)
    feed.block_wait()
    assert (len(looks), feed.rebuilt(T)) == (2, 1)
    logged("ALTER TABLE t DROP v", 4)
    assert scene.stop.wait(DEADLINE)
    assert isinstance(scene.stop.reason, SchemaChanged)
    assert len(looks) == 2


@pytest.mark.parametrize("unaltered", [lambda: False, None])
def test_an_alter_that_has_changed_something_ends_the_feed(scene: Scene, unaltered: Any) -> None:
    """R14: and so does one where nothing can look."""
    scene.open(unaltered=unaltered)
    place = Place("m.000001", 1)
    sql = "ALTER TABLE t MODIFY v BIGINT"
    scene.stream.append(StatementSeen(place, "s", sql, 77), Committed(place))
    assert scene.stop.wait(DEADLINE)
    assert isinstance(scene.stop.reason, SchemaChanged)


@pytest.mark.parametrize("logged", [RENAME, f"{RENAME}\n"], ids=["alone", "in a packet"])
def test_our_own_ddl_ends_the_feed(scene: Scene, logged: str) -> None:
    """Behind the swap nothing is taken in, whoever it is by, so no later proof may pass (R25)."""
    feed, _ = scene.open()
    feed.expect_own_ddl(77, RENAME)
    scene.stream.append(
        StatementSeen(Place("m.000001", 1), "s", logged, 77), Committed(Place("m.000001", 1))
    )
    scene.stream.commit(T, upsert(1))
    with pytest.raises(FeedFailure, match="has ended"):
        feed.block_wait()
    assert feed.pending() == 0
    assert not feed.all_changes_flushed()
    assert scene.stop.reason is None


def test_a_stopped_feed_proves_nothing(scene: Scene) -> None:
    """What was received before the stop looks complete, and is not known to be (R25)."""
    feed, _ = scene.open()
    feed.block_wait()
    assert feed.all_changes_flushed()
    feed.stop()
    assert not feed.all_changes_flushed()
    no_session: Any = None
    for proof in (feed.block_wait, feed.flush, lambda: feed.flush_under_table_lock(no_session)):
        with pytest.raises(FeedFailure, match="has ended"):
            proof()


@pytest.mark.parametrize(
    ("session", "sql", "forgotten"),
    [
        pytest.param(77, "TRUNCATE t", False, id="other text"),
        pytest.param(78, RENAME, False, id="other session"),
        pytest.param(77, RENAME, True, id="ended try"),
    ],
)
def test_a_sessions_number_alone_makes_no_ddl_ours(
    scene: Scene, session: int, sql: str, forgotten: bool
) -> None:
    """An application's session may get the number of one of ours after a restart (R24, R25)."""
    feed, _ = scene.open()
    feed.expect_own_ddl(77, RENAME)
    if forgotten:
        feed.forget_own_ddl()
    place = Place("m.000001", 1)
    scene.stream.append(StatementSeen(place, "s", sql, session), Committed(place))
    assert scene.stop.wait(DEADLINE)
    assert isinstance(scene.stop.reason, SchemaChanged)


def test_a_restart_in_a_transaction_is_idempotent(scene: Scene) -> None:
    """R12: the half received transaction comes again, and counts once for the position."""
    feed, _ = scene.open()
    place = Place("m.000001", 1)
    codec: Any = _Prepared([upsert(1, "(1, 'half')")])
    whole: Any = _Prepared([upsert(1, "(1, 'half')"), upsert(2)])
    scene.stream.append(
        Began(place),
        RowsChanged(T, 0, b"", codec),
        Restarted(),
        Began(place),
        RowsChanged(T, 0, b"", whole),
        Committed(place),
    )
    feed.block_wait()
    feed.flush()
    assert set(scene.applier.table) == {"1", "2"}
    assert feed.position() == "memory;1"
    assert feed.all_changes_flushed()


def test_half_received_xa_rows_are_forgotten(scene: Scene) -> None:
    """R8, R12: only the rows of the complete PREPARE count."""
    feed, _ = scene.open()
    first, second = Place("m.000001", 1), Place("m.000001", 2)
    half: Any = _Prepared([upsert(1)])
    whole: Any = _Prepared([upsert(2)])
    scene.stream.append(
        Began(first, "x"),
        RowsChanged(T, 0, b"", half),
        Restarted(),
        Began(first, "x"),
        RowsChanged(T, 0, b"", whole),
        XaPrepared(first, "x"),
    )
    feed.block_wait()
    assert not feed.all_changes_flushed()
    assert feed.position() == "memory;0"
    scene.stream.append(XaDecided(second, "x", commit=True))
    feed.block_wait()
    feed.flush()
    assert set(scene.applier.table) == {"2"}
    assert feed.position() == "memory;2"
    assert feed.all_changes_flushed()


def test_block_wait_times_out_on_a_silent_stream(scene: Scene) -> None:
    """R12: silence never means that everything is here."""
    feed, _ = scene.open()
    scene.stream.append(Advanced(Place("m.000001", 1)))
    feed.block_wait()
    scene.stream.trouble = "no route"
    scene.stream.append()
    with pytest.raises(FeedFailure, match="no route"):
        feed.block_wait(0.05)


def test_block_wait_waits_as_long_as_something_comes(scene: Scene) -> None:
    """A backlog may take longer than the limit, which is for standing still."""
    ticks, allowed = 0, threading.Semaphore(0)

    def clock() -> float:
        nonlocal ticks
        ticks += 1
        allowed.release()
        return float(ticks)

    emit = scene.stream.run

    def slowly(take: Callable[[Event], bool], heard: Callable[[], None]) -> None:
        emit(lambda event: allowed.acquire(timeout=DEADLINE) and take(event), heard)

    setattr(scene.stream, "run", slowly)  # noqa: B010
    feed, _ = scene.open(wait_timeout=20.0, clock=clock)
    for number in range(50):
        scene.stream.commit(T, upsert(number))
    feed.block_wait()
    assert feed.pending() == 50


@pytest.mark.parametrize("comparable", [True, False])
def test_an_image_that_no_longer_is_the_sources_may_not_fit(scene: Scene, comparable: bool) -> None:
    """R10: it is passed over, because its row's next image comes behind; all others are applied."""
    table = mapping() if comparable else mapping(key=column("id", "double"))
    feed, _ = scene.open(table=table)
    scene.applier.unfit = "bad"
    scene.stream.commit(T, upsert(1), upsert(2, "(2,bad)"), upsert(3))
    feed.block_wait()
    with pytest.raises(ValueLost):
        feed.flush()
    assert feed.pending() == 3
    scene.applier.changed_since.add("(2)")
    feed.flush()
    assert set(scene.applier.table) == {"1", "3"}
    assert scene.stream.proofs > 0
    assert feed.pending() == 0


def test_a_round_ends_together_with_its_fault(scene: Scene) -> None:
    """A call that waits for the round may wake as soon as the lock is free."""
    feed, subscription = scene.open()
    scene.applier.fail = FeedFailure("no")
    scene.stream.commit(T, upsert(1))
    feed.block_wait()
    parts, of = subscription.buffer.partitions, flusher(feed)
    seen: list[tuple[bool, bool]] = []

    class Watched:
        """The lock of the feed, which looks at the requests whenever it becomes free."""

        def __init__(self, lock: threading.Condition) -> None:
            self.lock = lock

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *raised: object) -> None:
            waits = of._requests
            seen.extend((parts.done(one.number), one.fault is not None) for one in waits)
            self.lock.release()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.lock, name)

    of._lock = Watched(of._lock)  # type: ignore[assignment]
    with pytest.raises(FeedFailure, match="no"):
        feed.flush()
    assert (True, True) in seen
    assert (True, False) not in seen


def test_a_full_buffer_holds_the_reader_back_and_frees_itself(scene: Scene) -> None:
    """R19: the flusher is called when it matters; the waiting time is counted."""
    feed, _ = scene.open(soft_limit_bytes=1 << 20)
    scene.applier.gate.clear()
    for at in range(0, 20_000, 100):
        scene.stream.commit(T, *(upsert(n) for n in range(at, at + 100)))
    until(lambda: feed.statistics().backpressure)
    assert feed.statistics().pending < 20_000
    scene.applier.gate.set()
    feed.block_wait()
    feed.flush()
    assert len(scene.applier.table) == 20_000
    assert not feed.statistics().backpressure
    assert feed.statistics().backpressure_seconds > 0


def test_a_flush_under_the_lock_is_refused_when_it_would_be_long(scene: Scene) -> None:
    """The application waits meanwhile."""
    feed, _ = scene.open(under_lock_changes=5)
    scene.stream.commit(T, *(upsert(n) for n in range(6)))
    feed.block_wait()
    session: Any = object()
    with pytest.raises(ChangesNotFlushed), feed.applies_paused():
        feed.flush_under_table_lock(session)
    feed.flush()
    with feed.applies_paused():
        feed.flush_under_table_lock(session)


def test_a_flush_under_the_lock_is_in_as_few_statements_as_possible(scene: Scene) -> None:
    """R15: whatever partitions there were, what is left is written together."""
    feed, subscription = scene.open()
    scene.stream.commit(T, *(upsert(n) for n in range(5 * SPLIT_ROWS)))
    feed.block_wait()
    feed.flush()
    partitions = subscription.buffer.partitions
    assert len(partitions.live) > 2
    scene.applier.calls.clear()
    scene.stream.commit(T, *(upsert(n) for n in range(0, 5 * SPLIT_ROWS, SPLIT_ROWS)))
    feed.block_wait()
    session: Any = object()
    with feed.applies_paused():
        feed.flush_under_table_lock(session)
    assert [len(items) for _, items in scene.applier.calls] == [5]
    assert feed.all_changes_flushed()


def test_flush_gives_up_when_the_backlog_does_not_shrink(scene: Scene) -> None:
    """A table that is written faster than changes are applied is said to be so."""
    feed, _ = scene.open(under_lock_changes=10)
    written = iter(range(1_000_000))

    class Flood(Recorder):
        def take(self, kind: str, items: list[str]) -> None:
            """Let more come than was taken."""
            scene.stream.commit(T, *(upsert(next(written)) for _ in range(len(items) + 20)))
            feed.block_wait()

    feed._applier._applier = Flood()
    scene.stream.commit(T, *(upsert(next(written)) for _ in range(20)))
    feed.block_wait()
    with pytest.raises(ChangesNotFlushed, match="still pending"):
        feed.flush()


def test_a_stop_request_ends_a_flush_between_two_batches(scene: Scene) -> None:
    """A backlog of any length does not keep a signal waiting; what was not applied is kept."""
    feed, _ = scene.open()
    scene.stream.commit(T, upsert(1), upsert(2))
    feed.block_wait()
    scene.stop.request(Interrupted(15))
    with pytest.raises(Interrupted):
        feed.flush()
    flusher(feed).flush_once()
    assert scene.applier.table == {}
    assert feed.pending() == 2


def test_nothing_is_applied_after_stop(scene: Scene) -> None:
    """R15: behind the RENAME the old images must not reach the new table."""
    feed, _ = scene.open()
    scene.stream.commit(T, upsert(1))
    feed.block_wait()
    feed.stop()
    flusher(feed).flush_once()
    assert scene.applier.table == {}


def test_closing_ends_a_batch_that_would_not_end(scene: Scene) -> None:
    """R16: within seconds, whatever a statement waits for."""
    feed, _ = scene.open(flush_interval=0.001)
    scene.applier.gate.clear()
    scene.stream.commit(T, upsert(1))
    until(lambda: flusher(feed)._running() > 0)
    feed.close()
    assert scene.applier.fail is not None
    assert scene.applier.table == {}


def test_another_feed_goes_on_from_a_noted_place(scene):
    """A place noted in a session is where another feed begins, also when this one has stopped."""
    session: Any = None
    feed, _ = scene.open()
    scene.stream.commit(T, upsert(1))
    feed.block_wait(DEADLINE, session)
    feed.stop()
    place = feed.position_here(session)
    scene.stream.commit(T, upsert(2))
    feed.close()

    other, _ = scene.open(position=place)
    other.block_wait(DEADLINE)
    other.flush()

    assert scene.applier.table == {"2": "(2)"}


def tightened() -> TableMapping:
    """Build the mapping of a table whose new form has a unique key more."""
    made = mapping()
    return replace(made, tightened=(made.key,))


def test_states_are_applied_from_the_first_wait_on(scene: Scene) -> None:
    """Before it the new table may be newer than what comes; behind it a state is whole (R21)."""
    feed, _ = scene.open(table=tightened())
    scene.stream.commit(T, upsert(1, "(1)"))
    until(lambda: feed.pending() == 1)
    feed.flush()
    assert [kind for kind, _ in scene.applier.calls] == ["upsert"]
    scene.stream.commit(T, upsert(2, "(2)"), upsert(3, "(3)"))
    feed.block_wait()
    feed.flush()
    assert [(c, [x.key for x in found]) for c, found in scene.applier.states] == [
        (True, ["(2)", "(3)"])
    ]
    assert feed.overwrites(tightened()) == 1


def test_a_repair_ends_exactness_until_the_next_wait(scene: Scene) -> None:
    """What a repair read is newer than what waits: a duplicate of it would be no proof."""
    feed, _ = scene.open(table=tightened())
    feed.block_wait()
    feed.write_over(tightened())
    scene.stream.commit(T, upsert(1, "(1)"))
    until(lambda: feed.pending() == 1)
    feed.flush()
    assert [kind for kind, _ in scene.applier.calls] == ["upsert"]
    feed.block_wait()
    scene.stream.commit(T, upsert(2, "(2)"))
    feed.block_wait()
    feed.flush()
    assert [kind for kind, _ in scene.applier.calls] == ["upsert", "state"]
    assert feed.overwrites(tightened()) == 2


def test_states_are_not_exact_while_the_copy_runs(scene: Scene) -> None:
    """A chunk may read what the feed has not received."""
    feed, subscription = scene.open(table=tightened(), copying=True)
    feed.block_wait()
    subscription.copy_finished()
    assert not subscription.buffer.exact
    feed.block_wait()
    assert subscription.buffer.exact


class _Short:
    """A codec that has no memory for its one change, a number of times."""

    def __init__(self, key: int, failures: int = 0) -> None:
        self._change, self._failures = upsert(key), failures

    def rows(self, _: int, __: bytes) -> list[Any]:
        """Return the change, or fail."""
        self._failures -= 1
        if self._failures >= 0:
            raise MemoryError
        return [self._change]


def _large(scene: Scene, *, failures: int) -> None:
    """Append a transaction larger than the ring of 1 MiB, whose 26th event fails at first."""
    place = Place("memory.000001", len(scene.stream._transactions) + 1)
    codecs: list[Any] = [_Short(n, failures if n == 25 else 0) for n in range(40)]
    rows = (RowsChanged(T, 0, bytes(100_000), codec) for codec in codecs)
    scene.stream.append(Began(place), *rows, Committed(place))


def test_a_rollback_in_a_transaction_larger_than_the_ring_takes_nothing_twice(scene: Scene) -> None:
    """R7, R19: its pieces are handed on once each, and the position waits for its end."""
    feed, subscription = scene.open(
        table=mapping(key=column("id", "double")), soft_limit_bytes=4 << 20
    )
    _large(scene, failures=2)
    until(lambda: feed._dispatcher is not None and bool(feed._dispatcher.trouble))
    assert feed.position() == "memory;0"
    feed.block_wait()
    (queue,) = subscription.buffer.partitions.live
    assert [change.image.key for change in queue.changes()] == [(n,) for n in range(40)]
    feed.flush()
    assert feed.position() == "memory;1"


def test_a_feed_that_tries_again_says_why_and_closes_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait that fails names what is missing; closing waits for no pause between tries."""
    pause = 60.0
    monkeypatch.setattr(dispatch, "_FIRST_PAUSE", pause)
    monkeypatch.setattr(dispatch, "_LONGEST_PAUSE", pause)
    feed, _ = scene.open(soft_limit_bytes=4 << 20)
    _large(scene, failures=6)
    until(lambda: feed._dispatcher is not None and feed._dispatcher._tries >= 1)
    with pytest.raises(FeedFailure, match=r"again \(there is not enough memory"):
        feed.block_wait(timeout=0.1)
    began = time.monotonic()
    feed.close()
    assert time.monotonic() - began < pause / 2


def test_a_lack_of_memory_is_no_bug() -> None:
    """It may come where an event is received, or where a statement is written."""
    assert _as_fault(MemoryError()).error_code is ErrorCode.NO_ROOM_FOR_CHANGES
    assert _as_fault(KeyError("a")).error_code is ErrorCode.DEFECT
