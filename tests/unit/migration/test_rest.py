"""How long the rest of a run takes: what is measured, what is a share of it, what is not known."""

from __future__ import annotations

import pytest

from spirit_py.estimates import (
    SWAP_SECONDS,
    Measured,
    TableShares,
    rest_of_run,
    row_seconds,
    until,
)
from spirit_py.phases import Phase, planned_phases

A, B = ("s", "a"), ("s", "b")
SHARES = {A: TableShares(index=0.5, checksum=0.2), B: TableShares(checksum=0.1)}


def measured(phase: Phase, **more):
    """Return what is known of two tables of 1000 and 500 rows, 0.01 s a row."""
    return Measured(
        **{
            "phase": phase,
            "eta": 30.0,
            "row_seconds": 0.01,
            "rows": {A: 1000, B: 500},
            "shares": SHARES,
            **more,
        }
    )


def test_during_the_copy_the_later_phases_are_shares_of_it():
    """10 s of copy of the one table, 5 s of the other: 5 s of build, 2.5 s of comparison."""
    assert rest_of_run(measured(Phase.COPY)) == {
        "copy": 30.0,
        "index": pytest.approx(5.0),
        "checksum": pytest.approx(2.5),
        "cutover": SWAP_SECONDS,
    }


def test_a_table_that_is_being_built_counts_by_its_own_progress():
    """Only what is left of the other tables' indexes is added to it."""
    shares = {**SHARES, B: TableShares(index=1.0, checksum=0.1)}
    rest = rest_of_run(measured(Phase.INDEX, building=A, shares=shares))
    assert rest["index"] == pytest.approx(30.0 + 5.0)


def test_without_deferred_indexes_there_is_no_build():
    """The phase does not come, so it has no time."""
    shares = {A: TableShares(checksum=0.2)}
    assert "index" not in rest_of_run(measured(Phase.COPY, shares=shares))


def test_in_the_comparison_its_own_speed_counts():
    """Nothing is a share any more."""
    rest = rest_of_run(measured(Phase.CHECKSUM, row_seconds=None))
    assert rest == {"checksum": 30.0, "cutover": SWAP_SECONDS}


def test_work_that_shows_no_end_yet_has_what_is_left_of_its_share():
    """Until it has taken longer than that: then nobody knows."""
    index = measured(Phase.INDEX, eta=None, building=A, spent=2.0)
    assert rest_of_run(index)["index"] == pytest.approx(3.0)
    checksum = measured(Phase.CHECKSUM, eta=None, spent=1.0)
    assert rest_of_run(checksum)["checksum"] == pytest.approx(1.5)
    for late in (9.0, None):
        assert rest_of_run(measured(Phase.INDEX, eta=None, spent=late))["index"] is None


@pytest.mark.parametrize("missing", [{"row_seconds": None}, {"rows": {A: None, B: 500}}])
def test_what_nothing_shows_is_unknown(missing):
    """Neither zero nor left out: the whole is unknown with it."""
    rest = rest_of_run(measured(Phase.COPY, **missing))
    assert rest["checksum"] is None
    assert rest["index"] is None
    assert rest_of_run(measured(Phase.COPY, eta=None))["copy"] is None


@pytest.mark.parametrize("phase", [Phase.PREFLIGHT, Phase.CREATE, Phase.SENTINEL, Phase.CUTOVER])
def test_a_phase_that_waits_for_others_has_no_end(phase):
    """A lock or an operator cannot be estimated."""
    assert rest_of_run(measured(phase)) == {}


def test_a_copy_that_has_just_begun_says_nothing_of_a_row():
    """The first chunks also pay for what is done once."""
    assert row_seconds(999, 10.0) is None
    assert row_seconds(5000, 0.5) is None
    assert row_seconds(5000, 10.0) == pytest.approx(0.002)


def test_the_end_is_named():
    """A deferred swap waits for the operator; a rehearsal swaps nothing."""
    chosen = {
        "keeps_current": False,
        "archives": False,
        "has_grace": False,
        "defers": False,
        "rehearses": False,
    }
    assert until(planned_phases(**chosen)) == "the swap"
    assert until(planned_phases(**{**chosen, "defers": True})) == "the deferred swap"
    assert until(planned_phases(**{**chosen, "rehearses": True})) == "the end of the rehearsal"
