"""What a task says of a chunk that its account may not write any more."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.codes import ErrorCode
from spirit_py.config import ConnectionOptions
from spirit_py.copier.task import ChunkWriter, JoinCopy
from spirit_py.errors import CopyFailure, ServerFault
from tests.kits.chunks import chunk, mapping, primary
from tests.kits.definitions import column

JOIN = JoinCopy(connection=ConnectionOptions(), mapping=mapping(primary("id"), column("id")))


def told(code: int) -> CopyFailure:
    """Return the error of a chunk that failed with a fault, as the driver gets it from Spark."""
    session: Any = SimpleNamespace(id=1)
    fault = ServerFault(code, "the server's text", where="chunk session")
    error = ChunkWriter(JOIN, session)._explained(chunk(1, None, None), 0, fault)
    again: CopyFailure = pickle.loads(pickle.dumps(error))
    return again


def test_a_revoked_privilege_is_told_as_that():
    """What the error was raised from does not reach the driver; its remedy does."""
    error = told(1142)
    assert error.error_code is ErrorCode.MISSING_PRIVILEGES
    assert "GRANT" in error.hint


@pytest.mark.parametrize("code", [1712, 3168])
def test_another_fault_points_at_the_server(code):
    """A damaged table has nothing to do with the account."""
    error = told(code)
    assert error.error_code is ErrorCode.COPY_FAILED
    assert "error log" in error.hint
