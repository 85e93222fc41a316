"""The rows of the checkpoint table about a migration and its reverse replication (pure).

Nothing secret is in them (R20). The record of a migration of several tables is in the checkpoint
table of one of them, its *home*; those of the others only point there. Each table has its proofs,
and after the swap what is noted of its old table, in rows of its own: they can be read without the
record, and stay as long as the old table does, so that ``spirit-py cleanup`` can drop it (R24).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from spirit_py.config import SessionModes
from spirit_py.contracts import Origin
from spirit_py.mysql.tables.identity import Identity
from spirit_py.phases import Phase
from spirit_py.table.build import ReverseChanges
from spirit_py.table.names import AuxiliaryNames, is_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_TABLES: Final = 1000
"""Tables that one record may name: ``status`` looks at each, and whoever may create a table can
forge a record (R26). So many are never swapped together."""

_NAME: Final = r"`(?:[^`]|``)+`"
# A line of its own; the name of another column or table cannot begin one.
_FOREIGN_KEY: Final = re.compile(rf",\n  CONSTRAINT {_NAME} FOREIGN KEY \(.*?(?=,?\n)")
_BUILDING: Final = re.compile(r"_.{1,55}_[0-9a-f]{6}", re.DOTALL)
_HEAD: Final = re.compile(rf"\ACREATE TABLE {_NAME}")


@dataclass(frozen=True, kw_only=True)
class UncopiedRange:
    """A range of the key that is not copied: after ``lower`` up to ``upper``, as SQL literals.

    An open end is empty.
    """

    lower: tuple[str, ...] = ()
    upper: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TableProgress:
    """How far one table is.

    Attributes:
        source_shape: :func:`digest_of` the source's definition.
        target_shape: the same of the new table's; empty before it was made.
        bare_shape: the same of the new table's without the deferred indexes; empty without any.
        deferred: the name of each index that is built after the copy.
        uncopied: what is not copied yet, in the order of the walk; everything before the first
            chunk, nothing when every row that existed is copied.
        checked_up_to: SQL literals of the checksum's low watermark: up to there its present pass
            found no difference.
    """

    schema: str
    table: str
    source_shape: str = ""
    target_shape: str = ""
    bare_shape: str = ""
    deferred: tuple[str, ...] = ()
    uncopied: tuple[UncopiedRange, ...] = (UncopiedRange(),)
    rows_copied: int = 0
    chunks: int = 0
    checked_up_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require_names(self.schema, self.table, *self.deferred)
        if min(self.rows_copied, self.chunks) < 0:
            raise ValueError(f"the counters of {self} are below zero")
        if not all(low.upper and high.lower for low, high in pairwise(self.uncopied)):
            raise ValueError(f"an uncopied range of {self} has no end, and another one follows")

    @property
    def copied(self) -> bool:
        """Whether every row that existed is copied."""
        return not self.uncopied

    @property
    def name(self) -> tuple[str, str]:
        """Schema and name of the source table."""
        return self.schema, self.table

    @property
    def shapes(self) -> frozenset[str]:
        """The digests that the new table's definition may have: whole, or without the deferred."""
        return frozenset(filter(None, (self.target_shape, self.bare_shape)))

    @property
    def names(self) -> AuxiliaryNames:
        """Names of the tables beside it."""
        return AuxiliaryNames.of(self.table)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """One migration's state, of one table or of several that are swapped together.

    Attributes:
        statement: :func:`joined` normal forms of the ALTERs, so that other spelling still matches.
        phase: value of :class:`spirit_py.phases.Phase`.
        position: the change feed's safe position, opaque; empty before the feed started.
        origin: what the position is of: the server's life and its log (R25).
        settled_at: the feed's position after the run's last write to a new table, opaque; empty
            while it may write, and after a run that was killed.
        started_at: when the first run began, ISO 8601 in UTC.
        seconds: seconds worked in all runs together, as are ``totals``, counters.
        runs: how many runs there were, this one included.
        sentinel: the sentinel table was created: one that is gone was dropped by the operator.
        modes: under which the tables are changed.
        program: version of the program that wrote it.
    """

    statement: str
    tables: tuple[TableProgress, ...]
    server_uuid: str
    phase: str
    position: str = ""
    origin: Origin = field(default_factory=Origin)
    settled_at: str = ""
    started_at: str = ""
    seconds: float = 0.0
    runs: int = 1
    totals: dict[str, int] = field(default_factory=dict)
    sentinel: bool = False
    modes: SessionModes = field(default_factory=SessionModes)
    program: str = ""

    def __post_init__(self) -> None:
        if not 0 < len(self.tables) <= MOST_TABLES:
            raise ValueError(f"it names {len(self.tables)} tables")
        if self.phase not in set(Phase):
            raise ValueError(f"there is no phase {self.phase!r}")

    @property
    def home(self) -> tuple[str, str]:
        """The table whose checkpoint table holds this record."""
        return home_of(table.name for table in self.tables)

    @property
    def copied(self) -> bool:
        """Whether every table is copied."""
        return all(table.copied for table in self.tables)

    @property
    def rows_copied(self) -> int:
        """Rows copied in all tables and runs."""
        return sum(table.rows_copied for table in self.tables)

    def of(self, schema: str, table: str) -> TableProgress:
        """Return one table's progress; a KeyError when the migration is not about that table."""
        found = self.find((schema, table))
        if found is None:
            raise KeyError(f"{schema}.{table}")
        return found

    def find(self, name: tuple[str, str]) -> TableProgress | None:
        """Return one table's progress; None when the migration is not about that table."""
        return next((table for table in self.tables if table.name == name), None)


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """The row of a checkpoint table whose migration's record is in that of its home."""

    home: tuple[str, str]
    program: str = ""

    def __post_init__(self) -> None:
        _require_names(*self.home)


