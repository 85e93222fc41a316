"""Drops the old table after the swap, with short waits for its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py import points
from spirit_py.errors import SpiritError
from spirit_py.mysql.connect import connect
from spirit_py.mysql.retry import PATIENCE, retrying
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.identity import drop_if

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.tables.identity import Identity
    from spirit_py.stop import StopSwitch


def drop_old_table(
    options: ConnectionOptions,
    schema: str,
    table: str,
    *,
    proof: Identity,
    stop: StopSwitch,
    lock_wait: int = 5,
    attempts: int = 8,
    patience: float = PATIENCE,
) -> str:
    """Drop a table that no migration needs any more.

    The swap is done, so a failure is returned, never raised. Each try has a session of its own, so
    that a restart of the server is survived, and waits ``lock_wait`` seconds for readers that still
    have the table open.

    Args:
        patience: seconds for which the server may be away.
        proof: the table's identity; another table of its name stays (R24).

    Returns:
        An empty string, or why there is still a table of this name.
    """
    points.reach("cleanup.old_table")

    def drop() -> str:
        with connect(options, role="drop", lock_wait_timeout=lock_wait) as session:
            if drop_if(session, schema, table, proof) or not read_table(session, schema, table):
                return ""
        return "nothing proves that it is the table that was swapped out: see who made it"

    try:
        return str(retrying(stop, attempts=attempts, patience=patience)(drop))
    except SpiritError as error:
        return error.message
