"""Which account may rehearse on a replica that is read-only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.mysql.facts import ServerFacts
from spirit_py.mysql.grants import Grant, Grants
from spirit_py.preflight.checks import binary_log


@pytest.mark.parametrize(
    ("privilege", "refused"), [("CONNECTION_ADMIN", 0), ("SUPER", 0), ("PROCESS", 1)]
)
def test_an_account_that_the_server_lets_write_may_rehearse(privilege, refused, monkeypatch):
    """read_only stops neither SUPER nor CONNECTION_ADMIN."""
    monkeypatch.setattr(binary_log, "replica_status", lambda _: ["a channel"])
    monkeypatch.setattr(binary_log, "unlogged_replica", lambda *_: "")
    grants = Grants(
        lines=(Grant(schema="*", table="*", privileges=frozenset({privilege})),), account="u@h"
    )
    context: Any = SimpleNamespace(
        session=None,
        facts=ServerFacts(version="8.4.0", variables={"read_only": "ON"}),
        grants=grants,
        config=SimpleNamespace(connection=SimpleNamespace(unlogged=True), dry_run=True),
    )
    found = list(binary_log.replica(context))
    assert ["may not write" in one.cause for one in found] == [True] * refused
