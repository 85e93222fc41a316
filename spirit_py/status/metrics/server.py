"""Serve metrics over HTTP while a run works, and in a file that stays."""

from __future__ import annotations

import contextlib
import io
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import choose_encoder

from spirit_py.classes import dataclass
from spirit_py.errors import UsageFault
from spirit_py.events.run import MetricsServed, RunBegun, RunEnded, TableEnded
from spirit_py.events.swap import CutoverTryFailed, SwapDone
from spirit_py.records import write_whole
from spirit_py.status.metrics.collector import StatusCollector
from spirit_py.status.report import installed
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from spirit_py.contracts import Clock
    from spirit_py.events.event import Event
    from spirit_py.progress import BatchStatus, MigrationStatus

REQUESTS: Final = 8
PATIENCE: Final = 5.0
"""Seconds for which a client may be silent."""
DEADLINE: Final = 30.0
"""Seconds for a whole request: one that sends a byte now and then holds up no other for longer."""
_POLL_SECONDS: Final = 0.1
_HERE: Final = "127.0.0.1"
_PATHS: Final = frozenset({"/", "/metrics"})


class MetricsServer:
    """Listens from its construction on, or raises UsageFault; answers once it is started."""

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
    timeout = PATIENCE

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Do nothing."""

    def get_stderr(self) -> io.StringIO:
        """Return a sink: what a request came to is no line of the run's own output."""
        return io.StringIO()


class _Server(WSGIServer):
    request_queue_size = 16

    def __init__(self, family: socket.AddressFamily, address: tuple[str, int]) -> None:
        self.address_family = family
        self._lock = threading.Lock()
        self._under_way: dict[socket.socket, float] = {}
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "localhost", self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            full = len(self._under_way) >= REQUESTS
            if not full:
                self._under_way[request] = time.monotonic()
        if full:
            self.shutdown_request(request)
            return
        answering = Background("metrics-request", lambda _: self._answer(request, client_address))
        try:
            answering.start()
        except RuntimeError:
            # No thread is to be had now; the caller closes the connection.
            self._ended(request)
            raise

    def _answer(self, request: socket.socket, client_address: Any) -> None:
        try:
            with contextlib.suppress(OSError):
                self.finish_request(request, client_address)
        finally:
            self.shutdown_request(request)
            self._ended(request)

    def _ended(self, request: socket.socket) -> None:
        with self._lock:
            self._under_way.pop(request, None)

    def service_actions(self) -> None:
        """End requests that take too long; the server calls this again and again."""
        self._end_older(time.monotonic() - DEADLINE)

    def server_close(self) -> None:
        super().server_close()
        self._end_older(float("inf"))

    def _end_older(self, than: float) -> None:
        with self._lock:
            for request, began in self._under_way.items():
                if began < than:
                    with contextlib.suppress(OSError):
                        request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client that goes away is no fault."""


class _Application:
    def __init__(self, registry: CollectorRegistry, collector: StatusCollector) -> None:
        self._registry = registry
        self._collector = collector
        self._lock = threading.Lock()
        self._revision = -1
        self._rendered: dict[str, bytes] = {}

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            start_response("405 Method Not Allowed", [("Allow", "GET, HEAD")])
            return [b""]
        if environ["PATH_INFO"] not in _PATHS:
            start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"the metrics are at /metrics\n"]
        try:
            encode, content_type = choose_encoder(environ.get("HTTP_ACCEPT", ""))
        except TypeError:  # a version that is no number, such as q, or one in quotes
            encode, content_type = choose_encoder("")
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


_log = logging.getLogger(__name__)

FILE_SECONDS: Final = 15.0


@dataclass(kw_only=True, eq=False)
class MetricsReporter:
    """Passes snapshots on to a collector, and writes them for node_exporter; raises UsageFault."""

    listen: tuple[str, int] | None
    file: Path | None
    announce: Callable[[Event], None]
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._collector = StatusCollector(version=installed("spirit-py"))
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self._collector)
        self._server = None if self.listen is None else MetricsServer(self.listen, self._collector)
        self._written_at = float("-inf")
        self._file_failed = False
        self._answers = False

    def start(self) -> None:
        """Begin to answer, and show where; safe to call again, and after :meth:`stop`."""
        if self._answers or self.listen is None:
            return
        if self._server is None:
            self._server = MetricsServer(self.listen, self._collector)
        self._answers = True
        self._server.start()
        self.announce(MetricsServed(address=self._server.address))

    def event(self, event: Event) -> None:
        """Note that a run begins, or how it, or a table of a batch, has ended."""
        if isinstance(event, RunBegun):
            self._collector.run_begun()
            # A batch is planned, and asked about, before its reporters start.
            self.start()
        elif isinstance(event, TableEnded):
            self._collector.ended(event.table, event.outcome)
        elif isinstance(event, CutoverTryFailed):
            self._collector.tried(event.table, event.number, None)
        elif isinstance(event, SwapDone):
            self._collector.tried(event.table, event.tries, event.lock_held_ms / 1000)
        elif isinstance(event, RunEnded):
            self._collector.run_ended(event.outcome)
            self._write()

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Hand the figures of now over."""
        self._collector.update(snapshot)
        if self.clock() - self._written_at >= FILE_SECONDS:
            self._write()

    def stop(self) -> None:
        """Close the port; safe to call again."""
        server, self._server, self._answers = self._server, None, False
        if server is not None:
            server.stop()

    def _write(self) -> None:
        if self.file is None:
            return
        self._written_at = self.clock()
        try:
            write_whole(self.file, generate_latest(self._registry).decode())
        except OSError as error:
            if not self._file_failed:
                self._file_failed = True
                why = error.strerror or error
                _log.warning("the metrics could not be written to %s: %s", self.file, why)
