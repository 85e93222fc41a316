"""Proxies in front of servers, to break the network for real; see tests/tcp_proxy.py."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mysql_server import MySQLServer

__all__ = ["TcpProxy"]


@pytest.fixture
def proxy_to() -> Iterator[Callable[[tuple[str, int]], TcpProxy]]:
    """Return a function that starts a proxy to an address; all are stopped at teardown."""
    with contextlib.ExitStack() as stack:
        yield lambda target: stack.enter_context(TcpProxy(target))


@pytest.fixture
def proxy(mysql: MySQLServer) -> Iterator[TcpProxy]:
    """Return a proxy in front of the server with GTIDs."""
    with TcpProxy((mysql.host, mysql.port)) as running:
        yield running
