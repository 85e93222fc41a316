"""What a run does with what an earlier one left (pure; R14, R17).

A migration starts afresh only on proof that this command cannot resume what is there; a failed
query is raised before a :class:`Found` exists. The first row that fits counts.

====================================================  ======================================
found                                                 outcome
====================================================  ======================================
proofs, or notes of an old table, not readable        refused
another statement's reverse replication or revert     refused
a move that has not ended, from here or to here       refused
a checkpoint of ours that is gone or unreadable       refused with an old table, or where the
                                                      change may be made once only; else afresh *
no checkpoint                                         afresh; nothing is reported
a pointer to the record of several tables             afresh *
another statement                                     afresh *
another statement's kept table, or this one's, left   refused
an old table left to the operator, and now gone       afresh; nothing is reported
a server not proven to have all of the first's GTIDs  refused (R14)
begun under other modes (``--sql-mode`` ...)          refused
a revert was made or reverse replication lost         resume, with the cleanup
reverse replication, without --keep-old-current       refused
swapped or copied, without --archive-to, or its time  refused
the old table is kept after the swap                  resume, with the cleanup
tables from neither before nor after the swap         refused
the swap was done, its cleanup was not                resume, with the cleanup
a new table that is not proven to be ours             refused
older than ``--checkpoint-max-age``                   afresh *
stopped before the feed ran                           afresh
another migration was begun since                     afresh *
a new table is gone                                   afresh
a position purged, or never executed here             afresh
a source that is gone                                 refused
another definition, shown by another version          refused
a definition that another session changed             given up: dropped, the run ends (R14)
anything else                                         resume; elsewhere, all is compared again
====================================================  ======================================

The star: something else could resume with copied rows, so the operator is asked first, or says so
with ``--start-afresh``; so for any other record beside one of the tables. *Refused* keeps
everything, and takes the place of *afresh* and *given up* where a swap was begun and the new table,
which the application may have written to, is still there.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Final, TypeAlias

from spirit_py.checkpoint import earlier_run
from spirit_py.checkpoint.earlier_run import ReverseState
from spirit_py.checkpoint.record import CheckpointRecord, Pointer
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.units import human_count, human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.checkpoint.earlier_run import Found, ReverseFound
    from spirit_py.checkpoint.record import TableProgress
    from spirit_py.config import SessionModes, SwapChoices

_SHOWN: Final = 200
_ITS_VERSION: Final = "the version of spirit-py that wrote it, if that was another one"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What this run is to do; ``max_age`` in seconds; None for what is not asked takes any.

    ``keeps_current``: an old table that follows the new one goes on to do so. ``once``: a run that
    was killed may have changed the table in place, and made again the statement undoes that.
    ``no_grace``: the operator has named a time of none for the old table.
    """

    statement: str | None
    max_age: float
    modes: SessionModes | None = None
    keeps_current: bool = True
    once: bool = False
    choices: SwapChoices | None = None
    no_grace: bool = False


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Resume; with ``cleanup`` the swap is done, and only what it left is to be dropped."""

    record: CheckpointRecord
    reason: str
    cleanup: bool = False


@dataclass(frozen=True, kw_only=True)
class Afresh:
    """Begin at the beginning; ``throws_away``: copied rows that ``instead`` could resume with.

    ``lost``: the records of these rows, as far as they can be read.
    """

    reason: str = ""
    abandoned: CheckpointRecord | None = None
    throws_away: bool = False
    lost: tuple[CheckpointRecord, ...] = ()
    instead: str = ""


@dataclass(frozen=True, kw_only=True)
class GiveUp:
    """Drop the auxiliary tables and end (R14); the next run starts from the beginning."""

    reason: str
    hint: str


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """End and keep everything: the operator must look."""

    reason: str
    hint: str
    code: ErrorCode = ErrorCode.CANNOT_RESUME


Decision: TypeAlias = Resume | Afresh | GiveUp | Refuse


def decide(found: Found, wanted: Wanted) -> Decision:
    """Return what to do."""
    decision = _first_that_fits(found, wanted)
    if not isinstance(decision, Afresh | GiveUp):
        return decision
    for table in found.tables:
        if table.swap_begun and table.new_is_ours and table.new_shape:
            look = earlier_run.see_what_it_holds(*table.name)
            return Refuse(
                reason=f"{decision.reason}; {earlier_run.may_hold_rows(*table.name)}",
                hint=f"{look}, and run the same command again",
            )
    if isinstance(decision, Afresh):
        return _with_others(found, decision)
    also = _with_others(found, Afresh(reason=decision.reason))
    if also.throws_away:
        return Refuse(
            reason=f"{decision.reason}; and another migration of a table has begun since, which"
            " would be dropped with this one",
            hint=f"to resume that one: {also.instead}; spirit-py cleanup, for one table at a time,"
            " drops what is left of either",
        )
    return decision


def _with_others(found: Found, decision: Afresh) -> Afresh:
    """Return the fresh start with what it takes from other migrations of the same tables."""
    own = decision.abandoned or found.elsewhere
    lost = [own] if decision.throws_away and own is not None else []
    seen = replace(
        found,
        unreachable="",
        tables=tuple(replace(table, taken_over=False) for table in found.tables),
    )
    others = [one for one in found.others if _can_be_carried_on(replace(seen, record=one), one)]
    unread = any(
        one.name in found.unread and one.new_shape and one.new_is_ours for one in found.tables
    )
    instead = [decision.instead, *map(_with_its_own_statement, others)]
    return replace(
        decision,
        reason=decision.reason or ("another migration of a table has begun" if others else ""),
        throws_away=decision.throws_away or bool(others) or unread,
        lost=(*lost, *others),
        instead="; or ".join(filter(None, instead)) or (_ITS_VERSION if unread else ""),
    )


def _first_that_fits(found: Found, wanted: Wanted) -> Decision:
    record, reverse = found.record, found.followed
    for table in found.tables:
        if table.unreadable:
            reason, hint = earlier_run.cannot_be_read(*table.name, table.unreadable)
            return Refuse(reason=reason, hint=hint)
    same = isinstance(record, CheckpointRecord) and wanted.statement in {None, record.statement}
    another = not same or found.taken_over
    if reverse is not None and (another or reverse.state is ReverseState.UNREADABLE):
        return _refuse_another(reverse)
    if found.kept and (another or all(one.finished for one in found.kept.values())):
        return _refuse_kept(found)
    if wanted.statement is not None and (moving := _refuse_move(found, same=same)):
        return moving
    if found.unreadable:
        why = f"its checkpoint cannot be read: {found.unreadable}"
        return _without_record(found, wanted, why)
    if record is None and any(table.ours for table in found.tables):
        return _without_record(found, wanted, "its checkpoint is gone")
    if record is None:
        # A new table without a checkpoint is refused by a check of preflight (leftovers).
        return Afresh()
    if found.kept_no_more and reverse is None:
        return Afresh()
    if isinstance(record, Pointer):
        return Afresh(
            reason="the table was migrated together with others, by another statement"
            f" (its checkpoint is with {'.'.join(record.home)})",
            throws_away=_can_be_carried_on(found, found.elsewhere),
            instead=_with_its_own_statement(found.elsewhere),
        )
    if not same:
        return Afresh(
            reason=f"it was for another statement: {_shortened(record.statement)}",
            abandoned=record,
            throws_away=_can_be_carried_on(found, record),
            instead=_with_its_own_statement(record),
        )
    return _of_this_statement(found, record, wanted)


def _of_this_statement(found: Found, record: CheckpointRecord, wanted: Wanted) -> Decision:
    reverse = found.followed
    if found.moved and not found.goes_on_here:
        # Perhaps a replica, that is not proven to have what the first had (R14).
        why = found.unreachable or "nothing shows which transactions of the first one it has"
        gone = "where that one is gone for good,"
        left = f"{gone} drop what is left here with spirit-py cleanup and start again"
        if found.was_swapped(record):
            done = "the change is done by what the tables show here"
            left = f"{gone} {done}, and spirit-py cleanup --drop-old drops what is left of it"
        return Refuse(
            reason=f"the checkpoint is of server {record.server_uuid}, and this is server"
            f" {found.server_uuid}: this is another server, such as a replica or a clone, and the"
            f" migration cannot go on here: {why}",
            hint=f"run the same command on the right server; {left}",
        )
    if wanted.modes not in {None, record.modes}:
        return refuse_other_modes(record)
    if reverse is not None and reverse.state is not ReverseState.KEPT:
        return Resume(record=record, reason=f"{reverse}", cleanup=True)
    swapped = found.was_swapped(record)
    if swapped is None:
        return Refuse(
            reason="the tables are neither those before the swap nor those after it: "
            + "; ".join(table.described(record.of(*table.name)) for table in found.tables),
            hint="see what became of the table, its new and its old one, and who made what is not"
            " this migration's; spirit-py cleanup drops what is proven to be",
        )
    if swapped and reverse is not None and not wanted.keeps_current:
        another = _refuse_another(reverse)
        return Refuse(
            reason=f"{reverse}; without --keep-old-current this command would drop the old table:"
            " spirit-py revert could not bring the old definition back any more",
            hint=f"with --keep-old-current it drops it, too; {another.hint}"
            if reverse.over
            else f"to keep that possible, add --keep-old-current; otherwise {another.hint}",
        )
    if swapped:
        kept = any(table.keeps_one for table in found.tables)
        stays = kept and found.reverse is None
        if refused := refuse_silence(record, wanted, kept=kept, followed=stays, swapped=True):
            return refused
        return Resume(record=record, reason=_swapped_already(found), cleanup=True)
    return _before_the_swap(found, record, wanted)


def _refuse_another(reverse: ReverseFound) -> Refuse:
    hints = {
        ReverseState.KEPT: "swap back with spirit-py revert, or end it with spirit-py cleanup"
        " --drop-old, which drops the old table",
        ReverseState.LOST: "see what only the old table holds; spirit-py cleanup drops what is"
        " left, and asks before it drops an old table",
        ReverseState.UNREADABLE: "leave it to the version of spirit-py that wrote it",
        ReverseState.REVERTED: f"spirit-py revert drops what is left of it ({reverse.undone});"
        " then run this command again",
    }
    return Refuse(reason=f"{reverse}", hint=hints[reverse.state])


def _refuse_move(found: Found, *, same: bool) -> Refuse | None:
    """Refuse to drop what a move has noted: it alone leads to what is on the other servers."""
    for table in found.tables:
        if table.brought_from:
            reason, hint = earlier_run.is_being_brought(
                *table.name, table.brought_from, reverted=table.undone_is_ours
            )
            return Refuse(reason=reason, hint=hint)
    own = found.elsewhere if isinstance(found.record, Pointer) else found.record
    records = found.others if same or own is None else (own, *found.others)
    moves = (one for one in records if one.moves and not found.of(one).kept_no_more)
    record = next(moves, None)
    if record is None:
        return None
    schema, name = (*found.of(record).tables, found.tables[0])[0].name
    return Refuse(
        reason=f"a move of {', '.join(map(str, record.tables))} has not ended"
        f" ({_shortened(record.statement)})",
        hint="run the spirit-py move command that it was begun with, which ends it; or give it up:"
        f" spirit-py cleanup --database {quote(schema)} --table {quote(name)}, on this server and"
        " on those to which it goes",
    )


def _without_record(found: Found, wanted: Wanted, why: str) -> Decision:
    old = [f"{table.schema}.{table.names.old}" for table in found.tables if table.old_shape]
    copied = any(table.new_shape and table.new_is_ours for table in found.tables)
    if not old and wanted.once and not copied:
        schema, table = found.tables[0].name
        return Refuse(
            reason=f"{why}: a run that was killed may have made this change already, which may not"
            " be made twice",
            hint="see whether it was made, by SHOW CREATE TABLE, and by which rows the tables have;"
            f" then spirit-py cleanup --database {quote(schema)} --table {quote(table)}, and the"
            " same command if it was not made",
        )
    if not old:
        return Afresh(
            reason=why,
            throws_away=copied,
            instead=_ITS_VERSION,
        )
    names = ", ".join(old)
    return Refuse(
        reason=f"{why}, and {names} exists: the swap may have been done, and then it holds the"
        " only copy of the rows from before",
        hint="see whether the table has the new definition: then the migration is done, and"
        f" spirit-py cleanup drops what is left, and {names} only when told to; if not, see what"
        f" {names} holds before it is dropped or renamed",
    )


def _refuse_kept(found: Found) -> Refuse:
    what = "an earlier change is done, and its old table is there"
    if any(table.undone for table in found.tables):
        what = "an earlier change was undone, and the table that it had made is there"
    return Refuse(
        reason=f"{what}: {found.old_tables}",
        hint="see whether it is still needed; spirit-py cleanup asks, and drops it",
    )


def _swapped_already(found: Found) -> str:
    done = "the swap was done already"
    if found.old_tables:
        done = f"{done}; {found.old_tables}"
    if found.followed is None:
        return done
    return f"{done}; {found.followed}, and {'ends' if found.followed.over else 'goes on'}"


def _before_the_swap(found: Found, record: CheckpointRecord, wanted: Wanted) -> Decision:
    tables = [(record.of(*table.name), table) for table in found.tables]
    for progress, table in tables:
        if table.new_shape and not table.new_is_ours and not table.taken_over:
            new = progress.names.new
            return Refuse(
                reason=f"{progress.schema}.{new} is not the table that the migration of {progress}"
                " made",
                hint=f"see who created it; drop or rename {new}, then run the same command again",
            )
    if found.age > wanted.max_age:
        return Afresh(
            reason=f"its checkpoint is {human_seconds(found.age)} old, more than"
            f" --checkpoint-max-age allows ({human_seconds(wanted.max_age)})",
            abandoned=record,
            throws_away=_can_be_carried_on(found, record),
            instead="the same command with a longer --checkpoint-max-age",
        )
    for reason in _nothing_to_resume(found, record.position, record.tables):
        return Afresh(reason=reason, abandoned=record)
    for progress, table in tables:
        if not table.source_shape:
            return Refuse(
                reason=f"{progress} is gone: another session dropped or renamed it since the"
                " migration began",
                hint="see what became of it; spirit-py cleanup drops what is left of the migration",
            )
        source_is_same = table.source_shape == progress.source_shape
        if not source_is_same or table.new_shape not in progress.shapes:
            new = f"{progress.names.new}, the new table of {progress}"
            changed = new if source_is_same else progress
            if record.mysql != found.mysql:
                return Refuse(
                    reason=f"the definition of {changed} is another one than when the migration"
                    f" began, as MySQL {found.mysql} shows it; before it was {record.mysql}",
                    hint="see what was changed, by another session or by the upgrade; to begin from"
                    " the beginning: spirit-py cleanup, then the same command",
                )
            return GiveUp(
                reason=f"another session changed the definition of {changed} since the migration"
                " began",
                hint="see what was changed, then start the migration again: it starts from the"
                " beginning",
            )
    if refused := refuse_silence(record, wanted):
        return refused
    there = f"; this is another server, {found.server_uuid}, which has all of it"
    if found.moved:
        compared_anew = tuple(replace(table, checked_up_to=()) for table in record.tables)
        record = replace(record, tables=compared_anew, settled_at="")
    return Resume(
        record=record,
        reason=f"stopped in the {record.phase} phase, {human_seconds(found.age)} ago;"
        f" {human_count(record.rows_copied)} rows are copied{there if found.moved else ''}",
    )


def refuse_other_modes(record: CheckpointRecord) -> Refuse:
    """Return the refusal of a command whose modes are not those of the record."""
    begun = f"with {record.modes.options}" if record.modes.options else "under the server's modes"
    add = f"add {record.modes.options}" if record.modes.options else "leave out the option"
    return Refuse(
        reason=f"the copy was begun {begun}, and this command has other modes: the"
        " new table was made under the first ones",
        hint=f"{add}, and run the command again; or drop what is left with spirit-py cleanup, and"
        " begin again",
    )


def refuse_silence(
    record: CheckpointRecord,
    wanted: Wanted,
    *,
    kept: bool = True,
    followed: bool = True,
    swapped: bool = False,
) -> Refuse | None:
    """Refuse a command that says nothing of when to swap, or of an old table to be kept.

    ``followed``: whether the old table still is to follow the new one.
    """
    begun, given = record.choices, wanted.choices
    if given is None:
        return None
    if begun.archive_to and not given.archive_to:
        drop = "spirit-py cleanup --drop-old drops it"
        again = "drop what is left with spirit-py cleanup, and begin again"
        return Refuse(
            reason="the migration is to archive the rows that it left out before the old table is"
            " dropped, and this command does not say where to",
            hint=f"add {begun.options}; without an archive, {drop if swapped else again}",
            code=ErrorCode.ARCHIVE_REFUSED,
        )
    if not swapped and begun.defer_cutover and not (given.defer_cutover or record.sentinel):
        return Refuse(
            reason="the migration is to wait for the operator before the swap, and this command"
            " does not say so",
            hint=f"add {begun.options}; spirit-py ctl cutover then lets it swap as soon as it can",
        )
    if not swapped and begun.allow and not given.allow:
        return Refuse(
            reason="the migration is to work and to swap at some times of the day only, and this"
            " command does not say when",
            hint=f"add {begun.options}; --allow 00:00-24:00 lets it work at any time",
        )
    if followed and begun.keep_old_current and not given.keep_old_current:
        return Refuse(
            reason="the migration is to keep the old table up to date, and this command does not"
            " say for how long",
            hint=f"add {begun.options}, or a shorter time",
        )
    if kept and begun.drop_old_after and not (given.drop_old_after or wanted.no_grace):
        return Refuse(
            reason="the migration is to keep the old table, and this command does not say for how"
            " long",
            hint=f"add {begun.options}; --drop-old-after 0s drops it at once",
        )
    return None


def _can_be_carried_on(found: Found, record: CheckpointRecord | None) -> bool:
    """Return whether another command could resume with copied rows, as far as is known."""
    if record is None or not record.rows_copied:
        return False
    names = {table.name for table in found.tables}
    tables = [table for table in record.tables if table.name in names]
    if not tables:
        return False
    return found.moved or not any(_nothing_to_resume(found, record.position, tables))


def _with_its_own_statement(record: CheckpointRecord | None) -> str:
    if record is None:
        return ""
    with_modes = f" with {record.modes.options}" if record.modes.options else ""
    return f"the command that it was begun with ({_shortened(record.statement)}){with_modes}"


def _nothing_to_resume(
    found: Found, position: str, tables: Iterable[TableProgress]
) -> Iterator[str]:
    if not position:
        yield "it was stopped before the copy began"
    there = {table.name: table for table in found.tables}
    for progress in tables:
        table = there.get(progress.name)
        if table is not None and table.taken_over:
            yield f"another migration of {progress} was begun since"
        if table is None or not table.new_shape:
            yield f"its new table {progress.schema}.{progress.names.new} is gone"
    if found.unreachable:
        yield f"the change feed cannot go on where it stopped: {found.unreachable}"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
