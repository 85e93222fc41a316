"""Words of older servers, and tests about what they have not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import mysql_words
from tests.fixtures.mysql import _schema, has_vector


@pytest.mark.parametrize(
    ("version", "status", "reset"),
    [
        ("8.0.45", "SHOW MASTER STATUS", "RESET MASTER"),
        ("8.1.0-log", "SHOW MASTER STATUS", "RESET MASTER"),
        ("8.2.0", "SHOW BINARY LOG STATUS", "RESET BINARY LOGS AND GTIDS"),
        ("8.4.6-commercial", "SHOW BINARY LOG STATUS", "RESET BINARY LOGS AND GTIDS"),
        ("10.0.1", "SHOW BINARY LOG STATUS", "RESET BINARY LOGS AND GTIDS"),
    ],
)
def test_a_version_decides_which_statements_are_sent(version, status, reset):
    """Numbers are compared, not texts."""
    assert mysql_words.binlog_status(version) == status
    assert mysql_words.reset_binlogs(version) == reset


@pytest.mark.parametrize("version", ["8.0.45", "9.7.4"])
def test_every_version_is_asked_for_the_end_of_its_binlog(version):
    """The server is asked its version, and then in its own words."""
    said = []

    def query(sql: str) -> list[tuple[Any, ...]]:
        said.append(sql)
        return [(version,)] if "VERSION" in sql else [("binlog.000007", 157, "", "", "")]

    assert mysql_words.binlog_end(query) == ("binlog.000007", 157)
    assert said == ["SELECT VERSION()", mysql_words.binlog_status(version)]


def test_a_text_without_a_version_is_refused():
    """It is not guessed at."""
    with pytest.raises(ValueError, match="not a server version"):
        mysql_words.version_number("MariaDB")


def test_a_test_about_vector_is_left_out_by_version_with_the_reason():
    """A server before 9.0 has no VECTOR; the fixture names its version."""
    old: Any = SimpleNamespace(version=lambda: "8.4.6")
    new: Any = SimpleNamespace(version=lambda: "9.0.0")
    assert [has_vector(old), has_vector(new)] == [False, True]
    request: Any = SimpleNamespace(node=SimpleNamespace(get_closest_marker=lambda _name: True))
    with pytest.raises(pytest.skip.Exception, match=r"MySQL 8\.4\.6 has no VECTOR"):
        next(_schema(old, request))
