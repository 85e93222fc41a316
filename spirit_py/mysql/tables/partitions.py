"""The partitions of a table: their sizes, and the numbers that prove what became of them.

A partition that is dropped takes its number along, one that is emptied gets another, and an
exchanged one has that of the other table; all others keep theirs (measured on 9.7.4).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass
from spirit_py.mysql.tables.identity import identity, partition_numbers, partition_pattern
from spirit_py.statement import ClauseKind
from spirit_py.statement.rewrite import without_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spirit_py.contracts import SqlSession
    from spirit_py.statement import Clause
    from spirit_py.table.names import Name

_SIZES: Final = """
SELECT {0}, SUM(TABLE_ROWS), SUM(DATA_LENGTH + INDEX_LENGTH)
FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND PARTITION_NAME IS NOT NULL
GROUP BY {0} ORDER BY MIN(PARTITION_ORDINAL_POSITION), MIN(SUBPARTITION_ORDINAL_POSITION)"""


@dataclass(frozen=True, kw_only=True)
class PartitionSize:
    """A partition, and what the server estimates that it holds, in rows and bytes."""

    name: str
    rows: int
    size: int


def partitions_of(
    session: SqlSession, schema: str, table: str, *, smallest: bool = False
) -> tuple[PartitionSize, ...]:
    """Return the partitions in their order, or their ``smallest`` parts; none of a table without.

    The parts are the subpartitions where there are any: EXCHANGE takes only one of those.
    """
    session.execute("SET SESSION information_schema_stats_expiry = 0")
    name_of = "COALESCE(SUBPARTITION_NAME, PARTITION_NAME)" if smallest else "PARTITION_NAME"
    return tuple(
        PartitionSize(name=str(name), rows=int(rows or 0), size=int(size or 0))
        for name, rows, size in session.query(_SIZES.format(name_of), (schema, table))
    )


def named(clause: Clause, partitions: Iterable[str]) -> list[str]:
    """Return those of a table's partitions that a clause names; all of them where it names none."""
    wanted = {name.lower() for name in clause.partitions}
    return [name for name in partitions if not wanted or name.lower() in wanted]


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    """The numbers of a table's partitions as InnoDB names them, and of the other table."""

    numbers: Mapping[str, int]
    other: frozenset[int] = frozenset()

    @classmethod
    def read(cls, session: SqlSession, schema: str, table: str, clause: Clause) -> PartitionState:
        """Read the state that a clause about partitions changes."""
        other = identity(session, *clause.other).numbers if clause.other[1] else frozenset()
        return cls(numbers=partition_numbers(session, schema, table), other=other)

    def proves(self, after: PartitionState, clause: Clause) -> bool:
        """Return whether only the clause makes a later state of this one.

        A rebuild gives each partition another number, as TRUNCATE of all of them does.
        """
        before, now = self.numbers, after.numbers
        rebuilt = before.keys() == now.keys() and not before.items() & now.items()
        emptied = clause.kind is ClauseKind.TRUNCATE_PARTITION
        return self.allows(after, clause) and not (emptied and rebuilt)

    def allows(self, after: PartitionState, clause: Clause) -> bool:
        """Return whether a later state may be the one that the clause makes of this one."""
        patterns = [re.compile(partition_pattern(name)) for name in clause.partitions]

        exchange = clause.kind is ClauseKind.EXCHANGE_PARTITION

        def is_named(stored: str) -> bool:
            if exchange:
                stored = stored.rpartition("#sp#")[2]
            # Also true of a name that looks alike: so the touched ones are counted, too.
            return not patterns or any(one.fullmatch(stored) for one in patterns)

        before, now = self.numbers, after.numbers
        touched = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
        if not touched or not all(map(is_named, touched)):
            return False

        def whole(stored: str) -> str:
            return stored if exchange else stored.partition("#sp#")[0]

        wholes = set(map(whole, touched))
        if patterns and len(wholes) != len(patterns):
            return False
        # A partition is touched with all of its parts, but exchanged a part at a time.
        if touched != {name for name in before.keys() | now.keys() if whole(name) in wholes}:
            return False
        old = {before.get(name) for name in touched}
        new = {now.get(name) for name in touched}
        if clause.kind is ClauseKind.ADD_PARTITION:
            return old == {None}
        if clause.kind is ClauseKind.DROP_PARTITION:
            return new == {None}
        if None in old | new:
            return False
        if clause.kind is ClauseKind.TRUNCATE_PARTITION:
            return bool(patterns) or len(touched) == len(before)
        # Of EXCHANGE the numbers have changed places.
        return old <= after.other and new <= self.other


@dataclass(eq=False)
class PartitionProof:
    """What becomes of a table's partitions, from when it is made; see :class:`OutcomeProof`."""

    session: SqlSession
    table: Name
    clause: Clause
    settings: tuple[str, ...] = ()

    def begin(self) -> None:
        """Read the numbers, right before the clause is sent."""
        self._before = self._read()

    def without(self, shape: str) -> str:
        """Return a definition without its partitions."""
        return without_partitions(shape)

    def happened(self, *, answered: bool) -> bool:
        """Return whether the clause was made; ``answered``: the server says so."""
        now = self._read()
        if answered:
            # Two names that look alike have no numbers.
            return not self._before.numbers or self._before.allows(now, self.clause)
        return self._before.proves(now, self.clause)

    def _read(self) -> PartitionState:
        return PartitionState.read(self.session, *self.table, self.clause)
