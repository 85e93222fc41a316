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
    """What servers can do, since which version, by whose word: the manual's page, or a trial."""

    PARTIAL_REVOKES = ("partial revokes", "8.0.16", "partial-revokes")
    OFFSETS = ("TIMESTAMP literals with an offset", "8.0.19", "datetime")
    REPLICA_WORDS = ("SHOW REPLICA STATUS, SHOW REPLICAS", "8.0.22", "show-replica-status")
    BUILD_THREADS = ("threads and a buffer for index builds", "8.0.27", "innodb-parameters")
    INSTANT_RENAMES = ("RENAME COLUMN with INSTANT", "8.0.28", "innodb-online-ddl-operations")
    INSTANT_COLUMNS = (
        "ADD COLUMN anywhere, DROP COLUMN with INSTANT",
        "8.0.29",
        "innodb-online-ddl-operations",
    )
    INVISIBLE_KEYS = ("generated invisible primary keys", "8.0.30", "create-table-gipks")
    REDO_COUNTERS = ("counters of the redo log", "8.0.30", "server-status-variables")
    HISTOGRAMS = ("histograms set from data", "8.0.31", "analyze-table")
    ANY_DEFINER = ("the privilege SET_ANY_DEFINER", "8.2.0", "privileges-provided")
    LOG_WORDS = ("SHOW BINARY LOG STATUS", "8.2.0", "show-binary-log-status")
    STRICT_PARENTS = ("restrict_fk_on_non_standard_key", "8.4.0", "create-table-foreign-keys")
    JSON_EXACT = ("numbers and long TIMEs in JSON as they are", "9.0.0", "tried on 8.0.45 and 9.7")
    ROW_VERSIONS = ("255 row versions of a table", "9.1.0", "innodb-online-ddl-operations")
    LOGGED_CASCADES = ("what foreign keys change is logged", "9.6.0", "tried on 9.7")

    def __init__(self, what: str, since: str, source: str) -> None:
        self.what, self.since, self.source = what, since, source

    def of(self, version: str) -> bool:
        """Return whether a server of this version, such as ``8.4.2-commercial``, can do it."""
        return version_numbers(version) >= version_numbers(self.since)


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparisons."""
    found = _NUMBERS.match(version)
    return tuple(map(int, found.groups())) if found else (0, 0, 0)


def most_row_versions(version: str) -> int:
    """Return how often columns of one table are added or dropped instantly (manual 17.12)."""
    return 255 if Capability.ROW_VERSIONS.of(version) else 64
