"""Which tables are followed, and from where a later run misses nothing (R7, R8; pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.binlog.position import GtidFrontier, GtidSet
from spirit_py.binlog.statements import may_name

if TYPE_CHECKING:
    from spirit_py.binlog.events import Place, Table
    from spirit_py.binlog.position import ServerFrontier
    from spirit_py.binlog.statements import Statement


class Scope:
    """One table, one schema, or everything: an empty name stands for all."""

    def __init__(self, database: str, table: str, *, ignore_case: bool) -> None:
        self._ignore_case = ignore_case
        self._database = self._fold(database)
        self._table = self._fold(table)

    def _fold(self, name: str) -> str:
        return name.lower() if self._ignore_case else name

    def covers(self, schema: str, table: str | None) -> bool:
        """Return whether a table is followed; None for all tables of the schema."""
        if self._database and self._fold(schema) != self._database:
            return False
        return not self._table or table is None or self._fold(table) == self._table

    def touched(self, statement: Statement, schema: str) -> bool:
        """Whether DDL is about what is followed; without a table, about its default schema."""
        if statement.names:
            return any(self.covers(name.schema, name.table) for name in statement.names)
        return not self._table and self.covers(schema, None)

    def may_be_touched(self, sql: str, schema: str) -> bool:
        """Return whether DDL of unknown characters may be about what is followed."""
        if self._table:
            return may_name(sql, self._database, self._table)
        return self.covers(schema, None) or may_name(sql, self._database, self._database)

    def __str__(self) -> str:
        if not self._database:
            return "all schemas"
        return f"{self._database}.{self._table}" if self._table else f"schema {self._database}"


class TableNames(dict[bytes, "Table"]):
    """The followed tables by the names in their table maps, tested by pattern."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self._scope = scope
        self._skipped: set[bytes] = set()

    def __contains__(self, name: object) -> bool:
        """Return whether the table is followed, from the bytes of :func:`wire.table_name`."""
        if super().__contains__(name):
            return True
        if name in self._skipped or not isinstance(name, bytes):
            return False
        table = read_name(name)
        if self._scope.covers(*table):
            self[name] = table
            return True
        self._skipped.add(name)
        return False


def read_name(name: bytes) -> Table:
    """Read schema and table from the names in a table map."""
    size = name[0]
    return name[1 : 1 + size].decode(), name[3 + size : -1].decode()


class Progress:
    """The position after the last complete transaction, never past an undecided XA one."""

    def __init__(self, start: ServerFrontier) -> None:
        self.received = start.copy()
        self._undecided: dict[str, tuple[Place, str]] = {}
        self._text = ""

    def advance(self, place: Place) -> None:
        """Note that a transaction is complete, or that the stream advanced between two."""
        self.received.advance(place)
        self._text = ""

    def prepared(self, xid: str, place: Place) -> None:
        """Note that an XA transaction is prepared and undecided."""
        self._undecided[xid] = (place, self.received.text())
        self.advance(place)

    def decided(self, xid: str, place: Place) -> None:
        """Note that an XA transaction is decided."""
        self._undecided.pop(xid, None)
        self.advance(place)

    @property
    def undecided(self) -> int:
        """How many XA transactions hold the position back."""
        return len(self._undecided)

    def text(self) -> str:
        """Return the opaque position."""
        if not self._text:
            self._text = self._made()
        return self._text

    def _made(self) -> str:
        if not self._undecided:
            return self.received.text()
        held = list(self._undecided.values())
        if not isinstance(self.received, GtidFrontier):
            return held[0][1]
        holes = GtidSet()
        for place, _ in held:
            holes.add(place.tsid, place.number)
        safe = self.received.copy()
        safe.gtids.subtract(holes)
        return safe.text()
