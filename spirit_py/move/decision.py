"""What a move does with what an earlier run left on two servers (pure; R14, R17).

The source's RENAME decides: a table whose source is out of the way, and whose new table has its
name on the target, is moved. The first row that fits counts.

==============================================  ============================================
found                                           outcome
==============================================  ============================================
a move that brings a table here, not ended      refused
a record that cannot be read, and no table      afresh
a record that cannot be read                    refused
no record                                       afresh
another server than the record's, on any side   refused
another command's record, and a moved table     refused
another command's record, with copied rows      afresh, if the operator agrees
no revert was begun, and the source is back     refused
reverse replication, or a revert                goes on after the switch
all tables are out of the way, all is done      refused: what is left is the operator's
all tables are moved                            goes on after the switch
switched before, and the source is back         refused
stopped before the feed ran                     afresh
some tables are neither here nor moved          refused
a new table is gone                             afresh
a position purged, or never executed here       afresh
a definition that another session changed       refused
other modes than the record's                   refused
a wait or a way back that is not said again     refused
anew, and another source's table is there       refused
anew, and another source has copied rows        afresh, if the operator agrees
anything else                                   resume
==============================================  ============================================

Several sources are looked at one by one, and decided :func:`together`. The last RENAME decides: as
long as one source has its tables, all are the tables.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, TypeAlias

from spirit_py.checkpoint.decision import (
    Afresh,
    Refuse,
    Resume,
    Wanted,
    refuse_other_modes,
    refuse_silence,
)
from spirit_py.checkpoint.earlier_run import is_being_brought
from spirit_py.checkpoint.record import REVERTING, CheckpointRecord
from spirit_py.classes import dataclass, replace
from spirit_py.table.names import OfTable
from spirit_py.units import human_count, human_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.checkpoint.record import MoveNote, OldTableRecord, Pointer, ReverseRecord
    from spirit_py.config import SessionModes, SwapChoices

Decision: TypeAlias = Afresh | Resume | Refuse


class Standing(enum.Enum):
    """Where a table is."""

    HERE = "is on the source"
    MOVED = "is moved"
    UNCLEAR = "is neither the table that was to be moved, nor moved"


@dataclass(frozen=True, kw_only=True)
class TableSeen(OfTable):
    """What the two servers show of a table.

    Of the source: its table under its own name (``here``) or out of the way (``away``), as noted;
    ``exists``: some table has its name;
    of the target: the new table under its auxiliary name (``new``), its own (``arrived``), or that
    which a revert gives it (``undone``).
    ``held``: some table has its name there.
    ``changed``: which definition is not the noted one; empty for none. ``brought_from``: from which
    servers another move brings it to the source, which has not ended; ``others``: from which a
    third one has brought one of the name to the target; ``reverted``: that was taken back, and what
    it was is kept.
    """

    here: bool = False
    exists: bool = False
    away: bool = False
    new: bool = False
    arrived: bool = False
    undone: bool = False
    held: bool = False
    changed: str = ""
    brought_from: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    reverted: bool = False
    old_table: OldTableRecord | None = None

    @property
    def standing(self) -> Standing:
        """Where the table is."""
        if not self.here and (self.old_table is not None or (self.away and self.on_target)):
            return Standing.MOVED
        return Standing.HERE if self.here and not self.away else Standing.UNCLEAR

    @property
    def has_gone(self) -> bool:
        """Whether it is out of the way on the source, or was."""
        return self.away or self.old_table is not None

    @property
    def made(self) -> bool:
        """Whether there is a table that the move has made, or put out of the way."""
        return self.has_gone or self.on_target or self.undone

    @property
    def on_target(self) -> bool:
        """Whether the new table is there, also where a switch was being taken back."""
        return self.arrived or self.new


@dataclass(frozen=True, kw_only=True)
class MoveFound:
    """What an earlier run left; ``age`` in seconds, ``unreachable``: why the feed cannot go on.

    ``switched``: by the note of one of the sources, the application was sent to the target.
    """

    record: CheckpointRecord | Pointer | None = None
    unreadable: str = ""
    note: MoveNote | None = None
    switched: bool = False
    reverse: ReverseRecord | None = None
    source_uuid: str = ""
    target_uuid: str = ""
    tables: tuple[TableSeen, ...] = ()
    age: float = 0.0
    unreachable: str = ""


def decide(
    found: MoveFound,
    *,
    statement: str,
    max_age: float,
    start_afresh: bool = False,
    modes: SessionModes | None = None,
    choices: SwapChoices | None = None,
) -> Decision:
    """Return what to do; a :class:`Resume` with ``cleanup`` goes on after the switch.

    Before it the ``modes`` must be those of the record, and the ``choices`` said again; None: any.

    A move does not begin anew where the application may use the target's table: that would go.
    """
    for table in found.tables:
        if table.brought_from:
            from_there, back = table.brought_from, table.reverted
            reason, hint = is_being_brought(*table.name, from_there, reverted=back)
            return Refuse(reason=reason, hint=hint)
    decision = _decide(found, statement=statement, max_age=max_age, start_afresh=start_afresh)
    for table in found.tables if isinstance(decision, Afresh) else ():
        if table.others:
            reason, hint = is_being_brought(*table.name, table.others, reverted=table.reverted)
            return Refuse(reason=f"on the target, {reason}", hint=hint)
    if isinstance(decision, Resume) and not decision.cleanup:
        record = decision.record
        if modes not in {None, record.modes}:
            return refuse_other_modes(record)
        wanted = Wanted(statement=statement, max_age=max_age, choices=choices)
        return refuse_silence(record, wanted, kept=False) or decision
    in_use = [one for one in found.tables if one.arrived and (_sent(found) or not one.here)]
    return _in_use(in_use) if isinstance(decision, Afresh) and in_use else decision


def _sent(found: MoveFound) -> bool:
    """Return whether the application may have been sent to the target, by a source's note."""
    return found.note is not None and (found.note.switched or found.note.away)


