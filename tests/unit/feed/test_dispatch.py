"""What the dispatcher hands on, and what it does when that fails for a while: rollback."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.binlog.codec.rows import RowChange, RowImage
from spirit_py.binlog.events import (
    Began,
    Committed,
    Doubt,
    Place,
    Restarted,
    RowsChanged,
    XaDecided,
    XaPrepared,
    is_boundary,
    weight,
)
from spirit_py.errors import FeedFailure, HandOverFailed
from spirit_py.feed.dispatch import HAND_OVER_TRIES, Dispatcher
from spirit_py.feed.ledger import Ledger
from spirit_py.feed.shared import EventStore, Shared
from spirit_py.feed.subscription import TableSubscription
from spirit_py.threads import StopSwitch
from tests.kits.definitions import column
from tests.kits.memory_stream import CountFrontier, MemoryStream, upsert
from tests.kits.row_images import mapping

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spirit_py.binlog.events import Event

T = ("s", "t")


class Codec:
    """Decodes prepared changes; fails when its body says so, as often as it is told to."""

    def __init__(self, *changes: RowChange) -> None:
        self.changes = changes
        self.failures = 0
        self.fault: Exception = MemoryError()
        self.calls = 0

    def rows(self, _: int, __: bytes) -> Sequence[RowChange]:
        """Return the changes, or fail."""
        self.calls += 1
        if self.failures:
            self.failures -= 1
            raise self.fault
        return self.changes


class HandOver:
    """A store, a dispatcher and what it hands on to, all in the test's own thread."""

    def __init__(self, *, ordered: bool = False, xa_memory: int = 1 << 16) -> None:
        shared = Shared(stream=MemoryStream(), stop=StopSwitch())
        self.lock = shared.lock
        self.ledger = Ledger(CountFrontier())
        # A queue keeps every change that it is given, so that one given twice is seen.
        key = column("id", "double") if ordered else None
        self.table = TableSubscription(
            mapping(key=key),
            lock=self.lock,
            unweighed=self.lock,
            gate=shared.gate,
            wake=lambda: None,
            rests=(),
        )
        self.pauses: list[float] = []
        shared.subscriptions.by_table[T] = [self.table]
        self.dispatcher = Dispatcher(
            shared,
            self.ledger,
            passable=(),
            wait_for_room=lambda: None,
            xa_memory=xa_memory,
            pause=self.pause,
        )
        self.store: EventStore[Event] = EventStore(weigh=weight, is_boundary=is_boundary)
        self.transactions = 0
        self.acknowledged_at_pause: list[int] = []
        self.during_pause: Any = lambda: None

    def pause(self, seconds: float) -> None:
        """Note a pause, instead of making one."""
        self.pauses.append(seconds)
        got, acknowledged = self.store._get, self.store._ack
        assert got == acknowledged, "what was not handed on is not rolled back"
        self.acknowledged_at_pause.append(acknowledged)
        self.during_pause()

    def place(self) -> Place:
        """Return the place of the transaction being put."""
        return Place("m.000001", self.transactions)

    def put(
        self, *codecs: Codec, xid: str = "", body: bytes = b"", doubt: Doubt = Doubt.NONE
    ) -> None:
        """Put a transaction with a rows event for each codec."""
        self.transactions += 1
        self.store.put(Began(self.place(), xid))
        for codec in codecs:
            rows: Any = codec
            self.store.put(RowsChanged(T, 30, body, rows, doubt=doubt))
        self.store.put(XaPrepared(self.place(), xid) if xid else Committed(self.place()))

    def decide(self, xid: str) -> None:
        """Put an XA COMMIT."""
        self.transactions += 1
        self.store.put(XaDecided(self.place(), xid, commit=True))

    def run(self) -> None:
        """Hand on everything that was put."""
        ack = self.store.ack

        def last() -> None:
            ack()
            if len({self.store._put, self.store._get, self.store._ack}) == 1:
                self.store.close()

        self.store.ack = last  # type: ignore[method-assign]
        self.dispatcher.run(self.store)

    def received(self) -> list[tuple[Any, ...]]:
        """Return the keys that wait, in order."""
        (partition,) = self.table.buffer.partitions.live
        return [change.image.key for change in partition.changes()]


def test_a_failure_in_the_middle_of_a_batch_and_of_a_transaction_loses_nothing() -> None:
    """R7: the batch is read again; no change is lost, none taken twice, the positions are right."""
    made = HandOver(ordered=True)
    broken = Codec(upsert(4), upsert(5))
    broken.failures = 1
    made.put(Codec(upsert(1)), Codec(upsert(2)))
    made.put(Codec(upsert(3)), broken, Codec(upsert(6)))
    made.put(Codec(upsert(7)))
    made.during_pause = lambda: positions.append(made.ledger.received.text())
    positions: list[str] = []
    made.run()
    assert made.received() == [(n,) for n in range(1, 8)]
    assert made.table.buffer.counters.received == 7
    assert made.ledger.received.text() == "memory;3"
    assert not made.ledger.in_transaction
    assert positions == ["memory;1"], "the broken transaction is not received yet"
    assert made.acknowledged_at_pause == [0], "the whole batch is read again"
    assert (broken.calls, len(made.pauses)) == (2, 1)
    assert made.ledger.current.transactions == 3
    assert made.store.bytes == 0


