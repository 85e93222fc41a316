"""What becomes of the old tables after the swap: kept for a while, or for good, and dropped.

``--drop-old-after`` counts from the swap, by the server's clock. Its moment is noted in the
checkpoint table, so a run that was stopped meanwhile goes on with the same grace. As long as an
old table is there, its checkpoint table stays, with the proof of which table it is: ``spirit-py
cleanup`` drops both. That is so where the old table is kept for good, and where its drop failed.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from spirit_py.checkpoint.examination import old_table_of
from spirit_py.checkpoint.proofs import proofs_here, proven
from spirit_py.checkpoint.record import OldTableRecord, ReverseRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.errors import Interrupted, MigrationFailure, SpiritError
from spirit_py.events.swap import OldTableKept, OldTableWaits
from spirit_py.migration.auxiliary import drop_checkpoints, drop_sentinels
from spirit_py.migration.facts import OldTablesLeft
from spirit_py.migration.swap.same_tables import FORWARD
from spirit_py.migration.swap.swapped_out import drop_swapped_out
from spirit_py.migration.throttling import throttled
from spirit_py.mysql.faults import takes_no_writes
from spirit_py.pace import Work
from spirit_py.phases import Phase
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Name

T = TypeVar("T")

#: Between two looks at the server's clock and at the old tables.
_LOOK_SECONDS: Final = 20.0
#: Between two updates of the display.
_SHOW_SECONDS: Final = 1.0


def note_swap(run: Run, tables: Sequence[Name]) -> None:
    """Note the moment of the swap, and until when the old tables are kept.

    Where an earlier run has noted it, its moment counts. Nothing is noted where the old tables are
    to be dropped at once.

    Raises:
        SpiritError: it could not be noted; the change is done.
    """

    def note(session: SqlSession) -> None:
        now = _now(session)
        for table in tables:
            noted = old_table_of(session, table)
            if not CheckpointTable(*table).is_ours(session):
                # An earlier run has dropped it after the old table.
                continue
            record = noted or OldTableRecord(swapped_at=now)
            until = _until(record.swapped_at, run.config.drop_old_after)
            CheckpointTable(*table).write(session, replace(record, until=until))

    if run.config.drop_old_after:
        _step(run, note)


def _step(run: Run, work: Callable[[Session], T]) -> T:
    """Do one step; an error says that the change is done.

    Raises:
        SpiritError: as of :meth:`Run.step`.
    """
    try:
        return run.step("cleanup", work, passing=takes_no_writes)
    except Interrupted as stopped:
        stopped.hint = "the change is done; the same command drops the old table when it is due"
        raise
    except SpiritError as error:
        raise _old_table_left(error) from error


def _old_table_left(error: SpiritError) -> MigrationFailure:
    return MigrationFailure(
        f"the change is done, and its old table is left: {error.message}",
        hint="run the same command again: it drops the old table when it is due",
        error_code=ErrorCode.OLD_TABLE_LEFT,
    )


def _until(swapped_at: float, seconds: float) -> float:
    return 0.0 if math.isinf(seconds) else swapped_at + seconds


def settle_old_tables(run: Run, tables: Sequence[Name]) -> None:
    """Drop the old tables when their grace is over, and the checkpoints with them.

    Where an old table stays, its checkpoint table stays.

    Raises:
        Interrupted: in the grace; the change is done, and another run drops them.
        SpiritError: the server was away in the grace for too long.
    """
    for_good = math.isinf(run.config.drop_old_after)
    if run.config.drop_old_after:
        _step(run, partial(_end_reverse, tables=tables))
    if run.config.drop_old_after and not for_good:
        _wait(run, tables)
    run.go_on_to(Phase.CLEANUP)
    left = _names(tables) if for_good else _drop(run, tables)
    run.note(OldTablesLeft(left))
    kept = bool(left) and _step(run, partial(leave_to_operator, tables=tables))
    if kept:
        run.tell(OldTableKept(tables=left))
        drop_sentinels(run, tables)
        return
    drop_checkpoints(run, tables)


def _drop(run: Run, tables: Sequence[Name]) -> list[str]:
    """Drop the old tables once nothing holds that back; return those that are left.

    Raises:
        Interrupted: while it waits.
        MigrationFailure: what may hold it back cannot be looked at; the change is done.
    """
    try:
        with throttled(run, Work.DROP):
            left = drop_swapped_out(run, tables, FORWARD)
            if left:
                run.stop.check()
    except Interrupted as stopped:
        stopped.hint = "the change is done; the same command drops the old table, or cleanup"
        raise
    except SpiritError as error:
        raise _old_table_left(error) from error
    return left


def _names(tables: Sequence[Name]) -> list[str]:
    return [FORWARD.swapped_out(table) for _, table in tables]


def _end_reverse(session: SqlSession, tables: Sequence[Name]) -> None:
    """Note that the old tables follow no more, where they did: their checkpoints stay."""
    for table in tables:
        checkpoint = CheckpointTable(*table)
        if checkpoint.read(session, ReverseRecord) is not None:
            _note(session, table, followed=True)
            checkpoint.forget(session, ReverseRecord)


def _note(session: SqlSession, table: Name, **changes: Any) -> None:
    noted = old_table_of(session, table) or OldTableRecord(swapped_at=_now(session))
    CheckpointTable(*table).write(session, replace(noted, **changes))


def _wait(run: Run, tables: Sequence[Name]) -> None:
    """Wait until the grace is over; or until nobody needs it, because the old tables are gone."""
    run.go_on_to(Phase.GRACE)
    names, when, grace = ", ".join(_names(tables)), "", run.config.drop_old_after
    due = 0.0
    while True:
        left, until = _step(run, partial(_seconds_left, tables=tables, grace=grace))
        if until and when:
            # The server's clock may be set forward meanwhile; ours counts the seconds as well.
            left = max(left, due - time.monotonic())
        if left <= 0:
            return
        if not when:
            due = time.monotonic() + left
            when = f"{names} is {OldTableRecord(swapped_at=0.0, until=until)}"
            run.tell(OldTableWaits(said=when, seconds=round(left, 1)))
        looked = time.monotonic()
        while (spent := time.monotonic() - looked) < min(left, _LOOK_SECONDS):
            run.show(f"{when}, {human_seconds(left - spent)} more")
            if run.stop.wait(min(_SHOW_SECONDS, left - spent)):
                _stopped(run, when)


def _stopped(run: Run, when: str) -> None:
    """Raise the reason of the stop."""
    reason = run.stop.reason
    if isinstance(reason, Interrupted):
        reason.hint = (
            f"the change is done; {when}: the same command drops it then, spirit-py cleanup"
            " at any time"
        )
    run.stop.check()


def _seconds_left(session: SqlSession, tables: Sequence[Name], grace: float) -> tuple[float, float]:
    """Return the seconds until the old tables may be dropped, and that time.

    No seconds are left where no old table is there any more. Where nothing is noted of one that is,
    its time begins now.
    """
    ours, now = _ours(session, tables), _now(session)
    if not ours:
        return 0.0, 0.0
    for table in ours:
        if old_table_of(session, table) is None:
            _note(session, table, until=now + grace)
    noted = (old_table_of(session, table) for table in ours)
    until = max(now + grace if one is None else one.until for one in noted)
    return until - now, until


def leave_to_operator(session: SqlSession, tables: Sequence[Name]) -> bool:
    """Note that the operator drops the old tables; False where none of them is there."""
    ours = _ours(session, tables)
    for table in ours:
        _note(session, table, until=0.0, finished=True)
    _end_reverse(session, ours)
    return bool(ours)


def _ours(session: SqlSession, tables: Sequence[Name]) -> list[Name]:
    """Return the tables whose old one is there, and is proven to be the one from before."""
    found = []
    for schema, table in tables:
        proofs = proofs_here(session, schema, table, None)
        if FORWARD.swapped_out(table) in proven(session, schema, table, proofs):
            found.append((schema, table))
    return found


def _now(session: SqlSession) -> float:
    return float(session.query("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0])
