"""Reverse replication as a phase of a migration: planned, run after the swap, or found again.

Also what a later ``spirit-py revert`` finds of it, and may swap back.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import astuple, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.binlog.resumption import why_unreachable
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.earlier_run import cannot_be_read
from spirit_py.checkpoint.examination import asked_at, old_table_of
from spirit_py.checkpoint.proofs import (
    Where,
    any_old_table,
    find_reverse,
    note_here,
    old_tables,
    where_is,
    why_not_back,
)
from spirit_py.checkpoint.record import ENDED, FOLLOWING, CheckpointRecord, ReverseRecord, home_of
from spirit_py.checkpoint.table import CheckpointTable, checkpoint_tables
from spirit_py.codes import ErrorCode
from spirit_py.errors import OutcomeUnknown, Refusal, SpiritError
from spirit_py.migration.facts import PlainFact
from spirit_py.migration.reverse.feed import begin, plan_reverse, reverse_table
from spirit_py.migration.reverse.keeper import Keeper, ReverseReplicationLost
from spirit_py.migration.swap.old_tables import after_change, with_old_table
from spirit_py.mysql.facts import server_uuid
from spirit_py.mysql.faults import takes_no_writes
from spirit_py.mysql.grants import HIDDEN, read_grants
from spirit_py.mysql.tables.definition import require_name
from spirit_py.phases import Phase
from spirit_py.preflight.passable import require_passable
from spirit_py.table.build import NO_REVERT, no_way_back
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name


def plan_way_back(
    run: Run, contexts: Sequence[PreflightContext], mappings: Sequence[TableMapping]
) -> ReverseRecord | None:
    """Plan how the old tables would follow, if they are kept; None if they are not.

    Where one could not follow, it is a Refusal if that was asked for; else a revert says why.
    """
    config = run.config
    if not (config.keep_old_current or config.drop_old_after):
        return None
    try:
        tables = tuple(
            plan_reverse(mapping, context.statement, context.facts)
            for context, mapping in zip(contexts, mappings, strict=True)
        )
    except Refusal as refusal:
        if config.keep_old_current:
            raise
        why = no_way_back(refusal)
        run.warn(f"{NO_REVERT}: {why}")
        return ReverseRecord(tables=tuple(map(reverse_table, mappings)), state=ENDED, reason=why)
    record = ReverseRecord(tables=tables, modes=config.modes)
    for line in record.losses if config.keep_old_current else ():
        run.warn(line)
    return record


_ASK_AGAIN: Final = (
    "the same command says whether the old table can still follow; spirit-py cleanup --drop-old"
    " drops it"
)


def begin_reverse(run: Run, planned: ReverseRecord, swapped: CutoverResult) -> ReverseRecord:
    """Write the first record; ReverseReplicationLost where the place of the swap is not known."""
    seconds = run.config.keep_old_current
    if not swapped.after_rename:
        lost = "the answer to the RENAME was lost"
        why = lost if swapped.answer_lost else "what follows the RENAME was interrupted"
        why = f"{why}, so the binlog position right after the swap is unknown"
        if seconds:
            raise _not_begun(run, [one.name for one in planned.tables], why)
        planned = replace(planned, state=ENDED, reason=planned.reason or why)

    place = swapped.after_rename
    write_record = partial(begin, planned=planned, position=place, seconds=seconds)
    # Without the record the way back is lost, and a server is read-only for a moment at times.
    then = (_ASK_AGAIN,) if seconds else ()
    with after_change(run.stop, *then):
        return run.step("keep", write_record, passing=takes_no_writes)


def _not_begun(run: Run, tables: Iterable[Name], why: str) -> ReverseReplicationLost:
    names = [(schema, AuxiliaryNames.of(table)) for schema, table in tables]
    moved = bool(run.config.targets)
    old = ", ".join(f"{schema}.{one.moved if moved else one.old}" for schema, one in names)
    too = ", and the same command when its --drop-old-after is over"
    return ReverseReplicationLost(
        f"reverse replication cannot begin: {why}",
        hint=f"the change is done and stays; {old} is as it was at the swap: see whether it is"
        " needed; spirit-py cleanup --drop-old drops it"
        + (too if 0 < run.config.drop_old_after < math.inf else ""),
    )


def run_reverse(
    run: Run, record: ReverseRecord, kept_by: Callable[[Run, ReverseRecord], Keeper]
) -> bool:
    """Let old tables follow to the end; True after a revert; raises as :meth:`Keeper.run`."""
    keeper = kept_by(run, record)
    run.keep_with(keeper)
    if reverted := keeper.run():
        run.note(PlainFact.REVERTED)
    run.show("")
    return reverted


def carry_on_reverse(
    run: Run,
    session: SqlSession,
    tables: Sequence[Name],
    kept_by: Callable[[Run, ReverseRecord], Keeper],
) -> bool:
    """Resume what an earlier run kept; True when nothing is left to clean up.

    ReverseReplicationLost where an old table that was to follow cannot, and would be dropped now.
    """
    wanted, table = run.config.keep_old_current > 0, home_of(tables)
    record = find_reverse(session, *table)
    if record is None:
        noted = old_table_of(session, table)
        if wanted and not (noted and noted.followed):
            left = [] if run.config.drop_old_after else with_old_table(session, tables)
            if left:
                raise _not_begun(run, left, "the earlier run ended before it began")
            run.warn("no reverse replication: the earlier run ended before it began")
        elif run.config.drop_old_after and not (noted and noted.followed):
            run.warn(f"{NO_REVERT}: the earlier run ended before it noted the place of its swap")
        return False
    if where_is(session, record) is Where.BACK:
        run.go_on_to(Phase.KEEP)
        keeper = kept_by(run, record)
        run.keep_with(keeper)
        keeper.finish(skip_drop=False)
        run.note(PlainFact.REVERTED)
        return True
    if record.is_noted:
        return False
    if record.state == ENDED:
        if any_old_table(session, record):
            raise ReverseReplicationLost.of(record, record.reason)
        return False
    if not wanted and not any_old_table(session, record):
        return False
    followed = [one.name for one in record.tables]
    require_passable(session, run.config.feed.passable, followed)
    run.go_on_to(Phase.KEEP)
    return run_reverse(run, replace(record, state=FOLLOWING), kept_by)


class WayBack:
    """Swaps back for a revert that asks while the old tables are kept, and nothing follows."""

    def __init__(self, run: Run, record: ReverseRecord) -> None:
        self._run = run
        self._keeper = Keeper(run, record)
        run.keep_with(self._keeper)

    @classmethod
    def of(cls, run: Run, table: tuple[str, str]) -> WayBack | None:
        """Return the way back of a table; None where its place is not noted."""
        record = run.step("keep", lambda session: find_reverse(session, *table))
        noted = record is not None and record.is_noted and record.state != ENDED
        return cls(run, record) if record is not None and noted else None

    @property
    def asked(self) -> bool:
        """Whether a revert waits for an answer."""
        return self._keeper.asked

    def taken(self) -> bool:
        """Answer a revert that waits; True once it is made. OutcomeUnknown, or a stop."""
        keeper, why = self._keeper, ""
        if not keeper.asked:
            return False
        try:
            reverted = keeper.run()
        except OutcomeUnknown as error:
            keeper.fail(error)
            raise
        except SpiritError as error:
            if self._run.stop.requested:
                raise
            keeper.fail(error)
            if keeper.swapped:
                raise
            reverted, why = False, error.message
        if reverted:
            self._run.note(PlainFact.REVERTED)
        elif why:
            self._run.warn(f"the revert failed: {why}; the old table is dropped when it is due")
        return reverted

    def closed(self) -> bool:
        """Take no more requests; False as long as one waits."""
        return self._keeper.is_over()


def find_to_revert(session: Session, name: Name, connection: ConnectionOptions) -> ReverseRecord:
    """Return the record by which a table is swapped back; Refusal where it cannot be."""
    told = ".".join(name)
    record = find_reverse(session, *name)
    if record is None:
        names = astuple(AuxiliaryNames.of(name[1]))
        read_grants(session).require(("SELECT",), name[0], HIDDEN, names)
        # What cannot be read is refused after this.
        if asked := asked_at(session, name):
            raise Refusal(
                f"a move brings {told} here: its revert is asked on {asked}",
                hint=f"give the same spirit-py revert the address {asked}, if that is the"
                " source of your move",
                error_code=ErrorCode.NO_REVERSE_REPLICATION,
            )
        checkpoint = CheckpointTable(*name)
        require_name(session, *name)
        if checkpoint.exists(session) and (why := checkpoint.unreadable(session)):
            message, hint = cannot_be_read(*name, why)
            raise Refusal(message, hint=hint, error_code=ErrorCode.CHECKPOINT_UNREADABLE)
        hint = "spirit-py migrate --drop-old-after or --keep-old-current makes a revert possible;"
        hint += " see spirit-py status"
        if home := _swapped_back_with(session, name):
            hint = f"it was swapped back together with {'.'.join(home)}: the revert of that table"
            hint += " drops what is left"
        raise Refusal(
            f"{told} cannot be swapped back: no reverse replication of it runs, and the"
            " place of a swap is not noted",
            hint=hint,
            error_code=ErrorCode.NO_REVERSE_REPLICATION,
        )
    if record.is_noted and where_is(session, record) is not Where.BACK:
        age = CheckpointTable(*record.home).age(session, ReverseRecord)
        position = record.position
        why = why_not_back(session, record) or why_unreachable(connection, position, age=age)
        if why:
            raise Refusal(
                f"{told} cannot be swapped back: {why}",
                hint="the table stays as it is; insert what only the old one holds, if missed",
                error_code=ErrorCode.NO_REVERSE_REPLICATION,
            )
    if record.state == ENDED:
        raise Refusal(
            f"reverse replication of {told} has ended: {record.reason}",
            hint="the table stays as it is; the old one is as it was then, see what only it holds",
            error_code=ErrorCode.NO_REVERSE_REPLICATION,
        )
    return record


def _swapped_back_with(session: Session, name: Name) -> Name | None:
    """Return the table of the same schema by whose record a revert of both is not ended yet.

    That record goes last; no other schema's is believed. A name that is cut in that of its
    checkpoint is not found.
    """
    for schema, mark in checkpoint_tables(session, name[0]):
        owner = schema, mark.removeprefix("_").removesuffix("_chkpnt")
        if owner == name:
            continue
        # What cannot be read is not what was asked for.
        with contextlib.suppress(SpiritError):
            found = find_reverse(session, *owner)
            if found is None or found.home != owner:
                continue
            lists = any(one.name == name for one in found.tables)
            if lists and where_is(session, found) is Where.BACK:
                return owner
    return None


def prove_here(session: Session, found: ReverseRecord, name: Name) -> None:
    """Note what this server knows the tables by; Refusal where it was proven on another one."""
    with contextlib.suppress(UnreadableCheckpoint):
        record = CheckpointTable(*found.home).read_record(session)
        if isinstance(record, CheckpointRecord):
            note_here(session, record)
    server = server_uuid(session)
    if any(old and old.server != server for old in old_tables(session, found).values()):
        raise Refusal(
            f"{'.'.join(name)} cannot be swapped back here: another server has made the old table,"
            " and nothing proves that this one has the same",
            hint="run spirit-py revert on that server; the tables stay as they are",
            error_code=ErrorCode.NO_REVERSE_REPLICATION,
        )
