"""When the binlog is no measure: MySQL 9.7 may log a cascade that a deadlock has undone.

The server drops the error of a cascade whose wait for another row of the child than the first ends
in a deadlock. The transaction is gone, and with autocommit its changes are in the binlog all the
same ("While rows are copied" in docs/triggers-and-foreign-keys.md). Nothing in the binlog proves
it: so a difference counts only if it comes again when the same is played again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.oracle.rawlog import OracleError, TableRows, cascaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.oracle.rawlog import Statement

_VICTIMS = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"


class BinlogUntrue(OracleError):
    """A difference that may be the binlog's."""


def deadlocks(run: Callable[[str], list[tuple[Any, ...]]]) -> int:
    """Return how many transactions of the server deadlocks have ended since its start."""
    return int(run(_VICTIMS)[0][0])


def may_be_untrue(changes: Iterable[Statement | TableRows], *, ended: int) -> bool:
    """Return whether the server may have logged what it has undone.

    Args:
        ended: transactions that deadlocks ended meanwhile.
    """
    return ended > 0 and any(isinstance(one, TableRows) and cascaded(one) for one in changes)
