"""Times from a sample: what they grow with, and what is said where nothing was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from spirit_py.plan import sample
from spirit_py.plan.model import IndexesPlan
from spirit_py.plan.sample import Sample, comparison_time, log_byte, native_time, time_of
from spirit_py.threads import StopSwitch
from tests.kits.definitions import column, index, mapping

COLUMNS = (column("id"), column("a"), column("b"), column("c"), column("long", "varchar(200)"))
INDEXES = (index("PRIMARY", "id"), *(index(n, n, unique=False) for n in ("a", "b", "c", "long")))


def of(rows):
    """Return the mapping of a table of so many rows, 105 bytes each, with four indexes."""
    made = mapping(*((one, one) for one in COLUMNS))
    return replace(
        made,
        source=replace(made.source, estimated_rows=rows, data_bytes=rows * 105, indexes=INDEXES),
        target=replace(made.target, indexes=INDEXES),
    )


TABLE = of(1_000_000)
SAMPLE = Sample(rows=50_000, seconds=1.5, row_copied=1e-5, row_hashed=1e-6, spread=0.2, sessions=2)


def planned(*given, **named):
    """Return the time with seconds that are known."""
    time: Any = time_of(*given, **named)
    assert time.seconds is not None
    return time


def test_a_table_of_twice_the_rows_takes_nearly_twice_as_long():
    """Only what does not depend on the rows stays."""
    once, twice = (
        planned(TABLE, None, SAMPLE),
        planned(of(2_000_000), None, SAMPLE),
    )
    assert 1.8 < twice.seconds / once.seconds < 2.0


def test_rows_that_are_copied_already_take_no_time():
    """Nor do their bytes in the logs; what an earlier run has copied is compared all the same."""
    rest = planned(TABLE, None, replace(SAMPLE, log_byte=1e-7), before=1_000_000)
    phases = {one.phase: one.seconds for one in rest.phases}
    assert phases["copy"] == 0.0
    assert phases["checksum"] > 0


def test_the_lower_end_is_without_what_may_be_compared_already():
    """How much of it an earlier run has compared is not known."""
    rest = planned(TABLE, None, SAMPLE, before=1_000_000, compared=True)
    assert rest.least < 1.0 < rest.seconds


def test_each_deferred_index_adds_its_build():
    """Three indexes take three times as long as one."""
    one = planned(TABLE, IndexesPlan(deferred=("a",)), SAMPLE)
    three = planned(TABLE, IndexesPlan(deferred=("a", "b", "c")), SAMPLE)
    builds = [next(p.seconds for p in each.phases if p.phase == "index") for each in (one, three)]
    assert builds[1] == pytest.approx(3 * builds[0], rel=0.05)
    assert builds[0] > 0


def test_an_index_of_long_texts_takes_longer_to_build():
    """Its entries are sorted and written byte by byte."""
    number, text = (
        planned(TABLE, IndexesPlan(deferred=(name,)), SAMPLE).phases for name in ("a", "long")
    )
    builds = [next(p.seconds for p in each if p.phase == "index") for each in (number, text)]
    assert builds[1] > 1.5 * builds[0]


def test_a_noisy_or_small_sample_has_a_wider_range():
    """The range is said, and grows with the doubt."""
    sure, noisy = planned(TABLE, None, SAMPLE), planned(TABLE, None, replace(SAMPLE, spread=1.5))
    small = planned(TABLE, None, replace(SAMPLE, rows=100))
    assert sure.least < sure.seconds < sure.most < noisy.most < small.most * 2
    assert small.most > sure.most


SMALL = (40_000 * 1024, 10**12, 40_000, 40 * 10**12, 40_000)
"""A log of 40 000 commits of 1 KiB: a write of each takes 25 µs, a sync 1 ms."""


def test_syncs_of_small_commits_are_not_counted_for_each_byte_of_the_copy():
    """It writes 8 KiB at once, and syncs once in 2 MiB."""
    byte = log_byte([SMALL, SMALL])
    assert byte == pytest.approx(2 * (25e-6 / 8192 + 1e-3 / (2 << 20)))


def test_of_commits_that_are_larger_than_the_copys_the_bytes_count():
    """A load syncs once for hundreds of its transactions."""
    byte = log_byte([(1 << 30, 10**12, 65536, 10 * 10**12, 1)])
    assert byte == pytest.approx((1 + 10) / (1 << 30))


def test_logs_with_few_bytes_say_nothing():
    """The time without them is planned."""
    assert log_byte([(1 << 20, 10**12, 1000, 10**12, 1000)]) is None


def test_the_lower_end_is_without_the_time_of_the_logs():
    """They may be written while sessions do other work."""
    without, slow = (
        planned(TABLE, None, SAMPLE),
        planned(TABLE, None, replace(SAMPLE, log_byte=1e-7)),
    )
    assert slow.seconds == pytest.approx(without.seconds + 2 * 105_000_000 * 1e-7, abs=0.1)
    assert slow.least == without.least


def test_without_a_sample_the_time_is_not_known():
    """Never zero: the reason is said instead."""
    time = time_of(TABLE, None, Sample(trouble="Threads_running is 90, above 25"))
    assert time.seconds is None
    assert "Threads_running" in time.how


def test_the_time_of_a_table_whose_rows_are_not_counted_is_not_known():
    """The sample has as many as the statistics, and there are more; or the files hold more."""
    few = of(40_000)
    assert "ANALYZE TABLE" in time_of(few, None, SAMPLE).how
    assert planned(few, None, replace(SAMPLE, all_rows=True)).seconds > 0
    held = replace(TABLE, source=replace(TABLE.source, file_bytes=1 << 30))
    assert time_of(held, None, SAMPLE).seconds is None


@pytest.mark.parametrize(
    ("rows", "told", "known"), [(20_000, 20_000, True), (20_001, 20_000, False), (1, 1, True)]
)
def test_all_rows_in_a_temporary_table_are_no_old_statistics(monkeypatch, rows, told, known):
    """One more is asked for; where files tell of more of them, no row is read."""
    asked, no_session = list[int](), cast("Any", None)

    def put_aside(_session: object, _source: object, most: int) -> tuple[int, float]:
        asked.append(most)
        return min(rows, most), 0.001

    monkeypatch.setattr(sample, "_put_aside", put_aside)
    bytes_of_one = 200 << 20 if rows == 1 else 100
    source = replace(TABLE.source, estimated_rows=told, data_bytes=told * bytes_of_one)
    time = native_time(no_session, source, StopSwitch())
    assert (time.seconds is not None) is known
    assert ("ANALYZE TABLE" in time.how) is not known
    asked.clear()
    held = replace(source, file_bytes=1 << 40)
    assert native_time(no_session, held, StopSwitch()).seconds is None
    assert asked == []


def test_the_time_of_a_comparison_alone_grows_with_the_rows_and_with_conversions():
    """That of a revert; without a sample it is not known."""
    once, twice = comparison_time(TABLE, SAMPLE), comparison_time(of(2_000_000), SAMPLE)
    assert once is not None
    assert twice == pytest.approx(2 * once)
    number, text = column("a"), column("a", "varchar(20)")
    converted = mapping((column("id"), column("id")), (number, text))
    converted = replace(converted, source=replace(converted.source, estimated_rows=1_000_000))
    staged = comparison_time(converted, SAMPLE)
    assert staged == pytest.approx(3 * once)
    assert comparison_time(TABLE, Sample(trouble="the table has no rows")) is None
