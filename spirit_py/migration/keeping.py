"""The way back after the swap: planned before the copy, kept until its time is over."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.record import home_of
from spirit_py.checkpoint.reverse import ENDED, FOLLOWING
from spirit_py.checkpoint.reverse_look import Where, any_old_table, find_reverse, where_is
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.checksum.result import ChecksumOptions
from spirit_py.migration.keeper import Ending, Keeper, WayBackLost, begin
from spirit_py.migration.reverse_feed import plan_way_back
from spirit_py.migration.swap import limits_of
from spirit_py.migration.undo import Means
from spirit_py.mysql.retry import retrying
from spirit_py.mysql.vouched import require_word
from spirit_py.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.checkpoint.reverse import ReverseRecord, ReverseTable
    from spirit_py.contracts import SqlSession
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.errors import SpiritError
    from spirit_py.feed.feed import ChangeFeed
    from spirit_py.migration.checkpoints import Checkpoints
    from spirit_py.migration.run import Run
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping


_BEGIN_ATTEMPTS: Final = 8


class WayBackKeeping:
    """The way back of one migration's tables; does nothing where none was asked for."""

    def __init__(
        self, run: Run, contexts: Sequence[PreflightContext], checkpoints: Checkpoints
    ) -> None:
        self._run = run
        self._contexts = contexts
        self._checkpoints = checkpoints
        self._tables: list[ReverseTable] = []

    @property
    def wanted(self) -> bool:
        """Whether the old tables are to follow the new ones."""
        return self._run.config.keep_old_current > 0

    def plan(self, mappings: Sequence[TableMapping]) -> None:
        """Say what the way back would lose, before anything is copied.

        Raises:
            Refusal: when there is none.
        """
        if not self.wanted:
            return
        by_name = {(context.schema, context.table): context for context in self._contexts}
        for mapping in mappings:
            context = by_name[mapping.source.schema, mapping.source.name]
            table = plan_way_back(mapping, context.statement, context.facts.time_zone)
            self._tables.append(table)
            for line in table.losses:
                self._run.warn(line)

    def keep(self, swapped: CutoverResult, feed: ChangeFeed) -> bool:
        """Keep the way back until its end; True when it was gone: nothing is left then.

        Args:
            feed: the migration's own, which is at its end.

        Raises:
            WayBackLost: there is no way back any more; the change is done.
            Interrupted: somebody else may go on with it.
        """
        if not self.wanted:
            return False
        run = self._run
        run.figures.enter(Phase.KEEP)
        if not swapped.after_rename:
            raise _unknown_place(self._tables)
        store = self._store()
        record = retrying(run.stop, attempts=_BEGIN_ATTEMPTS)(self._begin, store, swapped)
        self._checkpoints.note()
        self._checkpoints.end()
        feed.close()
        run.rest_engine()
        return self._run_keeper(store, record)

    def _begin(self, store: CheckpointTable, swapped: CutoverResult) -> ReverseRecord:
        """Write down where the way back begins, in a session of its own."""
        with self._run.session("keep") as session:
            return begin(
                session,
                store,
                self._tables,
                position=swapped.after_rename,
                seconds=self._run.config.keep_old_current,
            )

    def go_on(self, session: SqlSession) -> bool:
        """Go on where an earlier run was stopped; True when nothing is left to clean up.

        Raises:
            WayBackLost: the earlier run has found that there is no way back any more.
        """
        first = self._contexts[0]
        found = find_reverse(session, first.schema, first.table)
        if found is None:
            if self.wanted:
                self._run.warn("no way back is kept: the earlier run ended before it had begun to")
            return False
        where = where_is(session, found.record)
        if where is Where.BACK:
            self._run.figures.enter(Phase.KEEP)
            self._keeper(found.checkpoint, found.record).finish(skip_drop=False)
            self._note_reverted()
            return True
        if found.record.state == ENDED and any_old_table(session, found.record):
            raise WayBackLost(
                f"the way back of {found.record.names} is lost: {found.record.reason}",
                hint="the change itself is done and stays; see what only the old table holds, then"
                " drop it, or run spirit-py cleanup",
            )
        if found.record.state == ENDED:
            return False
        if not self.wanted:
            self._run.message(
                f"the way back of {found.record.names} is given up: nobody asks for it"
            )
            return False
        tables = [(table.schema, table.table) for table in found.record.tables]
        require_word(session, self._run.config.feed.vouched, tables)
        self._run.figures.enter(Phase.KEEP)
        return self._run_keeper(found.checkpoint, replace(found.record, state=FOLLOWING))

    def _run_keeper(self, store: CheckpointTable, record: ReverseRecord) -> bool:
        """Keep, and put the end into the report."""
        ending = self._keeper(store, record).run()
        self._run.figures.waiting_for = ""
        if ending is Ending.REVERTED:
            self._note_reverted()
        return ending is Ending.REVERTED

    def _note_reverted(self) -> None:
        self._run.report.reverted = True

    def _keeper(self, store: CheckpointTable, record: ReverseRecord) -> Keeper:
        """Make the keeper, with what this run was asked for."""
        run = self._run
        means = Means(
            connection=run.config.connection,
            engine=lambda: run.engine,
            message=run.message,
            show=run.show,
            feed=run.config.feed,
            limits=limits_of(run.config),
            guard=run.config.snapshot_guard,
            checksum=ChecksumOptions(
                lock_wait_timeout=math.ceil(run.config.lock_wait_timeout),
                yield_seconds=run.config.checksum_yield_timeout,
            ),
        )
        return Keeper(means, store, record, stop=run.stop)

    def _store(self) -> CheckpointTable:
        schema, table = home_of((context.schema, context.table) for context in self._contexts)
        return CheckpointTable(schema, table)


def _unknown_place(tables: Sequence[ReverseTable]) -> SpiritError:
    """Return that nobody can follow from the swap on."""
    old = ", ".join(f"{table.schema}.{table.old}" for table in tables)
    return WayBackLost(
        "the way back cannot be kept: the answer to the RENAME was lost, and with it the place in"
        " the binlog behind it",
        hint=f"the change is done and stays; {old} is as it was at the swap: drop it when nobody"
        " needs it",
    )
