"""Throttlers for disk space: ``--min-free-disk`` and ``--max-binlog-space``.

No statement returns how much of a server's disk is free. So that is known only where the server's
data directory is on this machine (its ``auto.cnf`` names the server's uuid) and may be read. What
any account with REPLICATION CLIENT can see, from anywhere, is how large the binary logs are
together: the part of the disk that a copy fills beside the new table, and that comes back when the
server drops old files.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from spirit_py.mysql.replication import binlog_files
from spirit_py.pace import Work
from spirit_py.throttle.throttler import WRITES, own_session
from spirit_py.units import human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from spirit_py.config import ConnectionOptions


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
