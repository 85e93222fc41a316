"""Killed anywhere, run again: the same command carries on, and not a row is lost (R16, R17)."""

from __future__ import annotations

import os

import pytest

from tests.kits.point_listener import PointListener
from tests.kits.resume import Writers, assert_nothing_left, kill_at, make_table, start
from tests.kits.tables import tables

#: Where a run is killed, and how often the point was passed before.
QUICK_KILLS = (("chunk.committed", 2), ("cutover.renamed", 1))
MORE_KILLS = (
    ("checksum.locked", 1),
    ("create.done", 1),
    ("feed.started", 1),
    ("checkpoint.written", 1),
    ("checkpoint.writing", 2),
    ("chunk.dispatched", 1),
    ("chunk.committed", 12),
    ("chunk.executing", 3),
    ("chunk.executed", 3),
    ("feed.flushing", 1),
    ("feed.flushed", 1),
    ("drain.begun", 1),
    ("checksum.lock", 1),
    ("checksum.compare", 1),
    ("checksum.chunk", 2),
    ("cutover.lock", 1),
    ("cutover.locked", 1),
    ("cutover.rename", 1),
    ("cutover.unlocked", 1),
    ("cleanup.old_table", 1),
    ("cleanup.checkpoint", 1),
)
KILLS = QUICK_KILLS + (MORE_KILLS if os.environ.get("SPIRIT_PY_TEST_KILLS") == "all" else ())


@pytest.fixture
def points(tmp_path):
    """Listen to the points of every run of the test."""
    with PointListener(tmp_path / "points") as listener:
        yield listener


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("point", "nth"), KILLS)
def test_killed_anywhere_the_same_command_finishes(db, spark_engine, points, point, nth):
    """Kill -9 of all processes, writers that go on, the same command: every row is there."""
    make_table(db)
    with Writers(db) as writers:
        kill_at(db, points, point, nth)
        assert "_t_chkpnt" in tables(db)
        run = start(spark_engine, db)
        report = run.end(600)
    assert report.outcome == "done"
    assert report.resumed, run.told.text
    assert report.differences_found == 0, run.told.text
    writers.assert_kept()
    assert_nothing_left(db)
