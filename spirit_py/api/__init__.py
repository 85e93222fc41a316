"""The program as a library: each command as a function with types, and no output of its own.

The command line's declarations are the one list of options: ``options`` types them, ``values``
reads Python values by them, and the configuration is built by the same functions. ``running`` has a
run as a context and its events as an iterator, ``commands`` the functions. Users import the names
from :mod:`spirit_py` itself, which loads this package when one of them is first used.

Nothing here writes to a terminal, configures logging or touches signals. A log record of ours is
the application's to show.
"""

from __future__ import annotations

import logging

from spirit_py.api.commands import (
    BatchFailed,
    checksum_tables,
    cleanup,
    migrate,
    migrate_batch,
    migration_status,
    plan_migration,
    revert,
    start_batch,
    start_migration,
)
from spirit_py.api.running import Running
from spirit_py.options.commands import (
    BatchArguments,
    ChecksumArguments,
    CleanupArguments,
    MigrationArguments,
    PlanArguments,
    RevertArguments,
    StatusArguments,
)

__all__ = [
    "BatchArguments",
    "BatchFailed",
    "ChecksumArguments",
    "CleanupArguments",
    "MigrationArguments",
    "PlanArguments",
    "RevertArguments",
    "Running",
    "StatusArguments",
    "checksum_tables",
    "cleanup",
    "migrate",
    "migrate_batch",
    "migration_status",
    "plan_migration",
    "revert",
    "start_batch",
    "start_migration",
]

# Without a handler of the application's, Python would print warnings to the standard error.
logging.getLogger("spirit_py").addHandler(logging.NullHandler())
