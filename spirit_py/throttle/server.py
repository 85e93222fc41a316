"""Throttlers by what the server shows, and those that an option names.

docs/gentleness.md has their limits, and docs/operations.md why our statements in front of ``FLUSH
TABLES WITH READ LOCK`` are ended after :data:`OURS_SECONDS` (R23). The *history* holds unpurged old
row versions; the *checkpoint age* is the part of the redo log whose pages are not written.

Free disk is known only where the server's data directory is on this machine (its ``auto.cnf`` names
the server's uuid) and may be read; any account with REPLICATION CLIENT sees the binlogs' size.
"""

from __future__ import annotations

import base64
import re
import shutil
import time
import urllib.error
import urllib.request
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from spirit_py.codes import ErrorCode
from spirit_py.errors import CriticalLoad, MigrationFailure, Refusal, ServerFault
from spirit_py.events.run import Warned
from spirit_py.locks.look import waits_for_all
from spirit_py.mysql.facts import read_status
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.own_sessions import sessions_of_run, token_of
from spirit_py.mysql.replication import binlog_files
from spirit_py.pace import Work
from spirit_py.throttle.throttler import WRITES, Looking, asking, own_session
from spirit_py.units import human_bytes, human_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.events.event import Tell
    from spirit_py.threads import StopSwitch
    from spirit_py.throttle.settings import LiveSettings, LoadLimits


#: Between two looks that see it, of which those that lie between failed.
_SUCCESSION_SECONDS: Final = 10.0


def load_throttler(
    connection: ConnectionOptions,
    settings: LiveSettings,
    stop: StopSwitch,
    *,
    clock: Clock = time.monotonic,
) -> Looking:
    """Return what compares counters with their limits; critical load requests ``stop``."""
    session = own_session(connection, "load")
    critical_at = float("-inf")

    def look() -> str:
        nonlocal critical_at
        current = settings.current
        names = {name for name, _ in (*current.max_load, *current.critical_load)}
        found = session.ask(partial(read_status, names=sorted(names))) if names else {}
        critical = excess(found, current.critical_load)
        before, critical_at = critical_at, clock() if critical else float("-inf")
        if critical and critical_at - before < _SUCCESSION_SECONDS:
            stop.request(
                CriticalLoad(
                    f"the load of the server is critical: {', '.join(critical)}",
                    hint="run the same command again when the load is lower: it resumes",
                )
            )
        above = excess(found, current.max_load)
        return f"the server's load: {', '.join(above)}" if above else ""

    return Looking(name="load", look=look, every=0.5, close=session.close)


def excess(found: Mapping[str, float], limits: LoadLimits) -> list[str]:
    """Return each counter, by its lower-case name, that is above its limit, as text with both."""
    return [
        f"{name} is {found[name.lower()]:g}, above {limit:g}"
        for name, limit in limits
        if found.get(name.lower(), 0.0) > limit
    ]


#: The status text has the length even where the metric is switched off.
_HISTORY: Final = """
SELECT `COUNT` FROM information_schema.INNODB_METRICS
WHERE NAME = 'trx_rseg_history_len' AND STATUS = 'enabled'"""
_STATUS: Final = "SHOW ENGINE INNODB STATUS"
_LENGTH: Final = re.compile(r"^History list length\s+(\d+)$", re.MULTILINE)
#: From 8.0.30; before it in SHOW ENGINE INNODB STATUS.
_NOW: Final = "innodb_redo_log_current_lsn"
_THEN: Final = "innodb_redo_log_checkpoint_lsn"
_CAPACITY: Final = "innodb_redo_log_capacity_resized"
_LSN: Final = re.compile(r"^Log sequence number\s+(\d+)$", re.MULTILINE)
_CHECKPOINT: Final = re.compile(r"^Last checkpoint at\s+(\d+)$", re.MULTILINE)


def history_throttler(connection: ConnectionOptions, most: int) -> Looking:
    """Return what waits while InnoDB's history has more than ``most`` records (PROCESS)."""

    def why(session: SqlSession) -> str:
        length = history_length(session)
        if length <= most:
            return ""
        limit = f"--max-history-length {human_count(most)}"
        return f"InnoDB's history, which is {human_count(length)} long ({limit})"

    return asking(
        connection, "history length", why, role="throttle-history", every=1.0, holds=WRITES
    )


def checkpoint_age_throttler(connection: ConnectionOptions, percent: float) -> Looking:
    """Return what waits while more than a part of the redo log's capacity is in use."""

    def why(session: SqlSession) -> str:
        age, capacity = redo_use(session)
        used = 100.0 * age / capacity
        if used <= percent:
            return ""
        limit = f"--max-checkpoint-age {percent:g}"
        return f"the redo log, of which {used:.0f} % are in use ({limit})"

    return asking(connection, "checkpoint age", why, role="throttle-redo", every=0.5, holds=WRITES)


