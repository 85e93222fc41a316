"""A server that changes values of JSON is named, where that may matter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.preflight.checks.server_settings import json_values


@pytest.mark.parametrize(
    ("kind", "changes", "warnings"),
    [
        ("json", (1, 0), 1),
        ("json", (0, 1), 1),
        ("json", (1, 1), 2),
        ("json", (0, 0), 0),
        ("text", (1, 1), 0),
    ],
)
def test_a_server_that_changes_values_is_named_beside_json_columns(kind, changes, warnings):
    """The answer of the server decides, and nobody without a JSON column is told."""
    context: Any = SimpleNamespace(
        source=SimpleNamespace(name="t", columns=[SimpleNamespace(data_type=kind)]),
        session=SimpleNamespace(query=lambda _sql: (changes,)),
        facts=SimpleNamespace(version="8.0.45"),
    )
    found = list(json_values(context))
    assert len(found) == warnings
    assert all("8.0.45" in finding.cause for finding in found)
