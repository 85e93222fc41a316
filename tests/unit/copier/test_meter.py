"""The figures of a copy, on a clock that the test turns."""

from __future__ import annotations

import pytest

from spirit_py.copier.meter import ChunkCopied, CopyMeter
from spirit_py.estimates import NEARLY_DONE, RowsLeft


class Clock:
    """Seconds that the test sets."""

    def __init__(self) -> None:
        """Begin at a time that is not zero."""
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def commit(
    meter: CopyMeter, rows: int, seconds: float = 0.1, retries: int = 0, *, on_spark: bool = False
) -> None:
    """Hand out and commit one chunk."""
    meter.dispatched(rows, RowsLeft())
    copied = ChunkCopied(number=0, rows=rows, seconds=seconds, retries=retries, on_spark=on_spark)
    meter.committed(rows, copied)


def test_nothing_is_known_at_first():
    """What is unknown is None, not zero."""
    seen = CopyMeter(0.5, Clock()).statistics()
    assert (seen.rows_per_second, seen.chunk_seconds_p90) == (None, None)
    assert (seen.rows, seen.chunks, seen.seconds) == (0, 0, 0.0)


def test_the_next_chunks_seconds_are_expected_from_the_quickest():
    """A chunk that ends before it was expected to would leave its task without the next one."""
    meter = CopyMeter(0.5, Clock())
    assert meter.expected_seconds(1000) == 0.0
    commit(meter, 1000, seconds=0.3)
    commit(meter, 1000, seconds=0.1)
    assert meter.expected_seconds(2000) == pytest.approx(0.2)


def test_chunks_are_counted_when_they_commit():
    """Handed out is in flight; committed is done."""
    clock = Clock()
    meter = CopyMeter(0.5, clock)
    meter.begin()
    meter.dispatched(1000, RowsLeft())
    meter.dispatched(1000, RowsLeft())
    clock.now += 2
    meter.committed(1000, ChunkCopied(number=0, rows=900, seconds=0.25, retries=2))
    seen = meter.statistics()
    assert (seen.rows, seen.chunks, seen.in_flight, seen.rows_in_flight) == (900, 1, 1, 1000)
    assert (seen.seconds, seen.chunk_seconds, seen.replaced_chunks) == (2.0, 0.25, 2)
    assert seen.chunk_seconds_p90 == pytest.approx(0.25)
    assert seen.chunk_rows == meter.next_rows(0.5) == 1800


def test_rows_of_sparks_tasks_are_counted_apart():
    """The report says who copied the rows."""
    meter = CopyMeter(0.5, Clock(), rows=1000)
    commit(meter, 500)
    commit(meter, 700, on_spark=True)
    seen = meter.statistics()
    assert (seen.rows, seen.spark_rows) == (2200, 700)


def test_the_rate_is_of_the_last_seconds():
    """A slow beginning is forgotten after ten seconds."""
    clock = Clock()
    meter = CopyMeter(0.5, clock)
    commit(meter, 100_000)
    clock.now += 60
    for _ in range(11):
        clock.now += 1
        commit(meter, 500)
    assert meter.statistics().rows_per_second == pytest.approx(500)


def test_throttled_stretches_add_up():
    """Two throttled stretches, the second still going on."""
    clock = Clock()
    meter = CopyMeter(0.5, clock)
    for reason, seconds in [("lag", 3), ("lag", 2), ("", 10), ("load", 4)]:
        meter.throttled(reason)
        clock.now += seconds
    seen = meter.statistics()
    assert (seen.throttled, seen.throttled_seconds) == ("load", 9.0)


def test_the_clock_stops_at_the_end():
    """After the copy its seconds no longer grow."""
    clock = Clock()
    meter = CopyMeter(0.5, clock)
    meter.begin()
    clock.now += 5
    meter.end()
    clock.now += 50
    assert meter.statistics().seconds == 5.0


def test_the_fraction_is_of_rows_that_have_committed():
    """Four chunks are handed out, and one of them has committed: 25 %, not all."""
    meter = CopyMeter(0.5, Clock(), estimate=4000)
    for left in (3000, 2000, 1000, 0):
        meter.dispatched(1000, RowsLeft(most=left))
    meter.all_cut()
    meter.committed(1000, ChunkCopied(number=0, rows=1000, seconds=0.1, retries=0))
    seen = meter.statistics()
    assert (seen.rows, seen.rows_total, seen.fraction) == (1000, 4000, 0.25)


def test_a_copy_is_whole_only_when_it_has_ended():
    """More rows than the server has estimated, one chunk in flight, and then none."""
    meter = CopyMeter(0.5, Clock(), estimate=1)
    for _ in range(3):
        commit(meter, 1000)
    seen = meter.statistics()
    assert (seen.rows, seen.rows_total, seen.fraction) == (3000, None, None)
    meter.dispatched(1000, RowsLeft())
    meter.all_cut()
    assert meter.statistics().fraction == 0.75
    meter.committed(1000, ChunkCopied(number=0, rows=1000, seconds=0.1, retries=0))
    assert meter.statistics().fraction == NEARLY_DONE
    meter.all_committed()
    assert meter.statistics().fraction == 1.0


def test_a_pause_is_part_of_the_speed():
    """A copy that waits is slow: no end is promised from the speed of before."""
    clock = Clock()
    meter = CopyMeter(0.5, clock)
    meter.begin()
    for _ in range(5):
        clock.now += 1
        commit(meter, 1000)
    assert meter.statistics().rows_per_second == pytest.approx(1000)
    clock.now += 5
    assert meter.statistics().rows_per_second == pytest.approx(500)
    clock.now += 60
    assert meter.statistics().rows_per_second == 0.0
