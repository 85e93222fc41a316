"""What the server says of a statement's text is told from what it says of itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import server_fault
from spirit_py.preflight.checks.syntax import objection


def answering(code: int) -> Any:
    """Return a session that answers PREPARE with an error."""

    def execute(sql: str) -> None:
        if sql.startswith("PREPARE"):
            raise server_fault(Exception(code, "text of the server"), where="test session")

    return SimpleNamespace(query=lambda _: [("",)], execute=execute)


def test_an_error_in_the_text_is_an_objection():
    """The statement is refused for it."""
    found = objection(answering(1064), "ALTER", "")
    assert found is not None
    assert found.code == 1064


@pytest.mark.parametrize("code", [1205, 1226, 1317, 2013])
def test_a_fault_of_the_moment_is_none(code):
    """The statement may be right, and nobody is told to correct it."""
    with pytest.raises(ServerFault, match="text of the server"):
        objection(answering(code), "ALTER", "")
