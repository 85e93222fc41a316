"""Killed anywhere, run again: the same command resumes, and not a row is lost (R16, R17)."""

from __future__ import annotations

import pytest

from tests.kits import kills
from tests.kits.point_listener import PointListener
from tests.kits.resume import Writers, assert_nothing_left, kill_at, make_table, start
from tests.kits.tables import tables

pytestmark = pytest.mark.kills
#: Neither the kit's table nor its writers reach this key.
PLANTED = 1_000_000


@pytest.fixture
def points(tmp_path):
    """Listen to the points of every run of the test."""
    with PointListener(tmp_path / "points") as listener:
        yield listener


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("point", "nth"), kills.chosen(kills.FEW_OF_A_RUN, kills.MORE_OF_A_RUN))
def test_killed_anywhere_the_same_command_finishes(db, engine, points, point, nth):
    """Kill -9 of all processes, writers that go on, the same command: every row is there."""
    make_table(db)
    with Writers(db) as writers:
        kill_at(db, points, point, nth)
        assert "_t_chkpnt" in tables(db)
        run = start(engine, db)
        report = run.end(600)
    assert report.outcome == "done"
    assert report.resumed, run.told.text
    assert report.differences_found == 0, run.told.text
    writers.assert_kept()
    assert_nothing_left(db)


# No test of the usual run, where pytest would count them as skipped.
if kills.EVERYWHERE:

    @pytest.mark.slow
    @pytest.mark.timeout(1200)
    @pytest.mark.parametrize(("point", "nth"), kills.OF_A_BEGINNING)
    def test_killed_before_the_new_table_is_made_the_same_command_finishes(
        db, engine, points, point, nth
    ):
        """Nothing may be there to resume: what is there is resumed or made anew (R17)."""
        make_table(db)
        with Writers(db) as writers:
            kill_at(db, points, point, nth)
            begun = point in {"create.named", "create.built"}
            assert ("_t_new" in tables(db)) == begun
            run = start(engine, db)
            report = run.end(600)
        assert report.outcome == "done"
        assert report.differences_found == 0, run.told.text
        writers.assert_kept()
        assert_nothing_left(db)

    @pytest.mark.slow
    @pytest.mark.timeout(1200)
    def test_killed_before_a_repair_the_same_command_finds_the_row_again(db, engine, points):
        """What the first run found and did not repair is repaired before anything is swapped."""
        make_table(db)
        with Writers(db) as writers:
            planting = (
                "checksum.begin",
                lambda: db.execute(
                    f"INSERT INTO _t_new (id, a, b) VALUES ({PLANTED}, 1, 'planted')"
                ),
            )
            kill_at(db, points, *kills.OF_A_REPAIR, on_the_way=planting)
            assert db.query(f"SELECT b FROM _t_new WHERE id = {PLANTED}") == [("planted",)]
            run = start(engine, db)
            report = run.end(600)
        assert report.outcome == "done"
        assert report.resumed, run.told.text
        assert report.differences_found == 1, run.told.text
        writers.assert_kept()
        assert_nothing_left(db)
