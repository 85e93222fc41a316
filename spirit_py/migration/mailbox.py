"""Where the keeping process and those who ask it meet: the rows in the checkpoint table."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spirit_py.checkpoint.reverse import ENDED, RevertAnswer, RevertRequest
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.migration.reverse_feed import require_definitions
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.locks.named import named_lock_holder

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.checkpoint.reverse import ReverseRecord
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock
    from spirit_py.mysql.session import Session
    from spirit_py.stop import StopSwitch

_LOG = logging.getLogger(__name__)

WRITE_SECONDS: Final = 50.0
"""Seconds between two writes of the position."""
_READ_SECONDS: Final = 10
_ANSWER_SECONDS: Final = 15.0
"""How long a finished revert waits until its answer was read, before the table goes."""


class Desk:
    """The keeping process's side; used by one thread.

    Its session is opened again when it was lost: only what must be written raises.

    Attributes:
        record: what stands in the table, but for the position.
    """

    def __init__(
        self,
        connection: ConnectionOptions,
        store: CheckpointTable,
        record: ReverseRecord,
        *,
        message: Callable[[str], None],
        clock: Clock = time.monotonic,
    ) -> None:
        self._connection = connection
        self._store = store
        self.record = record
        self._message = message
        self._clock = clock
        self._session: Session | None = None
        self._written_at = clock()

    def seconds_left(self) -> float:
        """Ask the server, by whose clock the end is noted; below 0 when it is over."""
        now = self._connected().value("SELECT UNIX_TIMESTAMP(NOW(6))")
        return self.record.until - float(now)

    def look(self, position: Callable[[], str]) -> RevertRequest | None:
        """Write the position when it is time, and give the request of somebody who waits.

        A server that is away for a while is waited for by the feed, which gives up in its time.

        Raises:
            SchemaChanged: somebody changed a definition.
        """
        try:
            if self._clock() - self._written_at >= WRITE_SECONDS:
                self.write(position=position())
                require_definitions(self._connected(), self.record.tables)
            request = self._store.read(self._connected(), RevertRequest)
            if request is None or named_lock_holder(self._connected(), request.lock) is not None:
                return request
            self._refuse(request)
        except ServerFault as fault:
            self.close()
            if disposition(fault) is Disposition.FATAL:
                raise
            _LOG.info("could not look for a request: %s", fault.message)
        return None

    def _refuse(self, request: RevertRequest) -> None:
        """Put a request aside whose revert has ended: nobody wants it any more."""
        text = "a request of a spirit-py revert that no longer waits is not carried out"
        self._message(text)
        error = MigrationFailure(text, hint="run spirit-py revert again")
        self.tell(RevertAnswer.of_error(request.token, error))
        self.withdraw(request)

    def write(self, *, position: str = "", **changes: Any) -> None:
        """Write the record with changes; an empty position stays what it was.

        Raises:
            ServerFault: when it could not be written.
        """
        if position:
            changes["position"] = position
        self.record = replace(self.record, **changes)
        self._store.write(self._connected(), self.record)
        self._written_at = self._clock()

    def save(self, position: str) -> None:
        """Write the position once more, if that can be done."""
        try:
            self.write(position=position)
        except ServerFault as fault:
            self.close()
            self._message(f"the position of the way back stays an older one: {fault.message}")

    def note_end(self, reason: str) -> None:
        """Note that there is no way back any more, if that can be done."""
        try:
            self.write(state=ENDED, reason=reason)
        except ServerFault as fault:
            self.close()
            self._message(f"the end of the way back could not be noted: {fault.message}")

    def tell(self, answer: RevertAnswer) -> None:
        """Write an answer; one that cannot be written stops nothing."""
        try:
            self._store.write(self._connected(), answer)
        except ServerFault as fault:
            self.close()
            _LOG.info("an answer could not be written: %s", fault.message)

    def withdraw(self, request: RevertRequest) -> None:
        """Take a request away, because it was answered."""
        try:
            self._store.withdraw(self._connected(), request)
        except ServerFault as fault:
            self.close()
            _LOG.info("a request could not be taken away: %s", fault.message)

    def wait_until_read(self, stop: StopSwitch) -> None:
        """Wait for a while until the one who asked has taken the request away."""
        until = self._clock() + _ANSWER_SECONDS
        while self._clock() < until and not stop.requested:
            try:
                if self._store.read(self._connected(), RevertRequest) is None:
                    return
            except ServerFault:
                self.close()
            stop.wait(0.1)

    def drop_marks(self) -> None:
        """Drop the checkpoint tables: there is nothing left that they would be needed for."""
        for table in self.record.tables:
            checkpoint = CheckpointTable(table.schema, table.table)
            try:
                checkpoint.drop(self._connected())
            except ServerFault as fault:
                self.close()
                self._message(
                    f"warning: the checkpoint table {checkpoint} could not be dropped:"
                    f" {fault.message}; drop it by hand"
                )

    def _connected(self) -> Session:
        if self._session is None:
            self._session = connect(
                self._connection, role="keep", lock_wait_timeout=5, read_timeout=_READ_SECONDS
            )
        return self._session

    def close(self) -> None:
        """Close the session; the next use opens another."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
