"""What a plan says of an account that may not look."""

from __future__ import annotations

import pytest

from spirit_py.errors import ServerFault
from spirit_py.plan.findings import Remarks
from spirit_py.preflight.check import Finding, Severity
from spirit_py.preflight.registry import PRIVILEGES


def look(code: int) -> None:
    """Meet a fault of the server."""
    raise ServerFault(code, "command denied", where="plan")


@pytest.mark.parametrize("code", [1142, 1227])
def test_what_was_denied_is_not_said_beside_the_grants_that_are_missing(code: int) -> None:
    """One of them is what it lacked; where none is named, that it was denied must be said."""
    noted = Remarks()
    with noted.refusing():
        look(code)
    (denied,) = noted.refused()
    assert "command denied" in denied.cause
    lacks = Finding(severity=Severity.REFUSAL, cause="lacks", remedy="GRANT", check=PRIVILEGES)
    noted.add([lacks])
    assert [one.cause for one in noted.refused()] == ["lacks"]


def test_another_fault_is_said_all_the_same() -> None:
    """It has nothing to do with the account."""
    noted = Remarks(named=True)
    with noted.refusing():
        look(1712)
    assert len(noted.refused()) == 1
