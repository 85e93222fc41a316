"""The latest-image map, the queue, and the watermark filters (R3 to R6)."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.binlog.codec.rows import RowChange
from spirit_py.binlog.position import GtidFrontier, GtidSet
from spirit_py.chunk.watermark import WatermarkTracker
from spirit_py.feed.buffer import ENTRY_BYTES, ChangeBuffer, Filters, Manner
from spirit_py.feed.ledger import Epoch, VisibilityProofs
from spirit_py.feed.subscription import _images
from tests.kits.chunks import chunk
from tests.kits.row_images import Image


def epoch() -> Epoch:
    """Build an epoch."""
    return Epoch(GtidFrontier("", GtidSet()))


def buffer(
    *, comparable: bool = True, may_drop: bool = False, by_range: bool = True, proofs: bool = False
) -> ChangeBuffer:
    """Build a buffer whose copy runs."""
    filters = Filters(
        tracker=WatermarkTracker((False,)),
        may_drop=may_drop,
        by_range=by_range,
        proofs=VisibilityProofs() if proofs else None,
    )
    return ChangeBuffer(comparable=comparable, filters=filters)


def add(made: ChangeBuffer, key: int | str, *, deleted: bool = False, text: str = "") -> bool:
    """Add a change in an epoch of its own."""
    image: Any = Image((key,), text=text)
    return made.add_all([(image, deleted, False)], epoch()) > 0


def keys(batch: list[Any]) -> list[Any]:
    """Return the keys of a batch."""
    return [change.image.key[0] for change in batch]


def take_all(made: ChangeBuffer) -> list[Any]:
    """Take everything that need not wait, and settle it."""
    batch = take(made, 1000)
    made.applied(made.partitions.live[0])
    return batch


def take(made: ChangeBuffer, rows: int, size: int = 1 << 30) -> list[Any]:
    """Take from the only partition."""
    return list(made.take(made.partitions.live[0], rows, size))


def give_back(made: ChangeBuffer) -> None:
    """Let what was taken from the only partition wait again."""
    made.give_back(made.partitions.live[0])


def test_the_map_keeps_the_latest_image_of_a_key() -> None:
    """Of several changes of one row only the last is applied (R6)."""
    made = buffer()
    add(made, 1, text="a")
    add(made, 2)
    add(made, 1, text="b")
    add(made, 1, deleted=True, text="c")
    batch = take_all(made)
    assert [(c.image.text, c.deleted) for c in batch if c.image.key == (1,)] == [("c", True)]
    assert made.counters.deduplicated == 2
    assert made.counters.received == 4
    assert made.counters.applied == 2


def test_the_queue_keeps_every_change_in_order() -> None:
    """Where Python's equality is not the server's, 'a' and 'A' may be one row (R6)."""
    made = buffer(comparable=False, by_range=False)
    for key, deleted in (("a", False), ("a", True), ("A", False), ("a", True)):
        add(made, key, deleted=deleted)
    assert [(c.image.key[0], c.deleted) for c in take_all(made)] == [
        ("a", False),
        ("a", True),
        ("A", False),
        ("a", True),
    ]
    assert made.counters.deduplicated == 0


def test_a_change_above_the_high_watermark_is_dropped() -> None:
    """A later chunk reads it (R3); at or below the watermark it is kept."""
    made = buffer(may_drop=True)
    made.filters.tracker.dispatch(chunk(0, None, 10))
    made.filters.tracker.committed(chunk(0, None, 10))
    assert add(made, 10)
    assert not add(made, 11)
    assert keys(take_all(made)) == [10]
    assert made.counters.dropped == 1


def test_nothing_is_dropped_where_it_is_not_allowed() -> None:
    """Without GTIDs, with other keys, or with a second unique key every change is kept."""
    made = buffer(may_drop=False)
    assert add(made, 11)
    assert made.pending == 1


def test_nothing_is_dropped_once_the_copy_is_finished() -> None:
    """No chunk comes any more that would read it."""
    made = buffer(may_drop=True)
    made.filters.active = False
    assert add(made, 11)
    assert keys(take_all(made)) == [11]


def test_a_change_inside_a_chunk_in_flight_is_held() -> None:
    """It is applied once that chunk has committed, others at once (R4)."""
    made = buffer()
    first, second = chunk(0, None, 10), chunk(1, 10, 20)
    made.filters.tracker.dispatch(first)
    made.filters.tracker.dispatch(second)
    for key in (5, 15, 25):
        add(made, key)
    assert keys(take_all(made)) == [25]
    made.filters.tracker.committed(second)
    assert keys(take_all(made)) == [15]
    made.filters.tracker.committed(first)
    assert keys(take_all(made)) == [5]


def test_counted_dispatches_hold_every_earlier_change() -> None:
    """With keys not compared, a change waits for all chunks dispatched before it (R4)."""
    made = buffer(by_range=False)
    first, second, third = chunk(0, None, 10), chunk(1, 10, 20), chunk(2, 20, 30)
    made.filters.tracker.dispatch(first)
    add(made, 99)
    made.filters.tracker.dispatch(second)
    add(made, 98)
    made.filters.tracker.committed(second)
    assert keys(take_all(made)) == []
    made.filters.tracker.committed(first)
    assert keys(take_all(made)) == [99, 98]
    made.filters.tracker.dispatch(third)
    assert made.partitions.waiting == 0


def test_the_queue_does_not_overtake_a_held_change() -> None:
    """What came behind a change that must wait waits too."""
    made = buffer(comparable=False, by_range=False)
    made.filters.tracker.dispatch(chunk(0, None, 10))
    add(made, "a")
    made.filters.tracker.committed(chunk(0, None, 10))
    made.filters.tracker.dispatch(chunk(1, 10, 20))
    add(made, "b")
    assert keys(take_all(made)) == ["a"]
    made.filters.tracker.committed(chunk(1, 10, 20))
    assert keys(take_all(made)) == ["b"]


@pytest.mark.parametrize("by_range", [True, False])
def test_without_gtids_a_change_waits_for_a_proof(by_range: bool) -> None:
    """Until it is proven visible, a chunk dispatched later could still read the older row."""
    made = buffer(by_range=by_range, proofs=True)
    proofs = made.filters.proofs
    assert proofs is not None
    add(made, 50)
    assert keys(take_all(made)) == []
    number = proofs.begin()
    add(made, 60)
    made.filters.tracker.dispatch(chunk(0, None, 55))
    proofs.end(number, made.filters.tracker.dispatched)
    assert keys(take_all(made)) == [], "the chunk dispatched before the proof may read too early"
    made.filters.tracker.committed(chunk(0, None, 55))
    assert keys(take_all(made)) == [50], "60 came after the proof began"
    proofs.end(proofs.begin(), made.filters.tracker.dispatched)
    assert keys(take_all(made)) == [60]


def test_forgetting_settled_proofs_changes_no_answer() -> None:
    """Forgetting settled proofs changes no answer."""
    proofs = VisibilityProofs()
    for dispatched in (0, 3, 5, 9):
        proofs.end(proofs.begin(), dispatched)
    proofs.prune(5)
    assert [proofs.dispatched_at(stamp) for stamp in range(5)] == [0, 0, 0, 9, None]


def test_a_batch_that_failed_comes_again() -> None:
    """Given back, changes wait again, but a newer one of the same key wins."""
    made = buffer()
    add(made, 1, text="old")
    add(made, 2)
    take(made, 10)
    assert made.pending == 2
    assert made.partitions.waiting == 0
    add(made, 1, text="new")
    assert made.pending == 3
    give_back(made)
    assert made.pending == 2
    assert {c.image.key[0]: c.image.text for c in take_all(made)} == {1: "new", 2: ""}


def test_a_batch_of_the_queue_that_failed_comes_again_first() -> None:
    """The order is the binlog's also after a failure."""
    made = buffer(comparable=False, by_range=False)
    for key in "abc":
        add(made, key)
    take(made, 2)
    add(made, "d")
    give_back(made)
    assert keys(take_all(made)) == ["a", "b", "c", "d"]


