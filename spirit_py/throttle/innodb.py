"""Throttlers for what InnoDB still has to do: ``--max-history-length``, ``--max-checkpoint-age``.

The *history* holds old versions of rows that no transaction needs any more and that are not purged
yet; a long one makes reads slow. The copy inserts, which adds next to nothing to it, but a purge
that is behind has its own work to do. While a transaction of another client stays open, waiting
does not make the history shorter: hence no limit by default.

The *checkpoint age* is the part of the redo log whose pages are not written yet. Near its capacity
every commit waits for pages to be written. InnoDB itself writes more of them as it grows, so a high
age is usual in a copy; no limit by default, and the latency of commits is watched in any case.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.mysql.global_status import read_status
from spirit_py.throttle.own_session import own_session
from spirit_py.throttle.throttler import WRITES
from spirit_py.units import human_count

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession

#: A metric that is switched off keeps its last value; the status text has the length in any case.
_HISTORY: Final = """
SELECT `COUNT` FROM information_schema.INNODB_METRICS
WHERE NAME = 'trx_rseg_history_len' AND STATUS = 'enabled'"""
_STATUS: Final = "SHOW ENGINE INNODB STATUS"
_LENGTH: Final = re.compile(r"^History list length\s+(\d+)$", re.MULTILINE)
#: From 8.0.30 on; before, the same is in SHOW ENGINE INNODB STATUS.
_NOW: Final = "innodb_redo_log_current_lsn"
_THEN: Final = "innodb_redo_log_checkpoint_lsn"
_CAPACITY: Final = "innodb_redo_log_capacity_resized"
_LSN: Final = re.compile(r"^Log sequence number\s+(\d+)$", re.MULTILINE)
_CHECKPOINT: Final = re.compile(r"^Last checkpoint at\s+(\d+)$", re.MULTILINE)


class HistoryThrottler:
    """Waits while InnoDB's history is longer than a limit (PROCESS).

    Args:
        most: undo log records of committed transactions, in the history list.
    """

    name: Final = "history length"
    holds: Final = WRITES
    every: Final = 1.0

    def __init__(self, connection: ConnectionOptions, most: int) -> None:
        self._most = most
        self._session = own_session(connection, "throttle-history")

    def look(self) -> str:
        """Return how long the history is, if that is too long.

        Raises:
            ServerFault: the server did not answer, or the account may not ask.
            MigrationFailure: the server does not show it.
        """
        length = self._session.ask(history_length)
        if length <= self._most:
            return ""
        return (
            f"InnoDB's history, which is {human_count(length)} long (--max-history-length"
            f" {human_count(self._most)})"
        )

    def close(self) -> None:
        """Close the session; safe to call again."""
        self._session.close()


class CheckpointAgeThrottler:
    """Waits while a part of the redo log is in use that is above a limit.

    Args:
        percent: of the redo log's capacity.
    """

    name: Final = "checkpoint age"
    holds: Final = WRITES
    every: Final = 0.5

    def __init__(self, connection: ConnectionOptions, percent: float) -> None:
        self._percent = percent
        self._session = own_session(connection, "throttle-redo")

    def look(self) -> str:
        """Return how full the redo log is, if that is too full.

        Raises:
            ServerFault: the server did not answer, or the account may not ask.
            MigrationFailure: the server shows no such figures.
        """
        age, capacity = self._session.ask(redo_use)
        used = 100.0 * age / capacity
        if used <= self._percent:
            return ""
        return (
            f"the redo log, of which {used:.0f} % are in use (--max-checkpoint-age"
            f" {self._percent:g})"
        )

    def close(self) -> None:
        """Close the session; safe to call again."""
        self._session.close()


def history_length(session: SqlSession) -> int:
    """Return how many undo log records are in the history (PROCESS).

    Raises:
        MigrationFailure: the server does not show it.
    """
    if found := session.query(_HISTORY):
        return int(found[0][0])
    ((_, _, text),) = session.query(_STATUS)
    return _length_in(str(text))


def _length_in(status: str) -> int:
    found = _LENGTH.search(status)
    if found is None:
        raise MigrationFailure(
            "neither INNODB_METRICS nor SHOW ENGINE INNODB STATUS has the length of the history",
            error_code=ErrorCode.LIMIT_NOT_WATCHABLE,
        )
    return int(found[1])


def redo_use(session: SqlSession) -> tuple[int, int]:
    """Return the age of the last checkpoint and the capacity of the redo log, bytes (PROCESS).

    Raises:
        MigrationFailure: the server shows no such figures.
    """
    found = read_status(session, names=[_NOW, _THEN, _CAPACITY])
    if len(found) == 3:
        return int(found[_NOW] - found[_THEN]), max(1, int(found[_CAPACITY]))
    ((_, _, text),) = session.query(_STATUS)
    ((capacity,),) = session.query("SELECT @@innodb_log_file_size * @@innodb_log_files_in_group")
    return checkpoint_age(str(text)), max(1, int(capacity))


def checkpoint_age(status: str) -> int:
    """Return the checkpoint age by the text of ``SHOW ENGINE INNODB STATUS``, bytes.

    Raises:
        MigrationFailure: the text does not have it.
    """
    now, then = _LSN.search(status), _CHECKPOINT.search(status)
    if now is None or then is None:
        raise MigrationFailure(
            "SHOW ENGINE INNODB STATUS does not have the checkpoint's age",
            error_code=ErrorCode.LIMIT_NOT_WATCHABLE,
        )
    return int(now[1]) - int(then[1])
