"""What a move does in another way than a migration: where its parts are, its switch, the way back.

The record of reverse replication is on the source, as that of a migration; its position is one of
the target's binlog. ``spirit-py revert`` on the source asks the process, which compares both
servers, and makes the switch the other way round: ``t`` on the target becomes ``_t_undone``,
``_t_moved`` becomes ``t``.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from spirit_py.checkpoint.examination import old_table_of
from spirit_py.checkpoint.proofs import (
    Where,
    find_reverse,
    note_proofs,
    noted_proof,
    read_proofs,
    where_is,
)
from spirit_py.checkpoint.record import MoveNote, ReverseRecord, digest_of, home_of
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import replace
from spirit_py.errors import SpiritError
from spirit_py.migration.facts import PlainFact, Swapped
from spirit_py.migration.migration import OneServer
from spirit_py.migration.reverse.feed import (
    guarded_digest,
    open_reverse_feed,
    plan_reverse,
    require_definitions,
    write_first,
)
from spirit_py.migration.reverse.keeper import Keeper, ReverseReplicationLost
from spirit_py.migration.reverse.phase import carry_on_reverse
from spirit_py.migration.reverse.swap_back import SwapBack
from spirit_py.migration.swap.old_tables import note_swap, settle_old_tables
from spirit_py.migration.swap.same_tables import BACK, MOVED
from spirit_py.move.carrier import ApartApplier, JoinAcross, ShardedApplier
from spirit_py.move.renames import SwitchFailed, note_move, run_switch_command
from spirit_py.move.run import MoveRun, forget_there, is_anothers, put_back
from spirit_py.move.switch import Switch
from spirit_py.mysql.tables.definition import shape_of
from spirit_py.mysql.tables.identity import is_one_of
from spirit_py.sql import quote_table
from spirit_py.table.names import moving

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spirit_py.applier.applier import SqlApplier
    from spirit_py.checkpoint.record import CheckpointRecord, ReverseTable
    from spirit_py.contracts import SqlSession
    from spirit_py.copier.task import JoinCopy
    from spirit_py.cutover.plan import CutoverResult, SwapGate
    from spirit_py.migration.checkpoints import Checkpoints
    from spirit_py.migration.control.subject import Conversation
    from spirit_py.migration.copied_pair import CopiedPair
    from spirit_py.migration.pair import Pair
    from spirit_py.migration.reverse.swap_back import KeptRecord
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.statement import AlterStatement
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name


class Across(OneServer["MoveRun"]):
    """The way to other servers; ``mappings`` are of the new tables, by the shard of their way."""

    direction = MOVED

    def __init__(
        self,
        mappings: Mapping[str, Sequence[TableMapping]],
        reverse: ReverseRecord | None,
    ) -> None:
        self._mappings, self._reverse = mappings, reverse
        self._ways: list[MoveRun] = []

    def facing(self, run: MoveRun, mapping: TableMapping) -> MoveRun:
        """Return the run as it faces the servers that a mapping is between."""
        # One for all tables of two servers, which are switched together.
        self._ways = self._ways or run.ways()
        return next(one for one in self._ways if mapping in self._mappings[one.config.shard])

    def applier(self, run: MoveRun) -> Callable[..., SqlApplier]:
        """Return what makes the applier, which writes on the targets."""
        if not run.config.shards:
            return partial(ApartApplier, here=run.config.connection)
        ways = [(one.config.there, self._mappings[one.config.shard]) for one in run.ways()]
        return partial(ShardedApplier, here=run.config.connection, ways=ways)

    def joins(self, run: MoveRun) -> Callable[..., JoinCopy]:
        """Return what opens a task's sessions, one on each server."""
        return partial(JoinAcross, reads=run.config.connection)

    def swap(
        self,
        run: MoveRun,
        pairs: Sequence[CopiedPair],
        altered: Mapping[Name, AlterStatement],
        gate: SwapGate,
        checkpoints: Sequence[Checkpoints],
    ) -> Callable[[], CutoverResult]:
        """Return what switches over to the target."""
        way_back = None
        if self._reverse is not None:
            way_back = partial(note_way_back, self._reverse, run.config.keep_old_current)
        places = {one.server: one.go_on_behind for one in checkpoints}

        def require_whole(there: SqlSession) -> None:
            for pair in pairs:
                pair.plan.deferred.require_whole(there)

        switch = Switch(
            run,
            pairs,
            MOVED,
            gate,
            check=require_whole,
            behind=lambda address, place: places[address](place),
            counters={
                name: one.auto_increment for name, one in altered.items() if one.auto_increment
            },
            way_back=way_back,
        )
        run.swap_with(switch)
        return partial(_made, run, switch)

    def fronts(self, run: MoveRun) -> Sequence[MoveRun]:
        """Return the run as it faces each source."""
        return run.fronts()

    def keeper(self, run: MoveRun, record: ReverseRecord) -> Keeper:
        """Return what lets the source's tables follow."""
        return KeeperApart(run, record)

    def settle(self, run: MoveRun, tables: Sequence[Name]) -> None:
        """Forget on the target what proved its tables."""
        forget_there(run, tables)

    def way_back(self, _run: MoveRun, _table: Name) -> None:
        """Return None: without reverse replication there is none."""