@dataclass(frozen=True, kw_only=True)
class Proofs:
    """The proofs of which auxiliary tables of a source are this migration's (R24).

    Attributes:
        building: the name under which the new table is built, with a random token.
        source: the table from before the migration: after the swap that is the old table.
        new: the table that the migration made.
        swap_begun: the swap may have been made, and may have been undone by hand since: then the
            new table holds what the application wrote into it.
    """

    building: str = ""
    source: Identity = field(default_factory=Identity)
    new: Identity = field(default_factory=Identity)
    swap_begun: bool = False

    def __post_init__(self) -> None:
        if self.building and not _BUILDING.fullmatch(self.building):
            raise ValueError(f"no table is built as {self.building!r}")


def _require_names(*names: str) -> None:
    if not all(map(is_identifier, names)):
        raise ValueError("a name is none that the server takes")


def home_of(tables: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return the table whose checkpoint table holds the record; independent of their order."""
    return min(tables)


def joined(statements: Iterable[tuple[tuple[str, str], str]]) -> str:
    """Join normal forms of statements, given with their tables, in the order of the tables."""
    return ";\n".join(text for _, text in sorted(statements))


def digest_of(shape: str, name: str) -> str:
    """Return a digest of a definition that survives RENAME TABLE, without its foreign keys.

    The new table gets those with the swap, and the old one loses them (:mod:`spirit_py.attached`).

    Args:
        shape: ``SHOW CREATE TABLE`` without the counter.
        name: the table's name in it. A rename changes it, and the names that the server gave to
            constraints from it (``t_chk_1``).
    """
    text = _FOREIGN_KEY.sub("", _HEAD.sub("CREATE TABLE", shape, count=1))
    given = re.escape(name.replace("`", "``"))
    text = re.sub(rf"CONSTRAINT `{given}_chk_(\d+)`", r"CONSTRAINT `_chk_\1`", text)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True)
class OldTableRecord:
    """When one table was swapped, and until when its old one is kept; by the server's clock.

    Attributes:
        swapped_at: seconds since 1970.
        until: the same of the time from which on it may be dropped; 0 where only the operator
            drops it.
        finished: the run has ended and left it to the operator.
        followed: reverse replication has ended: the old table follows no more.
        undone: a revert was made: the table that is kept is the one that it swapped out.
    """

    swapped_at: float
    until: float = 0.0
    finished: bool = False
    followed: bool = False
    undone: bool = False

    def __str__(self) -> str:
        if self.finished or not self.until:
            return "kept until spirit-py cleanup --drop-old drops it"
        until = datetime.fromtimestamp(self.until, UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"kept until {until} UTC"


FOLLOWING: Final = "following"
"""The old tables follow the new ones: a process applies the changes, or another may continue."""
REVERTING: Final = "reverting"
"""The swap back may be under way: the names of the tables show whether it was made."""
ENDED: Final = "ended"
"""The old tables follow no more; the reason is in the record."""


@dataclass(frozen=True, kw_only=True)
class ReverseTable:
    """One table whose old one follows it.

    Attributes:
        old: name of the old table, in the same schema.
        undone: name that the new table gets in the swap back.
        changes: what the reversed mapping does to columns.
        now_shape: :func:`digest_of` the new table's definition; ``old_shape`` of the old one's.
        losses: what would be lost, a line each.
    """

    schema: str
    table: str
    old: str
    undone: str
    changes: ReverseChanges = field(default_factory=ReverseChanges)
    now_shape: str = ""
    old_shape: str = ""
    losses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = AuxiliaryNames.of(self.table)
        if not (is_identifier(self.schema) and is_identifier(self.table)):
            raise ValueError("a name is none that the server takes")
        if (self.old, self.undone) != (names.old, names.undone):
            raise ValueError(f"{self.old} and {self.undone} are not the tables of {self.table}")

    @property
    def source(self) -> tuple[str, str]:
        """Schema and name of the table."""
        return self.schema, self.table

    @property
    def name(self) -> str:
        """The table's name for messages."""
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, kw_only=True)
class ReverseRecord:
    """Reverse replication of one table, or of several that were swapped together.

    Attributes:
        position: of the reverse feed, opaque.
        until: when it ends, seconds since 1970 by the server's clock.
        state: :data:`FOLLOWING`, :data:`REVERTING` or :data:`ENDED`.
        reason: why it has ended.
        modes: under which the tables were changed; the old ones follow under them.
        skip_drop: the tables that the swap back takes out of use are to be kept.
    """

    tables: tuple[ReverseTable, ...]
    position: str
    until: float
    state: str = FOLLOWING
    reason: str = ""
    modes: SessionModes = field(default_factory=SessionModes)
    skip_drop: bool = False
    program: str = ""

    def __post_init__(self) -> None:
        if not 0 < len(self.tables) <= MOST_TABLES:
            raise ValueError(f"it names {len(self.tables)} tables")

    @property
    def home(self) -> tuple[str, str]:
        """The table whose checkpoint table holds this record."""
        return home_of(table.source for table in self.tables)

    @property
    def names(self) -> str:
        """The tables' names for messages."""
        return ", ".join(table.name for table in self.tables)

    @property
    def losses(self) -> list[str]:
        """What would be lost in all tables, a line each."""
        return [line for table in self.tables for line in table.losses]
