"""What an earlier run left and what becomes of it; which run or session keeps the tables now."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.decision import Afresh, GiveUp, Refuse, Resume, Wanted, decide
from spirit_py.checkpoint.examination import find_record, live_of, look
from spirit_py.checkpoint.live import REVERT, STALE_SECONDS
from spirit_py.checkpoint.record import CheckpointRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.checkpoint.writer import normal_form
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.locks.look import LockRequest, find_in_front, why_locks_are_unseen
from spirit_py.locks.named import named_lock_holder
from spirit_py.locks.turns import named
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.own_sessions import ours
from spirit_py.phases import AFTER_SWAP, Phase
from spirit_py.plan.model import EarlierRun, Note, RunningRun
from spirit_py.preflight.clauses import made_once
from spirit_py.table.names import lock_name
from spirit_py.units import human_count, human_percent, human_seconds, of_about, to_the_second

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spirit_py.checkpoint.decision import Decision
    from spirit_py.checkpoint.earlier_run import Found
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.names import Name


def statement_of(contexts: Iterable[PreflightContext]) -> str:
    """Return the normal form of a run's statements, which a checkpoint must have to be resumed."""
    return normal_form({(context.schema, context.table): context.statement for context in contexts})


def examine_and_decide(
    session: SqlSession, config: MigrationConfig, contexts: Sequence[PreflightContext]
) -> tuple[Found, Decision]:
    """Examine what an earlier run left, and decide what is done with it. Nothing is written."""
    found = look(session, config.connection, [(one.schema, one.table) for one in contexts])
    wanted = Wanted(
        statement=statement_of(contexts),
        max_age=config.checkpoint_max_age,
        modes=config.modes,
        keeps_current=config.keep_old_current > 0,
        once=made_once(contexts),
        # A rehearsal swaps nothing, and resumes nothing.
        choices=None if config.dry_run else config.swap_choices,
        no_grace="drop_old_after" in config.named,
    )
    return found, decide(found, wanted)


def earlier_run(decision: Decision, *, start_afresh: bool) -> EarlierRun:
    """Return the decision for the plan."""
    if isinstance(decision, Resume):
        return EarlierRun(
            action="clean_up" if decision.cleanup else "resume",
            reason=decision.reason,
            rows_copied=decision.record.rows_copied,
        )
    if isinstance(decision, Refuse):
        return EarlierRun(action="refuse", reason=decision.reason, remedy=decision.hint)
    if isinstance(decision, GiveUp):
        return EarlierRun(action="give_up", reason=decision.reason, remedy=decision.hint)
    if not decision.reason:
        return EarlierRun(action="none")
    asks = decision.throws_away and not start_afresh
    return EarlierRun(
        action="ask" if asks else "afresh",
        reason=decision.reason,
        rows_copied=None if decision.abandoned is None else decision.abandoned.rows_copied,
        remedy=f"to resume it: {decision.instead}; to drop it and begin with this one:"
        " --start-afresh"
        if asks
        else "",
    )


def why_not_dropped(found: Found, decision: Resume | Afresh | GiveUp) -> Refusal | None:
    """Return the refusal of a dry run that would drop what another run could still use."""
    worthless = isinstance(found.record, CheckpointRecord) and not found.record.position
    if isinstance(decision, Afresh) and (worthless or not decision.reason):
        return None
    left = ", ".join(_left(found)) or "its record"
    state = "can be resumed" if isinstance(decision, Resume) else "was not finished"
    return Refusal(
        f"an earlier migration {state}, and a dry run would drop what is left of it ({left}):"
        f" {decision.reason}",
        hint="finish it with its own command, or drop it with spirit-py cleanup; then begin the dry"
        " run",
        error_code=ErrorCode.UNFINISHED_WORK,
    )


def _left(found: Found) -> Iterator[str]:
    for table in found.tables:
        new, old, checkpoint = table.names.new, table.names.old, table.names.checkpoint
        there = ((new, table.new_shape), (old, table.old_shape), (checkpoint, table.ours))
        yield from (f"{table.schema}.{name}" for name, is_there in there if is_there)


def refusals_of(decision: Decision, earlier: EarlierRun) -> list[Note]:
    """Return why a migration would not begin because of an earlier one."""
    if isinstance(decision, (Refuse, GiveUp)) or earlier.action == "ask":
        asks = isinstance(decision, Afresh)
        code = decision.code if isinstance(decision, Refuse) else ErrorCode.CANNOT_RESUME
        return [
            Note(
                cause=f"an unfinished migration: {earlier.reason}" if asks else earlier.reason,
                remedy=earlier.remedy,
                check="earlier_run",
                code=ErrorCode.UNFINISHED_WORK if asks else code,
            )
        ]
    return []


def goes_on(decision: Decision) -> bool:
    """Return whether the migration resumes or begins, so that the checks apply."""
    return isinstance(decision, Afresh) or (isinstance(decision, Resume) and not decision.cleanup)


def running_run(
    session: SqlSession, contexts: Sequence[PreflightContext], statement: str = ""
) -> EarlierRun | None:
    """Return the run that works on one of the tables now; None where none does.

    Its statement is told where it is not this one, by default that of the contexts.
    """
    first: EarlierRun | None = None
    for context in contexts:
        name = (context.schema, context.table)
        holder = named_lock_holder(session, lock_name("migration", *name))
        # Of several tables, the asking run may have locked the first already.
        if holder is not None and not ours(session, [holder]):
            running = _running(session, name, holder, statement or statement_of(contexts))
            seen = EarlierRun(
                action="running",
                reason=described(running),
                rows_copied=running.rows,
                remedy=_END_OF_KEPT.get(running.phase, _END_OF_RUN),
                running=running,
            )
            # One without figures may be a session of this run that is about to end.
            if running.phase:
                return seen
            first = first or seen
    return first


