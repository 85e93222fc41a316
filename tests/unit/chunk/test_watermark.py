"""The watermarks: what is dispatched, committed, held and may be dropped (R3, R4)."""

from __future__ import annotations

import os
import random

import pytest

from spirit_py.chunk.chunk import Chunk, KeyBound
from spirit_py.chunk.watermark import CommittedPrefix, CopiedSoFar, OpenEnd, WatermarkTracker
from tests.kits.chunks import bound, chunk

ASCENDING = (False,)


def test_nothing_is_dispatched_at_first():
    """Before the first chunk every key is above the high watermark and none is held."""
    tracker = WatermarkTracker(ASCENDING)
    assert (tracker.low, tracker.high) == (OpenEnd.BEGINNING, OpenEnd.BEGINNING)
    assert tracker.above_high((-5,))
    assert not tracker.held((-5,))


def test_a_dispatched_chunk_holds_its_keys():
    """The lower bound is outside a chunk, the upper bound inside."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(chunk(0, None, 10))
    tracker.dispatch(chunk(1, 10, 20))
    tracker.committed(chunk(0, None, 10))
    assert [key for key in (9, 10, 11, 20, 21) if tracker.held((key,))] == [11, 20]
    assert [key for key in (10, 20, 21) if tracker.above_high((key,))] == [21]


def test_low_watermark_waits_for_the_contiguous_prefix():
    """A chunk that commits early moves the low watermark only when those before it have."""
    tracker = WatermarkTracker(ASCENDING)
    chunks = [chunk(0, None, 10), chunk(1, 10, 20), chunk(2, 20, 30)]
    for each in chunks:
        tracker.dispatch(each)
    tracker.committed(chunks[1])
    tracker.committed(chunks[2])
    assert (tracker.settled, tracker.low) == (0, OpenEnd.BEGINNING)
    assert not tracker.held((15,))
    assert tracker.held((5,))
    tracker.committed(chunks[0])
    assert tracker.low == bound(30)
    assert tracker.settled == tracker.dispatched == 3


def test_the_last_chunk_ends_everything():
    """After the open-ended chunk nothing is above the high watermark."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(chunk(0, None, 10))
    tracker.dispatch(chunk(1, 10, None))
    assert not tracker.above_high((10**30,))
    assert tracker.held((10**30,))
    tracker.committed(chunk(1, 10, None))
    tracker.committed(chunk(0, None, 10))
    assert (tracker.low, tracker.high) == (OpenEnd.END, OpenEnd.END)


def test_a_second_report_of_a_commit_is_ignored():
    """Spark may rerun a task, so a commit may be told twice (R18)."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(chunk(0, None, 10))
    tracker.dispatch(chunk(1, 10, 20))
    tracker.committed(chunk(0, None, 10), 7)
    tracker.committed(chunk(0, None, 10), 7)
    tracker.committed(chunk(0, None, 10), 7)
    assert tracker.low == bound(10)
    assert (tracker.settled, tracker.rows) == (1, 7)


@pytest.mark.parametrize(
    "wrong", [chunk(1, None, 20), chunk(1, 9, 20), chunk(0, 10, 20)], ids=["open", "gap", "twice"]
)
def test_chunks_must_follow_each_other(wrong):
    """A chunk that does not begin at the high watermark, or comes twice, is a bug."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(chunk(0, None, 10))
    with pytest.raises(ValueError, match="does not follow"):
        tracker.dispatch(wrong)


