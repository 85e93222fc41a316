"""Totals, speeds and ends: what is not known is None, and nothing is whole before its end."""

from __future__ import annotations

import pytest

from spirit_py.estimates import (
    NEARLY_DONE,
    NOTHING_LEFT,
    ChangeBacklog,
    RowsLeft,
    Speed,
    fraction_of,
    probable_total,
    seconds_left,
    together,
)


@pytest.mark.parametrize(
    ("done", "handed_out", "left", "estimate", "total"),
    [
        # Behind a gap of the key: the rows count, not the values of the key.
        (44_014, 0, RowsLeft(most=393_000_000), 393_620, 393_620),
        # Statistics without a row, or fewer than were found: not known.
        (100_000, 10_000, RowsLeft(), 1, None),
        (100_000, 10_000, RowsLeft(), 0, None),
        (100_000, 10_000, RowsLeft(most=5_000_000), 90_000, None),
        # The key leaves room for no more than these.
        (90_000, 5_000, RowsLeft(most=5_000), 400_000, 100_000),
        (90_000, 5_000, RowsLeft(most=2_000), 80_000, 97_000),
        # A measure of the table itself counts more than statistics.
        (100_000, 10_000, RowsLeft(most=900_000, probable=890_000), 1, 1_000_000),
        # Everything is cut.
        (100_000, 10_000, NOTHING_LEFT, 1, 110_000),
    ],
)
def test_the_rows_of_a_table_are_those_that_are_known(done, handed_out, left, estimate, total):
    """By the estimate as long as nothing disproves it; by the key where it says more."""
    assert probable_total(done, handed_out=handed_out, left=left, estimate=estimate) == total


def test_nothing_is_whole_before_its_end():
    """However the estimate was, and however few rows are left."""
    assert fraction_of(999_999, 1_000_000) == NEARLY_DONE
    assert fraction_of(10, 10) == NEARLY_DONE
    assert fraction_of(10, 10, ended=True) == 1.0
    assert fraction_of(11, 10) is None
    assert fraction_of(5, None) is None
    assert fraction_of(0, 0) is None


def test_a_speed_is_of_its_window_and_knows_pauses():
    """Ten seconds for the eye, a minute for the end; nothing at all is zero, not the last speed."""
    speed = Speed()
    assert speed.recent(0.0) is None
    for second in range(51):
        speed.note(float(second), second * 10)
    for second in range(51, 71):
        speed.note(float(second), 500 + (second - 50) * 100)
    assert speed.recent(70.0) == pytest.approx(100)
    assert 10 < (speed.steady(70.0) or 0) < 100
    assert 0 < (speed.recent(76.0) or 0) < 100
    assert speed.recent(200.0) == 0.0


def test_a_count_that_begins_again_is_no_work_undone():
    """A further pass, or a segment that is read again: the speed stays that of the work."""
    speed = Speed(restarts=True)
    for second, rows in enumerate([0, 100, 200, 0, 100, 200, 150, 250]):
        speed.note(float(second), rows)
        assert (speed.recent(float(second)) or 0) >= 0
    assert speed.recent(7.0) == pytest.approx(500 / 7)


def _backlog(coming: int, going: int, seconds: int = 40) -> ChangeBacklog:
    backlog = ChangeBacklog()
    for second in range(seconds):
        backlog.note(float(second), wanted=coming * second, applied=going * second)
    return backlog


def test_a_backlog_delays_the_end_by_what_it_takes_beside_new_changes():
    """Applied at 1000 a second at best while 600 come in: 400 a second are to spare."""
    backlog = _backlog(600, 1000)
    assert backlog.seconds(39.0, 100_000) == pytest.approx(250, rel=0.05)
    assert backlog.seconds(39.0, 500) == 0.0


def test_the_end_is_not_known_where_changes_come_in_as_fast_as_they_are_applied():
    """And a backlog that grows meanwhile counts at the size that it will have."""
    assert _backlog(1000, 1000).seconds(39.0, 100_000) is None
    assert _backlog(2000, 1000).seconds(39.0, 0, ahead=100.0) is None
    assert ChangeBacklog().seconds(0.0, 100) == 0.0
    assert ChangeBacklog().seconds(0.0, 1_000_000) is None


def test_an_end_is_known_only_from_a_known_rest_and_speed():
    """A speed of zero ends never, which is not known."""
    assert seconds_left(100, 10.0) == 10.0
    assert seconds_left(100, 0.0) is None
    assert seconds_left(None, 10.0) is None
    assert together(1.0, 2.0) == 3.0
    assert together(1.0, None) is None
