"""Drops the old table after the swap, without making anybody wait for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py import points
from spirit_py.errors import SpiritError
from spirit_py.mysql.connect import connect
from spirit_py.mysql.retry import retrying
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.stop import StopSwitch


def drop_old_table(
    options: ConnectionOptions,
    schema: str,
    table: str,
    *,
    stop: StopSwitch,
    lock_wait: int = 5,
    attempts: int = 8,
) -> str:
    """Drop a table that no migration needs any more.

    The swap is done: whatever goes wrong here is told, never raised. Each try has a session of
    its own, so that a server that restarts is waited for, and waits ``lock_wait`` seconds for
    readers that still have the table open.

    Returns:
        An empty string, or why the table is still there.
    """
    points.reach("cleanup.old_table")

    def drop() -> None:
        with connect(options, role="drop", lock_wait_timeout=lock_wait) as session:
            session.execute(f"DROP TABLE IF EXISTS {quote_table(schema, table)}")

    try:
        retrying(stop, attempts=attempts)(drop)
    except SpiritError as error:
        return error.message
    return ""
