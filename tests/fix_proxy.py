"""A real TCP proxy between a client and its server, to break the network for real.

    with TcpProxy((server.host, server.port)) as proxy:
        connect(host=proxy.host, port=proxy.port)
        proxy.cut()                      # every connection ends now, new ones are accepted
        proxy.stop(); proxy.start()      # connections refused, then accepted again, same port
        proxy.delay = 0.2                # every packet takes this long, either way
        proxy.black_hole = True          # nothing passes, connections stay up
        proxy.lose_reply(b"RENAME")      # forward the next such request, drop its answer, cut
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mysql_server import MySQLServer

BUFFER = 65536
JOIN_TIMEOUT = 10.0


class _Link:
    """One client's connection and its twin to the server."""

    def __init__(self, proxy: TcpProxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.server = server
        self.losing = False
        self._tail = b""
        self._lock = threading.Lock()
        self.threads = [
            threading.Thread(target=self._pump, args=(side, other), name=f"proxy-{name}")
            for name, side, other in (("up", client, server), ("down", server, client))
        ]

    def start(self) -> None:
        """Start moving bytes both ways."""
        for thread in self.threads:
            thread.start()

    def close(self) -> None:
        """End both connections at once; the pumps then end by themselves."""
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _pump(self, side: socket.socket, other: socket.socket) -> None:
        up = side is self.client
        try:
            while data := side.recv(BUFFER):
                self.proxy.pause()
                if up:
                    self._look(data)
                elif self.losing:
                    self.proxy.lost.set()
                    break
                other.sendall(data)
        except OSError:
            pass
        finally:
            self.close()
            self.proxy.forget(self)

    def _look(self, data: bytes) -> None:
        """Arm the loss of the reply if the request matches; a match may span two reads."""
        seen = self._tail + data
        pattern = self.proxy.take_pattern(seen)
        if pattern:
            self.losing = True
        self._tail = seen[-self.proxy.overlap :] if self.proxy.overlap else b""


class TcpProxy:
    """A proxy on a port of its own in front of `target`; see the module's docstring."""

    def __init__(self, target: tuple[str, int]) -> None:
        """Remember where to; nothing listens before `start`."""
        self.target = target
        self.host = "127.0.0.1"
        self.port = 0
        #: Seconds that every packet is held, either way.
        self.delay = 0.0
        #: Set when a reply has been dropped on behalf of `lose_reply`.
        self.lost = threading.Event()
        self._open = threading.Event()
        self._open.set()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._pattern = b""
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Return where clients connect to."""
        return self.host, self.port

    @property
    def connections(self) -> int:
        """Return how many clients are connected."""
        with self._lock:
            return len(self._links)

    @property
    def black_hole(self) -> bool:
        """Whether bytes are swallowed up until further notice; connections stay up."""
        return not self._open.is_set()

    @black_hole.setter
    def black_hole(self, on: bool) -> None:
        if on:
            self._open.clear()
        else:
            self._open.set()

    def start(self) -> None:
        """Accept connections, on the same port as before if there was one."""
        if self._listener is not None:
            return
        self._stopped.clear()
        self._listener = socket.create_server((self.host, self.port))
        self.port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(
            target=self._accept, args=(self._listener,), name="proxy-accept"
        )
        self._acceptor.start()

    def stop(self) -> None:
        """Refuse new connections and cut those there are; `start` undoes it."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self._stopped.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        if self._acceptor:
            _join(self._acceptor)
        self.cut()

    def cut(self) -> int:
        """End every connection now and return how many there were."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close()
        for link in links:
            for thread in link.threads:
                if thread is not threading.current_thread():
                    _join(thread)
        return len(links)

    def lose_reply(self, pattern: bytes) -> None:
        """Forward the next request that contains `pattern`, drop its reply and cut it off."""
        self.lost.clear()
        with self._lock:
            self._pattern = pattern

    @property
    def overlap(self) -> int:
        """Return how many bytes of an earlier read a match may begin in."""
        return max(len(self._pattern) - 1, 0)

    def take_pattern(self, seen: bytes) -> bytes:
        """Return the pattern if `seen` has it, and disarm it: it works once."""
        with self._lock:
            if not self._pattern or self._pattern not in seen:
                return b""
            pattern, self._pattern = self._pattern, b""
            return pattern

    def pause(self) -> None:
        """Hold a packet for the delay and, in a black hole, until it opens or the proxy stops."""
        if self.delay:
            self._stopped.wait(self.delay)
        self._open.wait()

    def forget(self, link: _Link) -> None:
        """Forget a connection whose pumps have ended."""
        with self._lock:
            self._links.discard(link)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target, timeout=10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            link = _Link(self, client, server)
            with self._lock:
                self._links.add(link)
            link.start()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()


def _join(thread: threading.Thread) -> None:
    thread.join(JOIN_TIMEOUT)
    if thread.is_alive():
        message = f"the thread {thread.name} did not end within {JOIN_TIMEOUT:.0f} s"
        raise RuntimeError(message)


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
