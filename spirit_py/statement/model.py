"""A parsed statement: its table and its clauses, each with its kind and names."""

from __future__ import annotations

import enum
import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, replace
from spirit_py.sql import identifier_list, quote_identifier, quote_table

if TYPE_CHECKING:
    from collections.abc import Iterable


class ClauseKind(enum.StrEnum):
    """The kind of one clause of an ALTER TABLE."""

    ADD_COLUMN = "add column"
    ADD_INDEX = "add index"
    ADD_UNIQUE = "add unique"
    ADD_PRIMARY_KEY = "add primary key"
    ADD_CHECK = "add check"
    ADD_FOREIGN_KEY = "add foreign key"
    ADD_PARTITION = "add partition"
    DROP_PARTITION = "drop partition"
    TRUNCATE_PARTITION = "truncate partition"
    EXCHANGE_PARTITION = "exchange partition"
    DROP_COLUMN = "drop column"
    DROP_INDEX = "drop index"
    DROP_PRIMARY_KEY = "drop primary key"
    DROP_CHECK = "drop check"
    DROP_CONSTRAINT = "drop constraint"
    DROP_FOREIGN_KEY = "drop foreign key"
    MODIFY_COLUMN = "modify column"
    CHANGE_COLUMN = "change column"
    ALTER_COLUMN = "alter column"
    ALTER_INDEX = "alter index"
    ALTER_CHECK = "alter check"
    ALTER_CONSTRAINT = "alter constraint"
    RENAME_COLUMN = "rename column"
    RENAME_INDEX = "rename index"
    CONVERT = "convert to character set"
    OPTION = "option"
    PARTITION_BY = "partition by"
    REMOVE_PARTITIONING = "remove partitioning"
    REORGANIZE_PARTITION = "reorganize partition"
    COALESCE_PARTITION = "coalesce partition"
    FORCE = "force"
    VALIDATION = "validation"


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One clause, as written in ``text``; ``name`` is the old name, ``body`` normalized.

    ``partitions`` are the named ones, of ADD those that come; none for ALL. ``other`` is the table
    that one is exchanged with, ``validation`` WITH or WITHOUT; or that a foreign key refers to, by
    ``columns`` and ``parent_columns``. Its schema is empty where it is not named.
    """

    kind: ClauseKind
    name: str = ""
    new_name: str = ""
    body: str = ""
    text: str = ""
    partitions: tuple[str, ...] = ()
    validation: str = ""
    other: tuple[str, str] = ("", "")
    columns: tuple[str, ...] = ()
    parent_columns: tuple[str, ...] = ()

    @property
    def normalized(self) -> str:
        """The clause in normal form; a name that it creates keeps its case."""
        if self.kind is ClauseKind.OPTION:
            return f"{self.name.upper()} {self.body}"
        if self.kind is ClauseKind.VALIDATION:
            return f"{self.body.upper()} VALIDATION"
        if self.kind is ClauseKind.ADD_FOREIGN_KEY:
            here, there = (
                tuple(name.lower() for name in names)
                for names in (self.columns, self.parent_columns)
            )
            return replace(self, columns=here, parent_columns=there).qualified
        creates = self.kind in {ClauseKind.ADD_COLUMN, ClauseKind.ADD_INDEX, ClauseKind.ADD_UNIQUE}
        name = self.name if creates else self.name.lower()
        names = [quote_identifier(one) for one in (name, self.new_name) if one]
        head, body = self.kind.value.upper(), self.body
        if self.kind in {ClauseKind.RENAME_COLUMN, ClauseKind.RENAME_INDEX}:
            names.insert(1, "TO")
        elif self.kind is ClauseKind.ADD_CHECK and names:
            head, names = f"ADD CONSTRAINT {names[0]} CHECK", []
        elif self.kind is ClauseKind.ADD_INDEX and body.startswith(("fulltext ", "spatial ")):
            kind, _, body = body.partition(" ")
            head = f"ADD {kind.upper()} INDEX"
        return " ".join((head, *names, body)).rstrip()

    @property
    def qualified(self) -> str:
        """An EXCHANGE PARTITION or a foreign key, with the schema of its table."""
        other = quote_table(*self.other)
        if self.kind is ClauseKind.ADD_FOREIGN_KEY:
            return (
                f"ADD CONSTRAINT {quote_identifier(self.name)}"
                f" FOREIGN KEY ({identifier_list(self.columns)}) REFERENCES"
                f" {other} ({identifier_list(self.parent_columns)}) {self.body.upper()}"
            ).rstrip()
        rest = f" {self.validation} VALIDATION" if self.validation else ""
        (partition,) = self.partitions
        return f"EXCHANGE PARTITION {quote_identifier(partition)} WITH TABLE {other}{rest}"


#: In the normal form of a column's definition.
_NAMED_CHECK: Final = re.compile(r" constraint (?:[^\s`(]+|`(?:[^`]|``)+`) check\(")
_QUOTED: Final = re.compile(r"'[^']*'|`[^`]*`")
#: A second PRIMARY KEY, which KEY alone is too, would fail.
_UNNAMED: Final = re.compile(r" check\(| unique(?= |\Z)|\Aserial(?= |\Z)| serial default value")


def _renamed(clauses: Iterable[Clause]) -> tuple[set[str], set[str]]:
    """Return the names that go and those that come, in lower case."""
    renamed = {one.name.lower(): one.new_name.lower() for one in clauses}
    renamed = {old: new for old, new in renamed.items() if old != new}
    return set(renamed), set(renamed.values())


@dataclass(frozen=True, kw_only=True)
class AlterStatement:
    """An ALTER TABLE that this program may carry out; ``clauses`` follow any table's name."""

    schema: str
    table: str
    clauses: str
    parsed: tuple[Clause, ...]

    @property
    def sql(self) -> str:
        """The whole statement, for the source table."""
        return f"ALTER TABLE {quote_table(self.schema, self.table)} {self.clauses}"

    @property
    def normalized(self) -> str:
        """The statement in a normal form, independent of its spelling."""
        clauses = ", ".join(clause.normalized for clause in self.parsed)
        return f"ALTER TABLE {quote_table(self.schema, self.table)} {clauses}"

    def of_kind(self, *kinds: ClauseKind) -> tuple[Clause, ...]:
        """Return the clauses of these kinds in their order."""
        return tuple(clause for clause in self.parsed if clause.kind in kinds)

    @cached_property
    def renames(self) -> dict[str, str]:
        """Old column name in lower case to new name; two renames may swap."""
        kinds = (ClauseKind.CHANGE_COLUMN, ClauseKind.RENAME_COLUMN)
        return {clause.name.lower(): clause.new_name for clause in self.of_kind(*kinds)}

    @cached_property
    def added(self) -> frozenset[str]:
        """Names of added columns in lower case."""
        return frozenset(c.name.lower() for c in self.of_kind(ClauseKind.ADD_COLUMN))

    @cached_property
    def dropped(self) -> frozenset[str]:
        """Names of dropped columns in lower case."""
        return frozenset(c.name.lower() for c in self.of_kind(ClauseKind.DROP_COLUMN))

    @cached_property
    def second_time(self) -> str:
        """What it does when it is made again; empty where it fails then, or changes nothing.

        The second time it moves, adds or drops what it was not meant to.
        """
        gone, come = _renamed(self.of_kind(ClauseKind.CHANGE_COLUMN, ClauseKind.RENAME_COLUMN))
        if (gone or self.dropped) and gone | self.dropped == come | self.added:
            return "exchange the names again, or drop the new values"
        fails = bool(gone or self.dropped or self.added)
        gone, come = _renamed(self.of_kind(ClauseKind.RENAME_INDEX))
        dropped = {one.name.lower() for one in self.of_kind(ClauseKind.DROP_INDEX)}
        adding = self.of_kind(ClauseKind.ADD_INDEX, ClauseKind.ADD_UNIQUE)
        if gone and gone | dropped == come | {one.name.lower() for one in adding}:
            return "exchange the names of the indexes again"
        columns = self.of_kind(ClauseKind.MODIFY_COLUMN, ClauseKind.CHANGE_COLUMN)
        unnamed = any(not one.name for one in (*adding, *self.of_kind(ClauseKind.ADD_CHECK)))
        bodies = (_QUOTED.sub("", _NAMED_CHECK.sub("", one.body)) for one in columns)
        unnamed |= any(map(_UNNAMED.search, bodies))
        if unnamed and not fails:
            return "add the same again under another name"
        if self.of_kind(ClauseKind.TRUNCATE_PARTITION):
            return "delete the rows that were written since"
        # Those that come have names, but for partitions by HASH or KEY.
        counted = (one for one in self.of_kind(ClauseKind.ADD_PARTITION) if not one.partitions)
        if any(counted) or self.of_kind(ClauseKind.COALESCE_PARTITION):
            return "change the number of partitions again"
        return ""

    @property
    def auto_increment(self) -> str:
        """The counter that the statement sets, as SQL; the last one counts, empty for none."""
        given = [c.body for c in self.of_kind(ClauseKind.OPTION) if c.name == "auto_increment"]
        return given[-1] if given else ""

    def __str__(self) -> str:
        return self.sql
