"""What the server shows of an earlier run: the input of the decision (pure)."""

from __future__ import annotations

import enum
from shlex import quote
from typing import TYPE_CHECKING

from spirit_py.checkpoint.record import CheckpointRecord, Pointer
from spirit_py.classes import dataclass, replace
from spirit_py.table.names import AuxiliaryNames, OfTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.checkpoint.record import OldTableRecord, TableProgress
    from spirit_py.table.names import Name


@dataclass(frozen=True, kw_only=True)
class TableFound(OfTable):
    """What the server shows of one table of a migration.

    The ``shape`` fields are digests of definitions, empty without a table. ``changed_here``: the
    table under the source's name is the migration's. ``undone_is_ours``: the table that a revert
    swapped out is there; ``moved_is_ours``: that which a move has renamed away. ``swap_begun``: the
    swap may have been made, and undone by hand since. ``unreadable``: why a row of its checkpoint,
    besides the record, cannot be read.
    ``brought_from``: the servers from which a move brings it, until that has ended.
    ``taken_over``: the checkpoint is of a later migration. ``old_table`` is None before the swap,
    and where it was to be dropped at once. ``emptied``: partitions that an unfinished drop has
    emptied, and how many there are.
    """

    source_shape: str = ""
    new_shape: str = ""
    old_shape: str = ""
    ours: bool = False
    changed_here: bool = False
    new_is_ours: bool = False
    old_is_ours: bool = False
    undone_is_ours: bool = False
    moved_is_ours: bool = False
    swap_begun: bool = False
    taken_over: bool = False
    brought_from: tuple[str, ...] = ()
    unreadable: str = ""
    old_table: OldTableRecord | None = None
    emptied: tuple[int, int] = (0, 0)

    def was_swapped(self, progress: TableProgress) -> bool | None:
        """Return whether the RENAME was carried out; None when the tables do not tell."""
        if self.changed_here:
            # The old table may have been dropped since; another one in its place is not ours. Where
            # both are proven, others may have changed the definition, or the guard's column its
            # CHECKs: with ADD COLUMN the server writes their constants anew (9.7.4).
            as_made = not self.old_shape and self.source_shape == progress.target_shape
            return True if (self.old_is_ours or as_made) and not self.new_shape else None
        if self.old_shape or not progress.target_shape:
            return None if self.old_shape and progress.target_shape else False
        changed = progress.source_shape != progress.target_shape == self.source_shape
        return None if changed and not self.new_shape else False

    @property
    def undone(self) -> bool:
        """Whether a revert was made that keeps the table that it swapped out."""
        return self.old_table is not None and self.old_table.undone

    @property
    def kept(self) -> str:
        """The name of the table that is, or would be, kept after the swap or after a revert."""
        if self.moved_is_ours:
            return self.names.moved
        return self.names.undone if self.undone else self.names.old

    @property
    def keeps_one(self) -> bool:
        """Whether that table is there."""
        return self.undone_is_ours if self.undone else self.old_is_ours or self.moved_is_ours

    @property
    def fate(self) -> str:
        """What becomes of the old table, for messages; empty where nothing is known of it."""
        if not self.keeps_one:
            return ""
        if self.emptied[0]:
            emptied, partitions = self.emptied
            ends = "spirit-py cleanup --drop-old ends it"
            if self.old_table is None or not self.old_table.finished:
                ends = f"the same command or {ends}"
            return f"being dropped: {emptied} of {partitions} partitions are emptied; {ends}"
        return "" if self.old_table is None else str(self.old_table)

    def described(self, progress: TableProgress) -> str:
        """Describe the tables under the three names, for messages."""
        source = "is not the table that this migration made"
        if self.changed_here:
            source = "is the table that this migration made"
            if self.source_shape != progress.target_shape:
                source += ", with a definition that another session changed since"
        elif not self.source_shape:
            source = "is gone"
        elif self.source_shape == progress.target_shape != progress.source_shape:
            source = f"has the new definition, and {source}: another session has changed it"
        made = "that this migration made"
        new = _whose(self.names.new, self.new_shape, made, ours=self.new_is_ours)
        old = _whose(self.names.old, self.old_shape, "from before the swap", ours=self.old_is_ours)
        return f"{progress} {source}, {new}, {old}"


