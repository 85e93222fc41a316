"""Servers whose commits can be held, and the proof that they are, before any test relies on it.

SPIRIT_PY_SEMISYNC says which: `compose` for the two servers of docker-compose.semisync.yml, which
must be up; `pair` for a source and a replica made here; `lone`, the default, for one server. When
the condition cannot be made the tests fail. Nothing here skips.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import TYPE_CHECKING

import pytest

from mysql_base import NamedServer
from mysql_server import ServerOptions, running
from tests.fixtures.mysql import FILE_PROVIDER, PROVIDER, SERVERS, Database
from tests.kits.tcp_proxy import TcpProxy
from tests.semisync.evidence import measure
from tests.semisync.stall import REPLICA_USER, BehindProxy, LoneSource, SourceAndReplica

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.semisync.stall import Stall

VARIABLE = "SPIRIT_PY_SEMISYNC"
#: What docker-compose.semisync.yml publishes; the lane's script sets them.
SOURCE_VARIABLE = "SPIRIT_PY_SEMISYNC_SOURCE"
REPLICA_VARIABLE = "SPIRIT_PY_SEMISYNC_REPLICA"
#: Seconds by which every acknowledgement of the local pair is late.
ACK_DELAY = 0.05


def _named(variable: str) -> NamedServer:
    url = os.environ.get(variable)
    if not url:
        raise pytest.UsageError(
            f"{VARIABLE}=compose needs {variable}=mysql://user:password@host:port"
        )
    server = NamedServer(url, variable=variable)
    server.start()
    return server


@contextlib.contextmanager
def _compose(config: pytest.Config) -> Iterator[Stall]:
    """Use the servers of docker-compose.semisync.yml; the replica sees the source as `late`."""
    stall = SourceAndReplica(
        _named(SOURCE_VARIABLE),
        _named(REPLICA_VARIABLE),
        seen_at=("late", 3306),
        topology="source and replica of docker-compose.semisync.yml, late acknowledgements",
    )
    with contextlib.closing(stall):
        yield stall


@contextlib.contextmanager
def _pair(config: pytest.Config) -> Iterator[Stall]:
    """Start a source and a replica, with a proxy between that holds every acknowledgement."""
    provider = config.stash[PROVIDER]
    with (
        running(ServerOptions(extra=("--server-id=1",)), provider=provider) as source,
        running(ServerOptions(extra=("--server-id=2",)), provider=provider) as replica,
        TcpProxy((source.host, source.port)) as proxy,
    ):
        if (source.host, source.port) == (replica.host, replica.port):
            raise pytest.UsageError(f"{VARIABLE}=pair needs two servers, not {source.origin}")
        proxy.up_delay = ACK_DELAY
        stall = BehindProxy(source, replica, proxy=proxy)
        with contextlib.closing(stall):
            yield stall


@contextlib.contextmanager
def _lone(config: pytest.Config) -> Iterator[Stall]:
    """Start one server that waits for a replica it does not have."""
    with running(ServerOptions(), provider=config.stash[PROVIDER]) as source:
        stall = LoneSource(source)
        with contextlib.closing(stall):
            yield stall


TOPOLOGIES = {"compose": _compose, "pair": _pair, "lone": _lone}


def _proven(stall: Stall, config: pytest.Config) -> Stall:
    """Prove the stall; every test that needs it fails when this does."""
    evidence = measure(stall)
    evidence.check()
    config.stash[SERVERS].append(f"semi-sync: {stall.topology}: {evidence}")
    return stall


@pytest.fixture(scope="session")
def stall(request: pytest.FixtureRequest) -> Iterator[Stall]:
    """Return a source with GTIDs whose commits are proven to stall."""
    wanted = os.environ.get(VARIABLE) or "lone"
    if wanted not in TOPOLOGIES:
        raise pytest.UsageError(f"{VARIABLE}={wanted}: one of {', '.join(TOPOLOGIES)} is known")
    with TOPOLOGIES[wanted](request.config) as made:
        yield _proven(made, request.config)


@pytest.fixture(scope="session")
def stall_file(request: pytest.FixtureRequest) -> Iterator[Stall]:
    """Return a server without GTIDs whose commits are proven to stall."""
    with running(ServerOptions(gtid=False), provider=request.config.stash[FILE_PROVIDER]) as source:
        made = LoneSource(source)
        with contextlib.closing(made):
            yield _proven(made, request.config)


class SourceDatabase(Database):
    """A schema on a source; the replica's own sessions there are no leftovers of a test."""

    def sessions(self) -> dict[int, str]:
        """Return every client session but the test's own and the replica's."""
        found = super().sessions()
        return {n: text for n, text in found.items() if not text.startswith(f"{REPLICA_USER} ")}


def _schema(stall: Stall) -> Iterator[Database]:
    database = SourceDatabase(stall.source, f"t_{uuid.uuid4().hex[:12]}")
    try:
        yield database
    finally:
        stall.release()
        left = database.close()
    assert not left, "left on the server after the test:\n  " + "\n  ".join(left)


@pytest.fixture
def source_db(stall: Stall) -> Iterator[Database]:
    """Return a fresh schema on the source with GTIDs."""
    yield from _schema(stall)


@pytest.fixture
def file_db(stall_file: Stall) -> Iterator[Database]:
    """Return a fresh schema on the server without GTIDs."""
    yield from _schema(stall_file)
