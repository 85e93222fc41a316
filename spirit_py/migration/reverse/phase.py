"""Reverse replication as a phase of a migration: planned before the copy, run after the swap."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spirit_py.checkpoint.examination import old_table_of
from spirit_py.checkpoint.proofs import Where, any_old_table, find_reverse, where_is
from spirit_py.checkpoint.record import ENDED, FOLLOWING
from spirit_py.migration.facts import PlainFact
from spirit_py.migration.reverse.feed import plan_reverse
from spirit_py.migration.reverse.keeper import Keeper, ReverseReplicationLost, begin
from spirit_py.mysql.faults import takes_no_writes
from spirit_py.phases import Phase
from spirit_py.preflight.passable import require_passable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.checkpoint.record import ReverseRecord, ReverseTable
    from spirit_py.contracts import SqlSession
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.migration.run import Run
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping


def plan_tables(
    run: Run, contexts: Sequence[PreflightContext], mappings: Sequence[TableMapping]
) -> tuple[ReverseTable, ...]:
    """Plan how the old tables would follow, if asked for; Refusal where one could not."""
    if not run.config.keep_old_current:
        return ()
    tables = tuple(
        plan_reverse(mapping, context.statement, context.facts.time_zone)
        for context, mapping in zip(contexts, mappings, strict=True)
    )
    for table in tables:
        for line in table.losses:
            run.warn(line)
    return tables


def begin_reverse(
    run: Run, tables: Sequence[ReverseTable], swapped: CutoverResult
) -> ReverseRecord:
    """Write the first record; ReverseReplicationLost where the place of the swap is not known."""
    if not swapped.after_rename:
        old = ", ".join(f"{table.schema}.{table.old}" for table in tables)
        lost = "the answer to the RENAME was lost"
        why = lost if swapped.answer_lost else "what follows the RENAME was interrupted"
        raise ReverseReplicationLost(
            f"reverse replication cannot begin: {why}, so the binlog position right"
            " after the swap is unknown",
            hint=f"the change is done and stays; {old} is as it was at the swap: see whether it is"
            " needed; the same command drops it, as spirit-py cleanup --drop-old does",
        )

    write_record = partial(
        begin,
        tables=tables,
        position=swapped.after_rename,
        seconds=run.config.keep_old_current,
        modes=run.config.modes,
    )
    # Without the record the way back is lost, and a server is read-only for a moment at times.
    return run.step("keep", write_record, passing=takes_no_writes)


def run_reverse(run: Run, record: ReverseRecord) -> bool:
    """Let old tables follow to the end; True after a revert; raises as :meth:`Keeper.run`."""
    keeper = Keeper(run, record)
    run.keep_with(keeper)
    if reverted := keeper.run():
        run.note(PlainFact.REVERTED)
    run.show("")
    return reverted


def carry_on_reverse(run: Run, session: SqlSession, table: tuple[str, str]) -> bool:
    """Resume what an earlier run kept; True when nothing is left to clean up."""
    wanted = run.config.keep_old_current > 0
    record = find_reverse(session, *table)
    if record is None:
        noted = old_table_of(session, table)
        if wanted and not (noted and noted.followed):
            run.warn("no reverse replication: the earlier run ended before it began")
        return False
    if where_is(session, record) is Where.BACK:
        run.go_on_to(Phase.KEEP)
        Keeper(run, record).finish(skip_drop=False)
        run.note(PlainFact.REVERTED)
        return True
    if record.state == ENDED:
        if any_old_table(session, record):
            raise ReverseReplicationLost.of(record, record.reason)
        return False
    if not wanted and not any_old_table(session, record):
        return False
    tables = [one.name for one in record.tables]
    require_passable(session, run.config.feed.passable, tables)
    run.go_on_to(Phase.KEEP)
    return run_reverse(run, replace(record, state=FOLLOWING))
