"""A foreign key that the server adds: what it needs, whether it is there, rows without a parent.

With ``foreign_key_checks=0`` the server adds a key in place and compares no row (manual 15.1.9);
from then on it checks every write. So what a row refers to does not change to another value without
a parent: the rows are looked at in the order of the key's own index, and none can get past.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from spirit_py.attached.foreign_keys.catalogue import keys_of, maybe_generated
from spirit_py.attached.foreign_keys.model import ForeignKey
from spirit_py.chunk.chunk import KeyRange, chunk_predicate, order_by, walk_directions
from spirit_py.chunk.chunker import INVISIBLE_INDEX
from spirit_py.chunk.sizing import ChunkSizer
from spirit_py.classes import dataclass, replace
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.statement.rewrite import FOREIGN_KEY
from spirit_py.table.values import bound_from_row, key_select_expressions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.statement import Clause
    from spirit_py.table.names import Name
    from spirit_py.table.schema import Column, Index, TableSchema

_CHUNK_SECONDS: Final = 0.5
_BYTES: Final = frozenset({"binary", "varbinary", "bit"})
_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})


def wanted_key(clause: Clause, child: Name) -> ForeignKey:
    """Return the key that a clause adds, without its actions."""
    return ForeignKey(
        name=clause.name,
        schema=child[0],
        table=child[1],
        columns=clause.columns,
        parent_schema=clause.other[0],
        parent_table=clause.other[1],
        parent_columns=clause.parent_columns,
    )


def existing_key(session: SqlSession, wanted: ForeignKey) -> ForeignKey | None:
    """Return the child's key of this name."""
    name = wanted.name.lower()
    return next((key for key in keys_of(session, *wanted.child) if key.name.lower() == name), None)


def is_same_key(key: ForeignKey, wanted: ForeignKey, clause: Clause) -> bool:
    """Return whether a key is the one that a clause adds, with its actions."""
    return _in_short(key) == _in_short(wanted) and all(
        action == _action(clause, when)
        for action, when in ((key.on_delete, "on delete "), (key.on_update, "on update "))
    )


def _in_short(key: ForeignKey) -> tuple[object, ...]:
    columns = zip(key.columns, key.parent_columns, strict=True)
    return key.parent, [(one.lower(), other.lower()) for one, other in columns]


def _action(clause: Clause, when: str) -> str:
    actions = ("cascade", "set null", "restrict", "set default", "no action")
    given = clause.body.partition(when)[2]
    return next((one.upper() for one in actions if given.startswith(one)), "NO ACTION")


def index_for(table: TableSchema, columns: tuple[str, ...]) -> Index | None:
    """Return an index that the server takes for a key of these columns, the shortest one.

    It begins with them in this order, none descending; otherwise the server builds one.
    """
    wanted = tuple(column.lower() for column in columns)
    found = [
        one
        for one in table.indexes
        if one.kind.upper() == "BTREE"
        and one.leading[: len(wanted)] == wanted
        and not any(part.descending for part in one.parts[: len(wanted)])
    ]
    return min(found, key=lambda index: len(index.parts), default=None)


def compared_alike(child: Column, parent: Column) -> bool:
    """Return whether SQL and InnoDB find the same values of two columns equal.

    InnoDB compares what is stored: a DECIMAL or DATETIME with other decimals, or an ENUM with
    another order, is another value for it (measured on 9.7.4).
    """
    if child.collation is not None or child.data_type == "varbinary":
        texts = (child.data_type, child.collation) == (parent.data_type, parent.collation)
        return texts and child.members == parent.members
    if child.data_type in _INTEGERS:
        return (child.data_type, child.unsigned) == (parent.data_type, parent.unsigned)
    return child.column_type == parent.column_type


