"""XA transactions that are not decided yet (R8): their rows, and those from before a stream.

A call that fails for lack of memory, or of room for the temporary file, may be repeated. Without
XA_RECOVER_ADMIN all transactions that have changed rows count as prepared, but for those that
performance_schema shows to be no XA transactions.
"""

from __future__ import annotations

import contextlib
import io
import struct
import tempfile
import threading
from typing import IO, TYPE_CHECKING, Final

from spirit_py.binlog.events import Doubt, RowsChanged
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import FeedFailure, HandOverFailed, PreparedBefore
from spirit_py.mysql import processlist
from spirit_py.mysql.faults import excused, fatal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.binlog.codec.rows import RowCodec
    from spirit_py.binlog.events import Table
    from spirit_py.contracts import SqlSession

_RECORD: Final = struct.Struct("<IBBI")
"""Number of the codec, event type, doubt, size of the body."""


class XaRows:
    """The row events of one XA transaction, in order; in a temporary file above a limit."""

    def __init__(self, memory_limit: int) -> None:
        self._memory_limit = memory_limit
        self._file: IO[bytes] = io.BytesIO()
        self._codecs: list[tuple[Table, RowCodec]] = []
        self._replayed = 0
        self.bytes = 0
        self.spilled = False

    def append(self, event: RowsChanged) -> None:
        """Keep one event; where HandOverFailed is raised, it is not kept."""
        source = (event.table, event.codec)
        if source not in self._codecs:
            self._codecs.append(source)
        codec, body = self._codecs.index(source), event.body
        record = _RECORD.pack(codec, event.event_type, event.doubt, len(body))
        size = len(record) + len(body)
        try:
            if not self.spilled and self.bytes + size > self._memory_limit:
                self._spill()
            self._file.seek(self.bytes)
            self._file.write(record)
            self._file.write(event.body)
        except (OSError, MemoryError) as error:
            raise _not_kept(error) from error
        self.bytes += size

    def _spill(self) -> None:
        file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the transaction
        try:
            self._file.seek(0)
            file.write(self._file.read(self.bytes))
            file.flush()
        except BaseException:
            with contextlib.suppress(OSError):
                file.close()
            raise
        self._file, self.spilled = file, True

    def replay(self) -> Iterator[RowsChanged]:
        """Yield the events; after HandOverFailed another call continues where this one failed."""
        while self._replayed < self.bytes:
            try:
                self._file.seek(self._replayed)
                codec, event_type, doubt, size = _RECORD.unpack(self._file.read(_RECORD.size))
                body = self._file.read(size)
            except (OSError, MemoryError) as error:
                raise _not_kept(error) from error
            table, decoder = self._codecs[codec]
            yield RowsChanged(table, event_type, body, decoder, doubt=Doubt(doubt))
            self._replayed += _RECORD.size + size

    def close(self) -> None:
        """Drop the rows."""
        with contextlib.suppress(OSError):
            self._file.close()


def _not_kept(error: Exception) -> HandOverFailed:
    # Empty where no folder was fit to be one; asking for it would fail again.
    where = f" in {tempfile.tempdir}" if tempfile.tempdir else ""
    return HandOverFailed(
        f"rows of an undecided XA transaction cannot be stored: {error!r}",
        hint=f"make room for temporary files{where} (TMPDIR), then run the same command again",
    )


#: Of one transaction, in bytes: each in a file holds a descriptor.
_LEAST_KEPT: Final = 64 << 10


class XaTransactions:
    """The XA transactions of one stream: the one being received, and those that are undecided.

    ``memory_limit``: bytes of rows in memory, of all together; above it 64 KiB of each further one.
    """

    def __init__(self, memory_limit: int) -> None:
        self._memory_limit = memory_limit
        self._prepared: dict[str, XaRows | None] = {}
        self.receiving: XaRows | None = None

    def begin(self) -> None:
        """Begin to set rows aside."""
        kept = (rows.bytes for rows in self._prepared.values() if rows and not rows.spilled)
        left = max(_LEAST_KEPT, self._memory_limit - sum(kept))
        self.receiving = XaRows(min(left, self._memory_limit))

    def keep(self, event: RowsChanged) -> bool:
        """Set rows aside; False when they are of no XA transaction."""
        if self.receiving is None:
            return False
        self.receiving.append(event)
        return True

    def prepared(self, xid: str) -> bool:
        """Keep the rows until the transaction is decided; False when it has none."""
        self._prepared[xid], self.receiving = self.receiving, None
        return self._prepared[xid] is not None

    def knows(self, xid: str) -> bool:
        """Whether the transaction was prepared in this stream and is undecided."""
        return xid in self._prepared

    def rows(self, xid: str) -> XaRows | None:
        """Return the rows of a prepared transaction; None when it has none."""
        return self._prepared.get(xid)

    def forget(self, xid: str) -> None:
        """Drop a transaction that is decided."""
        if (rows := self._prepared.pop(xid, None)) is not None:
            rows.close()

    def end(self) -> None:
        """Drop the rows of the transaction being received."""
        if self.receiving is not None:
            self.receiving.close()
        self.receiving = None

    def close(self) -> None:
        """Drop everything."""
        self.end()
        for xid in list(self._prepared):
            self.forget(xid)


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
    """A transaction that is, or may be, prepared: its key on the server, a text for operators."""

    key: str
    text: str


def recoverable(session: SqlSession) -> list[tuple[int, int, int, str]] | None:
    """Return the rows of XA RECOVER; None where the account may not see them."""
    rows = excused(lambda: session.query("XA RECOVER CONVERT XID"), None, fatal)
    if rows is None:
        return None
    return [(int(row[0]), int(row[1]), int(row[2]), str(row[3])) for row in rows]


def undecided(session: SqlSession) -> tuple[set[Undecided], bool]:
    """Return what is prepared, and True; what may be, and False, where the account cannot see it.

    ServerFault: the account lacks PROCESS too. FeedFailure: they could not be read.
    """
    rows = recoverable(session)
    if rows is not None:
        return {Undecided(repr(row), row[3]) for row in rows}, True
    # The server repeats the answer that it gave to another reader a moment ago.
    threading.Event().wait(processlist.FRESH_SECONDS)
    found = processlist.open_transactions(session, _CHANGING, tries=_TRIES)
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
    shown = processlist.performance_schema_shows_sessions(session)
    plain = {int(row[0]) for row in session.query(_PLAIN)} if shown else set()
    return {_suspect(number, trx) for number, trx in changing if number not in plain}, False


def _suspect(number: int, trx: str) -> Undecided:
    who = f"of session {number}" if number else "without a session"
    return Undecided(trx, f"transaction {trx} {who}")


def not_decided(left: Iterable[Undecided], *, known: bool) -> FeedFailure:
    """Return the error for transactions that do not end; not ``known``: they may be prepared."""
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
    """Return the error for an XA COMMIT of a transaction that was never seen prepared."""
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