def _made(run: MoveRun, switch: Switch) -> CutoverResult:
    """Make the switch; may be called again after :class:`HeldBack`."""
    try:
        result = switch.run()
    finally:
        if not run.may_be_swapped:
            _note_not_begun(run, switch)
    run.note(Swapped(result))
    return result


def _note_not_begun(run: MoveRun, switch: Switch) -> None:
    """Note that no RENAME was made; if that fails, a later run keeps the new tables."""
    for way in run.backs():
        with contextlib.suppress(SpiritError), way.session("cleanup", there=True) as there:
            for table in switch.tables:
                if read_proofs(there, *table).swap_begun:
                    note_proofs(there, *table, swap_begun=False)


def finish_switch(run: MoveRun, record: CheckpointRecord) -> None:
    """Do what is left to do after the switch of an earlier run."""
    tables = [table.name for table in record.tables]
    run.step("move", partial(_put_right, run=run, tables=tables))
    run.step("move", partial(note_move, tables=tables, away=True))
    note = run.step("move", lambda session: CheckpointTable(*record.home).read(session, MoveNote))
    sent = bool(note and note.switched) or run.step("move", partial(_is_back, table=tables[0]))
    if run.config.on_switch and not sent:
        if run.config.keep_old_current and not run.step("move", partial(_leads_back, tables[0])):
            raise SwitchFailed(
                "the command of --on-switch was not called: the earlier run ended before it noted"
                " the place of the way back; the tables are on the target already",
                hint="run the same command without --keep-old-current: it sends the application to"
                " the target, and nothing leads back from there",
            )
        if why := run_switch_command(run, tables):
            raise SwitchFailed(
                f"the command of --on-switch failed: {why}; the tables are on the target already",
                hint="see why it failed, and run the same command again; or send the application"
                " to the target by hand, and run it without --on-switch",
            )
        run.step("move", partial(note_move, tables=tables, switched=True))
    for front in run.fronts():
        note_swap(front, tables)
    run.note(PlainFact.TABLES_CHANGED)
    try:
        with run.session("keep") as session:
            reverted = carry_on_reverse(
                run, session, tables, lambda _, record: KeeperApart(run, record)
            )
    except ReverseReplicationLost:
        # Nothing leads back any more.
        forget_there(run, tables)
        raise
    forget_there(run, tables)
    if not reverted:
        settle_old_tables(run, tables, lambda: None, MOVED, fronts=run.fronts)


def _leads_back(table: Name, session: SqlSession) -> bool:
    """Return whether the source's tables can follow the target, or have done so."""
    noted = old_table_of(session, table)
    return find_reverse(session, *table) is not None or bool(noted and noted.followed)


def _is_back(session: SqlSession, table: Name) -> bool:
    """Return whether a revert was made: the application is to be sent back, and nowhere else."""
    reverse = find_reverse(session, *table)
    return reverse is not None and where_is(session, reverse) is Where.BACK


def _put_right(session: SqlSession, run: MoveRun, tables: Sequence[Name]) -> None:
    """Complete the names where a run ended between two RENAMEs: nobody was sent anywhere."""
    for way in run.backs():
        with way.session("move", there=True) as there:
            own = [name for name in tables if not is_anothers(run.config, there, name)]
            if _put_right_there(session, there, own):
                # The place that was noted is before a RENAME which the feed cannot pass.
                CheckpointTable(*home_of(tables)).forget(session, ReverseRecord)


def _put_right_there(session: SqlSession, there: SqlSession, tables: Sequence[Name]) -> bool:
    """Do it on one target; return whether a switch was being taken back there."""
    taken_back = False
    for name in tables:
        proof, new = noted_proof(there, name, "new"), moving(name).new
        if is_one_of(there, name[0], new, proof):
            # Its rows are all there.
            both = quote_table(name[0], new), quote_table(*name)
            there.execute(f"RENAME TABLE {both[0]} TO {both[1]}")
            taken_back = True
        elif is_one_of(there, *name, proof):
            # A revert was being made.
            put_back(session, [replace(moving(name), new=moving(name).old)], BACK)
    return taken_back


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
        guarded = guarded_digest(context.session, context.source)
        old = planned.names.moved
        tables.append(replace(planned, old=old, old_shape=was, guarded_shape=guarded))
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
        self._facing = self._back_run = run.facing(
            connection=run.config.there, target=run.config.connection
        )

    def _opened(self, stack: contextlib.ExitStack) -> list[Pair]:
        made_by = partial(ApartApplier, here=self._back_run.config.connection)
        return open_reverse_feed(
            self._back_run, self._record.record, self._stop, stack, made_by=made_by
        )

    def _made_swap(self) -> SwapBack:
        return SwitchBack(self._back_run, self._pairs, self._record)

    def finish(self, *, skip_drop: bool) -> None:
        """Run the operator's command (again), for a revert that a process made and did not end."""
        self._found_back()
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
