"""The proxy against a plain echo server."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.proxy import TcpProxy


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        """Send everything back until the client leaves."""
        while data := self.request.recv(65536):
            self.server.seen.append(data)  # type: ignore[attr-defined]
            self.request.sendall(data)


class _EchoServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    seen: list[bytes]


@pytest.fixture
def echo() -> Iterator[_EchoServer]:
    """Return a running echo server that remembers what it saw."""
    with _EchoServer(("127.0.0.1", 0), _Echo) as server:
        server.seen = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(echo: _EchoServer, proxy_to: Callable[[tuple[str, int]], TcpProxy]) -> TcpProxy:
    """Return a proxy in front of the echo server."""
    return proxy_to(echo.server_address)  # type: ignore[arg-type]


def _ask(link: socket.socket, data: bytes) -> bytes:
    link.sendall(data)
    return link.recv(65536)


def _gone(link: socket.socket) -> bool:
    """Whether the other side has ended the connection, in either of the ways TCP has for it."""
    try:
        return link.recv(1) == b""
    except ConnectionResetError:
        return True


def test_the_proxy_passes_bytes_both_ways(proxy: TcpProxy) -> None:
    """A proxy that was told nothing is not noticed."""
    with socket.create_connection(proxy.address, timeout=60) as link:
        assert _ask(link, b"hello") == b"hello"
        assert proxy.connections == 1


def test_cut_ends_connections_and_accepts_new_ones(proxy: TcpProxy) -> None:
    """After a cut the old connection is gone and a new one works."""
    with socket.create_connection(proxy.address, timeout=60) as link:
        assert _ask(link, b"a") == b"a"
        assert proxy.cut() == 1
        assert _gone(link)
    assert proxy.connections == 0
    with socket.create_connection(proxy.address, timeout=60) as link:
        assert _ask(link, b"b") == b"b"


def test_stop_refuses_and_start_accepts_on_the_same_port(proxy: TcpProxy) -> None:
    """A stopped proxy looks like a host whose server is down, a started one like it is back."""
    address = proxy.address
    with socket.create_connection(address, timeout=60) as link:
        assert _ask(link, b"a") == b"a"
        proxy.stop()
        assert _gone(link)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=60)
    proxy.start()
    assert proxy.address == address
    with socket.create_connection(address, timeout=60) as link:
        assert _ask(link, b"b") == b"b"


def test_a_delay_holds_every_packet_once_each_way(proxy: TcpProxy) -> None:
    """A delay is paid once in each direction."""
    with socket.create_connection(proxy.address, timeout=60) as link:
        assert _ask(link, b"a") == b"a"
        proxy.delay = 0.1
        began = time.monotonic()
        assert _ask(link, b"b") == b"b"
        assert time.monotonic() - began >= 0.2


def test_a_black_hole_holds_everything_and_keeps_the_connection(proxy: TcpProxy) -> None:
    """In a black hole nothing arrives; when it ends the same connection goes on."""
    with socket.create_connection(proxy.address, timeout=60) as link:
        assert _ask(link, b"a") == b"a"
        proxy.black_hole = True
        link.sendall(b"b")
        link.settimeout(0.2)
        with pytest.raises(TimeoutError):
            link.recv(1)
        proxy.black_hole = False
        link.settimeout(60)
        assert link.recv(1) == b"b"


def test_connections_in_a_black_hole_can_be_cut(proxy: TcpProxy, echo: _EchoServer) -> None:
    """A connection whose bytes are held can still be cut, and the bytes are never delivered."""
    with socket.create_connection(proxy.address, timeout=60) as link:
        assert _ask(link, b"a") == b"a"
        proxy.black_hole = True
        link.sendall(b"held")
        proxy.cut()
        proxy.black_hole = False
        assert _gone(link)
    assert b"held" not in echo.seen


@pytest.mark.parametrize("pieces", [[b"please RENAME now"], [b"please REN", b"AME now"]])
def test_lose_reply_delivers_the_request_and_drops_the_answer(
    proxy: TcpProxy, echo: _EchoServer, pieces: list[bytes]
) -> None:
    """The server has seen the request, the client sees only the end, and only once."""
    with socket.create_connection(proxy.address, timeout=60) as link:
        assert _ask(link, b"before") == b"before"
        proxy.lose_reply(b"RENAME")
        assert _ask(link, b"other") == b"other"
        for piece in pieces[:-1]:
            assert _ask(link, piece) == piece
        link.sendall(pieces[-1])
        assert _gone(link)
    assert proxy.lost.wait(60)
    assert b"RENAME" in b"".join(echo.seen)
    with socket.create_connection(proxy.address, timeout=60) as link:
        assert _ask(link, b"RENAME") == b"RENAME"


def test_a_target_that_is_down_looks_like_a_lost_connection(
    proxy_to: Callable[[tuple[str, int]], TcpProxy],
) -> None:
    """When the server behind it is down, the proxy accepts and then hangs up."""
    with socket.socket() as silent:
        # It has the port, and does not listen.
        silent.bind(("127.0.0.1", 0))
        down = proxy_to(silent.getsockname())
        with socket.create_connection(down.address, timeout=60) as link:
            assert _gone(link)


def test_a_silent_proxy_does_not_tell_the_server_that_a_client_has_gone(
    proxy: TcpProxy, echo: _EchoServer
) -> None:
    """As with a machine that is lost, the server's side stays open until it is cut."""
    proxy.silent = True
    link = socket.create_connection(proxy.address, timeout=60)
    assert _ask(link, b"a") == b"a"
    (pumps,) = (each.running for each in proxy._links)
    link.close()
    deadline = time.monotonic() + 60
    while len(pumps) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert proxy.connections == 1
    assert echo.seen == [b"a"]
    assert proxy.cut() == 1
    assert proxy.connections == 0
