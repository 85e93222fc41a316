"""Reverse replication of a move: the source's tables follow those in use on the target.

The record is on the source, as that of a migration; its position is one of the target's binlog.
``spirit-py revert`` on the source asks the process, which compares both servers, and makes the
switch the other way round: ``t`` on the target becomes ``_t_undone``, ``_t_moved`` becomes ``t``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spirit_py.checkpoint.record import ReverseRecord, digest_of
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import replace
from spirit_py.migration.reverse.feed import (
    open_reverse_feed,
    plan_reverse,
    require_definitions,
    write_first,
)
from spirit_py.migration.reverse.keeper import Keeper
from spirit_py.migration.reverse.swap_back import SwapBack
from spirit_py.migration.swap.same_tables import BACK
from spirit_py.move.carrier import ApartApplier
from spirit_py.move.renames import SwitchFailed, run_switch_command
from spirit_py.move.switch import Switch
from spirit_py.mysql.tables.definition import shape_of

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Sequence

    from spirit_py.checkpoint.record import ReverseTable
    from spirit_py.cutover.plan import SwapGate
    from spirit_py.errors import SpiritError
    from spirit_py.migration.control.subject import Conversation
    from spirit_py.migration.pair import Pair
    from spirit_py.migration.reverse.swap_back import KeptRecord
    from spirit_py.move.run import MoveRun
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping


def plan_back(
    run: MoveRun, contexts: Sequence[PreflightContext], mappings: Sequence[TableMapping]
) -> ReverseRecord | None:
    """Plan how the source's tables would follow; None if they are not to, Refusal if they cannot.

    ``contexts`` and ``mappings`` are those of the move, in one order.
    """
    config = run.config
    if not config.keep_old_current:
        return None
    tables = []
    for context, mapping in zip(contexts, mappings, strict=True):
        planned = plan_reverse(mapping, context.statement, context.facts)
        was = digest_of(shape_of(context.source), context.table)
        tables.append(replace(planned, old=planned.names.moved, old_shape=was))
    record = ReverseRecord(tables=tuple(tables), modes=config.modes)
    for line in record.losses:
        run.warn(line)
    return record


def note_way_back(planned: ReverseRecord, seconds: float, session: Session, place: str) -> None:
    """Note the place in the target's binlog from which the source's tables follow; empty: none.

    While the tables are locked, and before the application is sent to the target.
    """
    if place:
        write_first(session, planned, position=place, seconds=seconds)
    else:
        CheckpointTable(*planned.home).forget(session, ReverseRecord)


class KeeperApart(Keeper):
    """Lets tables on the source follow those on the target."""

    def __init__(self, run: MoveRun, record: ReverseRecord) -> None:
        super().__init__(run, record)
        self._facing = self._back_run = run.facing_back()

    def _opened(self, stack: contextlib.ExitStack) -> list[Pair]:
        made_by = partial(ApartApplier, here=self._back_run.config.connection)
        return open_reverse_feed(
            self._back_run, self._record.record, self._stop, stack, made_by=made_by
        )

    def _made_swap(self) -> SwapBack:
        return SwitchBack(self._back_run, self._pairs, self._record)

    def finish(self, *, skip_drop: bool) -> None:
        """Run the operator's command (again), for a revert that a process made and did not end."""
        tables = [table.name for table in self._record.record.tables]
        run = self._back_run
        if run.config.on_switch and (why := run_switch_command(run, tables, back=True)):
            raise SwitchFailed(
                f"the command of --on-switch failed: {why}; the tables are on the source again",
                hint="see why it failed, and run the same command again; or send the application"
                " to the source by hand, and run it without --on-switch",
            )
        super().finish(skip_drop=skip_drop)

    def _answer_failure(self, asked: Conversation, error: SpiritError) -> None:
        super()._answer_failure(asked, error)
        if isinstance(error, SwitchFailed):
            # Its RENAMEs have ended the feed: another process goes on behind them.
            raise error


class SwitchBack(SwapBack):
    """One try of a revert of a move."""

    def __init__(self, run: MoveRun, pairs: Sequence[Pair], kept: KeptRecord) -> None:
        super().__init__(run, pairs, kept)
        self._run = run

    def _require_as_noted(self, tables: Sequence[ReverseTable]) -> None:
        with self._run.session("revert", there=True) as session:
            require_definitions(session, tables)

    def _planned(self, gate: SwapGate) -> Callable[[], object]:
        tables = self._kept.record.tables
        switch = Switch(
            self._run,
            self._pairs,
            BACK,
            gate,
            check=lambda there: require_definitions(there, tables),
            behind=lambda _, place: self._kept.write(position=place),
        )
        self._cutover = switch
        return switch.run
