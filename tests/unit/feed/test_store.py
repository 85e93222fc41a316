"""The event store: a bounded ring with three cursors."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from spirit_py.feed.shared import EventStore

DEADLINE = 60.0


def ring(**limits: int) -> EventStore[Any]:
    """Return a store of events of weight 1, unless they say more; capitals end a transaction."""
    return EventStore(
        weigh=lambda event: int(event[1:] or 1) if event[0] == "W" else 1,
        is_boundary=str.isupper,
        **limits,
    )


def put(store: EventStore[Any], *events: str) -> None:
    """Put events."""
    for event in events:
        assert store.put(event)


def putting(store: EventStore[Any], *events: str) -> threading.Thread:
    """Put events in a thread of their own."""
    thread = threading.Thread(target=put, args=(store, *events), name="putting")
    thread.start()
    return thread


def until_waiting(store: EventStore[Any]) -> None:
    """Wait until the putting thread waits for room."""
    with store._changed:
        assert store._changed.wait_for(lambda: store._reader_waits, DEADLINE)


def test_cursors_grow_put_get_ack() -> None:
    """At every moment put >= get >= ack."""
    store = ring(capacity=8)
    put(store, "a", "B", "C")
    assert (store._put, store._get, store._ack) == (3, 0, 0)
    assert store.get(2) == ["a", "B"]
    assert (store._put, store._get, store._ack) == (3, 2, 0)
    store.ack()
    assert (store._put, store._get, store._ack) == (3, 2, 2)
    assert store.bytes == 1


def test_a_rollback_brings_the_batch_again() -> None:
    """A batch that was not taken over comes again, with what followed."""
    store = ring(capacity=8)
    put(store, "A", "B")
    assert store.get(1) == ["A"]
    store.ack()
    assert store.get(9) == ["B"]
    store.rollback()
    assert store.get(9) == ["B"]
    store.ack()
    assert (store._put, store._get, store._ack) == (2, 2, 2)


def test_a_transaction_is_not_torn() -> None:
    """Events are given only up to the last complete transaction."""
    store = ring(capacity=8)
    put(store, "a", "B", "c", "d")
    assert store.get(9) == ["a", "B"]
    store.ack()
    assert store.get(9, timeout=0.01) == []
    put(store, "E")
    assert store.get(9) == ["c", "d", "E"]


@pytest.mark.parametrize("limits", [{"capacity": 4}, {"capacity": 64, "max_bytes": 4}])
def test_a_full_ring_makes_the_reader_wait(limits: dict[str, int]) -> None:
    """By count or by bytes."""
    store = ring(**limits)
    thread = putting(store, "A", "B", "C", "D", "E")
    until_waiting(store)
    assert store.get(1) == ["A"]
    assert (store._put, store._get, store._ack) == (4, 1, 0), (
        "what is not acknowledged still takes room"
    )
    store.ack()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    assert (store._put, store._get, store._ack) == (5, 1, 1)


def test_a_transaction_larger_than_the_ring_streams_through() -> None:
    """It comes in pieces, and memory stays bounded."""
    store = ring(capacity=4)
    events = [*"abcdefghijklmnopqrst", "Z"]
    thread = putting(store, *events)
    found: list[str] = []
    while "Z" not in found:
        batch = store.get(99, timeout=DEADLINE)
        assert 0 < len(batch) <= 4
        found += batch
        store.ack()
    thread.join(DEADLINE)
    assert found == events


def test_one_event_may_exceed_the_limit_in_bytes() -> None:
    """An empty ring takes any event, so that the stream always goes on."""
    store = ring(capacity=4, max_bytes=10)
    assert store.put("W1000")
    assert store.get(1) == ["W1000"]


def test_closing_ends_a_wait_on_either_side() -> None:
    """The reader is told that its event was not taken."""
    store = ring(capacity=1)
    put(store, "A")
    refused: list[bool] = []
    thread = threading.Thread(target=lambda: refused.append(store.put("B")))
    thread.start()
    until_waiting(store)
    store.close()
    thread.join(DEADLINE)
    assert refused == [False]
    assert store.get(1) == []


def test_acknowledged_slots_are_used_again() -> None:
    """Slots are used again after they were acknowledged."""
    store = ring(capacity=4)
    for n in range(50):
        put(store, f"E{n}")
        assert store.get(1) == [f"E{n}"]
        store.ack()
    assert store.bytes == 0


def test_the_capacity_is_a_power_of_two() -> None:
    """Slots are found by a mask."""
    with pytest.raises(ValueError, match="power of two"):
        ring(capacity=6)