def _whose(name: str, shape: str, which: str, *, ours: bool) -> str:
    if not shape:
        return f"{name} is not there"
    return f"{name} is the table {which}" if ours else f"{name} is not the table {which}"


def was_swapped(tables: Iterable[TableFound], record: CheckpointRecord) -> bool | None:
    """Return whether the RENAME, atomic over all tables, was carried out; None for unknown.

    The checkpoints go after the swap, that of the record's home last: a table whose own one is
    gone, and that has the new definition, says nothing beside one that was swapped.
    """
    answers: set[bool | None] = set()
    settled: set[bool | None] = set()
    for table in tables:
        progress = record.of(*table.name)
        left = table.ours or table.new_shape or table.old_shape or table.name == record.home
        is_settled = not left and table.source_shape == progress.target_shape
        (settled if is_settled else answers).add(table.was_swapped(progress))
    if answers != {True}:
        answers |= settled
    return answers.pop() if len(answers) == 1 else None


def cannot_be_read(schema: str, table: str, why: str) -> tuple[str, str]:
    """Return the message and the hint where nothing readable proves whose the tables are."""
    names = AuxiliaryNames.of(table)
    return f"what an earlier run noted of {schema}.{table} cannot be read: {why}", (
        "finish it, or clean it up, with the version of spirit-py that wrote it; or see what"
        f" {names.new} and {names.old} hold, and drop by hand what is not needed,"
        f" {schema}.{names.checkpoint} last"
    )


def may_hold_rows(schema: str, table: str) -> str:
    """Return why a new table may hold rows that no other table has."""
    return (
        f"the swap of {schema}.{table} was begun by an earlier run, and may have been undone by"
        f" hand: then {AuxiliaryNames.of(table).new} holds what the application wrote in between"
    )


def see_what_it_holds(schema: str, table: str) -> str:
    """Return what to do with such a table."""
    new = AuxiliaryNames.of(table).new
    return f"see what {schema}.{new} holds that {schema}.{table} does not; then drop or rename it"


def is_being_brought(
    schema: str, table: str, sources: Iterable[str], *, reverted: bool
) -> tuple[str, str]:
    """Return the message and the hint where a move that brings a table here has not ended.

    ``reverted``: it was taken back, and its table is kept.
    """
    if reverted:
        kept = f"{schema}.{AuxiliaryNames.of(table).undone}"
        return (
            f"a move brought {schema}.{table} here from {', '.join(sources)}, and was taken back:"
            f" {kept} is kept"
        ), (
            f"see what {kept} holds; spirit-py cleanup --database {quote(schema)} --table"
            f" {quote(table)} --drop-old drops it, on this server"
        )
    return f"a move brings {schema}.{table} here from {', '.join(sources)}, and has not ended", (
        "run the spirit-py move command that it was begun with, which ends it; or give it up:"
        f" spirit-py cleanup --database {quote(schema)} --table {quote(table)}, on all its"
        " servers, with --drop-old where the table has arrived"
    )


class ReverseState(enum.Enum):
    """What has become of the reverse replication that an earlier run began after its swap."""

    KEPT = "kept"
    """The old tables are there; a process may or may not keep them current."""
    NOTED = "noted"
    """The old tables are there, and the place is noted from which a revert lets them follow."""
    LOST = "lost"
    """The old tables are there, and can no longer take the tables' places."""
    REVERTED = "reverted"
    """The old tables are in their places again; only the cleanup is left."""
    UNREADABLE = "unreadable"
    """Its record is; a process of another version may keep the old tables current."""


