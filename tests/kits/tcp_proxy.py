"""A real TCP proxy between a client and its server, to break the network for real.

    with TcpProxy((server.host, server.port)) as proxy:
        connect(host=proxy.host, port=proxy.port)
        proxy.cut()                      # every connection ends now, new ones are accepted
        proxy.stop(); proxy.start()      # connections refused, then accepted again, same port
        proxy.delay = 0.2                # every packet takes this long, either way
        proxy.up_delay = 0.2             # and so much longer on the way from client to server
        proxy.black_hole = True          # nothing passes, connections stay up
        proxy.lose_reply(b"RENAME")      # forward the next such request, drop its answer, cut
        proxy.hold_back(b"CREATE")       # cut the client behind the next such request, and
        proxy.let_go.set()               # forward it now; proxy.held is set while it is held
        proxy.silent = True              # the server is not told of clients that go: lost machines
    proxy.record = True              # proxy.heard has what clients send
    proxy.targets = [first, second]  # a load balancer: connections go to them in turn
    proxy.renumbers = True           # greets with session numbers of its own, as ProxySQL does

What `lose_reply` matches are the bytes on the wire: it sees nothing inside TLS or compression.

As a program, where only the standard library is at hand (docker-compose.semisync.yml):
`python tcp_proxy.py --listen 0.0.0.0:3306 --to source:3306 --up-delay 0.1`.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import threading
from typing import Self

BUFFER = 65536
JOIN_TIMEOUT = 10.0
#: Seconds for which a request is held back at most.
BOUND = 60.0


class _Link:
    """One client's connection and its twin to the server."""

    def __init__(self, proxy: TcpProxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.server = server
        self.closed = threading.Event()
        self._losing = False
        #: The client has gone, and the server was not told.
        self._orphaned = False
        self._tail = b""
        self.threads = [
            threading.Thread(target=self._pump, args=(side, other), name=f"proxy-{name}")
            for name, side, other in (("up", client, server), ("down", server, client))
        ]
        self.running = set(self.threads)

    def start(self) -> None:
        """Start moving bytes both ways."""
        for thread in self.threads:
            thread.start()

    def close(self) -> None:
        """End both connections at once; the pumps then end by themselves."""
        self.closed.set()
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
        self.proxy.wake()

    def _pump(self, side: socket.socket, other: socket.socket) -> None:
        up = side is self.client
        greeting = self.proxy.renumbers and not up
        try:
            while (data := side.recv(BUFFER)) and self.proxy.lets_pass(self, up=up):
                if up and self.proxy.holds_back(data):
                    # The server reads it, and then that the client is gone.
                    self.client.shutdown(socket.SHUT_RDWR)
                    self.proxy.held.set()
                    self.proxy.let_go.wait(BOUND)
                    other.sendall(data)
                    break
                if up:
                    self._look(data)
                elif self._losing:
                    self.proxy.lost.set()
                    break
                elif self._orphaned:
                    continue
                if greeting:
                    data, greeting = _renumbered(data), False
                other.sendall(data)
        except OSError:
            pass
        finally:
            if up and self.proxy.silent and not self.closed.is_set():
                self._orphaned = True
            else:
                self.close()
            self.proxy.forget(self, threading.current_thread())

    def _look(self, data: bytes) -> None:
        """Arm the loss of the reply if the request matches; a match may span two reads."""
        if self.proxy.record:
            self.proxy.heard += data
        seen = self._tail + data
        if self.proxy.disarm(seen):
            self._losing = True
        overlap = self.proxy.overlap
        self._tail = seen[-overlap:] if overlap else b""


class TcpProxy:
    """A proxy on a port of its own in front of `target`; see the module's docstring."""

    def __init__(self, target: tuple[str, int], listen: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        """Remember where to; nothing listens before `start`."""
        #: Where connections go to, in turn.
        self.targets = [target]
        self._accepted = 0
        #: Whether the session's number in a server's greeting is replaced by another.
        self.renumbers = False
        #: Whether what clients send is kept, and what they sent.
        self.record = False
        self.heard = b""
        self.host, self.port = listen
        #: Seconds that every packet is held, either way.
        self.delay = 0.0
        #: Seconds that a packet from client to server is held beside that.
        self.up_delay = 0.0
        #: Whether the server's side of a connection stays open when its client goes.
        self.silent = False
        #: Set while a request is held, and by who lets it go on, on behalf of `hold_back`.
        self.held, self.let_go = threading.Event(), threading.Event()
        self._late = b""
        #: Set when a reply has been dropped on behalf of `lose_reply`.
        self.lost = threading.Event()
        self._black_hole = False
        self._lock = threading.Lock()
        self._changed = threading.Condition()
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
        return self._black_hole

    @black_hole.setter
    def black_hole(self, on: bool) -> None:
        self._black_hole = on
        self.wake()

    def start(self) -> None:
        """Accept connections, on the same port as before if there was one."""
        if self._listener is not None:
            return
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

    def hold_back(self, pattern: bytes) -> None:
        """Cut off the client of the next request with `pattern`; it is forwarded at `let_go`."""
        self.held.clear()
        self.let_go.clear()
        with self._lock:
            self._late = pattern

    def holds_back(self, data: bytes) -> bool:
        """Whether a request is the one of `hold_back`, which then is used up."""
        with self._lock:
            found = bool(self._late) and self._late in data
            if found:
                self._late = b""
            return found

    @property
    def overlap(self) -> int:
        """Return how many bytes of an earlier read a match may begin in."""
        return max(len(self._pattern) - 1, 0)

    def disarm(self, seen: bytes) -> bool:
        """Whether `seen` has the pattern of `lose_reply`, which then is used up."""
        with self._lock:
            found = bool(self._pattern) and self._pattern in seen
            if found:
                self._pattern = b""
            return found

    def lets_pass(self, link: _Link, *, up: bool) -> bool:
        """Hold a packet as told; whether it may go on then, because its link still stands."""
        if delay := self.delay + (self.up_delay if up else 0.0):
            link.closed.wait(delay)
        with self._changed:
            self._changed.wait_for(lambda: not self._black_hole or link.closed.is_set())
        return not link.closed.is_set()

    def wake(self) -> None:
        """Have every held packet look again whether it may pass."""
        with self._changed:
            self._changed.notify_all()

    def forget(self, link: _Link, pump: threading.Thread) -> None:
        """Forget a connection when the second of its pumps ends, and give its sockets back."""
        with self._lock:
            link.running.discard(pump)
            if link.running:
                return
            self._links.discard(link)
        link.client.close()
        link.server.close()

    def _next_target(self) -> tuple[str, int]:
        target = self.targets[self._accepted % len(self.targets)]
        self._accepted += 1
        return target

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._next_target(), timeout=5)
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


def _renumbered(greeting: bytes) -> bytes:
    """Raise the session's number in a greeting (manual, Protocol::HandshakeV10) by 1000."""
    at = greeting.index(0, 5) + 1
    number = int.from_bytes(greeting[at : at + 4], "little") + 1000
    return greeting[:at] + number.to_bytes(4, "little") + greeting[at + 4 :]


def _join(thread: threading.Thread) -> None:
    thread.join(JOIN_TIMEOUT)
    if thread.is_alive():
        message = f"the thread {thread.name} did not end within {JOIN_TIMEOUT:.0f} s"
        raise RuntimeError(message)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main(argv: list[str] | None = None) -> None:
    """Run a proxy until the process is ended."""
    parser = argparse.ArgumentParser(description="A TCP proxy that holds packets.")
    parser.add_argument("--listen", type=_address, required=True, metavar="HOST:PORT")
    parser.add_argument("--to", type=_address, required=True, metavar="HOST:PORT")
    parser.add_argument("--up-delay", type=float, default=0.0, metavar="SECONDS")
    arguments = parser.parse_args(argv)
    with TcpProxy(arguments.to, arguments.listen) as proxy:
        proxy.up_delay = arguments.up_delay
        print(f"listening on {proxy.host}:{proxy.port}", flush=True)  # noqa: T201 - a program
        threading.Event().wait()


if __name__ == "__main__":
    main()
