"""Scraping the metrics of a run, as Prometheus does."""

from __future__ import annotations

import contextlib
import http.client
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """An answer over HTTP."""

    status: int
    kind: str
    text: str


def asked(address: str, path: str = "/metrics", method: str = "GET", **headers: str) -> Answer:
    """Ask the server at ``host:port``.

    Raises:
        OSError: nobody answers there.
    """
    connection = http.client.HTTPConnection(address, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        kind = answer.headers["Content-Type"] or ""
        return Answer(answer.status, kind, answer.read().decode())


def scraped(address: str, **headers: str) -> tuple[str, str]:
    """Return content type and text of the metrics."""
    answer = asked(address, **headers)
    assert answer.status == 200
    return answer.kind, answer.text