def _in_use(in_use: Sequence[TableSeen]) -> Refuse:
    names = ", ".join(f"{one.schema}.{one.table}" for one in in_use)
    return Refuse(
        reason=f"the target has {names}, which a move has put there, and nothing on the source says"
        " that it is not in use",
        hint="see which table the application uses; drop or rename the other one, then what is left"
        " with spirit-py cleanup, on all servers",
    )


def _decide(found: MoveFound, *, statement: str, max_age: float, start_afresh: bool) -> Decision:
    record = found.record
    if found.unreadable:
        return _unread(found)
    if record is None:
        return Afresh()
    if found.note is not None and found.note.target != found.target_uuid:
        return _elsewhere("target", found.note.target, found.target_uuid, found.tables)
    if not isinstance(record, CheckpointRecord) or record.statement != statement:
        return _of_another_command(found, record)
    if record.server_uuid != found.source_uuid:
        return _elsewhere("source", record.server_uuid, found.source_uuid, found.tables)
    by_hand = Refuse(
        reason="the application was sent to the target, and the source's tables have their"
        " names again: the target may have rows that they lack",
        hint="see who renamed them; compare both servers with spirit-py checksum, then drop"
        " what is left with spirit-py cleanup, on both",
    )
    half_way = any(table.here and table.arrived for table in found.tables)
    if found.reverse is not None and half_way and found.reverse.state != REVERTING:
        return by_hand
    if found.reverse is not None and all(
        table.arrived or (table.here and table.undone) for table in found.tables
    ):
        # Also where a revert was made, or ended between its two RENAMEs, which is noted before.
        reason = f"reverse replication of {found.reverse.names}"
        return Resume(record=record, reason=reason, cleanup=True)
    standings = {_standing(table, switched=found.switched) for table in found.tables}
    # Not where a switch was being taken back, and the old tables were left to the operator then.
    arrived = not any(one.new and not one.held for one in found.tables)
    if arrived and all(
        one.away and one.old_table and one.old_table.finished for one in found.tables
    ):
        names = ", ".join(f"{table.schema}.{table.names.moved}" for table in found.tables)
        return Refuse(
            reason=f"the tables are moved already; {names} is kept on the source",
            hint="spirit-py cleanup --drop-old drops it when it is not needed",
        )
    if standings == {Standing.MOVED}:
        return Resume(record=record, reason="the tables are on the target already", cleanup=True)
    if standings == {Standing.HERE} and found.note is not None and found.note.switched:
        return by_hand
    if not (record.position or any(table.has_gone for table in found.tables)):
        # Its own table may not even be noted yet.
        return Afresh(reason="it was stopped before the copy began", abandoned=record)
    if standings != {Standing.HERE}:
        listed = "; ".join(f"{table} {table.standing.value}" for table in found.tables)
        return Refuse(
            reason=f"the tables are neither those before the switch nor those after it: {listed}",
            hint="see who renamed or dropped tables on either server, and where the rows are; then"
            " drop what is left with spirit-py cleanup, on all servers",
        )
    return _before_the_switch(found, record, max_age, start_afresh=start_afresh)


