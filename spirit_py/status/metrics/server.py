"""Serves metrics over HTTP, without a way to hold up the run.

Requests are answered in threads of their own, at most :data:`REQUESTS` at a time; more are closed
at once. A client that does not send or read loses its connection after :data:`PATIENCE` seconds.
What is answered is rendered once for each state of the figures, however often it is asked for.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from spirit_py.errors import UsageFault
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.status.metrics.collector import StatusCollector

REQUESTS: Final = 8
"""Requests that are answered at the same time."""
PATIENCE: Final = 5.0
"""Seconds for which a client may be silent."""
_POLL_SECONDS: Final = 0.1
#: Where no address is named: there is no password.
_HERE: Final = "127.0.0.1"
_PATHS: Final = frozenset({"/", "/metrics"})


class MetricsServer:
    """Listens from its construction on, answers between :meth:`start` and :meth:`stop`.

    Args:
        listen: host, or address of an interface, and port: without a host this machine alone can
            reach it; port 0 for any that is free.

    Raises:
        UsageFault: it cannot listen there.
    """

    def __init__(self, listen: tuple[str, int], collector: StatusCollector) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(collector)
        self._server = _listening(listen)
        self._server.set_app(_Application(registry, collector))
        self._thread = Background("metrics", lambda _: self._server.serve_forever(_POLL_SECONDS))

    @property
    def address(self) -> str:
        """Where it listens, with the port that is really used."""
        host, port = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """End at once; the port is free. Safe to call again, and without a start."""
        if self._thread.running:
            self._server.shutdown()
        self._server.server_close()
        self._thread.join(1.0)


def _listening(listen: tuple[str, int]) -> _Server:
    host, port = listen
    try:
        found = socket.getaddrinfo(host or _HERE, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        return _Server(family, (str(address[0]), port))
    except (OSError, UnicodeError) as error:
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageFault(
            f"--metrics-listen {shown}: cannot listen there: {why}",
            hint="another run may use the port: give each its own, or port 0 for any that is free",
        ) from error


class _Handler(WSGIRequestHandler):
    """Answers one request; writes no log."""

    timeout = PATIENCE

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Do nothing."""


class _Server(WSGIServer):
    """Answers each request in a thread of its own, within bounds."""

    request_queue_size = 16

    def __init__(self, family: socket.AddressFamily, address: tuple[str, int]) -> None:
        self.address_family = family
        self._lock = threading.Lock()
        self._under_way: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without asking the name service for the host's name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "localhost", self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin to answer; close the connection where too many are under way."""
        with self._lock:
            full = len(self._under_way) >= REQUESTS
            if not full:
                self._under_way.add(request)
        if full:
            self.shutdown_request(request)
        else:
            answer = Background("metrics-request", lambda _: self._answer(request, client_address))
            answer.start()

    def _answer(self, request: socket.socket, client_address: Any) -> None:
        try:
            with contextlib.suppress(OSError):
                self.finish_request(request, client_address)
        finally:
            self.shutdown_request(request)
            with self._lock:
                self._under_way.discard(request)

    def server_close(self) -> None:
        """Free the port, and end the connections that are open."""
        super().server_close()
        with self._lock:
            for request in self._under_way:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client that goes away is no fault."""


class _Application:
    """Answers GET and HEAD of ``/metrics`` in the format that the client prefers."""

    def __init__(self, registry: CollectorRegistry, collector: StatusCollector) -> None:
        self._registry = registry
        self._collector = collector
        self._lock = threading.Lock()
        self._revision = -1
        self._rendered: dict[str, bytes] = {}

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer a request."""
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            start_response("405 Method Not Allowed", [("Allow", "GET, HEAD")])
            return [b""]
        if environ["PATH_INFO"] not in _PATHS:
            start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"the metrics are at /metrics\n"]
        encode, content_type = choose_encoder(environ.get("HTTP_ACCEPT", ""))
        body = self._body(encode, content_type)
        headers = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        start_response("200 OK", headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]

    def _body(self, encode: Callable[[Any], bytes], content_type: str) -> bytes:
        with self._lock:
            revision = self._collector.revision
            if revision != self._revision:
                self._revision, self._rendered = revision, {}
            body = self._rendered.get(content_type)
            if body is None:
                if len(self._rendered) >= REQUESTS:
                    self._rendered.clear()
                body = self._rendered[content_type] = encode(self._registry)
            return body
