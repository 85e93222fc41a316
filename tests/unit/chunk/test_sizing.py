"""The size of the next chunk."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest

from spirit_py.chunk.sizing import (
    CEILING_ROWS,
    FEWEST_PART_ROWS,
    FIRST_ROWS,
    FLOOR_ROWS,
    ChunkSizer,
    divided,
    part_rows,
)
from tests.kits.chunks import mapping, primary
from tests.kits.definitions import column


def full(sizer: ChunkSizer, seconds: float) -> None:
    """Report a chunk of the size that the sizer asked for."""
    rows = sizer.rows
    sizer.finished(target_rows=rows, rows=rows, seconds=seconds)


def test_growth_is_threefold_far_below_the_target():
    """A chunk far below the target makes the next one three times as large, not more."""
    sizer = ChunkSizer(0.5, first_rows=1000)
    full(sizer, 0.001)
    assert sizer.rows == 3000
    full(sizer, 0.003)
    assert sizer.rows == 9000


def test_growth_near_the_target_is_one_and_a_half():
    """Where three times as many rows would be too many, the size grows by half."""
    sizer = ChunkSizer(0.5, first_rows=1000)
    full(sizer, 0.2)
    assert sizer.rows == 1500
    full(sizer, 0.3)
    assert sizer.rows == 2250


def test_chunks_in_flight_together_grow_twice_at_most():
    """Four chunks of one size that finish together take the next two steps away, not four."""
    sizer = ChunkSizer(0.5, first_rows=1000)
    sizes = []
    for _ in range(4):
        sizer.finished(target_rows=1000, rows=1000, seconds=0.001)
        sizes.append(sizer.rows)
    assert sizes == [3000, 9000, 9000, 9000]


def test_chunks_in_flight_reach_the_target_soon():
    """With four chunks always in flight, 10 us a row: half a second is reached in 15 chunks."""
    sizer = ChunkSizer(0.5)
    flying = deque(sizer.rows for _ in range(4))
    cut = 4
    while sizer.rows < 49_999:
        rows = flying.popleft()
        sizer.finished(target_rows=rows, rows=rows, seconds=rows * 10e-6)
        assert sizer.rows <= rows * 9
        flying.append(sizer.rows)
        cut += 1
        assert cut <= 15
    assert sizer.rows == pytest.approx(50_000, abs=1)


def test_the_first_chunk_of_wide_rows_is_small():
    """It has a few transactions, whatever the size in rows to begin with."""
    assert ChunkSizer(0.5, part_rows=200).rows == 800
    assert ChunkSizer(0.5, part_rows=10_000).rows == FIRST_ROWS


@pytest.mark.parametrize(
    ("rows", "data_bytes", "expected"),
    [
        (1_000_000, 200_000_000, 10_000),
        (1_000_000, 1_048_576_000, 2000),
        (1_000, 1 << 30, 1),
        (100, 50 * 100 << 20, 1),
        (1, 16_384, FEWEST_PART_ROWS),
        (1_000_000, 16_384, 1_000),
        (0, 16_384, 1_000),
    ],
    ids=[
        *("narrow", "a kilobyte", "a megabyte", "fifty megabytes", "one in a page"),
        *("counted, not measured", "no estimate"),
    ],
)
def test_a_transaction_has_a_measure_of_bytes(rows, data_bytes, expected):
    """As many rows as fit into it by their average length, within limits."""
    key = primary("id")
    table = replace(mapping(key, column("id")).source, estimated_rows=rows, data_bytes=data_bytes)
    assert part_rows(table) == expected


@pytest.mark.parametrize(("options", "expected"), [("", 2000), (" KEY_BLOCK_SIZE=4", 500)])
def test_rows_of_zipped_pages_are_measured_as_the_binlog_has_them(options, expected):
    """The server's statistics count the zipped pages."""
    source = mapping(primary("id"), column("id")).source
    table = replace(
        source,
        estimated_rows=1_000_000,
        data_bytes=1_048_576_000,
        create_sql=f"CREATE TABLE `t` (\n  `id` int\n) ENGINE=InnoDB{options}",
    )
    assert part_rows(table) == expected


@pytest.mark.parametrize(
    ("rows", "part", "expected"),
    [(10, None, [10]), (10, 10, [10]), (10, 4, [3, 3, 4]), (9, 100, [9]), (4, 1, [1, 1, 1, 1])],
)
def test_rows_are_divided_evenly(rows, part, expected):
    """The fewest parts, of nearly one size: no small one at the end."""
    assert divided(rows, part) == expected


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
    sizer = ChunkSizer(0.5, first_rows=1000)
    sizer.finished(target_rows=1000, rows=3, seconds=0.001)
    assert sizer.rows == 1000
    assert sizer.p90 is None


def test_p90_is_of_the_last_ten():
    """Older chunks are forgotten."""
    sizer = ChunkSizer(0.5)
    for seconds in [2.0] * 5 + [0.1] * 9 + [0.3]:
        full(sizer, seconds)
    assert sizer.p90 == pytest.approx(0.1)