def _unread(found: MoveFound) -> Decision:
    if not any(one.made for one in found.tables):
        # Such as a checkpoint table whose first row was not written.
        return Afresh(reason=f"its checkpoint cannot be read: {found.unreadable}")
    return Refuse(
        reason=f"the checkpoint of an earlier run cannot be read: {found.unreadable}",
        hint="use the version of spirit-py that wrote it, or drop what is left with spirit-py"
        " cleanup, on all servers",
    )


def _standing(table: TableSeen, *, switched: bool) -> Standing:
    """Return where a table is; once the application was sent to the target, others may alter it."""
    return Standing.MOVED if switched and table.away and table.held else table.standing


def rows_copied(found: MoveFound) -> int:
    """Return how many rows a source's record says are copied."""
    return found.record.rows_copied if isinstance(found.record, CheckpointRecord) else 0


def finished(found: MoveFound) -> bool:
    """Return whether all was done on a source: its tables are the operator's, or dropped."""
    known = found.record is not None or bool(found.unreadable)
    if not (known or any(one.exists or one.away for one in found.tables)):
        return True
    return all(one.away and one.old_table and one.old_table.finished for one in found.tables)


def moved(found: MoveFound, decision: Decision) -> bool:
    """Return whether a source's tables are out of the way."""
    return (isinstance(decision, Resume) and decision.cleanup) or finished(found)


def together(found: Sequence[MoveFound], decisions: Sequence[Decision]) -> Decision:
    """Return what to do with the tables of several sources, by what is so on each."""
    first = decisions[0]
    if len(decisions) == 1:
        return first
    out = [moved(one, decision) for one, decision in zip(found, decisions, strict=True)]
    if not any(one.record is not None or one.unreadable for one in found):
        # What a source lacks before anything was done is refused by the checks.
        out = []
    if out and all(out):
        # What is left to do on the first is done last.
        return first
    if any(out):
        # One that was left half-way is taken back before.
        return Refuse(
            reason="the tables of some sources are moved, and those of others are in their places",
            hint="see who renamed them, and which server the application uses. If that is not the"
            " target, RENAME what is out of the way (_TABLE_moved) back by hand, before any"
            " spirit-py cleanup, which would drop it",
        )
    for kind in (Refuse, Afresh):
        # One that begins anew has all begin anew.
        if chosen := [one for one in decisions if isinstance(one, kind)]:
            arrived = [table for one in found for table in one.tables if table.arrived]
            if kind is Afresh and arrived and any(map(_sent, found)):
                return _in_use(arrived[:1])
            first = max(chosen, key=_weight)
            if isinstance(first, Afresh) and any(map(_would_lose, found, decisions)):
                why = first.reason or "one of the sources has no record of it"
                return replace(first, throws_away=True, reason=why)
            return first
    return first


