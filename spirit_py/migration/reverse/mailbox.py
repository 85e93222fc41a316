"""The mailbox between the process that runs reverse replication and those that ask for a revert.

Record, request and answer are rows of the checkpoint table.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py.checkpoint.reverse import DONE, ENDED, WORKING, RevertAnswer, RevertRequest
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import MigrationFailure, ServerFault, SpiritError
from spirit_py.migration.reverse.feed import require_definitions
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.locks.named import named_lock_holder

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.checkpoint.reverse import ReverseRecord
    from spirit_py.migration.process import Process
    from spirit_py.mysql.session import Session

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

WRITE_SECONDS: Final = 50.0
"""Seconds between two writes of the position."""
_READ_SECONDS: Final = 10
_ANSWER_SECONDS: Final = 15.0
"""How long a finished revert waits until its answer was read, before the table is dropped."""


class RevertMailbox:
    """The side of the process that runs reverse replication; used by one thread.

    Its session is opened again when it was lost: only what must be written raises.

    Attributes:
        record: what stands in the table, but for the position.
    """

    def __init__(self, process: Process, record: ReverseRecord) -> None:
        self._process = process
        self._checkpoint = CheckpointTable(*record.home)
        self.record = record
        self._session: Session | None = None
        self._written_at = time.monotonic()
        self._answer: RevertAnswer

    # -- the record

    def seconds_left(self) -> float:
        """Ask the server, by whose clock the end is noted; below 0 when it is over."""
        now = self._connected().value("SELECT UNIX_TIMESTAMP(NOW(6))")
        return self.record.until - float(now)

    def write(self, *, position: str = "", **changes: Any) -> None:
        """Write the record with changes; an empty position stays what it was.

        Raises:
            ServerFault: it could not be written.
        """
        if position:
            changes["position"] = position
        self.record = replace(self.record, **changes)
        self._checkpoint.write(self._connected(), self.record)
        self._written_at = time.monotonic()

    def save(self, position: str) -> None:
        """Write the position once more, if that can be done."""
        self._try(
            lambda _: self.write(position=position),
            "the position of reverse replication stays an older one",
            self._process.message,
        )

    def note_end(self, reason: str) -> None:
        """Note that reverse replication has ended for good, if that can be done."""
        self._try(
            lambda _: self.write(state=ENDED, reason=reason),
            "the end of reverse replication could not be noted",
            self._process.message,
        )

    def drop_checkpoints(self) -> None:
        """Drop the checkpoint tables: there is nothing left that they would be needed for."""
        for table in self.record.tables:
            self._try(
                CheckpointTable(*table.source).drop,
                f"the checkpoint table of {table.name} could not be dropped; drop it by hand",
                self._process.warn,
            )

    # -- requests and answers

    def requested(self, position: Callable[[], str]) -> RevertRequest | None:
        """Return the request of a revert that waits; write the position when it is time.

        A server that is away for a while is waited for by the feed, which gives up in its time.

        Raises:
            SchemaChanged: another session changed a definition.
        """
        try:
            if time.monotonic() - self._written_at >= WRITE_SECONDS:
                self.write(position=position())
                require_definitions(self._connected(), self.record.tables)
            request = self._checkpoint.read(self._connected(), RevertRequest)
            if request is None or named_lock_holder(self._connected(), request.lock) is not None:
                return request
        except ServerFault as fault:
            self._disconnect()
            if disposition(fault) is Disposition.FATAL:
                raise
            _LOG.info("could not look for a request: %s", fault.message)
            return None
        text = "a request of a spirit-py revert that no longer waits is not carried out"
        self._process.message(text)
        self.fail(request, MigrationFailure(text, hint="run spirit-py revert again"))
        return None

    def accept(self, request: RevertRequest) -> None:
        """Begin to answer: from now on the asking process gets every message of this one."""
        self._answer = RevertAnswer(token=request.token, state=WORKING, said=())
        self._process.relay = self._relay

    def _relay(self, text: str) -> None:
        self._put(replace(self._answer, said=(*self._answer.said, text)))

    def _put(self, answer: RevertAnswer) -> None:
        self._answer = answer
        self._try(lambda session: self._checkpoint.write(session, answer), "no answer written")

    def fail(self, request: RevertRequest, error: SpiritError) -> None:
        """Answer that the revert failed."""
        self._process.relay = None
        self._try(
            lambda session: self._checkpoint.withdraw(session, request), "request not removed"
        )
        self._put(RevertAnswer.of_error(request.token, error))

    def done(self) -> None:
        """Answer that the revert was made; wait for a while until the answer was read."""
        self._process.relay = None
        self._put(replace(self._answer, state=DONE))
        until, stop = time.monotonic() + _ANSWER_SECONDS, self._process.stop
        while time.monotonic() < until and not stop.requested:
            if self._try(self._all_answered, "no look at the request"):
                return
            stop.wait(0.1)

    def _all_answered(self, session: Session) -> bool:
        """Whether every revert that waits has its answer: one more may have asked meanwhile.

        There is room for one request and one answer, so the next is answered once the asker
        before it has gone.
        """
        answered = RevertRequest(token=self._answer.token)
        if named_lock_holder(session, answered.lock) is not None:
            return False
        request = self._checkpoint.read(session, RevertRequest)
        if request is not None and request.token != answered.token:
            self._put(replace(self._answer, token=request.token))
        return request is None

    # -- the session

    def _try(
        self,
        work: Callable[[Session], T],
        failed: str,
        report: Callable[[str], None] = _LOG.info,
    ) -> T | None:
        """Do what may fail because of the server; then report it, and return None."""
        try:
            return work(self._connected())
        except ServerFault as fault:
            self._disconnect()
            report(f"{failed}: {fault.message}")
            return None

    def _connected(self) -> Session:
        if self._session is None:
            self._session = self._process.session("keep", read_timeout=_READ_SECONDS)
        return self._session

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def close(self) -> None:
        """End relaying and the session."""
        self._process.relay = None
        self._disconnect()
