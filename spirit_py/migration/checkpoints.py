"""What a run writes down of itself, so that another one can carry on (R16, R17)."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py import __version__
from spirit_py.checkpoint.proofs import begin_proofs, shape_digest
from spirit_py.checkpoint.record import (
    CheckpointRecord,
    Pointer,
    TableProgress,
    home_of,
    joined,
)
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.checkpoint.writer import CheckpointWriter
from spirit_py.errors import SpiritError
from spirit_py.mysql.connect import connect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.feed.feed import ChangeFeed
    from spirit_py.migration.copied import CopiedPair
    from spirit_py.migration.run import Run
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping

_log = logging.getLogger(__name__)

#: At the end of a run the operator waits for the last record.
_LAST_CONNECT_SECONDS: Final = 3
_ANSWER_WITHIN: Final = 5


def statement_of(contexts: Sequence[PreflightContext]) -> str:
    """Return the normal form of a run's statements, whatever they are spelled and ordered like."""
    return joined(
        (
            (context.schema, context.table),
            replace(context.statement, schema=context.schema, table=context.table).normalized,
        )
        for context in contexts
    )


class Checkpoints:
    """The record of one run, which begins as that of the run that it carries on."""

    def __init__(
        self,
        run: Run,
        contexts: Sequence[PreflightContext],
        earlier: CheckpointRecord | None = None,
    ) -> None:
        self._run = run
        self._began = time.monotonic()
        self._feed: ChangeFeed | None = None
        self._works: Sequence[CopiedPair] = ()
        self._writer: CheckpointWriter | None = None
        self._resumed = earlier is not None
        self._written = False
        self._settled_at = ""
        self._base = (
            self._renewed(earlier, contexts[0].facts.uuid) if earlier else self._first(contexts)
        )

    def _renewed(self, earlier: CheckpointRecord, server: str) -> CheckpointRecord:
        return replace(earlier, runs=earlier.runs + 1, program=__version__, server_uuid=server)

    def _first(self, contexts: Sequence[PreflightContext]) -> CheckpointRecord:
        """Make the first record of a migration."""
        return CheckpointRecord(
            statement=statement_of(contexts),
            tables=tuple(
                TableProgress(
                    schema=context.schema,
                    table=context.table,
                    source_shape="" if context.found is None else shape_digest(context.found),
                )
                for context in contexts
            ),
            server_uuid=contexts[0].facts.uuid,
            phase=self._run.figures.phase.value,
            started_at=_server_time(contexts[0].session),
            program=__version__,
        )

    @property
    def moment(self) -> str:
        """When the migration began, in all its runs: what new columns get for the time."""
        return self._base.started_at

    @property
    def deferred(self) -> bool:
        """Whether the sentinel was created, by this run or an earlier one."""
        return self._base.sentinel

    def mark(self, session: SqlSession) -> None:
        """Create the checkpoint tables: from now on what comes beside the tables is ours."""
        home = home_of(table.name for table in self._base.tables)
        pointer = Pointer(home=home, program=__version__)
        for table in self._base.tables:
            record = self._base if table.name == home else pointer
            CheckpointTable(*table.name).create(session, record)
            begin_proofs(session, *table.name)

    def created(self, mappings: Sequence[TableMapping]) -> None:
        """Note what the new tables look like."""
        targets = {(m.source.schema, m.source.name): m.target for m in mappings}
        self._base = replace(
            self._base,
            tables=tuple(
                replace(table, target_shape=shape_digest(targets[table.name]))
                for table in self._base.tables
            ),
        )

    def follow(self, feed: ChangeFeed, works: Sequence[CopiedPair]) -> None:
        """Begin to write records that can be resumed from.

        The first one is not waited for: commits of the server may stall, and the copy need not.
        """
        self._feed, self._works = feed, works
        run = self._run
        self._writer = CheckpointWriter(
            run.config.connection, CheckpointTable(*self._base.home), self.take, stop=run.stop
        )
        run.closing("the checkpoint", self._last)
        self._writer.start()
        self._writer.request()

    @property
    def resumable(self) -> bool:
        """A record with a position is in its table: the same command carries on."""
        written = self._written or (self._writer is not None and self._writer.age is not None)
        return self._resumed or written

    def soon(self) -> None:
        """Have a record written, without waiting for it."""
        if self._writer is not None:
            self._writer.request()

    def sentinel_created(self) -> None:
        """Note that the cutover was deferred: a sentinel that goes is not made again."""
        self._base = replace(self._base, sentinel=True)
        self.note()

    def note(self) -> None:
        """Write a record now, if that is possible: an older one is as good (see the writer)."""
        if self._writer is None:
            return
        try:
            self._writer.write_now()
        except SpiritError as error:
            _log.info("the checkpoint could not be written: %s", error)

    def _last(self) -> None:
        """Write the last record, before the parts are closed."""
        if self._writer is None:
            return
        self._writer.close()
        connection = self._run.config.connection
        quick = replace(
            connection, connect_timeout=min(connection.connect_timeout, _LAST_CONNECT_SECONDS)
        )
        writer = CheckpointWriter(
            quick, CheckpointTable(*self._base.home), self.take, stop=self._run.stop
        )
        self._written = self._written or self._writer.age is not None
        try:
            self._settle(quick)
            writer.write_now()
            self._written = True
        except SpiritError as error:
            _log.info("the last checkpoint could not be written: %s", error)

    def _settle(self, connection: ConnectionOptions) -> None:
        """Note the place behind which nothing of this run writes to a new table.

        What somebody else writes there can then be told from what we did, and the next run can
        trust what this one's checksum has compared.
        """
        if self._feed is None or not any(work.checked_up_to() for work in self._works):
            return
        self._feed.close()
        with connect(connection, role="checkpoint", read_timeout=_ANSWER_WITHIN) as session:
            self._settled_at = self._feed.position_here(session)

    def end(self) -> None:
        """Write nothing more: the tables are swapped."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def take(self) -> CheckpointRecord:
        """Return the record of now. No I/O; any thread may ask."""
        run, base = self._run, self._base
        position = self._feed.position() if self._feed is not None else ""
        by_name = {work.source_name: work for work in self._works}
        return replace(
            base,
            tables=tuple(_progress(table, by_name.get(table.name)) for table in base.tables),
            phase=run.figures.phase.value,
            position=position or base.position,
            settled_at=self._settled_at,
            seconds=round(base.seconds + time.monotonic() - self._began, 1),
            totals=self._totals(),
        )

    def _totals(self) -> dict[str, int]:
        """Add this run's counters to those of the runs before it."""
        if self._feed is None:
            return self._base.totals
        seen = self._feed.statistics()
        counted = {
            "changes_received": seen.received,
            "changes_applied": seen.applied,
            "changes_dropped": seen.dropped_above_high_watermark,
            "feed_reconnects": seen.reconnects,
        }
        return {name: self._base.totals.get(name, 0) + count for name, count in counted.items()}


def _server_time(session: SqlSession) -> str:
    """Return the server's time, to the second, in the form of a record."""
    text = session.query("SELECT DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%dT%H:%i:%s')")[0][0]
    return f"{text}+00:00"


def _progress(table: TableProgress, work: CopiedPair | None) -> TableProgress:
    """Return a table's progress, from the work on it where that has begun."""
    if work is None:
        return table
    copied = work.copied_so_far()
    checked = work.checked_up_to()
    return replace(
        table,
        copied_up_to=copied.up_to,
        copied=copied.finished,
        rows_copied=copied.rows,
        chunks=copied.chunks,
        checked_up_to=checked,
    )