def _would_lose(found: MoveFound, decision: Decision) -> bool:
    """Return whether rows of a source are dropped that could be gone on with by itself."""
    return isinstance(decision, Resume) and rows_copied(found) > 0


def _weight(decision: Decision) -> tuple[bool, bool]:
    """Return what counts first of decisions of one kind: dropped rows, then a reason."""
    return isinstance(decision, Afresh) and decision.throws_away, bool(decision.reason)


def _of_another_command(found: MoveFound, record: CheckpointRecord | Pointer) -> Decision:
    besides: list[str] = []
    if isinstance(record, CheckpointRecord):
        # Tables that were made since, and that its patterns fit.
        besides = [f"--exclude {one}" for one in found.tables if record.find(one.name) is None]
    without = " ".join(["or this one with", *besides]) if besides else ""
    if any(table.has_gone for table in found.tables):
        that = " ".join(filter(None, ("run that command again", without)))
        return Refuse(
            reason="another command has moved or changed the table, and is not cleaned up",
            hint=f"{that}, which ends it; or spirit-py cleanup, on all servers",
        )
    instead = ", ".join(filter(None, ("the command that it was begun with", without)))
    if not isinstance(record, CheckpointRecord):
        return Afresh(
            reason="the table is a part of another command, with others", throws_away=True,
            instead="the command that it was begun with",
        )  # fmt: skip
    return Afresh(
        reason="an unfinished command was another one",
        abandoned=record,
        throws_away=bool(record.rows_copied),
        instead=instead,
    )


def _elsewhere(side: str, noted: str, seen: str, tables: Sequence[TableSeen]) -> Refuse:
    gone = any(table.has_gone for table in tables)
    then = "; the source's tables are out of the way already" if gone else ""
    return Refuse(
        reason=f"the move was begun with another {side} server ({noted}), and {seen} answers now"
        + then,
        hint=elsewhere(side, switched=gone),
    )


def elsewhere(side: str = "server", *, switched: bool) -> str:
    """Return what to do where another server answers: no move goes on with it."""
    first = f"give the address of the {side} with which it was begun; where that is gone for good, "
    if not switched:
        return f"{first}drop what is left with spirit-py cleanup, on all servers, and start again"
    return (
        f"{first}do by hand what is left: see that the target has its tables with all rows, and"
        " that the application uses them; then drop what is left on the source with spirit-py"
        " cleanup --drop-old. Nothing leads back, and no second move is needed"
    )


def _before_the_switch(
    found: MoveFound, record: CheckpointRecord, max_age: float, *, start_afresh: bool
) -> Decision:
    gone = [f"{table.schema}.{table.names.new}" for table in found.tables if not table.on_target]
    reasons = (
        f"{', '.join(gone)} is gone on the target" if gone else "",
        f"the change feed cannot go on: {found.unreachable}" if found.unreachable else "",
    )
    if reason := next(filter(None, reasons), ""):
        return Afresh(reason=reason, abandoned=record)
    if changed := [table.changed for table in found.tables if table.changed]:
        reason = f"another session changed the definition of {', '.join(changed)}"
        if start_afresh:
            thrown = bool(record.rows_copied)
            return Afresh(reason=reason, abandoned=record, throws_away=thrown)
        hint = "see what was changed; --start-afresh begins from the beginning"
        return Refuse(reason=reason, hint=hint)
    if found.age > max_age:
        return Afresh(
            reason=f"its checkpoint is {human_seconds(found.age)} old",
            abandoned=record,
            throws_away=bool(record.rows_copied),
            instead="the same command with a longer --checkpoint-max-age",
        )
    return Resume(
        record=record,
        reason=f"stopped in the {record.phase} phase, {human_seconds(found.age)} ago;"
        f" {human_count(record.rows_copied)} rows are copied",
    )
