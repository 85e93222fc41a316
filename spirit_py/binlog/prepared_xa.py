"""XA transactions that may be prepared and undecided when a stream begins (R8).

Their rows are before the start of the stream and are visible only after XA COMMIT. ``XA RECOVER``
lists them, for accounts with XA_RECOVER_ADMIN. Other accounts see transactions, not which of them
are prepared; a prepared one has changed rows and has not ended. So these are taken for prepared:
all transactions that have changed rows, but for those that performance_schema shows to be no XA
transactions.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import FeedFailure, PreparedBefore, ServerFault
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.processlist import (
    FRESH_SECONDS,
    open_transactions,
    performance_schema_shows_sessions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.contracts import SqlSession

# A detached branch, or one that was recovered at a restart, has no session: number 0 (measured).
_CHANGING: Final = """
SELECT trx_id, trx_mysql_thread_id FROM information_schema.INNODB_TRX
WHERE trx_rows_modified > 0 AND trx_mysql_thread_id <> CONNECTION_ID()"""
_PLAIN: Final = """
SELECT t.PROCESSLIST_ID FROM performance_schema.events_transactions_current x
JOIN performance_schema.threads t ON t.THREAD_ID = x.THREAD_ID
WHERE x.STATE = 'ACTIVE' AND x.XID_FORMAT_ID IS NULL AND COALESCE(x.XA_STATE, 'NOTR') = 'NOTR'
  AND t.PROCESSLIST_ID IS NOT NULL"""

#: Half a minute of looks: such statements end soon.
_TRIES: Final = 200


@dataclass(frozen=True)
class Undecided:
    """A transaction that is, or may be, prepared.

    Attributes:
        key: identifies it on the server.
        text: describes it to an operator.
    """

    key: str
    text: str


def recoverable(session: SqlSession) -> list[tuple[int, int, int, str]] | None:
    """Return the rows of XA RECOVER; None where the account may not see them."""
    try:
        rows = session.query("XA RECOVER CONVERT XID")
    except ServerFault as fault:
        if disposition(fault) is not Disposition.FATAL:
            raise
        return None
    return [(int(row[0]), int(row[1]), int(row[2]), str(row[3])) for row in rows]


def undecided(session: SqlSession) -> tuple[set[Undecided], bool]:
    """Return what is prepared, and True; what may be, and False, where the account cannot see that.

    Raises:
        ServerFault: the account may see neither (PROCESS).
        FeedFailure: the transactions could not be read.
    """
    rows = recoverable(session)
    if rows is not None:
        return {Undecided(repr(row), row[3]) for row in rows}, True
    # Somebody may have read the transactions a moment ago, and would be answered the same again.
    threading.Event().wait(FRESH_SECONDS)
    found = open_transactions(session, _CHANGING, tries=_TRIES)
    if found is None:
        raise FeedFailure(
            "the server cannot show its transactions while a statement runs whose text has"
            " characters outside of utf8mb3",
            hint="GRANT XA_RECOVER_ADMIN ON *.* to the account, or run the same command again"
            " later",
            error_code=ErrorCode.XA_UNDECIDED,
        )
    changing = [(int(number), str(trx)) for trx, number in found]
    # After the transactions: a session that had one of them and has ended it counts as plain.
    shown = performance_schema_shows_sessions(session)
    plain = {int(row[0]) for row in session.query(_PLAIN)} if shown else set()
    return {_suspect(number, trx) for number, trx in changing if number not in plain}, False


def _suspect(number: int, trx: str) -> Undecided:
    who = f"of session {number}" if number else "without a session"
    return Undecided(trx, f"transaction {trx} {who}")


def not_decided(left: Iterable[Undecided], *, known: bool) -> FeedFailure:
    """Return the error for transactions that do not end.

    Args:
        known: they are prepared; otherwise they may be.
    """
    names = ", ".join(sorted(each.text for each in left))
    if known:
        return FeedFailure(
            f"XA transactions were prepared before the start and are not decided: {names}",
            hint="XA COMMIT or XA ROLLBACK them (XA RECOVER shows them), then run again",
            error_code=ErrorCode.XA_UNDECIDED,
        )
    return FeedFailure(
        "transactions have changed rows before the start and have not ended, and this account may"
        f" not see whether they are prepared XA transactions: {names}",
        hint="GRANT XA_RECOVER_ADMIN ON *.* to the account, or end them, then run again",
        error_code=ErrorCode.XA_UNDECIDED,
    )


def missed(xid: str, *, resumed: bool) -> FeedFailure:
    """Return the error for an XA COMMIT of what was never seen prepared.

    Its rows are before the beginning of the feed, where a new feed begins behind them. In a resumed
    feed they may be of other tables only, which an account that may use XA RECOVER knows.
    """
    if resumed:
        return FeedFailure(
            f"XA transaction {xid} was prepared before the change feed was resumed, and it may"
            " have changed the table",
            hint="GRANT XA_RECOVER_ADMIN ON *.* to the account, then run the same command again",
            error_code=ErrorCode.XA_UNDECIDED,
        )
    return PreparedBefore(
        f"XA transaction {xid} was prepared before the change feed began, and it may have changed"
        " the table",
        hint="run the same command again, which starts afresh; with XA_RECOVER_ADMIN the start can"
        " wait for such transactions",
    )
