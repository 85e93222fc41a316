"""Which replicas are watched, while another thread finds new ones."""

from __future__ import annotations

from typing import Any

from spirit_py.config import ConnectionOptions
from spirit_py.throttle.lag.replicas import Replicas


def test_replicas_may_be_found_while_others_are_listed() -> None:
    """The copy asks how far they are in its own thread: a new one must not end it."""
    replicas = Replicas(ConnectionOptions(), ["one:3306", "two:3306"])

    class Found:
        address = "one:3306"

        @property
        def uuid(self) -> str:
            replicas._add("three", 3306)
            return "uuid-1"

    found: Any = Found()
    replicas._watches["one:3306"] = found
    assert [one.address for one in replicas.watched()] == ["one:3306", "two:3306"]
    assert [one.address for one in replicas.watched()][2:] == ["three:3306"]
