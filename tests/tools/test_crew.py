"""What the oracle's own sessions do where a statement or a writer fails."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from unittest import mock

import MySQLdb
import pytest

from tests.oracle.case import Writer
from tests.oracle.crew import run_in_own_session
from tests.oracle.load import Application, HeldUp, LoadError
from tests.oracle.stall import Stalls

if TYPE_CHECKING:
    from collections.abc import Sequence

DEADLOCK, REFERRED, LOST = 1213, 1451, 2013


class FailingSession:
    """A database, its session and its cursor: statements fail with the errors that are planned."""

    def __init__(self, **planned: list[int]) -> None:
        self.executed: list[str] = []
        self._planned = planned

    def connect(self) -> FailingSession:
        """Return the session."""
        return self

    cursor = connect

    def close(self) -> None:
        """Nothing is open."""

    def execute(self, statement: str) -> int:
        """Note a statement that changes no row, and fail where that is planned.

        Raises:
            MySQLdb.OperationalError: with the next error that is planned for it.
        """
        self.executed.append(statement)
        if errors := self._planned.get(statement):
            raise MySQLdb.OperationalError(errors.pop(0), "planned")
        return 0


def executed(statements: Sequence[str], **planned: list[int]) -> list[str]:
    """Run statements, of which some fail; return what the server got."""
    session: Any = FailingSession(**planned)
    run_in_own_session(session, statements, forgiven=frozenset({REFERRED}))
    return list(session.executed)


def test_a_deadlock_repeats_nothing_that_was_committed():
    """Only the statement itself is run again where no transaction is open."""
    assert executed(["SET @i = 1", "a", "b"], b=[DEADLOCK]) == [
        *("SET @i = 1", "a", "b"),
        *("ROLLBACK", "b"),
    ]


@pytest.mark.smoke
def test_a_transaction_is_run_again_as_a_whole():
    """A part of it that is gone back to does not end it."""
    unit = ["BEGIN", "a", "SAVEPOINT one", "ROLLBACK TO one", "b", "COMMIT"]
    assert executed(["before", *unit, "after"], b=[DEADLOCK]) == [
        *("before", *unit[:5]),
        *("ROLLBACK", *unit, "after"),
    ]


def test_an_xa_transaction_is_rolled_back_before_its_name_is_used_again():
    """A session that was closed would keep it for a moment."""
    unit = ["XA START 'x'", "a", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"]
    assert executed([*unit, "b"], a=[DEADLOCK], b=[DEADLOCK]) == [
        *unit[:2],
        *("XA END 'x'", "XA ROLLBACK 'x'"),
        *(*unit, "b", "ROLLBACK", "b"),
    ]


def test_a_row_that_is_referred_to_is_left_where_it_is():
    """The transaction goes on behind the statement."""
    unit = ["XA START 'x'", "a", "b", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"]
    assert executed(unit, a=[REFERRED]) == unit


def test_other_errors_and_endless_deadlocks_are_raised():
    """They are the case's own fault, or the server's."""
    with pytest.raises(MySQLdb.Error, match="2013"):
        executed(["a"], a=[LOST])
    with pytest.raises(MySQLdb.Error, match="1213"):
        executed(["a"], a=[DEADLOCK] * 10)


def test_a_writer_that_fails_while_a_chunk_is_held_up_lets_go_of_it():
    """The thread that holds it raises nothing: the case itself raises what the writer said."""
    db: Any = FailingSession()
    session = mock.Mock()
    rounds = mock.Mock(side_effect=LoadError("a writer failed"))
    with mock.patch.object(Stalls, "_waited_for", return_value=True):
        Stalls(db, rounds)._hold(session, threading.Event())
    rounds.assert_called_once_with()
    session.rollback.assert_called_once_with()


def forgiven(code: int, *, changed: bool) -> bool:
    """Let a writer get an error; return whether it goes on, the table's definition being as told.

    Raises:
        LoadError: when nothing explains the error.
    """
    session: Any = FailingSession()
    writer = Application(Writer(), session.connect, "s", "t", number=0, seed=1)
    writer._before = "before"
    now = "changed" if changed else "before"
    with mock.patch.object(Application, "_definition", return_value=now):
        error: Any = MySQLdb.OperationalError(code, "planned")
        return writer._forgiven(session, "a", error, after=False) is False


@pytest.mark.parametrize("code", [1054, 1136, 1364, 1366])
def test_a_new_definition_explains_what_does_not_fit_it(code):
    """And nothing does where the table is as it was."""
    assert forgiven(code, changed=True)
    with pytest.raises(LoadError, match=str(code)) as raised:
        forgiven(code, changed=False)
    assert type(raised.value) is LoadError


@pytest.mark.parametrize("code", [1146, 1100, 1317, 2013])
@pytest.mark.parametrize("changed", [True, False])
def test_no_definition_explains_a_gap_or_a_statement_that_was_ended(code, changed):
    """The table is always there, and nobody ends the statements of applications."""
    with pytest.raises(HeldUp, match=str(code)):
        forgiven(code, changed=changed)


def test_a_writer_that_does_not_get_on_is_held_up():
    """That it failed with something is the better reason."""
    session: Any = FailingSession()
    writer = Application(Writer(), session.connect, "s", "t", number=0, seed=1)
    with pytest.raises(HeldUp, match="did not come to 2 rounds"):
        writer.await_rounds(2)
    writer.error = LoadError("a statement")
    with pytest.raises(LoadError, match="a statement"):
        writer.await_rounds(2)
