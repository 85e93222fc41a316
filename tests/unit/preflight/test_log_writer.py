"""The warning about commits that stop where the server has no log writer threads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.mysql.facts import ServerFacts
from spirit_py.preflight.checks.server_settings import log_writer

MIB = 1 << 20


def found(size: int, *, asked: list[str] | None = None, **variables: str) -> list[str]:
    """Return the remedies of the check for a table of so many bytes; note what it asks."""
    asked = [] if asked is None else asked

    def query(sql: str) -> list[Any]:
        asked.append(sql)
        return []

    context: Any = SimpleNamespace(
        facts=ServerFacts(version="8.4.0", variables=variables),
        source=SimpleNamespace(total_bytes=size),
        session=SimpleNamespace(query=query),
    )
    return [finding.remedy for finding in log_writer(context)]


def test_a_long_copy_without_log_writer_threads_is_warned_of() -> None:
    """The remedy is the statement, which takes effect at once."""
    (remedy,) = found(1024 * MIB, innodb_log_writer_threads="OFF")
    assert "SET GLOBAL innodb_log_writer_threads = ON" in remedy


@pytest.mark.parametrize(
    ("size", "variables"),
    [
        (1024 * MIB, {"innodb_log_writer_threads": "ON"}),
        (1024 * MIB, {}),
        (10 * MIB, {"innodb_log_writer_threads": "OFF"}),
        (1024 * MIB, {"innodb_log_writer_threads": "OFF", "aurora_version": "3.05"}),
    ],
    ids=["threads", "before 8.0.22", "short", "Aurora"],
)
def test_nobody_is_warned_of_what_does_not_happen(size, variables) -> None:
    """Where the threads write, are unknown, or the copy is over in a moment."""
    assert found(size, **variables) == []


def test_the_server_is_not_asked_where_its_settings_suffice() -> None:
    """Its service is asked for by the warning alone."""
    asked: list[str] = []
    assert found(1024 * MIB, asked=asked, innodb_log_writer_threads="ON") == []
    assert asked == []
    assert found(1024 * MIB, asked=asked, innodb_log_writer_threads="OFF")
    assert len(asked) == 1