def test_an_event_is_tried_a_bounded_number_of_times() -> None:
    """The feed fails with what was missing; pauses grow; what came before stays handed on."""
    made = HandOver()
    broken = Codec(upsert(2))
    broken.failures = 1000
    made.put(Codec(upsert(1)))
    made.put(broken)
    with pytest.raises(HandOverFailed, match="not enough memory"):
        made.run()
    assert broken.calls == HAND_OVER_TRIES
    assert made.pauses == sorted(made.pauses)
    assert len(made.pauses) == HAND_OVER_TRIES - 1
    assert made.received() == [(1,)]
    assert made.ledger.received.text() == "memory;1"


def test_tries_are_counted_for_each_event() -> None:
    """Something handed on begins the count anew: only standing still ends the feed."""
    made = HandOver(ordered=True)
    for number in range(3):
        slow = Codec(upsert(number))
        slow.failures = HAND_OVER_TRIES - 1
        made.put(slow)
    made.run()
    assert made.received() == [(0,), (1,), (2,)]
    assert made.dispatcher.trouble == ""


@pytest.mark.parametrize("fault", [FeedFailure("broken"), IndexError("a bug")])
def test_what_would_fail_again_is_not_tried_again(fault: Exception) -> None:
    """An event that cannot be read ends the feed at once."""
    made = HandOver()
    broken = Codec(upsert(1))
    broken.failures, broken.fault = 1000, fault
    made.put(broken)
    with pytest.raises(type(fault)):
        made.run()
    assert (broken.calls, made.pauses) == (1, [])


def test_a_full_disk_under_an_xa_transaction_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R8: rows kept aside in a temporary file are whole, whenever there was no room for them."""
    made = HandOver(ordered=True, xa_memory=100)
    refusals = iter([True, True, False])
    temporary = tempfile.TemporaryFile

    def full() -> Any:
        if next(refusals):
            raise OSError(28, "No space left on device")
        return temporary(dir=tmp_path)

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    made.put(*(Codec(upsert(n)) for n in range(5)), xid="x", body=b"b" * 40)
    made.decide("x")
    made.run()
    assert made.received() == [(n,) for n in range(5)]
    assert len(made.pauses) == 2
    assert made.ledger.received.text() == "memory;2"
    assert made.ledger.undecided == 0


def test_a_decided_transaction_goes_on_behind_what_was_taken_in() -> None:
    """R8: XA COMMIT brings each row once, also where memory was missing in between."""
    made = HandOver(ordered=True)
    codecs = [Codec(upsert(n)) for n in range(5)]
    codecs[3].failures = 2
    made.put(*codecs, xid="x")
    made.decide("x")
    made.run()
    assert made.received() == [(n,) for n in range(5)]
    assert [codec.calls for codec in codecs] == [1, 1, 1, 3, 1]
    assert made.ledger.undecided == 0


def test_closing_ends_the_tries() -> None:
    """A feed that is closed waits for no memory."""
    made = HandOver()
    broken = Codec(upsert(1))
    broken.failures = 1000
    made.put(broken)
    made.during_pause = made.store.close
    made.run()
    assert broken.calls == 1


def test_a_quiet_stream_after_a_rollback_brings_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R7: what was handed on of a transaction larger than the ring, whose rest is late, counts."""
    made = HandOver(ordered=True)
    broken = Codec(upsert(2))
    broken.failures = 1
    made.put(Codec(upsert(1)), broken)
    get, asked = made.store.get, 0

    def late(*arguments: Any, **named: Any) -> list[Event]:
        nonlocal asked
        asked += 1
        return [] if asked == 2 else get(*arguments, **named)

    monkeypatch.setattr(made.store, "get", late)
    made.run()
    assert made.received() == [(1,), (2,)]
    assert made.ledger.current.transactions == 1


def inserted(key: int) -> RowChange:
    """Return an insert as the binlog has it."""
    codec: Any = None
    return RowChange("insert", None, RowImage(codec, (key,), b""))


def test_rows_beside_a_cascade_are_in_doubt_when_their_xa_transaction_is_decided() -> None:
    """What else was in the statement is not kept with them, so a cascade may have been."""
    made = HandOver()
    made.put(Codec(inserted(1)), xid="x", doubt=Doubt.BESIDE)
    made.put(Codec(inserted(2)))
    made.decide("x")
    made.run()
    assert made.table.in_doubt.number == 1


def test_rows_of_a_transaction_that_comes_again_are_not_in_doubt_twice() -> None:
    """Nor at the end of another transaction, where it never comes."""
    made = HandOver()
    rows: Any = Codec(inserted(1))
    made.store.put(Began(made.place(), ""))
    made.store.put(RowsChanged(T, 30, b"", rows, doubt=Doubt.CASCADED))
    made.store.put(Restarted())
    made.put(Codec(inserted(2)))
    made.run()
    assert made.table.in_doubt.number == 0
