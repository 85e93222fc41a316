"""What some servers lack: every dependence on a version, by name (pure; docs/versions.md).

Where the version does not decide, the server is asked where it is used, or passes over a comment
such as ``/*!80030 ... */`` by itself.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

_NUMBERS: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class Capability(Enum):
    """What servers can do, since which version, and who says so: the manual of 9.x, or a trial."""

    PARTIAL_REVOKES = ("partial revokes", "8.0.16", "8.2.12")
    OFFSETS = ("TIMESTAMP literals with an offset", "8.0.19", "11.2.2")
    REPLICA_WORDS = ("SHOW REPLICA STATUS, SHOW REPLICAS", "8.0.22", "15.7.7.36")
    BUILD_THREADS = ("threads and a buffer for index builds", "8.0.27", "17.12.5")
    INSTANT_RENAMES = ("RENAME COLUMN with INSTANT", "8.0.28", "17.12.1")
    INSTANT_COLUMNS = ("ADD COLUMN anywhere, DROP COLUMN with INSTANT", "8.0.29", "17.12.1")
    INVISIBLE_KEYS = ("generated invisible primary keys", "8.0.30", "15.1.20.11")
    REDO_COUNTERS = ("counters of the redo log", "8.0.30", "17.15.3")
    HISTOGRAMS = ("histograms set from data", "8.0.31", "15.7.3.1")
    ANY_DEFINER = ("the privilege SET_ANY_DEFINER", "8.2.0", "8.2.2")
    LOG_WORDS = ("SHOW BINARY LOG STATUS", "8.2.0", "15.7.7.1")
    STRICT_PARENTS = ("restrict_fk_on_non_standard_key", "8.4.0", "15.1.20.5")
    JSON_EXACT = ("numbers and long TIMEs in JSON as they are", "9.0.0", "tried on 8.0.45 and 9.7")
    ROW_VERSIONS = ("255 row versions of a table", "9.1.0", "17.12.1")
    LOGGED_CASCADES = ("what foreign keys change is logged", "9.6.0", "tried on 9.7")

    def __init__(self, what: str, since: str, source: str) -> None:
        self.what, self.since, self.source = what, since, source

    def of(self, version: str) -> bool:
        """Return whether a server of this version, such as ``8.4.2-commercial``, can do it."""
        return _numbers(version) >= _numbers(self.since)


def _numbers(version: str) -> tuple[int, ...]:
    found = _NUMBERS.match(version)
    return tuple(map(int, found.groups())) if found else (0, 0, 0)


def most_row_versions(version: str) -> int:
    """Return how often columns of one table are added or dropped instantly (manual 17.12)."""
    return 255 if Capability.ROW_VERSIONS.of(version) else 64
