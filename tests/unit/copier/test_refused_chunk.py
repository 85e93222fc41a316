"""What a task says of a chunk that its account may not write any more."""

from __future__ import annotations

import pickle
from dataclasses import replace
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


def told(code: int, text: str = "the server's text", join: JoinCopy = JOIN) -> CopyFailure:
    """Return the error of a chunk that failed with a fault, as the driver gets it from Spark."""
    session: Any = SimpleNamespace(id=1, execute=str)
    fault = ServerFault(code, text, where="chunk session")
    error = ChunkWriter(join, session)._explained(chunk(1, None, None), 0, fault)
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


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (1467, "Failed to read auto-increment value from storage engine", True),
        (1062, "Duplicate entry '127' for key '_t_new.n'", True),
        (1062, "Duplicate entry '12' for key '_t_new.v'", False),
    ],
)
def test_a_new_column_without_a_number_left_ends_the_run_for_good(code, text, expected):
    """The same command would begin with the numbers that are left."""
    numbered = column("n", "tinyint", auto_increment=True)
    target = replace(JOIN.mapping.target, columns=(*JOIN.mapping.target.columns, numbered))
    join = replace(JOIN, mapping=replace(JOIN.mapping, target=target))
    error = told(code, text, join)
    assert (error.error_code is ErrorCode.AUTO_INCREMENT) is expected
    assert error.resumable is not expected
    assert told(code, text).resumable
