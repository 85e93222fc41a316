"""The record of reverse replication, as the process that runs it keeps it up to date."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py.checkpoint.drop import drop_checkpoint
from spirit_py.checkpoint.old_table import OldTableRecord
from spirit_py.checkpoint.reverse import ENDED, ReverseRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import ServerFault
from spirit_py.migration.reverse.feed import require_definitions
from spirit_py.mysql.faults import Disposition, disposition, takes_no_writes
from spirit_py.mysql.renewed import RenewedSession
from spirit_py.mysql.retry import retrying

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.migration.job import Job
    from spirit_py.mysql.session import Session

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

WRITE_SECONDS: Final = 50.0
"""Seconds between two writes of the position."""
_READ_SECONDS: Final = 10
#: Tries of a step after the swap back.
_LAST_TRIES: Final = 8


class KeptRecord:
    """Writes the record, and what is left to do when reverse replication ends; for one thread.

    Its session is opened again when it was lost: only what must be written raises.

    Attributes:
        record: what stands in the table, but for the position.
    """

    def __init__(self, job: Job, record: ReverseRecord) -> None:
        self._job = job
        self._checkpoint = CheckpointTable(*record.home)
        self.record = record
        self._session = RenewedSession(lambda: job.session("keep", read_timeout=_READ_SECONDS))
        self._written_at = time.monotonic()

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

    def keep_up(self, position: Callable[[], str]) -> None:
        """Write the position when it is time, and look at the definitions.

        A server that is away for a while is waited for by the feed, which gives up in its time.

        Raises:
            SchemaChanged: another session changed a definition.
        """
        if time.monotonic() - self._written_at < WRITE_SECONDS:
            return
        try:
            self.write(position=position())
            require_definitions(self._session.session(), self.record.tables)
        except ServerFault as fault:
            self.close()
            if disposition(fault) is Disposition.FATAL:
                raise
            _LOG.info("the position of reverse replication is not written: %s", fault.message)

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
        """End the session; the next write has another one."""
        self._session.close()
