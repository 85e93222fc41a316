"""End chunk sessions on the server: an abandoned chunk must not write later (R18)."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.copier.chunk_sql import chunk_lock_prefix
from spirit_py.errors import CopyFailure
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.locks.named import named_lock_holder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping

_log = logging.getLogger(__name__)

#: Rolling back the largest chunk takes less.
_EARLIER_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05

# Named locks are metadata locks of the type USER LEVEL LOCK (manual 29.12.13.3).
_HELD: Final = """
SELECT l.OBJECT_NAME
FROM performance_schema.metadata_locks l
JOIN performance_schema.threads t ON t.THREAD_ID = l.OWNER_THREAD_ID
WHERE l.OBJECT_TYPE = 'USER LEVEL LOCK' AND l.LOCK_STATUS = 'GRANTED'
  AND LEFT(l.OBJECT_NAME, CHAR_LENGTH(%s)) = %s AND t.PROCESSLIST_ID IS NOT NULL"""


def end_earlier_chunks(connection: ConnectionOptions, mapping: TableMapping) -> None:
    """End the chunks that an earlier run may still have running on the server.

    Raises:
        CopyFailure: when a session does not end.
    """
    table = f"{mapping.source.schema}.{mapping.source.name}"
    with connect(connection, role="fence") as session:
        prefix = chunk_lock_prefix(mapping)
        locks = [str(row[0]) for row in session.query(_HELD, (prefix, prefix))]
        end_chunks(session, locks, of=table, timeout=_EARLIER_SECONDS)
    if locks:
        _log.info("ended %d chunks of an earlier run", len(locks))


def end_chunks(session: SqlSession, locks: Sequence[str], *, of: str, timeout: float) -> None:
    """Kill the sessions that hold these locks, and wait until they have ended.

    A killed session rolls back first and releases its named lock last, so a free lock proves that
    nothing more will be written. They are looked at in their order.

    Args:
        of: the table, for messages.

    Raises:
        CopyFailure: when a session does not end within ``timeout``: its chunk may still be written.
    """
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    while True:
        held = [named_lock_holder(session, lock) for lock in locks]
        holders = {holder for holder in held if holder is not None}
        for holder in holders:
            kill_session(session, holder)
        if not holders:
            return
        if time.monotonic() > deadline:
            raise CopyFailure(
                f"{len(holders)} chunk sessions of {of} do not end on the server",
                hint="look for sessions with @spirit_py_role = 'chunk' and KILL them",
            )
        pause.wait(_POLL_SECONDS)