def test_nothing_follows_the_last_chunk():
    """After the open-ended chunk no other may be dispatched."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(chunk(0, None, None))
    with pytest.raises(ValueError, match="does not follow"):
        tracker.dispatch(chunk(1, None, None))


def test_resume_begins_above_what_an_earlier_run_committed():
    """Both watermarks begin at the checkpoint; nothing up to keep_up_to is dropped (R17)."""
    tracker = WatermarkTracker(ASCENDING, resumed_above=bound(100), keep_up_to=(150,))
    assert not tracker.above_high((100,))
    assert not tracker.above_high((150,))
    assert tracker.above_high((151,))
    assert not tracker.held((50,))
    tracker.dispatch(chunk(0, 100, 200))
    assert tracker.held((150,))
    assert not tracker.above_high((200,))
    assert tracker.above_high((201,))


def test_where_nobody_knows_the_last_key_nothing_is_above():
    """OpenEnd.END keeps every change; OpenEnd.BEGINNING leaves it to the high watermark alone."""
    end = WatermarkTracker(ASCENDING, resumed_above=bound(100), keep_up_to=OpenEnd.END)
    assert not end.above_high((10**9,))
    beginning = WatermarkTracker(ASCENDING, resumed_above=bound(100), keep_up_to=OpenEnd.BEGINNING)
    assert beginning.above_high((101,))


def test_descending_parts_turn_the_comparison():
    """In a walk over (a, b DESC) the key (1, 5) comes before (1, 3)."""
    tracker = WatermarkTracker((False, True))
    tracker.dispatch(Chunk(number=0, lower=None, upper=bound(1, 5), target_rows=1))
    assert tracker.held((1, 6))
    assert tracker.held((1, 5))
    assert tracker.above_high((1, 4))
    assert tracker.above_high((2, 9))
    assert tracker.held((0, 0))


def test_dispatches_are_counted_without_looking_at_keys():
    """Keys that Python cannot order: a change waits for every chunk dispatched before it."""
    tracker = WatermarkTracker(ASCENDING)
    first = Chunk(number=0, lower=None, upper=KeyBound(literals=("'m'",)), target_rows=1)
    second = Chunk(number=1, lower=first.upper, upper=None, target_rows=1)
    tracker.dispatch(first)
    stamp = tracker.dispatched
    tracker.dispatch(second)
    tracker.committed(second)
    assert tracker.settled < stamp
    tracker.committed(first)
    assert tracker.settled >= stamp
    assert tracker.low is OpenEnd.END


def test_comparing_keys_that_cannot_be_compared_is_a_bug():
    """A bound without a comparable form is never compared silently."""
    tracker = WatermarkTracker(ASCENDING)
    tracker.dispatch(Chunk(number=0, lower=None, upper=KeyBound(literals=("'m'",)), target_rows=1))
    with pytest.raises(ValueError, match="not comparable"):
        tracker.above_high(("m",))


def test_agrees_with_a_model_that_knows_every_key():
    """Random cuts committed in random order: held and above_high follow their definition."""
    seed = int(os.environ.get("SPIRIT_PY_TEST_SEED") or random.randrange(2**32))
    print(f"SPIRIT_PY_TEST_SEED={seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)
    for _ in range(50):
        cuts = sorted(rng.sample(range(100), rng.randint(1, 12)))
        edges: list[int | None] = [None, *cuts, None]
        chunks = [chunk(n, edges[n], edges[n + 1]) for n in range(len(edges) - 1)]
        tracker = WatermarkTracker(ASCENDING)
        waiting: list[Chunk] = []
        done: set[int] = set()
        sent = 0
        while len(done) < len(chunks):
            if sent < len(chunks) and (not waiting or rng.random() < 0.5):
                tracker.dispatch(chunks[sent])
                waiting.append(chunks[sent])
                sent += 1
            else:
                each = waiting.pop(rng.randrange(len(waiting)))
                tracker.committed(each)
                done.add(each.number)
            for key in range(-1, 101):
                owner = sum(1 for cut in cuts if key > cut)
                assert tracker.above_high((key,)) == (owner >= sent)
                assert tracker.held((key,)) == (owner < sent and owner not in done)
            prefix = next(n for n in range(len(chunks) + 1) if n not in done)
            assert tracker.settled == prefix


def test_nothing_is_copied_at_first():
    """Neither before the first chunk, nor while it runs."""
    prefix = CommittedPrefix()
    assert CopiedSoFar().extended_by(prefix) == CopiedSoFar()
    prefix.dispatch(chunk(0, None, 10))
    assert CopiedSoFar().extended_by(prefix) == CopiedSoFar()


def test_rows_behind_a_gap_are_not_yet_copied():
    """A chunk that commits early counts when those before it have committed."""
    prefix = CommittedPrefix()
    chunks = [chunk(0, None, 10), chunk(1, 10, 20), chunk(2, 20, 30)]
    for each in chunks:
        prefix.dispatch(each)
    prefix.committed(chunks[1], 7)
    assert CopiedSoFar().extended_by(prefix).rows == 0
    prefix.committed(chunks[0], 10)
    assert CopiedSoFar().extended_by(prefix) == CopiedSoFar(up_to=("20",), rows=17, chunks=2)
    prefix.committed(chunks[2], 1)
    assert CopiedSoFar().extended_by(prefix) == CopiedSoFar(up_to=("30",), rows=18, chunks=3)


def test_what_is_copied_goes_on_where_an_earlier_run_stopped():
    """Rows and chunks of earlier runs count; the last chunk ends the table."""
    before = CopiedSoFar(up_to=("100",), rows=90, chunks=3)
    prefix = CommittedPrefix(bound(100))
    assert before.extended_by(prefix) == before
    last = chunk(0, 100, None)
    prefix.dispatch(last)
    prefix.committed(last, 5)
    assert before.extended_by(prefix) == CopiedSoFar(rows=95, chunks=4, finished=True)


def test_an_empty_rest_is_copied_too():
    """A table of which nothing is left to cut is copied."""
    before = CopiedSoFar(up_to=("100",), rows=90, chunks=3)
    assert before.ended() == CopiedSoFar(rows=90, chunks=3, finished=True)
