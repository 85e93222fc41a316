"""What ends a run because the account may do less than before says what has to be done now."""

from __future__ import annotations

import pickle
from functools import partial

import pytest

from spirit_py.codes import ErrorCode
from spirit_py.errors import (
    ChecksumFailure,
    CopyFailure,
    CutoverFailure,
    MigrationFailure,
    Refusal,
    ServerFault,
    SpiritError,
)
from spirit_py.mysql.grants import access_remedy, explain_access


def fault(code: int) -> ServerFault:
    """Return a fault with a number."""
    return ServerFault(code, "refused", where="test session")


def caused(error: SpiritError, cause: BaseException) -> SpiritError:
    """Return an error as it is when it was raised from another."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("code", [1045, 1130, 1698, 1820, 1862, 3118, 3955])
def test_an_account_that_is_not_let_in_any_more_needs_another_login(code):
    """A changed password, an account that is locked or expired."""
    error = fault(code)
    explain_access(error)
    assert error.error_code is ErrorCode.ACCESS_DENIED
    assert "password" in error.hint


@pytest.mark.parametrize("code", [1044, 1142, 1143, 1227])
def test_a_revoked_privilege_has_to_be_granted_again(code):
    """The checks of the next run name it."""
    error = fault(code)
    explain_access(error)
    assert error.error_code is ErrorCode.MISSING_PRIVILEGES
    assert "GRANT" in error.hint


@pytest.mark.parametrize(
    "kind",
    [
        CopyFailure,
        CutoverFailure,
        MigrationFailure,
        # The session was killed as well, and the lock cannot be taken again.
        partial(MigrationFailure, error_code=ErrorCode.RUN_LOCK_LOST),
    ],
)
def test_what_was_being_done_gives_way_to_the_cause(kind):
    """An error that was raised from the refusal has its remedy, over several steps too."""
    error = caused(kind("it failed", hint="look"), caused(MigrationFailure("so"), fault(1142)))
    explain_access(error)
    assert error.error_code is ErrorCode.MISSING_PRIVILEGES
    assert error.hint != "look"


@pytest.mark.parametrize(
    "error",
    [
        caused(ChecksumFailure("different", hint="look"), fault(1142)),
        caused(Refusal("refused", hint="look"), fault(1142)),
        caused(CopyFailure("a damaged page", hint="look"), fault(1712)),
        MigrationFailure("left", hint="look", error_code=ErrorCode.OLD_TABLE_LEFT),
        CopyFailure("no cause", hint="look"),
    ],
)
def test_an_error_that_says_more_keeps_its_own_remedy(error):
    """So does one behind which no account was refused."""
    code = error.error_code
    explain_access(error)
    assert (error.error_code, error.hint) == (code, "look")


def test_a_ring_of_causes_ends():
    """Two errors may name each other as the cause."""
    error = CopyFailure("one", hint="look")
    caused(error, caused(MigrationFailure("other"), error))
    explain_access(error)
    assert error.hint == "look"


def test_the_remedy_survives_pickling():
    """A refused chunk of an executor reaches the driver as text."""
    error = fault(1045)
    explain_access(error)
    again = pickle.loads(pickle.dumps(error))
    assert (again.error_code, again.hint) == (error.error_code, error.hint)


def test_other_faults_have_no_remedy_here():
    """A lost connection says nothing of the account."""
    assert access_remedy(fault(2013)) is None