@dataclass(frozen=True, kw_only=True)
class ReverseFound:
    """Reverse replication of an earlier run that is not cleaned up; ``over``: past ``until``."""

    state: ReverseState
    names: str
    until: str = ""
    reason: str = ""
    undone: str = ""
    over: bool = False

    def __str__(self) -> str:
        if self.over:
            return f"the time of reverse replication of {self.names} has passed at {self.until}"
        if self.state is ReverseState.KEPT:
            return f"reverse replication of {self.names} is kept until {self.until}"
        if self.state is ReverseState.LOST:
            return f"reverse replication of {self.names} is lost: {self.reason}"
        if self.state is ReverseState.UNREADABLE:
            return self.reason
        return f"a revert has brought the old definition of {self.names} back"


@dataclass(frozen=True, kw_only=True)
class Found:
    """What an earlier run left, as far as it could be looked at.

    ``record`` is None where there is none or it is ``unreadable`` (why). ``age`` in seconds.
    ``unreachable``: why the feed cannot go on from the position; empty when it can or there is
    none. ``elsewhere``: the record that a pointer leads to; None for one that leads nowhere.
    ``others``: the records of other migrations that the tables lead to; ``unread``: the tables
    besides whose own record is unreadable.
    """

    record: CheckpointRecord | Pointer | None = None
    unreadable: str = ""
    age: float = 0.0
    server_uuid: str = ""
    mysql: str = ""
    tables: tuple[TableFound, ...] = ()
    unreachable: str = ""
    reverse: ReverseFound | None = None
    elsewhere: CheckpointRecord | None = None
    others: tuple[CheckpointRecord, ...] = ()
    unread: tuple[Name, ...] = ()

    def of(self, record: CheckpointRecord) -> Found:
        """Return it with those tables alone that a record names."""
        return replace(self, tables=tuple(one for one in self.tables if record.find(one.name)))

    @property
    def followed(self) -> ReverseFound | None:
        """Reverse replication, but for a place that is only noted: that holds up nothing."""
        noted = self.reverse is not None and self.reverse.state is ReverseState.NOTED
        return None if noted else self.reverse

    @property
    def taken_over(self) -> bool:
        """Whether a later migration has begun with one of the tables: its notes are no proof."""
        return any(table.taken_over for table in self.tables)

    @property
    def kept(self) -> dict[str, OldTableRecord]:
        """The tables that are kept after the swap, or a revert, by schema and name."""
        return {
            f"{table.schema}.{table.kept}": table.old_table
            for table in self.tables
            if table.old_table is not None and table.keeps_one
        }

    @property
    def old_tables(self) -> str:
        """Which old tables are there, and what becomes of them; empty where nothing is known."""
        known = {f"{one.schema}.{one.kept}": one.fate for one in self.tables if one.fate}
        return ", ".join(f"{name} is {fate}" for name, fate in known.items())

    @property
    def kept_no_more(self) -> bool:
        """Whether the migration is done, and the old tables that it left are gone."""
        noted = [table.old_table for table in self.tables if table.old_table is not None]
        # Where one is there, another migration of that table is not done.
        if any(table.new_shape and table.new_is_ours for table in self.tables):
            return False
        return not self.kept and bool(noted) and all(one.finished for one in noted)

    @property
    def moved(self) -> bool:
        """Whether another server was asked than the one that the record is of."""
        record = self.record
        return isinstance(record, CheckpointRecord) and self.server_uuid != record.server_uuid

    @property
    def goes_on_here(self) -> bool:
        """Whether another server was asked, which has all that the first one had."""
        record = self.record if isinstance(self.record, CheckpointRecord) else None
        return self.moved and bool(record and record.position) and not self.unreachable

    def was_swapped(self, record: CheckpointRecord) -> bool | None:
        """Return whether this record's swap was made; None for unknown.

        Of a table whose old one is kept, others may have changed the definition since.
        """
        if self.kept and not self.taken_over:
            return True
        return was_swapped(self.tables, record)
