"""How soon a copy steps back from a load that rises, and comes back, out of what was seen."""

from __future__ import annotations

import pytest

from benchmarks import rising
from benchmarks.rising import Seen


def seen(*, back_after, again_after):
    """Copy 1000 rows a second, with a pause around a crowd that is there from 10 to 18."""
    rows, count = [], 0
    for tick in range(400):
        at = tick / 10
        if not 10 + back_after <= at < 18 + again_after:
            count += 100
        rows.append((at, count))
    return Seen(rows=rows, running=[(11.2, 30)], came=10.0, left=18.0)


@pytest.mark.parametrize(("back", "again"), [(0.5, 1.0), (1.0, 0.5), (3.0, 5.0)])
def test_the_seconds_are_those_to_the_end_of_the_first_half_second(back, again):
    """Of the first in which nothing was copied, and the first in which as much was as before."""
    found = seen(back_after=back, again_after=again)
    assert rising.stepped_back(found) == pytest.approx(back + 0.5, abs=0.5)
    assert rising.came_back(found) == pytest.approx(again + 0.5, abs=0.5)


def test_a_copy_that_never_steps_back_counts_with_the_whole_stay():
    """It is no success that nothing was seen."""
    assert rising.stepped_back(seen(back_after=8.0, again_after=0.0)) == 8.0


def test_without_a_crowd_there_is_no_figure():
    """A copy that was over before the crowd came says nothing."""
    assert rising.stepped_back(Seen()) is None
    assert rising.came_back(Seen()) is None


def test_a_line_has_the_rows_of_its_half_second_and_the_peak_of_the_sessions():
    """And whether the crowd was there."""
    said = rising.lines(seen(back_after=0.5, again_after=0.5))
    assert any(line.split()[1:] == ["0", "30", "crowd"] for line in said)
    assert any(line.split()[1:] == ["500", "0"] for line in said)
