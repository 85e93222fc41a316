"""Statements whose spelling changed in MySQL 8.2, chosen by the server's version.

For tests and ``ci/`` only; the program's own modules make this choice themselves.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_RENAMED = (8, 2)


def version_number(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as ``8.0.45-0ubuntu1``."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    if found is None:
        message = f"{version!r} is not a server version"
        raise ValueError(message)
    return tuple(map(int, found[0].split(".")))


def binlog_status(version: str) -> str:
    """Return the statement that shows where the binlog ends."""
    return "SHOW BINARY LOG STATUS" if version_number(version) >= _RENAMED else "SHOW MASTER STATUS"


def reset_binlogs(version: str) -> str:
    """Return the statement that deletes all binlogs and GTIDs."""
    renamed = version_number(version) >= _RENAMED
    return "RESET BINARY LOGS AND GTIDS" if renamed else "RESET MASTER"


def binlog_end(query: Callable[[str], Sequence[Any]]) -> tuple[str, int]:
    """Return file and offset of the binlog's end; ``query`` gives the rows of a statement."""
    ((version,),) = query("SELECT VERSION()")
    row = query(binlog_status(str(version)))[0]
    return str(row[0]), int(row[1])
