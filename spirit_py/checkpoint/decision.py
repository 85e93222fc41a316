"""What a run does with what an earlier one left (pure; R14, R17).

A migration starts afresh only on proof that there is nothing to resume. What could not be
looked at proves nothing: who gathers :class:`Found` lets its errors pass, so that everything is
kept.

==============================================  ============================================
found                                           outcome
==============================================  ============================================
no checkpoint                                   afresh, without a word
a checkpoint of ours that cannot be read        afresh
another statement                               afresh
the program was stopped before the feed ran     afresh
a new table is gone                             afresh
the binlog no longer has the position, or the   afresh
server never executed it
older than ``--checkpoint-max-age``             afresh
another server behind the address               given up: dropped, and the run ends (R14)
a definition that somebody else changed         given up: dropped, and the run ends (R14)
the swap was done, its cleanup was not          resume, with the cleanup
a state that tells no story                     refused: everything is kept
anything else                                   resume
==============================================  ============================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from spirit_py.checkpoint.record import Membership

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.checkpoint.record import CheckpointRecord, TableProgress

_SHOWN: Final = 200
_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR


@dataclass(frozen=True, kw_only=True)
class TableFound:
    """What the server shows of one table of a migration.

    Attributes:
        source_shape: digest of the definition of the table under the source's name; empty when
            there is none.
        new_shape: the same of the new table.
        old_shape: the same of the table under the old table's name.
        ours: a checkpoint table of this program stands beside the table.
    """

    schema: str
    table: str
    source_shape: str = ""
    new_shape: str = ""
    old_shape: str = ""
    ours: bool = False

    @property
    def name(self) -> tuple[str, str]:
        """Schema and name of the source table."""
        return self.schema, self.table


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
    """

    record: CheckpointRecord | Membership | None = None
    unreadable: str = ""
    age: float = 0.0
    server_uuid: str = ""
    tables: tuple[TableFound, ...] = ()
    unreachable: str = ""


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
    """Begin at the beginning. Without a reason there was nothing at all."""

    reason: str = ""


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
    """Say what to do."""
    if found.unreadable:
        return Afresh(reason=f"its checkpoint cannot be read: {found.unreadable}")
    record = found.record
    if record is None:
        return _without_record(found)
    if isinstance(record, Membership):
        return Afresh(
            reason="the table was migrated together with others, by another statement"
            f" (its checkpoint is beside {record.schema}.{record.table})"
        )
    if wanted.statement is not None and wanted.statement != record.statement:
        return Afresh(reason=f"it was for another statement: {_shortened(record.statement)}")
    if found.server_uuid != record.server_uuid:
        return GiveUp(
            reason=f"the checkpoint is of server {record.server_uuid}, and this is server"
            f" {found.server_uuid}: another one answers at the same address",
            hint="see which server is the right one, then start the migration again: it begins at"
            " the beginning",
        )
    swapped = was_swapped(found.tables, record)
    if swapped is None:
        return Refuse(
            reason="the tables are neither those before the swap nor those after it",
            hint="see what became of the table, its new and its old one; spirit-py cleanup drops"
            " what is left",
        )
    if swapped:
        return Resume(record=record, reason="the swap was done already", cleanup=True)
    return _before_the_swap(found, record, wanted)


def was_swapped(tables: Iterable[TableFound], record: CheckpointRecord) -> bool | None:
    """Say whether the RENAME of a migration was carried out; None when the tables do not tell.

    RENAME of several tables is atomic, so either all of them are swapped or none is. The old
    tables may have been dropped since.
    """
    answers = {_was_swapped(table, record.of(*table.name)) for table in tables}
    return answers.pop() if len(answers) == 1 else None


def _was_swapped(table: TableFound, progress: TableProgress) -> bool | None:
    """Say the same of one table."""
    if not progress.target_shape:
        return False
    if table.new_shape:
        return None if table.old_shape else False
    if table.old_shape:
        # Where nothing has the source's name, the old table is all that is left of the data.
        whole = table.source_shape and table.old_shape == progress.source_shape
        return True if whole else None
    return progress.source_shape != progress.target_shape == table.source_shape


def _without_record(found: Found) -> Decision:
    """Decide where there is no checkpoint.

    A new table that no checkpoint says to be ours is refused by a check of its own, together
    with whatever else stands in the way (:mod:`spirit_py.preflight.leftovers`).
    """
    if any(table.ours for table in found.tables):
        return Afresh(reason="its checkpoint is gone")
    return Afresh()


def _before_the_swap(found: Found, record: CheckpointRecord, wanted: Wanted) -> Decision:
    """Decide where the source is still the source."""
    for reason in _nothing_to_resume(found, record, wanted):
        return Afresh(reason=reason)
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
                reason=f"somebody else changed the definition of {progress.new}, the new table of"
                f" {progress}",
                hint="start the migration again: it begins at the beginning",
            )
    return Resume(
        record=record,
        reason=f"stopped in the {record.phase} phase, {shown_age(found.age)} ago;"
        f" {record.rows_copied} rows are copied",
    )


def _nothing_to_resume(found: Found, record: CheckpointRecord, wanted: Wanted) -> Iterator[str]:
    """Give the proofs that there is nothing to resume."""
    if found.age > wanted.max_age:
        yield (
            f"its checkpoint is {shown_age(found.age)} old, more than --checkpoint-max-age allows"
            f" ({shown_age(wanted.max_age)})"
        )
    if not record.position:
        yield "it was stopped before the copy began"
    there = {table.name: table for table in found.tables}
    for progress in record.tables:
        table = there.get(progress.name)
        if table is None or not table.new_shape:
            yield f"its new table {progress.schema}.{progress.new} is gone"
    if found.unreachable:
        yield f"the change feed cannot go on where it stopped: {found.unreachable}"


def _pairs(found: Found, record: CheckpointRecord) -> Iterator[tuple[TableProgress, TableFound]]:
    """Give each table of the record together with what is there."""
    for table in found.tables:
        yield record.of(*table.name), table


def shown_age(seconds: float) -> str:
    """Show an age as people say it."""
    whole = max(0, int(seconds))
    for size, unit in ((_DAY, "days"), (_HOUR, "h"), (60, "min")):
        if whole >= 2 * size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def _shortened(text: str) -> str:
    """Cut a long statement."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
