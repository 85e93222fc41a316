"""What a run does with what an earlier one left (pure; R14, R17).

A migration starts afresh only on proof that there is nothing to resume. What could not be
looked at proves nothing: who gathers :class:`Found` lets its errors pass, so that everything is
kept.

==============================================  ============================================
found                                           outcome
==============================================  ============================================
no checkpoint                                   afresh, without a word
a checkpoint of ours that cannot be read        afresh; refused where an old table is there
another statement                               afresh
the program was stopped before the feed ran     afresh
a new table is gone                             afresh
the binlog no longer has the position, or the   afresh
server never executed it
older than ``--checkpoint-max-age``             afresh
another server behind the address, whose GTIDs  refused: everything is kept (R14)
do not prove that it has all that the first had
another server whose GTIDs do                   as if it were the first; all is compared anew
a definition that somebody else changed         given up: dropped, and the run ends (R14)
the swap was done, its cleanup was not          resume, with the cleanup
a revert was made, its cleanup was not          resume, with the cleanup
another statement, and a way back is kept, is   refused: everything is kept
lost, or was gone and not cleaned up
nothing to resume or a changed definition,      refused: the new table may hold what the
where a swap was begun and the new table is     application wrote into it
still there
a state that tells no story, or a table that    refused: everything is kept
is not proven to be of the migration
anything else                                   resume
==============================================  ============================================
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from spirit_py.checkpoint.record import CheckpointRecord, Pointer
from spirit_py.checkpoint.words import may_hold_rows, see_what_it_holds, seen, shortened
from spirit_py.table.names import AuxiliaryNames
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.checkpoint.record import TableProgress


@dataclass(frozen=True, kw_only=True)
class TableFound:
    """What the server shows of one table of a migration.

    Attributes:
        source_shape: digest of the definition of the table under the source's name; empty when
            there is none.
        new_shape: the same of the new table.
        old_shape: the same of the table under the old table's name.
        ours: a checkpoint table of this program stands beside the table.
        changed_here: the table under the source's name is the one that the migration made.
        new_is_ours: so is the one under the new table's name.
        old_is_ours: the table under the old table's name is the one from before the migration.
        swap_begun: the swap may have been made, and undone by hand since.
        taken_over: what it holds is of another migration, which was begun since.
    """

    schema: str
    table: str
    source_shape: str = ""
    new_shape: str = ""
    old_shape: str = ""
    ours: bool = False
    changed_here: bool = False
    new_is_ours: bool = False
    old_is_ours: bool = False
    swap_begun: bool = False
    taken_over: bool = False

    @property
    def name(self) -> tuple[str, str]:
        """Schema and name of the source table."""
        return self.schema, self.table


class ReverseState(enum.Enum):
    """What has become of a way back that an earlier run kept behind its swap."""

    KEPT = "kept"
    """The old tables are there; whether somebody keeps them current is another matter."""
    LOST = "lost"
    """The old tables are there, and can no longer take the tables' places."""
    REVERTED = "reverted"
    """The old tables are in their places again; only the cleanup is left."""


@dataclass(frozen=True, kw_only=True)
class ReverseFound:
    """A way back that an earlier run kept, of which there is something left.

    Attributes:
        names: the tables, for messages.
        until: when its time is over, for messages.
        reason: why it is lost.
        undone: the tables that a revert has swapped out, for messages.
    """

    state: ReverseState
    names: str
    until: str = ""
    reason: str = ""
    undone: str = ""

    def __str__(self) -> str:
        """Say it in words."""
        if self.state is ReverseState.KEPT:
            return f"a way back of {self.names} is kept until {self.until}"
        if self.state is ReverseState.LOST:
            return f"the way back of {self.names} is lost: {self.reason}"
        return f"a revert has brought the old definition of {self.names} back"


@dataclass(frozen=True, kw_only=True)
class Found:
    """What an earlier run left, as far as it could be looked at.

    Attributes:
        record: the checkpoint; None when there is none, or when it cannot be read.
        unreadable: why a checkpoint table that is ours cannot be read.
        age: seconds since the checkpoint was written.
        server_uuid: the server that was asked.
        tables: the tables that this run is about.
        unreachable: why the change feed cannot go on from the record's position; empty when it
            can, and when there is no position.
        way_back: of the migration that one of the tables took part in.
    """

    record: CheckpointRecord | Pointer | None = None
    unreadable: str = ""
    age: float = 0.0
    server_uuid: str = ""
    tables: tuple[TableFound, ...] = ()
    unreachable: str = ""
    way_back: ReverseFound | None = None

    @property
    def moved(self) -> bool:
        """Whether another server was asked than the one that the record is of."""
        return (
            isinstance(self.record, CheckpointRecord)
            and self.server_uuid != self.record.server_uuid
        )

    @property
    def goes_on_here(self) -> bool:
        """Whether another server was asked, which has all that the first one had."""
        record = self.record if isinstance(self.record, CheckpointRecord) else None
        return self.moved and bool(record and record.position) and not self.unreachable


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What this run is to do.

    Attributes:
        statement: normal form, as the record has it; None takes any (``spirit-py status``).
        max_age: seconds after which a checkpoint is too old.
    """

    statement: str | None
    max_age: float


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Carry on.

    Attributes:
        cleanup: the swap is done; only what it left is to be dropped.
    """

    record: CheckpointRecord
    reason: str
    cleanup: bool = False


