"""The mailbox between the process that runs reverse replication and those that ask for a revert.

The record is a row of the checkpoint table; requests and answers are in the table of the requests
(:mod:`spirit_py.checkpoint.queue`).
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py.checkpoint.drop import drop_checkpoint
from spirit_py.checkpoint.old_table import OldTableRecord
from spirit_py.checkpoint.queue import Asked, RequestQueue
from spirit_py.checkpoint.requests import DONE, REVERT, WORKING, Answer
from spirit_py.checkpoint.reverse import ENDED, ReverseRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import MigrationFailure, ServerFault, SpiritError
from spirit_py.events.control import ControlRefused
from spirit_py.events.event import Event
from spirit_py.migration.reverse.feed import require_definitions
from spirit_py.mysql.faults import Disposition, disposition, takes_no_writes
from spirit_py.mysql.renewed import RenewedSession
from spirit_py.mysql.retry import retrying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.migration.job import Job
    from spirit_py.mysql.session import Session

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

WRITE_SECONDS: Final = 50.0
"""Seconds between two writes of the position."""
_READ_SECONDS: Final = 10
_ANSWER_SECONDS: Final = 15.0
"""How long a finished revert waits until its answer was read, before the table is dropped."""
#: Tries of a step after the swap back.
_LAST_TRIES: Final = 8


class RevertMailbox:
    """The side of the process that runs reverse replication; used by one thread.

    Its session is opened again when it was lost: only what must be written raises.

    Attributes:
        record: what stands in the table, but for the position.
    """

    def __init__(self, job: Job, record: ReverseRecord) -> None:
        self._job = job
        self._checkpoint = CheckpointTable(*record.home)
        self._queue = RequestQueue(*record.home)
        self.record = record
        self._session = RenewedSession(lambda: job.session("keep", read_timeout=_READ_SECONDS))
        self._written_at = time.monotonic()
        self._asked: Asked
        self._answer: Answer

    # -- the record

    def seconds_left(self) -> float:
        """Ask the server, by whose clock the end is noted; below 0 when it is over."""
        now = self._session.session().value("SELECT UNIX_TIMESTAMP(NOW(6))")
        return self.record.until - float(now)

    def write(self, *, position: str = "", **changes: Any) -> None:
        """Write the record with changes; an empty position stays what it was.

        Raises:
            ServerFault: it could not be written.
        """
        if position:
            changes["position"] = position
        self.record = replace(self.record, **changes)
        self._checkpoint.write(self._session.session(), self.record)
        self._written_at = time.monotonic()

    def save(self, position: str) -> None:
        """Write the position once more, if that can be done."""
        self._try(
            lambda _: self.write(position=position),
            "the position of reverse replication stays an older one",
            self._job.warn,
        )

    def note_end(self, reason: str) -> None:
        """Note that reverse replication has ended for good, if that can be done."""
        self._try(
            lambda _: self.write(state=ENDED, reason=reason),
            "the end of reverse replication could not be noted",
            self._job.warn,
        )

    def drop_checkpoints(self) -> None:
        """Drop the checkpoint tables: there is nothing left that they would be needed for.

        Raises:
            SpiritError: a stop, between two tries.
        """
        self._job.await_readers()
        for table in self.record.tables:
            self._try(
                partial(drop_checkpoint, table=table.source),
                f"the checkpoint table of {table.name} could not be dropped; drop it by hand",
                self._job.warn,
                tries=_LAST_TRIES,
            )

    def keep_proofs(self) -> None:
        """Leave the tables that were swapped out, and their checkpoints, to ``cleanup``.

        The checkpoints prove which tables those are. The record goes last: until then the revert is
        ended by whoever runs it again.

        Raises:
            SpiritError: a stop, between two tries.
        """

        def note(session: Session) -> None:
            kept = OldTableRecord(swapped_at=0.0, finished=True, undone=True)
            for table in self.record.tables:
                CheckpointTable(*table.source).write(session, kept)
            self._checkpoint.forget(session, ReverseRecord)

        self._try(
            note,
            "what proves the tables that were swapped out is not noted",
            self._job.warn,
            tries=_LAST_TRIES,
        )

    # -- requests and answers

    def requested(self, position: Callable[[], str]) -> Asked | None:
        """Claim the request of a revert that waits; write the position when it is time.

        A server that is away for a while is waited for by the feed, which gives up in its time.

        Raises:
            SchemaChanged: another session changed a definition.
        """
        try:
            if time.monotonic() - self._written_at >= WRITE_SECONDS:
                self.write(position=position())
                require_definitions(self._session.session(), self.record.tables)
            return next(self._claimed(self._session.session()), None)
        except ServerFault as fault:
            self._session.close()
            if disposition(fault) is Disposition.FATAL:
                raise
            _LOG.info("could not look for a request: %s", fault.message)
            return None

    def _claimed(self, session: Session) -> Iterator[Asked]:
        """Yield the requests of reverts that still wait, each claimed; answer the others."""
        for asked in self._queue.waiting(session):
            if not isinstance(asked, Asked) or asked.request.verb != REVERT:
                continue
            if not self._queue.claim(session, asked.number):
                continue
            if asked.who:
                yield asked
                continue
            text = "a request of a spirit-py revert that no longer waits is not carried out"
            self._job.tell(
                ControlRefused(
                    said=text,
                    verb=REVERT,
                    arguments=dict(asked.request.arguments),
                    reason="it no longer waits",
                )
            )
            error = MigrationFailure(text, hint="run spirit-py revert again")
            self._queue.answer(session, asked.number, Answer.of_error(asked.request.token, error))

    def accept(self, asked: Asked) -> None:
        """Begin to answer: from now on the asking process gets every message of this one."""
        self._asked = asked
        self._answer = Answer(token=asked.request.token, state=WORKING, said=())
        self._job.follow(self._relay)

    def _relay(self, happened: object) -> None:
        if isinstance(happened, Event) and happened.has_line:
            self._put(replace(self._answer, said=(*self._answer.said, happened.line)))

    def _put(self, answer: Answer) -> None:
        self._answer = answer
        number = self._asked.number
        self._try(lambda session: self._queue.answer(session, number, answer), "no answer written")

    def fail(self, error: SpiritError) -> None:
        """Answer that the revert failed."""
        self._job.unfollow(self._relay)
        self._put(Answer.of_error(self._answer.token, error))

    def done(self) -> None:
        """Answer that the revert was made; wait for a while until the answers were read."""
        self._job.unfollow(self._relay)
        self._put(replace(self._answer, state=DONE))
        answered = [self._asked]
        until, stop = time.monotonic() + _ANSWER_SECONDS, self._job.stop
        while time.monotonic() < until and not stop.requested:
            if self._try(lambda session: self._all_read(session, answered), "no look at requests"):
                return
            stop.wait(0.1)

    def _all_read(self, session: Session, answered: list[Asked]) -> bool:
        """Whether nobody waits any more; answer each revert that asked meanwhile."""
        for asked in self._claimed(session):
            answered.append(asked)
            answer = replace(self._answer, token=asked.request.token)
            self._queue.answer(session, asked.number, answer)
        return not any(self._queue.who_waits(session, asked.request) for asked in answered)

    # -- the session

    def _try(
        self,
        work: Callable[[Session], T],
        failed: str,
        report: Callable[[str], None] = _LOG.info,
        *,
        tries: int = 1,
    ) -> T | None:
        """Do what may fail because of the server; then report it, and return None.

        Args:
            tries: how often, where it waits for a server that is away or read-only.
        """
        try:
            if tries == 1:
                return self._session.ask(work)
            again = retrying(self._job.stop, attempts=tries, passing=takes_no_writes)
            done: T = again(self._session.ask, work)
            return done
        except ServerFault as fault:
            report(f"{failed}: {fault.message}")
            return None

    def close(self) -> None:
        """End relaying and the session."""
        self._job.unfollow(self._relay)
        self._session.close()