def test_bytes_and_epochs_are_counted_exactly() -> None:
    """Whatever happens to changes, at the end nothing is counted (R7, R19)."""
    made = buffer()
    epochs = [epoch() for _ in range(3)]
    image: Any = Image((1,), size=100)
    for one in epochs:
        made.add_all([(image, False, False)], one)
    assert [one.pending for one in epochs] == [0, 0, 1]
    assert made.bytes == 100 + ENTRY_BYTES
    take(made, 10)
    made.add_all([(image, True, False)], epochs[0])
    assert made.bytes == 2 * (100 + ENTRY_BYTES)
    give_back(made)
    assert [one.pending for one in epochs] == [1, 0, 0]
    take_all(made)
    assert made.bytes == 0
    assert [one.pending for one in epochs] == [0, 0, 0]


def test_a_batch_is_bounded_by_rows_and_bytes() -> None:
    """The first change is taken however large it is."""
    made = buffer()
    for key in range(10):
        add(made, key)
    for rows, size, taken in ((3, 1 << 30, 3), (100, 2 * (10 + ENTRY_BYTES), 2), (100, 1, 1)):
        assert len(take(made, rows, size)) == taken
        made.applied(made.partitions.live[0])


def merging(*, comparable: bool = True, key_merging: bool = False) -> ChangeBuffer:
    """Build the exact buffer of a merging table whose copy is over."""
    filters = Filters(
        tracker=WatermarkTracker((False,)), may_drop=False, by_range=False, active=False
    )
    made = ChangeBuffer(
        comparable=comparable, filters=filters, merging=True, key_merging=key_merging
    )
    made.exact = True
    return made