@dataclass(frozen=True, kw_only=True)
class Afresh:
    """Begin at the beginning. Without a reason there was nothing at all.

    Attributes:
        abandoned: the record that is written over.
    """

    reason: str = ""
    abandoned: CheckpointRecord | None = None


@dataclass(frozen=True, kw_only=True)
class GiveUp:
    """Drop the auxiliary tables and end (R14); the next run begins at the beginning."""

    reason: str
    hint: str


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """End and keep everything: somebody must look."""

    reason: str
    hint: str


Decision: TypeAlias = Resume | Afresh | GiveUp | Refuse


def decide(found: Found, wanted: Wanted) -> Decision:
    """Return what to do."""
    decision = _decide(found, wanted)
    if not isinstance(decision, Afresh | GiveUp):
        return decision
    for table in found.tables:
        if table.swap_begun and table.new_is_ours and table.new_shape:
            return Refuse(
                reason=f"{decision.reason}; {may_hold_rows(*table.name)}",
                hint=f"{see_what_it_holds(*table.name)}, and run the same command again",
            )
    return decision


def _decide(found: Found, wanted: Wanted) -> Decision:
    record, way_back = found.record, found.way_back
    if way_back is not None and not _of_this(record, wanted):
        return _refuse_another(way_back)
    if found.unreadable:
        return _without_words(found, f"its checkpoint cannot be read: {found.unreadable}")
    if record is None:
        return _without_record(found)
    if isinstance(record, Pointer):
        return Afresh(
            reason="the table was migrated together with others, by another statement"
            f" (its checkpoint is beside {'.'.join(record.home)})"
        )
    if wanted.statement is not None and wanted.statement != record.statement:
        return Afresh(
            reason=f"it was for another statement: {shortened(record.statement)}",
            abandoned=record,
        )
    if found.moved and not found.goes_on_here:
        return _refuse_other_server(found, record)
    if way_back is not None and way_back.state is not ReverseState.KEPT:
        return Resume(record=record, reason=f"{way_back}", cleanup=True)
    swapped = was_swapped(found.tables, record)
    if swapped is None:
        return Refuse(
            reason="the tables are neither those before the swap nor those after it: "
            + "; ".join(seen(table, record.of(*table.name)) for table in found.tables),
            hint="see what became of the table, its new and its old one, and who made what is not"
            " this migration's; spirit-py cleanup drops what is proven to be",
        )
    if swapped:
        kept = (
            ""
            if way_back is None
            else (f"; {way_back}: with --keep-old-current it goes on, without it is given up")
        )
        return Resume(record=record, reason=f"the swap was done already{kept}", cleanup=True)
    return _before_the_swap(found, record, wanted)


def _refuse_other_server(found: Found, record: CheckpointRecord) -> Refuse:
    """Refuse a server that is not proven to have what the migration's server had (R14).

    Nothing is dropped: it may be a replica that somebody took for its source.
    """
    why = found.unreachable or "nothing says what it has of the first one"
    return Refuse(
        reason=f"the checkpoint is of server {record.server_uuid}, and this is server"
        f" {found.server_uuid}: another one answers at the same address, and the migration cannot"
        f" go on there: {why}",
        hint="run the same command on the right server; where that one is gone for good, drop what"
        " is left here with spirit-py cleanup and start again",
    )


def _of_this(record: CheckpointRecord | Pointer | None, wanted: Wanted) -> bool:
    """Return whether a record is of the migration that is wanted."""
    return isinstance(record, CheckpointRecord) and wanted.statement in {None, record.statement}


def _refuse_another(way_back: ReverseFound) -> Refuse:
    """Refuse to begin a migration over what the way back of another one still needs."""
    hints = {
        ReverseState.KEPT: "go back with spirit-py revert, or give it up with spirit-py cleanup,"
        " which asks before it drops an old table",
        ReverseState.LOST: "see what only the old table holds; spirit-py cleanup drops what is"
        " left, and asks before it drops an old table",
        ReverseState.REVERTED: f"spirit-py revert drops what is left of it ({way_back.undone});"
        " then run this command again",
    }
    return Refuse(reason=f"{way_back}", hint=hints[way_back.state])


