"""Throttlers that options ask for: an HTTP endpoint, a query, disk space.

As with gh-ost: a HEAD request every so often; 200 means go on, every other answer (429 by custom)
means wait. An endpoint that does not answer means wait, too, after the grace of every throttler.

The first column of its first row decides. A number other than 0 means wait, as with gh-ost, and so
does a text, which is then shown as the reason: ``SELECT IF(HOUR(NOW()) < 20, 'the evening', '')``.
NULL, an empty text and no row mean go on. It runs in a session that cannot write, under the
server's own settings, for two seconds at most.

No statement returns how much of a server's disk is free. So that is known only where the server's
data directory is on this machine (its ``auto.cnf`` names the server's uuid) and may be read. What
any account with REPLICATION CLIENT can see, from anywhere, is how large the binary logs are
together: the part of the disk that a copy fills beside the new table, and that comes back when the
server drops old files.
"""

from __future__ import annotations

import base64
import shutil
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.replication import binlog_files
from spirit_py.pace import Work
from spirit_py.throttle.throttler import ALL_WORK, WRITES, own_session
from spirit_py.units import human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession

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


_MILLISECONDS: Final = 2000


class QueryThrottler:
    """Asks one query.

    Args:
        database: the default schema of the query.
    """

    name: Final = "query"
    holds: Final = ALL_WORK
    every: Final = 1.0

    def __init__(self, connection: ConnectionOptions, query: str, *, database: str = "") -> None:
        self._query = query
        self._session = own_session(
            connection, "throttle-query", prepare=_bounded, native=True, database=database
        )

    def look(self) -> str:
        """Return what the query says.

        Raises:
            ServerFault: it failed.
        """
        return why_query(self._session.ask(lambda session: session.query(self._query)))

    def check(self) -> None:
        """Ask once, before anything is done.

        Raises:
            Refusal: the server does not accept the query.
        """
        try:
            self.look()
        except ServerFault as fault:
            if disposition(fault) is Disposition.FATAL:
                raise Refusal(
                    f"the server does not accept the query of --throttle-query: {fault.text}"
                    f" (error {fault.code})",
                    hint="correct it: a SELECT whose first column is 0 while the work may go on",
                    error_code=ErrorCode.LIMIT_NOT_WATCHABLE,
                ) from fault
        finally:
            self.close()

    def close(self) -> None:
        """Close the session; safe to call again."""
        self._session.close()


def _bounded(session: SqlSession) -> None:
    """Let a session write nothing, and end its queries."""
    session.execute(f"SET SESSION max_execution_time={_MILLISECONDS}")
    session.execute("SET SESSION TRANSACTION READ ONLY")


def why_query(rows: list[tuple[Any, ...]]) -> str:
    """Return what is waited for, by the rows of the operator's query."""
    value = rows[0][0] if rows and rows[0] else None
    if isinstance(value, bytes):
        value = value.decode(errors="replace").strip("\0")
    text = "" if value is None else str(value).strip()
    try:
        return "the query of --throttle-query" if text and float(text) else ""
    except ValueError:
        return f"{text} (--throttle-query)"


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


class FreeDiskThrottler:
    """Waits while a folder of a server on this machine has too little room.

    Args:
        folders: where the server writes data and binlog.
        least: bytes that have to be free.
        free: returns the free bytes of a folder.
    """

    name: Final = "free disk"
    #: A search for duplicates without an index fills a temporary table.
    holds: Final = WRITES | {Work.SEARCH}
    every: Final = 1.0

    def __init__(
        self, folders: Iterable[Path], least: int, *, free: Callable[[Path], int] = _free
    ) -> None:
        self._folders = tuple(dict.fromkeys(folders))
        self._least = least
        self._free = free

    def look(self) -> str:
        """Return the folders that are too full.

        Raises:
            OSError: a folder cannot be looked at any more.
        """
        found = [(folder, self._free(folder)) for folder in self._folders]
        return "; ".join(
            f"room in {folder}, which has {human_bytes(free)} free (--min-free-disk"
            f" {human_bytes(self._least)})"
            for folder, free in found
            if free < self._least
        )

    def close(self) -> None:
        """Do nothing."""


class BinlogSpaceThrottler:
    """Waits while the binary logs together are larger than a limit (REPLICATION CLIENT)."""

    name: Final = "binlog space"
    holds: Final = WRITES
    every: Final = 5.0

    def __init__(self, connection: ConnectionOptions, most: int) -> None:
        self._most = most
        self._session = own_session(connection, "throttle-binlog")

    def look(self) -> str:
        """Return how large the binary logs are, if that is too large.

        Raises:
            ServerFault: the server did not answer, or the account may not ask.
        """
        size = sum(size for _, size in self._session.ask(binlog_files))
        if size <= self._most:
            return ""
        return (
            f"old binary logs to be dropped: they have {human_bytes(size)} (--max-binlog-space"
            f" {human_bytes(self._most)})"
        )

    def close(self) -> None:
        """Close the session; safe to call again."""
        self._session.close()
