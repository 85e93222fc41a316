"""How long a chunk waits for what its reader must see."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.config import ConnectionOptions
from spirit_py.copier.task import ChunkOrder, ChunkWriter, JoinCopy
from spirit_py.errors import CopyFailure
from tests.kits.chunks import chunk, mapping, primary
from tests.kits.definitions import column

JOIN = JoinCopy(
    connection=ConnectionOptions(),
    mapping=mapping(primary("id"), column("id")),
    visibility_timeout=7.0,
)
WAIT = ChunkOrder(chunk=chunk(1, None, None), visibility="u:1-9")


class Server:
    """A session of a server on which ever fewer transactions are missing."""

    id = 1

    def __init__(self, *missing: str, answer: int | None = 1) -> None:
        self.missing, self.answer = list(missing), answer
        self.waits: list[Any] = []

    def value(self, sql: str, parameters: tuple[object, ...]) -> object:
        """Answer what is missing, or wait in vain."""
        if "WAIT_FOR" not in sql:
            return self.missing.pop(0)
        self.waits.append(parameters)
        return self.answer


def wait(server: Server) -> None:
    """Wait in a session of the server."""
    session: Any = server
    ChunkWriter(JOIN, session)._wait_until_visible(WAIT)


def test_as_long_as_commits_become_visible_there_is_no_limit() -> None:
    """R3: time limits follow progress."""
    server = Server("u:1-9", "u:5-9", "u:9", "")
    wait(server)
    assert server.waits == [("u:1-9", "7.0"), ("u:5-9", "7.0"), ("u:9", "7.0")]


def test_what_stands_still_ends_the_wait() -> None:
    """R3: a chunk never reads without it, nor where the server could not wait."""
    for answer in (1, None):
        with pytest.raises(CopyFailure, match="not visible after 7 s"):
            wait(Server("u:1-9", "u:9", "u:9", answer=answer))
