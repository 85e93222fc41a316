"""Query ``information_schema.INNODB_TRX``, which one statement of another session can make fail.

The server fills the whole table, also the text of every running statement, into columns of utf8mb3.
A text with a character outside of it, such as an emoji, ends the query with error 3854 (measured,
9.7), whatever columns and rows were asked for. Such a statement usually ends soon.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import ServerFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.contracts import SqlSession

FRESH_SECONDS: Final = 0.15
"""InnoDB renews the table only when it was not read for 0.1 s (its CACHE_MIN_IDLE_TIME_US)."""
UNREADABLE: Final = 3854
"""The code of the error: a statement's text cannot be converted."""
_TRIES: Final = 4


def open_transactions(
    session: SqlSession,
    sql: str,
    parameters: Sequence[object] | None = None,
    *,
    tries: int = _TRIES,
) -> list[tuple[Any, ...]] | None:
    """Run a query on the table, again while it cannot be read.

    Args:
        tries: with a pause of :data:`FRESH_SECONDS` between two.

    Returns:
        The rows; None where a statement that still runs makes the table unreadable.
    """
    for left in reversed(range(tries)):
        try:
            return session.query(sql, parameters)
        except ServerFault as fault:
            if fault.code != UNREADABLE:
                raise
        if left:
            threading.Event().wait(FRESH_SECONDS)
    return None
