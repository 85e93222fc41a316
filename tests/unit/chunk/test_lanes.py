"""Lanes: who cuts where, that nothing is left out, and that no estimate can do harm."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from spirit_py.chunk.chunk import KeyRange
from spirit_py.chunk.lanes import LANE_BYTES, LaneChunker
from spirit_py.chunk.watermark import Rest, WatermarkTracker
from tests.kits.chunks import ListedTable, between, mapping, primary
from tests.kits.definitions import column
from tests.kits.draw import seed_of

if TYPE_CHECKING:
    from spirit_py.chunk.chunk import Chunk

AUTO = column("id", "bigint", auto_increment=True)
PLAIN = column("id", "bigint")
#: Bytes of a row with which the largest lane has 1000 rows.
WIDE = LANE_BYTES // 1000


def lanes(
    table: ListedTable,
    *,
    auto: bool = True,
    workers: int = 2,
    estimated: int | None = None,
    row_bytes: int = 100,
    ranges: tuple[KeyRange, ...] = (KeyRange(),),
) -> LaneChunker:
    """Return the chunker of a table; by default the server's estimate of it is right."""
    rows = len(table.keys) if estimated is None else estimated
    made = mapping(primary("id"), AUTO if auto else PLAIN, estimated_rows=rows)
    made = replace(made, source=replace(made.source, data_bytes=rows * row_bytes))
    return LaneChunker(made, table.query, workers=workers, ranges=ranges)


def keys_of(table: ListedTable, chunk: Chunk) -> list[int]:
    """Return the keys that a chunk reads."""
    first = 0 if chunk.lower is None else bisect_right(table.keys, int(chunk.lower.literals[0]))
    end = None if chunk.upper is None else bisect_right(table.keys, int(chunk.upper.literals[0]))
    return table.keys[first:end]


def in_turns(
    table: ListedTable, chunker: LaneChunker, rows: int, workers: int = 2
) -> dict[int, list[Chunk]]:
    """Let workers cut in turns to the end; return each one's chunks."""
    found: dict[int, list[Chunk]] = defaultdict(list)
    worker = 0
    while (each := chunker.next_chunk(rows, worker)) is not None:
        chunker.observed(each, len(keys_of(table, each)))
        found[worker].append(each)
        worker = (worker + 1) % workers
        assert sum(map(len, found.values())) < 5000
    return found


def meetings(found: dict[int, list[Chunk]]) -> int:
    """Count the places where the ranges of two workers meet, or one worker turns elsewhere."""
    order = sorted(
        ((each.lower is not None, each.lower and int(each.lower.literals[0])), worker, n)
        for worker, chunks in found.items()
        for n, each in enumerate(chunks)
    )
    return sum(one[1] != other[1] or other[2] != one[2] + 1 for one, other in pairwise(order))


@pytest.mark.parametrize("auto", [True, False])
def test_a_small_table_has_a_lane_for_each_worker(auto):
    """Two workers meet once, in the middle, and do the same work."""
    table = ListedTable(list(range(1, 2001)))
    found = in_turns(table, lanes(table, auto=auto), 10)
    assert meetings(found) <= 2
    read = [sum(len(keys_of(table, each)) for each in found[worker]) for worker in (0, 1)]
    assert sum(read) == 2000
    assert abs(read[0] - read[1]) <= 40


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_workers_meet_seldom(workers):
    """In a large table there is a meeting point for each lane, not for each chunk."""
    table = ListedTable(list(range(1, 20_001)))
    found = in_turns(table, lanes(table, workers=workers, row_bytes=WIDE), 20, workers)
    assert sum(map(len, found.values())) >= 1000
    assert meetings(found) <= (0 if workers == 1 else 20 + 10 * workers)
    counts = [len(found[worker]) for worker in range(workers)]
    assert max(counts) - min(counts) <= 1


def test_one_worker_has_one_lane():
    """Nothing is looked up for lanes, and the chunks are those of the whole table."""
    table = ListedTable(list(range(1, 101)))
    found = in_turns(table, lanes(table, workers=1), 10, 1)
    assert meetings(found) == 0
    assert [each.lane_end for each in found[0]] == [None] * 10


@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("estimated", [0, 1, 100, 10_000, 10**7])
def test_a_wrong_estimate_costs_some_lanes(auto, estimated):
    """Everything is cut once, in few lanes, and nobody is left without work."""
    table = ListedTable(list(range(1, 5001)))
    found = in_turns(table, lanes(table, auto=auto, estimated=estimated), 10)
    assert sorted(
        key for chunks in found.values() for c in chunks for key in keys_of(table, c)
    ) == [*range(1, 5001)]
    assert meetings(found) <= 40
    assert len(found[0]) - len(found[1]) <= 1


def test_a_lane_does_not_end_in_a_gap():
    """Sparse keys are counted by looking: both workers get half of the rows, not of the numbers."""
    table = ListedTable([*range(1000), *range(10**9, 10**9 + 1000)])
    found = in_turns(table, lanes(table), 10)
    assert meetings(found) <= 6
    read = [sum(len(keys_of(table, each)) for each in found[worker]) for worker in (0, 1)]
    assert abs(read[0] - read[1]) <= 40


