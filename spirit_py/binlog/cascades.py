"""Changed rows that the server may have rolled back, because a foreign key's cascade failed.

The proof is in docs/verification.md. A rows event that a cascade began has both flags below from
9.6 on, as has every one of a session with ``foreign_key_checks=0``. But the server adds a cascade's
row to an open event of the same table, whoever began it (measured). So an event is CASCADED, too,
if a table whose foreign keys change rows of this one is in the statement; BESIDE if any other table
is. The table maps of a statement come before its first row. No cascade inserts rows.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, Final

from spirit_py.binlog import wire
from spirit_py.binlog.events import Doubt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spirit_py.binlog.codec.rows import RowChange, RowCodec
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
_NAMES: Final = rf"\({_NAME}(?:, ?{_NAME})*\)"
_ACTING: Final = re.compile(
    rf"^  CONSTRAINT {_NAME} FOREIGN KEY {_NAMES} REFERENCES (?:({_NAME})\.)?({_NAME}) {_NAMES}"
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
    """The tables of the statement that is being read, and what its rows events are."""

    def __init__(self, acting: Mapping[Table, frozenset[bytes]] | None = None) -> None:
        #: Tables that are learned later come into it.
        self._acting = {} if acting is None else acting
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
            parents = self._acting.get(table, frozenset())
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


MOST_KEYS: Final = 100_000
"""Keys that are kept of a table: about 20 MB."""


class DoubtfulKeys:
    """The keys in doubt of one table, bounded in number (R19). Thread-safe.

    Unless ``independent`` writing one row may remove another one: then no change takes a key out,
    and while any is in doubt every changed row is.
    """

    def __init__(self, most: int = MOST_KEYS, *, independent: bool = True) -> None:
        self._mutex = threading.Lock()
        self._most = most
        self._independent = independent
        self._keys: dict[tuple[Any, ...], int] = {}
        self._codec: RowCodec | None = None
        self._number = 0
        #: The number of the last transaction of which a key was not kept; 0 for none.
        self._lost = 0
        self._open: dict[tuple[Any, ...], None] = {}
        self._open_cascaded = self._open_lost = False

    def receive(self, changes: Sequence[RowChange], doubt: Doubt) -> None:
        """Take in the changes of a rows event."""
        if doubt is Doubt.NONE and self._independent:
            if self._keys or self._open:
                self._changed_again(changes)
            return
        if doubt is Doubt.NONE and not self.since(0):
            return
        self._open_cascaded |= doubt is not Doubt.BESIDE
        for _, before, after in changes:
            for image in (before, after):
                if image is not None:
                    self._open[image.key] = None
                    self._codec = image.codec
            if len(self._open) > self._most:
                self._open.clear()
                self._open_lost = True

    def _changed_again(self, changes: Sequence[RowChange]) -> None:
        with self._mutex:
            for _, before, after in changes:
                for image in (before, after):
                    if image is not None:
                        self._keys.pop(image.key, None)
                        self._open.pop(image.key, None)

    def transaction_ended(self, *, cascaded: bool) -> None:
        """Put the transaction's keys in doubt if a cascade may have been in it."""
        if not (self._open or self._open_lost):
            return
        if cascaded or self._open_cascaded:
            with self._mutex:
                self._number += 1
                if self._open_lost:
                    self._lost = self._number
                for key in self._open:
                    if key in self._keys or len(self._keys) < self._most:
                        self._keys[key] = self._number
                    else:
                        self._lost = self._number
        self.transaction_abandoned()

    def transaction_abandoned(self) -> None:
        """Forget the transaction being received: it comes again from its beginning, or never."""
        self._open = {}
        self._open_cascaded = self._open_lost = False

    @property
    def number(self) -> int:
        """The number of the last transaction that put a key in doubt; 0 before the first."""
        with self._mutex:
            return self._number

    def since(self, number: int) -> bool:
        """Whether a row is in doubt since a later transaction than this one; of 0: whether any."""
        with self._mutex:
            return self._lost > number or any(put > number for put in self._keys.values())

    def up_to(self, number: int) -> bool:
        """Whether a row is in doubt since this transaction, or one before it."""
        with self._mutex:
            return 0 < self._lost <= number or any(put <= number for put in self._keys.values())

    def literals(self) -> list[str] | None:
        """Return the keys, each as ``(literal, ...)``; None when not all of them were kept."""
        with self._mutex:
            if self._lost:
                return None
            keys, codec = list(self._keys), self._codec
        return [codec.key_sql(key) for key in keys] if codec is not None else []

    def begin_comparison(self) -> int:
        """Return the number up to which a comparison of the whole table would settle all keys."""
        with self._mutex:
            if self._lost:
                self._lost = self._number
                self._keys.clear()
            return self._number

    def forget(self, number: int, *, after: int = 0) -> None:
        """Forget the keys in doubt since a transaction after ``after`` and up to ``number``."""
        with self._mutex:
            self._keys = {key: put for key, put in self._keys.items() if not after < put <= number}
            if after < self._lost <= number:
                self._lost = 0