def was_swapped(tables: Iterable[TableFound], record: CheckpointRecord) -> bool | None:
    """Return whether the RENAME of a migration was carried out; None when the tables do not tell.

    RENAME of several tables is atomic, so either all of them are swapped or none is. The old
    tables may have been dropped since.
    """
    answers = {_was_swapped(table, record.of(*table.name)) for table in tables}
    return answers.pop() if len(answers) == 1 else None


def _was_swapped(table: TableFound, progress: TableProgress) -> bool | None:
    """Say the same of one table."""
    if table.changed_here:
        # The old table may have been dropped since; another one in its place is somebody's.
        ours = table.old_is_ours or not table.old_shape
        ours = ours and table.source_shape == progress.target_shape
        return True if ours and not table.new_shape else None
    if table.old_shape or not progress.target_shape:
        return None if table.old_shape and progress.target_shape else False
    changed = progress.source_shape != progress.target_shape == table.source_shape
    return None if changed and not table.new_shape else False


def _without_record(found: Found) -> Decision:
    """Decide where there is no checkpoint.

    A new table that no checkpoint says to be ours is refused by a check of its own, together
    with whatever else stands in the way (:mod:`spirit_py.preflight.checks.leftovers`).
    """
    if any(table.ours for table in found.tables):
        return _without_words(found, "its checkpoint is gone")
    return Afresh()


def _without_words(found: Found, why: str) -> Decision:
    """Decide where a checkpoint table is ours and says nothing: the old table may be a swap's."""
    old = [f"{t.schema}.{AuxiliaryNames.of(t.table).old}" for t in found.tables if t.old_shape]
    if not old:
        return Afresh(reason=why)
    names = ", ".join(old)
    return Refuse(
        reason=f"{why}, and {names} exists: the swap may have been done, and then it holds the"
        " only copy of the rows from before",
        hint="see whether the table has the new definition: then the migration is done, and"
        f" spirit-py cleanup drops what is left, and {names} only when told to; if not, see what"
        f" {names} holds before it is dropped or renamed",
    )


def _before_the_swap(found: Found, record: CheckpointRecord, wanted: Wanted) -> Decision:
    """Decide where the source is still the source."""
    for progress, table in _pairs(found, record):
        name = progress.names.new
        if table.new_shape and not table.new_is_ours and not table.taken_over:
            return Refuse(
                reason=f"{progress.schema}.{name} is not the table that the migration of"
                f" {progress} made",
                hint=f"see who made it; drop or rename {name}, then run the same command again",
            )
    for reason in _nothing_to_resume(found, record, wanted):
        return Afresh(reason=reason, abandoned=record)
    for progress, table in _pairs(found, record):
        if table.source_shape != progress.source_shape:
            return GiveUp(
                reason=f"somebody else changed the definition of {progress} since the migration"
                " began",
                hint="see what was changed, then start the migration again: it begins at the"
                " beginning",
            )
        if table.new_shape != progress.target_shape:
            return GiveUp(
                reason=f"somebody else changed the definition of {progress.names.new}, the new"
                f" table of {progress}",
                hint="start the migration again: it begins at the beginning",
            )
    moved = f"; this is another server, {found.server_uuid}, which has all of it"
    return Resume(
        record=_not_compared(record) if found.moved else record,
        reason=f"stopped in the {record.phase} phase, {human_seconds(found.age)} ago;"
        f" {record.rows_copied} rows are copied{moved if found.moved else ''}",
    )


def _not_compared(record: CheckpointRecord) -> CheckpointRecord:
    """Forget what was compared: that was on another server."""
    tables = tuple(replace(table, checked_up_to=()) for table in record.tables)
    return replace(record, tables=tables, settled_at="")


def _nothing_to_resume(found: Found, record: CheckpointRecord, wanted: Wanted) -> Iterator[str]:
    """Yield the proofs that there is nothing to resume."""
    if found.age > wanted.max_age:
        yield (
            f"its checkpoint is {human_seconds(found.age)} old, more than"
            f" --checkpoint-max-age allows ({human_seconds(wanted.max_age)})"
        )
    if not record.position:
        yield "it was stopped before the copy began"
    there = {table.name: table for table in found.tables}
    for progress in record.tables:
        table = there.get(progress.name)
        if table is not None and table.taken_over:
            yield f"another migration of {progress} was begun since"
        if table is None or not table.new_shape:
            yield f"its new table {progress.schema}.{progress.names.new} is gone"
    if found.unreachable:
        yield f"the change feed cannot go on where it stopped: {found.unreachable}"


def _pairs(found: Found, record: CheckpointRecord) -> Iterator[tuple[TableProgress, TableFound]]:
    """Yield each table of the record together with what is there."""
    for table in found.tables:
        yield record.of(*table.name), table
