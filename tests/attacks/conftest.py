"""A server that nobody else's tests use: its accounts, locks and replicas are the attackers'."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest

from mysql_server import SERVER_VARIABLE, ServerOptions, choose, running
from tests.attacks.victim import Victim
from tests.fixtures.mysql import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mysql_server import MySQLServer


@pytest.fixture(scope="session")
def attacked() -> Iterator[MySQLServer]:
    """Return the server; one that somebody named is not attacked."""
    provider = choose({k: v for k, v in os.environ.items() if k != SERVER_VARIABLE})
    with running(ServerOptions(durable=False), provider=provider) as server:
        yield server


@pytest.fixture
def victim(attacked: MySQLServer) -> Iterator[Victim]:
    """Return a table with its migrator; nothing of the program may be left behind."""
    made = Victim(attacked, f"a_{uuid.uuid4().hex[:12]}")
    try:
        yield made
    finally:
        left = made.close()
    assert not left, "left on the server after the test:\n  " + "\n  ".join(left)


@pytest.fixture
def db(attacked: MySQLServer) -> Iterator[Database]:
    """Return a fresh schema on the server that is attacked; nothing may be left behind."""
    made = Database(attacked, f"t_{uuid.uuid4().hex[:12]}")
    try:
        yield made
    finally:
        left = made.close()
    assert not left, "left on the server after the test:\n  " + "\n  ".join(left)