_END_OF_RUN: Final = "spirit-py ctl shows and controls it; wait for its end, or stop it"
_DROP_NOW: Final = (
    "wait for its end; or end it sooner with spirit-py ctl abort, then spirit-py cleanup, which"
    " asks before it drops the old table"
)
_END_OF_KEPT: Final[dict[str, str]] = {
    Phase.KEEP: f"{_DROP_NOW}; or bring the old definition back with spirit-py revert",
    Phase.ARCHIVE: "wait for its end; or end it with spirit-py ctl abort, and carry on later",
    Phase.GRACE: _DROP_NOW,
}


def explained(
    refusal: Refusal, session: SqlSession, contexts: Sequence[PreflightContext]
) -> Refusal:
    """Return the refusal with what the run does that has the lock, where that is seen."""
    with contextlib.suppress(ServerFault):
        running = running_run(session, contexts)
        if running is not None and running.running is not None and running.running.phase:
            message = f"{refusal.message}: {running.reason}"
            return Refusal(message, hint=running.remedy, error_code=refusal.error_code)
    return refusal


def note_of(running: EarlierRun) -> Note:
    """Return why a migration would be refused meanwhile."""
    table = running.running.table if running.running is not None else ""
    cause = f"another run works on {table} now: {running.reason}"
    return Note(cause=cause, remedy=running.remedy, table=table, code=ErrorCode.ALREADY_RUNNING)


def _running(session: SqlSession, name: Name, holder: int, wanted: str) -> RunningRun:
    plain = RunningRun(table=".".join(name), session=holder)
    try:
        at = find_record(session, name)
    except UnreadableCheckpoint:
        return plain
    live, age = live_of(session, CheckpointTable(*at.home), holder)
    record = at.record
    if live is None:
        return plain
    return RunningRun(
        table=plain.table,
        session=holder,
        host=live.host,
        process=live.pid,
        started_at=record.started_at if record is not None else "",
        statement=record.statement if record is not None and record.statement != wanted else "",
        figures_age=age,
        **{figure: getattr(live, figure) for figure in _FIGURES},
    )


_FIGURES = (
    "phase", "elapsed", "rows", "rows_total", "fraction", "eta", "run_eta", "run_eta_until",
    "waiting_for", "paused",
)  # fmt: skip


def working(seen: RunningRun | None) -> str:
    """Return why a table needs nothing else now: what the run does that works on it."""
    if seen is None or not seen.phase:
        return "a run works on it now"
    if seen.phase in (REVERT, *AFTER_SWAP):
        return f"a run that has swapped it works on it now, in phase {seen.phase}"
    if seen.paused:
        return f"a run works on it now, in phase {seen.phase}, and is {seen.paused}"
    if seen.phase == Phase.COPY:
        return "a run that works on it now copies it"
    return f"a run works on it now, in phase {seen.phase}"


_SWAPPED: Final[dict[str, str]] = {
    Phase.KEEP: "it has made its swap, and keeps the old table current for a revert",
    Phase.ARCHIVE: "it has made its swap, and archives the rows that it left out",
    Phase.GRACE: "it has made its swap, and keeps the old table for a time",
}


def described(seen: RunningRun) -> str:
    """Return who works, since when, and how far it is."""
    if not seen.phase:
        return f"server session {seen.session}; it has written no figures yet"
    parts = [f"on {seen.host} (process {seen.process}, server session {seen.session})"]
    if seen.elapsed is not None:
        begun = f" (begun {to_the_second(seen.started_at)})" if seen.started_at else ""
        parts.append(f"for {human_seconds(seen.elapsed)}{begun}")
    done = ""
    if seen.rows is not None:
        total = of_about(seen.rows_total)
        part = f", {human_percent(seen.fraction)}" if seen.fraction is not None else ""
        done = f": {human_count(seen.rows)}{total} rows{part}"
    if seen.phase in _SWAPPED:
        parts.append(_SWAPPED[seen.phase])
    parts.append(f"in phase {seen.phase}{done}")
    if (seen.figures_age or 0.0) > STALE_SECONDS:
        age = human_seconds(seen.figures_age)
        parts.append(f"no figures for {age}: it hangs, or it cannot write to the server")
    elif seen.run_eta is not None:
        parts.append(f"about {human_seconds(seen.run_eta)} until {seen.run_eta_until}")
    if seen.paused:
        parts.append(seen.paused)
    elif seen.waiting_for:
        parts.append(f"waiting for {seen.waiting_for}")
    if seen.statement:
        parts.append(f"with another statement: {' '.join(seen.statement.split())}")
    return "; ".join(parts)


def kept_by_others(session: SqlSession, table: Name) -> Sequence[Note]:
    """Return who keeps a table for itself, as one warning; none where that cannot be seen."""
    if why_locks_are_unseen(session):
        return ()
    try:
        found = find_in_front(session, LockRequest(tables=[table], defines=True))
        locked = {one.key for one in find_in_front(session, LockRequest(tables=[table]))}
    except ServerFault as fault:
        if not access_denied(fault):
            raise
        return ()
    keepers = [one for one in found if not one.own and (one.defining or one.table_locks)]
    if not keepers:
        return ()
    name = ".".join(table)
    if any(one.defining for one in keepers):
        what = f"{name} is being changed"
    elif any(one.key in locked for one in keepers):
        what = f"{name} is locked as a whole"
    else:
        what = f"the definition of {name} is kept as it is"
    return (
        Note(
            cause=f"{what} by another session: {named(keepers)}",
            remedy="wait until it has ended: the locks of a migration wait for it, and a definition"
            " that changes meanwhile ends the migration",
            table=name,
            check="in_front",
        ),
    )
