"""The rows of XA transactions that are not decided yet (R8), in bounded memory.

A call that fails because there is no memory or no room for the temporary file changes nothing, and
may be repeated.
"""

from __future__ import annotations

import contextlib
import io
import struct
import tempfile
from typing import IO, TYPE_CHECKING, Final

from spirit_py.binlog.events import Doubt, RowsChanged
from spirit_py.errors import HandOverFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.binlog.codec.rows import RowCodec
    from spirit_py.binlog.events import Table

_RECORD: Final = struct.Struct("<IBBI")
"""Number of the codec, event type, doubt, size of the body."""


class XaRows:
    """The row events of one XA transaction, in order; in a temporary file above a limit.

    Args:
        memory_limit: bytes kept in memory.

    Attributes:
        bytes: size of the events kept.
        spilled: it is kept in a temporary file.
    """

    def __init__(self, memory_limit: int) -> None:
        self._memory_limit = memory_limit
        self._file: IO[bytes] = io.BytesIO()
        self._codecs: list[tuple[Table, RowCodec]] = []
        self._replayed = 0
        self.bytes = 0
        self.spilled = False

    def append(self, event: RowsChanged) -> None:
        """Keep one event.

        Raises:
            HandOverFailed: it is not kept.
        """
        source = (event.table, event.codec)
        if source not in self._codecs:
            self._codecs.append(source)
        record = _RECORD.pack(
            self._codecs.index(source), event.event_type, event.doubt, len(event.body)
        )
        size = len(record) + len(event.body)
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
        """Move the events to a temporary file."""
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
        """Yield the events, one at a time.

        An event counts as replayed when the next one is requested: a later call continues after it.

        Raises:
            HandOverFailed: the next event cannot be read.
        """
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
    """Return the error for a fault of memory or of the temporary file, which may pass."""
    return HandOverFailed(
        f"rows of an undecided XA transaction cannot be kept aside: {error!r}",
        hint=f"make room for temporary files in {tempfile.gettempdir()} (TMPDIR), then run the"
        " same command again",
    )


class XaTransactions:
    """The XA transactions of one stream: the one being received, and those that are undecided.

    Args:
        memory_limit: bytes of one transaction's rows kept in memory.
    """

    def __init__(self, memory_limit: int) -> None:
        self._memory_limit = memory_limit
        self._prepared: dict[str, XaRows | None] = {}
        #: The rows of the transaction being received; None when it is no XA transaction.
        self.receiving: XaRows | None = None

    def begin(self) -> None:
        """Begin to set rows aside."""
        self.receiving = XaRows(self._memory_limit)

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
