"""A conversion that changes values without an error is named before it begins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.preflight.checks.lost_values import converted_values
from tests.kits.definitions import column, mapping


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("datetime(6)", "datetime", "is rounded or cut without an error"),
        ("double", "float", "is rounded or cut without an error"),
        ("varchar(9)", "int", "is rounded or cut without an error"),
        ("date", "time", "is rounded or cut without an error"),
        ("int", "enum('a','b')", "a number that is no member"),
        ("varchar(9)", "set('a','b')", "a number that is no member"),
        ("int", "bigint", ""),
        ("bit(9)", "int", ""),
        ("date", "int", ""),
        ("enum('a','b')", "int", ""),
        ("year", "int", ""),
        ("int", "varchar(20)", ""),
        ("enum('a','b')", "set('a','b')", ""),
    ],
)
def test_a_conversion_that_makes_another_value_is_warned_of(old, new, said):
    """The server says nothing of such a value, and a native ALTER neither."""
    made = mapping((column("id"), column("id")), (column("c", old), column("c", new)))
    context: Any = SimpleNamespace(mapping=made)
    found = [finding.cause for finding in converted_values(context)]
    assert len(found) == bool(said)
    assert all("column c" in cause and said in cause for cause in found)
