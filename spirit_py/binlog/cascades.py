"""Which changed rows may not be what the server has, because a foreign key's cascade failed (pure).

From MySQL 9.6 on the SQL layer carries out the actions of foreign keys, and logs them. Measured on
9.7.4: when a cascade waits for a row and is chosen as the victim of a deadlock, the statement gets
no error. With autocommit the server then writes into the binlog what the statement has changed so
far, although InnoDB has rolled all of it back: the rows of the children, the parents whose cascades
had been complete, and the rows that triggers wrote. The statement goes on with its next row, in the
same transaction of the binlog. So no event says what of it is there.

A rows event of such a server has USE_SQL_FOREIGN_KEY_F; one that a cascade began has
NO_FOREIGN_KEY_CHECKS_F too (as has every one of a session with ``foreign_key_checks=0``). But the
server adds the row of a cascade to an event of the same table that is open already, whoever
began it (measured: in a table that refers to itself, and behind a trigger). So an event is:

============  ====================================================================================
CASCADED      it has both flags; or it may hold rows of a cascade, because a table from which a
              foreign key changes rows of this one is in the same statement
BESIDE        other tables are in the statement: it may have been rolled back with a cascade, so
              that is known at the end of the transaction
NONE          neither: no cascade was in its statement. So too with both flags, where no foreign key
              changes rows of the table, and it is alone in the statement
============  ====================================================================================

The table maps of a statement come before its first row, also those of tables to which it may
cascade. No cascade inserts rows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.binlog import wire
from spirit_py.binlog.events import Doubt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spirit_py.binlog.events import Table
    from spirit_py.table.schema import TableSchema

FLAGS_AT: Final = 6
"""Where the low byte of the flags is in the body of a rows event."""
STATEMENT_ENDS: Final = 1
UNCHECKED: Final = 2
"""NO_FOREIGN_KEY_CHECKS_F."""
BY_SQL_LAYER: Final = 16
"""USE_SQL_FOREIGN_KEY_F."""
_INSERTS: Final = frozenset({wire.WRITE_ROWS_V1, wire.WRITE_ROWS})
_NAME: Final = r"`(?:[^`]|``)+`"
_ACTING: Final = re.compile(
    rf"^  CONSTRAINT {_NAME} FOREIGN KEY \(.+?\) REFERENCES (?:({_NAME})\.)?({_NAME}) \(.+?\)"
    r".* ON (?:DELETE|UPDATE) (?:CASCADE|SET )",
    re.MULTILINE,
)


def acting_parents(table: TableSchema) -> frozenset[bytes]:
    """Return the tables from which foreign keys change rows of a table, as table maps name them."""
    return frozenset(
        wire.name_key(_unquoted(schema) or table.schema, _unquoted(parent))
        for schema, parent in _ACTING.findall(table.create_sql)
    )


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`")


class Cascades:
    """The tables of the statement that is being read, and what its rows events are.

    Args:
        acting: :func:`acting_parents` of each followed table.
    """

    def __init__(self, acting: Mapping[Table, frozenset[bytes]] | None = None) -> None:
        self._acting = acting or {}
        self._tables: set[bytes] = set()
        self._seen = False

    @classmethod
    def into(cls, tables: Iterable[TableSchema]) -> Cascades:
        """Return those of a stream that follows these tables."""
        return cls({(table.schema, table.name): acting_parents(table) for table in tables})

    def table_map(self, name: bytes) -> None:
        """Note a table of the statement."""
        self._tables.add(name)

    def passed(self, flags: int) -> None:
        """Note a rows event of a table that is not followed."""
        if flags & UNCHECKED and flags & BY_SQL_LAYER:
            self._seen = True
        if flags & STATEMENT_ENDS:
            self._tables.clear()

    def judge(self, table: Table, kind: int, flags: int) -> Doubt:
        """Return what a rows event of a followed table is."""
        doubt = Doubt.NONE
        if flags & BY_SQL_LAYER:
            parents = self._acting.get(table, _NOTHING)
            acting = not parents.isdisjoint(self._tables)
            unchecked = flags & UNCHECKED and (parents or len(self._tables) > 1)
            if unchecked or (acting and kind not in _INSERTS):
                doubt = Doubt.CASCADED
                self._seen = True
            elif acting or len(self._tables) > 1:
                doubt = Doubt.BESIDE
        if flags & STATEMENT_ENDS:
            self._tables.clear()
        return doubt

    def end(self) -> bool:
        """End the transaction; return whether a cascade may have been in it."""
        seen, self._seen = self._seen, False
        self._tables.clear()
        return seen


_NOTHING: Final[frozenset[bytes]] = frozenset()
