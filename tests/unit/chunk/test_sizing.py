"""The size of the next chunk."""

from __future__ import annotations

from collections import deque

import pytest

from spirit_py.chunk.sizing import CEILING_ROWS, FLOOR_ROWS, ChunkSizer


def full(sizer: ChunkSizer, seconds: float) -> None:
    """Report a chunk of the size that the sizer asked for."""
    rows = sizer.rows
    sizer.finished(target_rows=rows, rows=rows, seconds=seconds)


def test_growth_is_at_most_one_and_a_half():
    """A chunk far below the target grows the next one by half, not more."""
    sizer = ChunkSizer(0.5)
    full(sizer, 0.001)
    assert sizer.rows == 1500
    full(sizer, 0.001)
    assert sizer.rows == 2250


def test_chunks_in_flight_together_grow_twice_at_most():
    """Four chunks of one size that finish together take the next two steps away, not four."""
    sizer = ChunkSizer(0.5)
    sizes = []
    for _ in range(4):
        sizer.finished(target_rows=1000, rows=1000, seconds=0.001)
        sizes.append(sizer.rows)
    assert sizes == [1500, 2250, 2250, 2250]


def test_chunks_in_flight_reach_the_target_soon():
    """With four chunks always in flight, 10 us a row: half a second is reached within 25 chunks."""
    sizer = ChunkSizer(0.5)
    flying = deque(sizer.rows for _ in range(4))
    cut = 4
    while sizer.growing:
        rows = flying.popleft()
        sizer.finished(target_rows=rows, rows=rows, seconds=rows * 10e-6)
        assert sizer.rows <= rows * 2.25
        flying.append(sizer.rows)
        cut += 1
        assert cut <= 25
    assert sizer.rows == pytest.approx(50_000, abs=1)


@pytest.mark.parametrize("row_seconds", [0.0, 3e-6, 7e-6, 1e-3])
def test_growing_ends_at_the_target_and_at_the_ceiling(row_seconds):
    """At the target, or at the ceiling, larger chunks are not to be waited for."""
    sizer = ChunkSizer(0.5)
    for _ in range(40):
        full(sizer, sizer.rows * row_seconds)
    assert not sizer.growing


def test_growing_is_not_waited_for_where_chunks_say_nothing():
    """In a wide gap no chunk tells anything: ten of them, and they may be handed out early."""
    sizer = ChunkSizer(0.5)
    growing = []
    for _ in range(10):
        growing.append(sizer.growing)
        sizer.finished(target_rows=1000, rows=0, seconds=0.001)
    growing.append(sizer.growing)
    full(sizer, 0.01)
    growing.append(sizer.growing)
    assert growing == [True] * 10 + [False, True]


def test_the_target_is_met():
    """Rows that cost 1 ms each end in chunks of target / 1 ms."""
    sizer = ChunkSizer(0.5)
    for _ in range(40):
        full(sizer, sizer.rows * 0.001)
    assert sizer.rows == 500


def test_one_slow_chunk_in_ten_does_not_shrink():
    """The p90 of ten ignores the slowest."""
    sizer = ChunkSizer(0.5)
    for _ in range(30):
        full(sizer, sizer.rows * 0.001)
    full(sizer, 0.9)
    assert sizer.rows == 500
    full(sizer, 0.9)
    assert sizer.rows < 300


def test_a_chunk_far_too_slow_shrinks_the_size_once():
    """A chunk of five times the target divides the size by ten; its companions do not again."""
    sizer = ChunkSizer(0.5, first_rows=10_000)
    sizer.finished(target_rows=10_000, rows=10_000, seconds=2.6)
    assert sizer.rows == 1000
    assert not sizer.growing
    sizer.finished(target_rows=10_000, rows=10_000, seconds=2.6)
    assert sizer.rows == 1000


def test_exactly_five_times_the_target_is_no_panic():
    """Panic begins above five times the target."""
    sizer = ChunkSizer(0.5, first_rows=1000)
    sizer.finished(target_rows=1000, rows=1000, seconds=2.5)
    assert sizer.rows == 200


@pytest.mark.parametrize(("seconds", "limit"), [(100.0, FLOOR_ROWS), (0.0, CEILING_ROWS)])
def test_floor_and_ceiling_hold(seconds, limit):
    """Ten rows at least, a hundred thousand at most."""
    sizer = ChunkSizer(0.5)
    for _ in range(40):
        full(sizer, seconds)
    assert sizer.rows == limit


def test_a_chunk_with_few_rows_says_nothing():
    """A gap in the keys is quick and must not grow the chunks."""
    sizer = ChunkSizer(0.5)
    sizer.finished(target_rows=1000, rows=3, seconds=0.001)
    assert sizer.rows == 1000
    assert sizer.p90 is None


def test_p90_is_of_the_last_ten():
    """Older chunks are forgotten."""
    sizer = ChunkSizer(0.5)
    for seconds in [2.0] * 5 + [0.1] * 9 + [0.3]:
        full(sizer, seconds)
    assert sizer.p90 == pytest.approx(0.1)
