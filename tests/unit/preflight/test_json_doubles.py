"""A server whose parser of JSON text rounds is named, where that may matter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.preflight.checks.server_settings import json_doubles


@pytest.mark.parametrize(
    ("kind", "rounds", "warnings"), [("json", 1, 1), ("json", 0, 0), ("text", 1, 0)]
)
def test_a_server_that_rounds_is_named_beside_json_columns(kind, rounds, warnings):
    """The answer of the server decides, and nobody without a JSON column is told."""
    context: Any = SimpleNamespace(
        source=SimpleNamespace(name="t", columns=[SimpleNamespace(data_type=kind)]),
        session=SimpleNamespace(query=lambda _sql: ((rounds,),)),
        facts=SimpleNamespace(version="8.0.45"),
    )
    found = list(json_doubles(context))
    assert len(found) == warnings
    assert all("8.0.45" in finding.cause for finding in found)