def history_length(session: SqlSession) -> int:
    """Return how many undo log records are in the history (PROCESS)."""
    if found := session.query(_HISTORY):
        return int(found[0][0])
    ((_, _, text),) = session.query(_STATUS)
    absent = "neither INNODB_METRICS nor SHOW ENGINE INNODB STATUS has the length of the history"
    return _number(_LENGTH, str(text), absent)


def redo_use(session: SqlSession) -> tuple[int, int]:
    """Return the age of the last checkpoint and the capacity of the redo log, bytes (PROCESS)."""
    found = read_status(session, names=[_NOW, _THEN, _CAPACITY])
    if len(found) == 3:
        return int(found[_NOW] - found[_THEN]), max(1, int(found[_CAPACITY]))
    ((_, _, text),) = session.query(_STATUS)
    ((capacity,),) = session.query("SELECT @@innodb_log_file_size * @@innodb_log_files_in_group")
    return checkpoint_age(str(text)), max(1, int(capacity))


def checkpoint_age(status: str) -> int:
    """Return the checkpoint age by the text of ``SHOW ENGINE INNODB STATUS``, bytes."""
    absent = "SHOW ENGINE INNODB STATUS does not have the checkpoint's age"
    return _number(_LSN, status, absent) - _number(_CHECKPOINT, status, absent)


def _number(pattern: re.Pattern[str], status: str, absent: str) -> int:
    found = pattern.search(status)
    if found is None:
        raise MigrationFailure(absent, error_code=ErrorCode.LIMIT_NOT_WATCHABLE)
    return int(found[1])


OURS_SECONDS: Final = 2
#: A statement that waits for a table's lock, or a backup's, has the global one already; one that
#: waits for the global lock itself, or in its commit, is not in front.
_RUNNING: Final = """
SELECT PROCESSLIST_ID, PROCESSLIST_TIME FROM performance_schema.threads
WHERE PROCESSLIST_COMMAND = 'Query' AND PROCESSLIST_TIME >= %s
AND (COALESCE(PROCESSLIST_STATE, '') NOT LIKE 'Waiting%%'
 OR PROCESSLIST_STATE LIKE '%% metadata lock' OR PROCESSLIST_STATE = 'Waiting for backup lock')
AND COALESCE(PROCESSLIST_STATE, '') <> 'User lock'
AND PROCESSLIST_ID <> CONNECTION_ID()"""


def global_lock_throttler(
    connection: ConnectionOptions, tell: Tell, *, ends: bool = True
) -> Looking:
    """Return what waits while a global lock waits, and ``ends`` our statements in front of it."""
    token = token_of(connection.label)

    def why(session: SqlSession) -> str:
        who, seconds = waits_for_all(session)
        if not who:
            return ""
        if ends and seconds >= OURS_SECONDS:
            _end_ours(session, token, who, tell)
        return f"the global lock of {who}"

    return asking(connection, "global read lock", why, role="throttle-global", every=1.0)


def _end_ours(session: SqlSession, token: str, who: str, tell: Tell) -> None:
    running = dict(session.query(_RUNNING, (OURS_SECONDS,)))
    for number in sorted(sessions_of_run(session, token) & set(running)):
        trouble = kill_session(session, number, statement=True)
        done = f"could not be killed: {trouble}" if trouble else "is killed, and repeated later"
        tell(
            Warned(
                said=f"all writes of the server wait behind {who}, which waits for session"
                f" {number} of this run: its statement, running for {running[number]} s, {done}"
            )
        )


_GO_ON: Final = 200
_TIMEOUT: Final = 2.0


def http_throttler(url: str) -> Looking:
    """Return what asks one endpoint; a name and password in ``url`` become basic authentication."""
    parts = urlsplit(url)
    # A password, and a token in the query, appear in no message (R20).
    place = parts.netloc.rpartition("@")[2]
    shown = urlunsplit((parts.scheme, place, parts.path, "", ""))
    asked, credentials = urlunsplit(parts._replace(netloc=place)), _credentials(parts)
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
        # A proxy is written into it: sent again, it would go there as http, with the credentials.
        request = urllib.request.Request(  # noqa: S310 - http and https alone
            asked, method="HEAD", headers=credentials
        )
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
FREE_DISK_HOLDS: Final = WRITES | {Work.SEARCH, Work.REBUILD}


def free_disk_throttler(
    folders: Iterable[Path],
    least: int,
    *,
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
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
        return (
            f"old binary logs to be dropped: they have {human_bytes(size)} ({limit}); the server"
            " drops expired ones only when it begins another, as with FLUSH BINARY LOGS"
        )

    return asking(connection, "binlog space", why, role="throttle-binlog", every=5.0, holds=WRITES)