def change(key: int, text: str = "", *, deleted: bool = False, fresh: bool = False) -> Any:
    """Build a change as a subscription gives it."""
    return Image((key,), text=text), deleted, fresh


@pytest.mark.parametrize("comparable", [True, False])
def test_a_state_ends_with_a_transaction(comparable: bool) -> None:
    """What is received of a transaction waits aside, counted, until it ends (R21)."""
    made = merging(comparable=comparable)
    made.add_all([change(1)], epoch())
    made.transaction_ended()
    made.add_all([change(2), change(3)], epoch())
    assert (made.pending, keys(take(made, 1))) == (3, [1])
    assert made.manner is Manner.STATE
    made.applied(made.partitions.live[0])
    assert take(made, 1) == []
    made.transaction_ended()
    assert keys(take(made, 1, size=1)) == [2, 3], "a state is taken whole, whatever its size"
    made.applied(made.partitions.live[0])
    assert (made.pending, made.bytes, made.overwrites) == (0, 0, 0)


def test_a_state_that_is_not_exact_is_written_over_others() -> None:
    """Until then it is taken in bounded batches, each of which may push a row out."""
    made = merging()
    made.exact = False
    made.add_all([change(1, fresh=True), change(2)], epoch())
    made.transaction_ended()
    batch = take(made, 1)
    assert (keys(batch), made.manner, made.overwrites) == ([1], Manner.OVER, 1)
    assert not batch[0].fresh, "it may have been copied"


def test_a_transaction_without_room_is_cut() -> None:
    """Only where nothing else could make room; what follows is a state again (R19)."""
    made = merging()
    made.add_all([change(1)], epoch())
    made.transaction_ended()
    made.add_all([change(2)], epoch())
    made.cut()
    assert (keys(take_all(made)), made.manner) == ([1], Manner.STATE)
    made.cut()
    assert (keys(take_all(made)), made.manner) == ([2], Manner.PART)
    made.add_all([change(3)], epoch())
    made.transaction_ended()
    assert (keys(take_all(made)), made.manner) == ([3], Manner.STATE)


