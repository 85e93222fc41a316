"""A throttler that asks an HTTP endpoint: ``--throttle-http URL``.

As with gh-ost: a HEAD request every so often; 200 means go on, every other answer (429 by custom)
means wait. An endpoint that does not answer means wait, too, after the grace of every throttler.
"""

from __future__ import annotations

import base64
import urllib.error
import urllib.request
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from spirit_py.throttle.throttler import ALL_WORK

_GO_ON: Final = 200
_TIMEOUT: Final = 2.0


class HttpThrottler:
    """Asks one endpoint.

    Args:
        url: ``http`` or ``https``; a name and password in it are sent as basic authentication.
    """

    name: Final = "HTTP endpoint"
    holds: Final = ALL_WORK
    every: Final = 0.5

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        # A password, and a token in the query, appear in no message (R20).
        place = parts.netloc.rpartition("@")[2]
        self._shown = urlunsplit((parts.scheme, place, parts.path, "", ""))
        self._request = urllib.request.Request(  # noqa: S310 - http and https alone
            urlunsplit(parts._replace(netloc=place)), method="HEAD", headers=_credentials(parts)
        )
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
        ):
            self._opener.add_handler(handler)

    def look(self) -> str:
        """Return what the endpoint answered, unless that was 200.

        Raises:
            OSError: it did not answer.
        """
        try:
            with self._opener.open(self._request, timeout=_TIMEOUT) as answer:
                code = int(answer.status)
        except urllib.error.HTTPError as error:
            code = error.code
            error.close()
        return "" if code == _GO_ON else f"{self._shown}, which answered {code}"

    def close(self) -> None:
        """Do nothing: every look has a connection of its own."""


def _credentials(parts: SplitResult) -> dict[str, str]:
    """Return the header for name and password."""
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
