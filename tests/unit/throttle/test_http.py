"""The throttler that asks an HTTP endpoint."""

from __future__ import annotations

import contextlib
import http.server
import socket

import pytest

from spirit_py.threads import Background
from spirit_py.throttle.server import http_throttler


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Answers with the code that the test sets; keeps what it was asked."""

    code = 200
    asked: list[tuple[str, str, str]]

    def do_HEAD(self):
        """Answer."""
        self.asked.append((self.command, self.path, self.headers.get("Authorization", "")))
        self.send_response(self.code)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_CONNECT(self):
        """Answer, as a proxy."""
        self.do_HEAD()

    def log_message(self, *_):
        """Print nothing."""


@contextlib.contextmanager
def endpoint():
    """Run an endpoint; yield its handler and its port."""
    kind = type("Asked", (Endpoint,), {"asked": []})
    with http.server.HTTPServer(("127.0.0.1", 0), kind) as server:
        thread = Background("http", lambda _: server.serve_forever(poll_interval=0.02))
        thread.start()
        try:
            yield kind, server.server_port
        finally:
            server.shutdown()
            thread.wait(10)


def test_200_lets_the_work_go_on_and_everything_else_holds_it_back():
    """As with gh-ost, by HEAD requests; a redirection is an answer like others."""
    with endpoint() as (handler, port):
        throttler = http_throttler(f"http://127.0.0.1:{port}/check?app=x")
        assert throttler.look() == ""
        for code in (429, 204, 302, 404, 417, 500, 503):
            handler.code = code
            assert throttler.look() == f"http://127.0.0.1:{port}/check, which answered {code}"
        handler.code = 200
        assert throttler.look() == ""
        assert set(handler.asked) == {("HEAD", "/check?app=x", "")}
        throttler.close()


def test_a_password_in_the_url_is_sent_and_never_shown():
    """R20: neither it nor the query, which may hold a token, is in the reason."""
    with endpoint() as (handler, port):
        handler.code = 429
        throttler = http_throttler(f"http://joe:p%40ss@127.0.0.1:{port}/?token=abc")
        assert throttler.look() == f"http://127.0.0.1:{port}/, which answered 429"
        assert handler.asked == [("HEAD", "/?token=abc", "Basic am9lOnBAc3M=")]


def test_each_look_through_a_proxy_goes_to_the_endpoint_by_tls(monkeypatch):
    """A proxy is asked for the way, and sees no credentials, however often it is asked."""
    for name in ("no_proxy", "NO_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    with endpoint() as (handler, port):
        handler.code = 502
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        throttler = http_throttler("https://joe:p@gate.invalid/check")
        for _ in range(4):
            with pytest.raises(OSError, match="502"):
                throttler.look()
        assert handler.asked == [("CONNECT", "gate.invalid:443", "")] * 4


def test_an_endpoint_that_does_not_answer_is_an_error():
    """Whoever watches the throttler turns that into a reason after a grace."""
    with socket.socket() as silent:
        # It has the port, and does not listen.
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="refused"):
            http_throttler(f"http://127.0.0.1:{silent.getsockname()[1]}/").look()
