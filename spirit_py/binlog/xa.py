"""The rows of XA transactions that are not decided yet (R8), in bounded memory."""

from __future__ import annotations

import contextlib
import struct
import tempfile
from typing import IO, TYPE_CHECKING, Final

from spirit_py.binlog.events import RowsChanged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.binlog.codec.rows import RowCodec
    from spirit_py.binlog.events import Table

_RECORD: Final = struct.Struct("<IBI")
"""Which codec, event type, size of the body."""


class XaRows:
    """The row events of one XA transaction, in order; in a temporary file above a limit.

    Args:
        memory_limit: bytes of event bodies kept in memory.
    """

    def __init__(self, memory_limit: int) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=memory_limit)  # noqa: SIM115
        self._codecs: list[tuple[Table, RowCodec]] = []
        self.bytes = 0

    def append(self, event: RowsChanged) -> None:
        """Keep one event."""
        source = (event.table, event.codec)
        if source not in self._codecs:
            self._codecs.append(source)
        record = _RECORD.pack(self._codecs.index(source), event.event_type, len(event.body))
        self._file.write(record)
        self._file.write(event.body)
        self.bytes += len(event.body)

    def replay(self) -> Iterator[RowsChanged]:
        """Yield the events again, one at a time."""
        self._file.seek(0)
        while header := self._file.read(_RECORD.size):
            codec, event_type, size = _RECORD.unpack(header)
            table, decoder = self._codecs[codec]
            yield RowsChanged(table, event_type, self._file.read(size), decoder)

    def close(self) -> None:
        """Drop the rows."""
        with contextlib.suppress(OSError):
            self._file.close()


class XaTransactions:
    """The XA transactions of one stream: the one being received, and those that are undecided.

    Args:
        memory_limit: bytes of one transaction's rows kept in memory.
    """

    def __init__(self, memory_limit: int) -> None:
        self._memory_limit = memory_limit
        self._receiving: XaRows | None = None
        self._prepared: dict[str, XaRows] = {}

    def begin(self) -> None:
        """Keep aside the rows that come now."""
        self._receiving = XaRows(self._memory_limit)

    def keep(self, event: RowsChanged) -> bool:
        """Keep rows aside; False when they are of no XA transaction."""
        if self._receiving is None:
            return False
        self._receiving.append(event)
        return True

    def end(self) -> XaRows | None:
        """Get the rows of the transaction being received, which is complete; None without any."""
        rows, self._receiving = self._receiving, None
        return rows

    def prepared(self, xid: str) -> bool:
        """Keep the rows until the transaction is decided; False when it has none."""
        rows = self.end()
        if rows is None:
            return False
        self._prepared[xid] = rows
        return True

    def decided(self, xid: str) -> XaRows | None:
        """Return the rows of a transaction that is decided; None when it has none."""
        return self._prepared.pop(xid, None)

    def abandon(self) -> None:
        """Drop the transaction being received: it comes again from its beginning, or never."""
        rows = self.end()
        if rows is not None:
            rows.close()

    def close(self) -> None:
        """Drop everything."""
        self.abandon()
        for rows in self._prepared.values():
            rows.close()