def test_a_resumed_copy_takes_up_every_range():
    """What was left of each lane is a lane, and what is copied is not cut again."""
    table = ListedTable(list(range(1, 2001)))
    ranges = (between(100, 500), between(900, 910), between(1500, None))
    found = in_turns(table, lanes(table, ranges=ranges), 10)
    read = sorted(key for chunks in found.values() for c in chunks for key in keys_of(table, c))
    assert read == [*range(101, 501), *range(901, 911), *range(1501, 2001)]
    assert meetings(found) <= 8


def test_the_lane_of_a_worker_that_is_gone_is_taken_over():
    """Whoever is free carries it on, without leaving a meeting point at each chunk."""
    table = ListedTable(list(range(1, 5001)))
    chunker = lanes(table, workers=3)
    for worker in (0, 1, 2):
        assert chunker.next_chunk(10, worker) is not None
    found = in_turns(table, chunker, 10)
    assert chunker.estimated_fraction() == 1.0
    assert meetings(found) <= 30
    assert sum(len(keys_of(table, c)) for chunks in found.values() for c in chunks) == 4970


def test_more_workers_may_come():
    """Spark may have more slots than the driver began with."""
    table = ListedTable(list(range(1, 5001)))
    chunker = lanes(table, workers=2)
    for n in range(20):
        chunker.next_chunk(10, n % 2)
    found = in_turns(table, chunker, 10, 6)
    assert meetings(found) <= 40
    assert max(map(len, found.values())) - min(map(len, found.values())) <= 1


def test_rows_added_at_the_end_meanwhile_are_cut_too():
    """The last lane is open; every row beyond is in a chunk of it."""
    table = ListedTable(list(range(1, 501)))
    chunker = lanes(table)
    worker, ends, most = 0, [], 0
    while (each := chunker.next_chunk(10, worker)) is not None:
        ends.append(each.upper)
        most = max(most, len(keys_of(table, each)))
        worker = 1 - worker
        if len(table.keys) < 1000:
            table.keys += [table.keys[-1] + 1, table.keys[-1] + 2]
    assert ends.count(None) == 1
    assert most <= 10


@pytest.mark.parametrize("auto", [True, False])
def test_an_empty_table_is_one_chunk(auto):
    """Its range is dispatched all the same: rows may come."""
    chunker = lanes(ListedTable([]), auto=auto)
    each = chunker.next_chunk(10, 1)
    assert each is not None
    assert (each.lower, each.upper) == (None, None)
    assert chunker.next_chunk(10, 0) is None
    assert chunker.estimated_fraction() == 1.0


@pytest.mark.parametrize("auto", [True, False])
def test_the_fraction_follows_the_rows(auto):
    """Half of the rows cut is a half, whatever lanes they are in, and it only grows."""
    table = ListedTable(list(range(1, 2001)))
    chunker = lanes(table, auto=auto)
    seen = [chunker.estimated_fraction()]
    for n in range(100):
        chunker.next_chunk(10, n % 2)
        seen.append(chunker.estimated_fraction())
    assert seen[-1] == pytest.approx(0.5, abs=0.02)
    assert seen == sorted(seen)


def test_lanes_partition_what_is_to_be_copied():
    """Random tables, estimates, resumes, chunk sizes and workers that come and go."""
    seed = seed_of("SPIRIT_PY_TEST_SEED")
    print(f"SPIRIT_PY_TEST_SEED={seed}")  # noqa: T201 - shown when the test fails
    for n in range(60):
        rng = random.Random(seed + n)
        span = rng.choice([50, 500, 5000])
        table = ListedTable(rng.sample(range(span), rng.randint(0, min(span, 500))))
        cuts = sorted(rng.sample(range(span), rng.choice([0, 2, 4])))
        edges = [None, *cuts, None]
        ranges = tuple(map(between, edges[::2], edges[1::2]))
        auto = rng.random() < 0.5
        estimated = rng.choice([0, len(table.keys), 10 * len(table.keys), 7])
        chunker = lanes(
            table,
            auto=auto,
            workers=rng.randint(1, 4),
            estimated=estimated,
            ranges=ranges,
            row_bytes=rng.choice([100, WIDE * 50]),
        )
        tracker = WatermarkTracker(
            (False,), [Rest(lower=one.lower, upper=one.upper) for one in ranges]
        )
        read: list[int] = []
        present = 1
        while (each := chunker.next_chunk(rng.randint(1, 20), rng.randrange(present))) is not None:
            tracker.dispatch(each)
            tracker.committed(each)
            found = keys_of(table, each)
            chunker.observed(each, len(found))
            read += found
            present = rng.choice([present, rng.randint(1, 6)])
            if rng.random() < 0.1:
                table.keys = sorted({*table.keys, span + len(read)})
        assert tracker.copied().finished
        assert len(read) == len(set(read))
        expected = {k for k in table.keys if any(inside(k, one) for one in ranges)}
        assert {key for key in expected if key < span} <= set(read)


def inside(key: int, one: KeyRange) -> bool:
    """Return whether a key is in a range."""
    lower, upper = one.lower, one.upper
    return (lower is None or key > int(lower.literals[0])) and (
        upper is None or key <= int(upper.literals[0])
    )
