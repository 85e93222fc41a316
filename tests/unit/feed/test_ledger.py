"""The safe position (R7) and undecided XA transactions (R8)."""

from __future__ import annotations

import pytest

from spirit_py.binlog.events import Place
from spirit_py.binlog.position import GtidFrontier, GtidSet
from spirit_py.classes import replace
from spirit_py.feed.ledger import EPOCH_TRANSACTIONS, Ledger

A = "16e8969d-e4d3-11f1-b00c-02fc00000001"


def ledger() -> Ledger:
    """Build a ledger that begins behind transaction 10."""
    return Ledger(GtidFrontier(A, GtidSet.parse(f"{A}:1-10")))


def place(number: int) -> Place:
    """Return the end of a transaction."""
    return Place("b.000001", number * 100, A, number)


def safe(made: Ledger) -> str:
    """Return the last safe transaction, as the set's end."""
    made.settle()
    return made.safe_text().rpartition("-")[2]


def test_a_transaction_without_pending_rows_is_safe_at_its_end() -> None:
    """The position moves past a transaction once it is complete and applied."""
    made = ledger()
    assert safe(made) == "10"
    made.began()
    assert safe(made) == "10", "inside a transaction nothing moves"
    made.committed(place(11))
    assert safe(made) == "11"


def test_a_pending_change_holds_the_position_back() -> None:
    """Later transactions are not safe while an earlier one has a row that is not applied."""
    made = ledger()
    made.began()
    held = made.current
    held.pending += 1
    made.committed(place(11))
    made.seal()
    made.began()
    made.committed(place(12))
    assert safe(made) == "10"
    held.pending -= 1
    assert safe(made) == "12"


def test_an_applied_row_of_an_open_transaction_moves_nothing() -> None:
    """Resuming inside a transaction would lose its rows without an error."""
    made = ledger()
    made.began()
    made.seal()
    made.current.pending += 1
    made.current.pending -= 1
    assert safe(made) == "10"
    made.abandoned()
    made.began()
    assert safe(made) == "10"
    made.committed(place(11))
    assert safe(made) == "11"


def test_a_superseded_change_holds_nothing_back() -> None:
    """Only the latest transaction of a key counts: the resumed stream sends that one again."""
    made = ledger()
    made.began()
    first = made.current
    first.pending += 1
    made.committed(place(11))
    made.seal()
    made.began()
    first.pending -= 1
    made.current.pending += 1
    made.committed(place(12))
    assert safe(made) == "11"


def test_a_prepared_xa_transaction_holds_the_position_before_its_start() -> None:
    """Its rows are nowhere else in the binlog than at its PREPARE (R8)."""
    made = ledger()
    made.began()
    made.committed(place(11))
    assert safe(made) == "11"
    made.began()
    made.prepared("x", place(12))
    made.seal()
    for number in range(13, 20):
        made.committed(place(number))
    assert safe(made) == "11"
    assert made.undecided == 1
    epoch = made.epoch_of("x")
    assert epoch is not None
    epoch.pending += 1
    made.decided("x")
    made.committed(place(20))
    assert safe(made) == "11", "its rows are not applied yet"
    epoch.pending -= 1
    assert safe(made) == "20"
    assert made.undecided == 0


def test_an_unknown_decision_changes_nothing() -> None:
    """An XA transaction without rows of ours is decided like any other transaction."""
    made = ledger()
    made.decided("y")
    made.committed(place(11))
    assert safe(made) == "11"


def test_epochs_close_by_themselves() -> None:
    """Without a flush the position still moves in steps."""
    made = ledger()
    for number in range(11, 11 + 3 * EPOCH_TRANSACTIONS):
        made.began()
        made.current.pending += number > 10 + 2 * EPOCH_TRANSACTIONS
        made.committed(place(number))
    assert safe(made) == str(10 + 2 * EPOCH_TRANSACTIONS)


def test_received_runs_ahead_of_safe() -> None:
    """What was received completely is what block_wait compares with."""
    made = ledger()
    made.began()
    made.current.pending += 1
    made.committed(place(11))
    assert made.received.reaches(GtidFrontier(A, GtidSet.parse(f"{A}:1-11")))
    assert safe(made) == "10"


@pytest.mark.parametrize("committed", [False, True])
def test_the_safe_position_is_as_old_as_what_it_came_to(committed: bool) -> None:
    """Also while the reader is far ahead of what is applied; a place without a time tells none.

    The time of a commit counts more than that of an event, which a writer may set.
    """
    made = ledger()
    held = []
    for number, time in ((11, 1000), (12, 1000), (13, 37_000)):
        made.began()
        made.current.pending += 1
        held.append(made.current)
        times = {"executed_at": 9, "committed_at": float(time)} if committed else {}
        made.committed(replace(place(number), **{"executed_at": time, **times}))
        made.seal()
    assert (safe(made), made.behind_seconds) == ("10", 0)
    for number, behind in ((11, 36_000), (12, 36_000), (13, 0)):
        held.pop(0).pending -= 1
        assert (safe(made), made.behind_seconds) == (str(number), behind)
    made.committed(place(14))
    assert (safe(made), made.behind_seconds) == ("14", 0)
