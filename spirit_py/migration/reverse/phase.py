"""Reverse replication as a phase of a migration: planned before the copy, run behind the swap."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.record import home_of
from spirit_py.checkpoint.reverse import ENDED, FOLLOWING
from spirit_py.checkpoint.reverse_look import Where, any_old_table, find_reverse, where_is
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.migration.reverse.feed import plan_reverse
from spirit_py.migration.reverse.keeper import Keeper, ReverseReplicationLost, begin
from spirit_py.mysql.retry import retrying
from spirit_py.mysql.vouched import require_passable
from spirit_py.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.checkpoint.reverse import ReverseRecord, ReverseTable
    from spirit_py.contracts import SqlSession
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.feed.feed import ChangeFeed
    from spirit_py.migration.checkpoints import Checkpoints
    from spirit_py.migration.run import Run
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping

_BEGIN_ATTEMPTS: Final = 8


class ReversePhase:
    """Reverse replication of one migration's tables; does nothing where it was not asked for."""

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
        """Report what a revert would lose, before anything is copied.

        Raises:
            Refusal: the old table could not follow.
        """
        if not self.wanted:
            return
        by_name = {(context.schema, context.table): context for context in self._contexts}
        for mapping in mappings:
            context = by_name[mapping.source.schema, mapping.source.name]
            table = plan_reverse(mapping, context.statement, context.facts.time_zone)
            self._tables.append(table)
            for line in table.losses:
                self._run.warn(line)

    def keep(self, swapped: CutoverResult, feed: ChangeFeed) -> bool:
        """Let the old tables follow until the end; True when a revert was made: nothing is left.

        Args:
            feed: the migration's own, which is at its end.

        Raises:
            ReverseReplicationLost: the old tables can follow no more; the change is done.
            Interrupted: another process may go on with it.
        """
        if not self.wanted:
            return False
        run = self._run
        run.figures.enter(Phase.KEEP)
        if not swapped.after_rename:
            old = ", ".join(f"{table.schema}.{table.old}" for table in self._tables)
            raise ReverseReplicationLost(
                "reverse replication cannot begin: the answer to the RENAME was lost, and with it"
                " the place in the binlog behind it",
                hint=f"the change is done and stays; {old} is as it was at the swap: drop it when"
                " it is not needed",
            )
        home = home_of((context.schema, context.table) for context in self._contexts)
        store = CheckpointTable(*home)

        def write_record() -> ReverseRecord:
            with run.session("keep") as session:
                return begin(
                    session,
                    store,
                    self._tables,
                    position=swapped.after_rename,
                    seconds=run.config.keep_old_current,
                )

        record = retrying(run.stop, attempts=_BEGIN_ATTEMPTS)(write_record)
        self._checkpoints.note()
        self._checkpoints.end()
        feed.close()
        run.rest_engine()
        return self._run_keeper(store, record)

    def go_on(self, session: SqlSession) -> bool:
        """Go on where an earlier run was stopped; True when nothing is left to clean up.

        Raises:
            ReverseReplicationLost: the earlier run found that the old tables can follow no more.
        """
        run = self._run
        found = find_reverse(session, self._contexts[0].schema, self._contexts[0].table)
        if found is None:
            if self.wanted:
                run.warn("no reverse replication: the earlier run ended before it began")
            return False
        record = found.record
        if where_is(session, record) is Where.BACK:
            run.figures.enter(Phase.KEEP)
            Keeper(run, found.checkpoint, record).finish(skip_drop=False)
            run.report.reverted = True
            return True
        if record.state == ENDED:
            if any_old_table(session, record):
                raise ReverseReplicationLost.of(record, record.reason)
            return False
        if not self.wanted:
            run.message(f"reverse replication of {record.names} is given up: not asked for again")
            return False
        tables = [(table.schema, table.table) for table in record.tables]
        require_passable(session, run.config.feed.vouched, tables)
        run.figures.enter(Phase.KEEP)
        return self._run_keeper(found.checkpoint, replace(record, state=FOLLOWING))

    def _run_keeper(self, store: CheckpointTable, record: ReverseRecord) -> bool:
        """Let the tables follow, and put the end into the report."""
        reverted = Keeper(self._run, store, record).run()
        self._run.show("")
        self._run.report.reverted = reverted
        return reverted
