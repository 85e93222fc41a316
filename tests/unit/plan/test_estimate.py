"""Times from a sample: what they grow with, and what is said where nothing was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spirit_py.plan.estimate import time_of
from spirit_py.plan.model import IndexesPlan
from spirit_py.plan.sample import Sample
from spirit_py.table.schema import TableSchema

TABLE = TableSchema(
    schema="s",
    name="t",
    engine="InnoDB",
    columns=(),
    indexes=(),
    estimated_rows=1_000_000,
    data_bytes=100 << 20,
)
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
        planned(replace(TABLE, estimated_rows=2_000_000), None, SAMPLE),
    )
    assert 1.8 < twice.seconds / once.seconds < 2.0


def test_rows_that_are_copied_already_take_no_time():
    """What an earlier run has copied is compared all the same."""
    rest = planned(TABLE, None, SAMPLE, before=1_000_000)
    phases = {one.phase: one.seconds for one in rest.phases}
    assert phases["copy"] == 0.0
    assert phases["checksum"] > 0


def test_each_deferred_index_adds_its_build():
    """Three indexes take three times as long as one."""
    one = planned(TABLE, IndexesPlan(deferred=("a",)), SAMPLE)
    three = planned(TABLE, IndexesPlan(deferred=("a", "b", "c")), SAMPLE)
    builds = [next(p.seconds for p in each.phases if p.phase == "index") for each in (one, three)]
    assert builds[1] == 3 * builds[0] > 0


def test_a_noisy_or_small_sample_has_a_wider_range():
    """The range is said, and grows with the doubt."""
    sure, noisy = planned(TABLE, None, SAMPLE), planned(TABLE, None, replace(SAMPLE, spread=1.5))
    small = planned(TABLE, None, replace(SAMPLE, rows=100))
    assert sure.least < sure.seconds < sure.most < noisy.most < small.most * 2
    assert small.most > sure.most


def test_without_a_sample_the_time_is_not_known():
    """Never zero: the reason is said instead."""
    time = time_of(TABLE, None, Sample(trouble="Threads_running is 90, above 25"))
    assert time.seconds is None
    assert "Threads_running" in time.how