@dataclass(eq=False)
class KeyProof:
    """Whether the child has got the key since; see :class:`OutcomeProof` of the shortcut."""

    session: SqlSession
    wanted: ForeignKey
    clause: Clause
    settings: tuple[str, ...] = ("SET SESSION foreign_key_checks = 0",)

    def begin(self) -> None:
        """Note nothing: the definition shows whether the key was there."""

    def without(self, shape: str) -> str:
        """Return a definition without its foreign keys."""
        return FOREIGN_KEY.sub("", shape)

    def keeping_indexes(self, child: TableSchema) -> tuple[str, ...]:
        """Return what is sent before the clause: no index of the child is built anew."""
        kept = map(quote_identifier, maybe_generated(child, self.wanted))
        return tuple(f"RENAME INDEX {name} TO {name}" for name in kept)

    def happened(self, *, answered: bool) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether the key is there."""
        return self.is_there(self.session)

    def is_there(self, session: SqlSession) -> bool:
        """Return whether another session sees the key, as the clause has it."""
        found = existing_key(session, self.wanted)
        return found is not None and is_same_key(found, self.wanted, self.clause)


@dataclass(eq=False)
class OrphanSearch:
    """Looks for rows of a child that have no parent, chunk by chunk of the key's index.

    ``query`` asks the server. ``index`` begins with the key's columns. Rows with NULL in one of
    them refer to nothing.
    """

    query: Callable[[str], Sequence[tuple[Any, ...]]]
    key: ForeignKey
    child: TableSchema
    index: Index

    def __post_init__(self) -> None:
        parts = len(self.key.columns)
        self._index = replace(self.index, parts=self.index.parts[:parts])
        self._columns = [self.child.column(name) for name in self.key.columns]
        self._directions = walk_directions(self._index)
        self._sizer = ChunkSizer(_CHUNK_SECONDS)

    def run(self, await_turn: Callable[[int], None]) -> tuple[str, ...]:
        """Return the values of a row without a parent, or none; ``await_turn`` gets rows so far."""
        rows = 0
        for within in self._ranges():
            await_turn(rows)
            began, size = time.monotonic(), self._sizer.rows
            if found := self.first(within):
                return found
            seconds = time.monotonic() - began
            self._sizer.finished(target_rows=size, rows=size, seconds=seconds)
            rows += size
        return ()

    def _ranges(self) -> Iterator[KeyRange]:
        lower = None
        while True:
            within = KeyRange(lower=lower, upper=None)
            found = self.query(
                f"SELECT {self._hint()}{', '.join(key_select_expressions(self._columns))}"
                f" FROM {self._table} WHERE {self._where(within)}"
                f" ORDER BY {order_by(self._columns, self._directions)}"
                f" LIMIT 1 OFFSET {self._sizer.rows - 1}"
            )
            upper = bound_from_row(self._columns, found[0]) if found else None
            yield KeyRange(lower=lower, upper=upper)
            if upper is None:
                return
            lower = upper

    def first(self, within: KeyRange, *, seconds: float = 0.0) -> tuple[str, ...]:
        """Return the values of the first row in a range without a parent, shown; or none.

        ServerFault when that takes longer than ``seconds``, 0 for no limit.
        """
        parent = quote_table(*self.key.parent)
        pairs = zip(self.key.columns, self.key.parent_columns, strict=True)
        joined = " AND ".join(
            f"p.{quote_identifier(other)} = c.{quote_identifier(one)}" for one, other in pairs
        )
        rows = self.query(
            f"SELECT {self._hint(seconds)}{', '.join(self._shown(one) for one in self._columns)}"
            f" FROM {self._table} WHERE {self._where(within)}"
            f" AND NOT EXISTS (SELECT 1 FROM {parent} AS p WHERE {joined}) LIMIT 1"
        )
        return tuple(str(value) for value in rows[0]) if rows else ()

    @staticmethod
    def _shown(column: Column) -> str:
        name = quote_identifier(column.name)
        return f"HEX({name})" if column.data_type in _BYTES else f"QUOTE({name})"

    def _hint(self, seconds: float = 0.0) -> str:
        hints = [INVISIBLE_INDEX] if not self.index.visible else []
        if seconds:
            hints.append(f"MAX_EXECUTION_TIME({int(seconds * 1000)})")
        return f"/*+ {' '.join(hints)} */ " if hints else ""

    @property
    def _table(self) -> str:
        return f"{self.child.quoted} AS c FORCE INDEX ({quote_identifier(self.index.name)})"

    def _where(self, within: KeyRange) -> str:
        present = (
            f"{quote_identifier(one.name)} IS NOT NULL" for one in self._columns if one.nullable
        )
        return " AND ".join((chunk_predicate(self._columns, within, self._directions), *present))