def test_a_transaction_that_comes_again_is_not_taken_twice() -> None:
    """What waited aside is dropped; when a part of it was taken, nothing is exact any more."""
    made = merging()
    made.add_all([change(1)], epoch())
    made.transaction_abandoned()
    assert (made.pending, made.bytes, made.exact) == (0, 0, True)
    made.add_all([change(1)], epoch())
    made.cut()
    made.transaction_abandoned()
    assert (made.exact, made.overwrites) == (False, 1)


def test_a_key_is_as_fresh_as_its_first_change() -> None:
    """What counts is whether the new table has a row of the key, not how the row changed last."""
    made = merging(key_merging=True)
    made.add_all([change(1, fresh=True), change(1), change(2), change(2, fresh=True)], epoch())
    made.transaction_ended()
    made.add_all([change(1, deleted=True)], epoch())
    made.transaction_ended()
    assert {c.image.key[0]: c.fresh for c in take_all(made)} == {1: True, 2: False}


def test_a_newer_change_is_no_fresher_than_the_one_that_is_given_back() -> None:
    """The row that a failed DELETE was about may still be there, whatever the INSERT after it."""
    made = merging(key_merging=True)
    made.add_all([change(1, deleted=True)], epoch())
    made.transaction_ended()
    take(made, 10)
    made.add_all([change(1, "again", fresh=True)], epoch())
    made.transaction_ended()
    give_back(made)
    assert [(c.image.text, c.fresh) for c in take_all(made)] == [("again", False)]


def test_what_is_given_back_is_not_fresh_any_more() -> None:
    """Its answer may have been lost only; a newer change of the key knows no better."""
    made = merging(key_merging=True)
    made.add_all([change(1, fresh=True), change(2, fresh=True)], epoch())
    made.transaction_ended()
    take(made, 1)
    made.add_all([change(2, "newer")], epoch())
    made.transaction_ended()
    give_back(made)
    batch = take_all(made)
    assert [(c.image.key[0], c.image.text, c.fresh) for c in batch] == [
        (2, "newer", False), (1, "", False),
    ]  # fmt: skip
    assert made.overwrites == 1


def weighed(*changes: RowChange) -> ChangeBuffer:
    """Build a buffer with changes of keys that are compared by weight, after the copy."""
    filters = Filters(
        tracker=WatermarkTracker((False,)), may_drop=False, by_range=False, active=False
    )
    made = ChangeBuffer(comparable=True, filters=filters, weighed=True)
    made.add_all(_images(changes), epoch())
    return made


def weigh(made: ChangeBuffer, most: int) -> list[tuple[str, bool, bool]]:
    """Hand some changes on; return what waits: text of the key, whether deleted, whether anew."""
    found = [(key[0].upper().encode(),) for key in made.to_weigh(most)]
    made.take_weights(found)
    return [(one.image.key[0], one.deleted, one.anew) for one in made.partitions.live[0].changes()]


A, LOWER_A, B = (RowChange("insert", None, Image((key,))) for key in "AaB")  # type: ignore[arg-type]
DELETED, UPDATED = A._replace(before=LOWER_A.after, after=None), A._replace(before=LOWER_A.after)


@pytest.mark.parametrize(
    ("changes", "left"),
    [((UPDATED,), ("A", False, False)), ((DELETED, A), ("A", False, True))],
    ids=["one row", "another row"],
)
def test_only_an_update_spells_the_key_of_its_row_otherwise(
    changes: tuple[RowChange, ...], left: tuple[str, bool, bool]
) -> None:
    """R6: a delete and an insert of both spellings are two rows, also side by side."""
    assert weigh(weighed(*changes), 10) == [left]


def test_a_row_whose_key_is_spelled_otherwise_is_not_deleted_alone() -> None:
    """The values of a dropped column would go with it."""
    made = weighed(B, UPDATED, B)
    assert weigh(made, 2) == [("B", False, False), ("A", False, False)]
    assert len(made.to_weigh(2)) == 1
