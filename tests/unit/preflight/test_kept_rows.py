"""What decides which rows --keep keeps: an earlier run has judged by it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.mysql.facts import ServerFacts
from spirit_py.preflight.checks.kept_rows import judged_with


def digest(column_type: str, *zones: str) -> str:
    """Return the digest of an expression on a server of these time zones."""
    kept: Any = SimpleNamespace(
        expression="`at` >= '2026-01-01'",
        time_zone="SYSTEM",
        columns=(SimpleNamespace(name="at", data_type=column_type),),
    )
    session: Any = SimpleNamespace(query=lambda _sql, _values: [zones])
    return judged_with(session, [kept], ServerFacts(version="9.7.4", variables={}))


@pytest.mark.parametrize(("kind", "alike"), [("timestamp", False), ("datetime", True)])
def test_a_time_zone_is_known_by_its_moments(kind, alike):
    """``SYSTEM`` is another one after a failover; only a TIMESTAMP is compared in it."""
    assert digest(kind, "1970-01-15 07:00:00") == digest(kind, "1970-01-15 07:00:00")
    found = digest(kind, "1970-01-15 07:00:00") == digest(kind, "1970-01-15 12:00:00")
    assert found is alike
