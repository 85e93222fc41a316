"""Throttlers that options ask for (docs/gentleness.md): an HTTP endpoint, a query, disk space.

Free disk is known only where the server's data directory is on this machine (its ``auto.cnf`` names
the server's uuid) and may be read; any account with REPLICATION CLIENT sees the binlogs' size.
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
from spirit_py.throttle.throttler import WRITES, Looking, asking
from spirit_py.units import human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession

_GO_ON: Final = 200
_TIMEOUT: Final = 2.0


def http_throttler(url: str) -> Looking:
    """Return what asks one endpoint; a name and password in ``url`` become basic authentication."""
    parts = urlsplit(url)
    # A password, and a token in the query, appear in no message (R20).
    place = parts.netloc.rpartition("@")[2]
    shown = urlunsplit((parts.scheme, place, parts.path, "", ""))
    request = urllib.request.Request(  # noqa: S310 - http and https alone
        urlunsplit(parts._replace(netloc=place)), method="HEAD", headers=_credentials(parts)
    )
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)

    def look() -> str:
        try:
            with opener.open(request, timeout=_TIMEOUT) as answer:
                code = int(answer.status)
        except urllib.error.HTTPError as error:
            code = error.code
            error.close()
        return "" if code == _GO_ON else f"{shown}, which answered {code}"

    return Looking(name="HTTP endpoint", look=look, every=0.5)


def _credentials(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def query_throttler(connection: ConnectionOptions, query: str, *, database: str = "") -> Looking:
    """Return what asks one query, whose default schema is ``database``."""
    return asking(
        connection,
        "query",
        lambda session: why_query(session.query(query)),
        role="throttle-query",
        every=1.0,
        prepare=_bounded,
        native=True,
        database=database,
    )


def require_query(connection: ConnectionOptions, query: str, *, database: str = "") -> None:
    """Ask the operator's query once; refuse one that the server does not accept."""
    throttler = query_throttler(connection, query, database=database)
    try:
        throttler.look()
    except ServerFault as fault:
        if disposition(fault) is Disposition.FATAL:
            raise Refusal(
                f"the server does not accept the query of --throttle-query: {fault.text}"
                f" (error {fault.code})",
                hint="correct it: a SELECT whose first column is 0 while the work may go on",
                error_code=ErrorCode.LIMIT_NOT_WATCHABLE,
            ) from fault
    finally:
        throttler.close()


def _bounded(session: SqlSession) -> None:
    session.execute(f"SET SESSION max_execution_time={int(1000 * _TIMEOUT)}")
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


FREE_DISK: Final = "free disk"
#: A search for duplicates fills a temporary table.
FREE_DISK_HOLDS: Final = WRITES | {Work.SEARCH}


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def free_disk_throttler(
    folders: Iterable[Path], least: int, *, free: Callable[[Path], int] = _free
) -> Looking:
    """Return what waits while a folder of a server has less than ``least`` bytes free."""
    each_once = tuple(dict.fromkeys(folders))

    def look() -> str:
        found = [(folder, free(folder)) for folder in each_once]
        return "; ".join(
            f"room in {folder}, which has {human_bytes(left)} free (--min-free-disk"
            f" {human_bytes(least)})"
            for folder, left in found
            if left < least
        )

    return Looking(name=FREE_DISK, look=look, holds=FREE_DISK_HOLDS, every=1.0)


def binlog_space_throttler(connection: ConnectionOptions, most: int) -> Looking:
    """Return what waits while the binary logs together have more bytes (REPLICATION CLIENT)."""

    def why(session: SqlSession) -> str:
        size = sum(size for _, size in binlog_files(session))
        if size <= most:
            return ""
        limit = f"--max-binlog-space {human_bytes(most)}"
        return f"old binary logs to be dropped: they have {human_bytes(size)} ({limit})"

    return asking(connection, "binlog space", why, role="throttle-binlog", every=5.0, holds=WRITES)
