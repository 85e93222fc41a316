"""Where the source is: the marks with which its replicas are compared."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import ABSENT_TABLE, access_denied
from spirit_py.mysql.replication import binlog_status
from spirit_py.mysql.retry import RenewedSession
from spirit_py.throttle.lag.unapplied import Mark

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock
    from spirit_py.mysql.session import Session

_READ_SECONDS: Final = 5


class MarkedSource:
    """Takes marks of the source, in a session of its own; used by one thread.

    Args:
        heartbeat: a query for the time of the newest heartbeat; the same on every replica.
    """

    def __init__(
        self, connection: ConnectionOptions, *, heartbeat: str = "", clock: Clock = time.monotonic
    ) -> None:
        self._clock = clock
        self._session = RenewedSession(
            partial(connect, connection, role="lag", read_timeout=_READ_SECONDS),
            prepare=self._read_server,
        )
        self._counts = True
        self._last: Mark | None = None
        self.heartbeat = heartbeat
        #: The server's ``@@server_uuid``, and whether its transactions get GTIDs; once it was read.
        self.uuid, self.gtid = "", False
        #: The first mark, which says what was there before.
        self.first: Mark | None = None

    def mark(self) -> Mark:
        """Return where the source is now.

        Raises:
            ServerFault: the source did not answer; the next call opens another session.
        """
        mark = self._session.ask(self._read)
        self._last = mark
        if self.first is None:
            self.first = mark
        return mark

    def session(self) -> Session:
        """Return the session, opened at need."""
        return self._session.session()

    def _read_server(self, session: Session) -> None:
        ((self.uuid, mode),) = session.query("SELECT @@server_uuid, @@GLOBAL.gtid_mode")
        self.gtid = mode == "ON"

    def _read(self, session: Session) -> Mark:
        # Before the query: what is committed while it runs may count as older than it is.
        now = self._clock()
        file, offset, gtids = self._place(session)
        beat = ""
        if self.heartbeat and not self.gtid:
            beat = heartbeat_read(session, self.heartbeat) or ""
        return Mark(
            at=now,
            written=self._written(file, offset),
            gtids=gtids,
            file=file,
            offset=offset,
            beat=beat,
        )

    def _place(self, session: Session) -> tuple[str, int, str]:
        """Return binlog file, offset and executed GTIDs; without REPLICATION CLIENT the last."""
        if self._counts:
            try:
                status = binlog_status(session)
            except ServerFault as fault:
                if not (self.gtid and access_denied(fault)):
                    raise
                self._counts = False
            else:
                return (status.file, status.offset, status.executed) if status else ("", 0, "")
        return "", 0, str(session.value("SELECT @@GLOBAL.gtid_executed")).replace("\n", "")

    def _written(self, file: str, offset: int) -> int:
        """Return the bytes of binlog since the first mark.

        What was written to a file after the last mark in it is left out: a tenth of a second's.
        """
        last = self._last
        if last is None:
            return 0
        grown = offset - last.offset if file == last.file else offset
        return last.written + max(0, grown)

    def close(self) -> None:
        """Close the session; safe to call again."""
        self._session.close()


def heartbeat_read(session: Session, query: str) -> str | None:
    """Return the time of the newest heartbeat that a server has; None without any."""
    try:
        found = session.value(query)
    except ServerFault as fault:
        if fault.code in ABSENT_TABLE or access_denied(fault):
            return None
        raise
    return None if found is None else str(found)
