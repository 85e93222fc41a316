"""The columns of followed tables, as of the stream's current position.

A table map describes itself when ``binlog_row_metadata`` is FULL. Otherwise it has types and no
names, and the server only has the current definition. So a definition is read at the start, at a
DDL and at a table map that needs it, together with the server's executed position, and must agree
with the table map. If the stream then reaches a DDL that the server had executed before a
definition was read, rows before that DDL may have been described wrongly: then the stream stops.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.binlog.codec.rows import RowCodec
from spirit_py.binlog.codec.self_described import agrees, described
from spirit_py.errors import FeedFailure, SchemaChanged
from spirit_py.mysql.tables.definition import shape_of
from spirit_py.watch.harmless_ddl import leaves_rows_as_described

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.binlog.codec.self_described import Collation
    from spirit_py.binlog.codec.tablemap import TableMap
    from spirit_py.binlog.events import Place, StatementSeen, Table
    from spirit_py.binlog.position import Frontier
    from spirit_py.binlog.statements import Statement
    from spirit_py.table.schema import TableSchema

_ATTEMPTS: Final = 20
_HINT: Final = (
    "follow from a place after the change of the definition (--from with a later position, or"
    " without --from); with binlog_row_metadata=FULL on the server rows describe themselves"
)


@dataclass(kw_only=True)
class _Known:
    """A definition.

    Attributes:
        executed: the server's executed position when it was read.
        described: rows have been described by it, and their table map does not describe itself.
    """

    schema: TableSchema
    executed: Frontier
    described: bool = False


class Definitions:
    """Makes a codec for each table map of a followed table.

    Args:
        read: reads a table's definition from the server; None when there is no such table.
        executed: asks what the server has executed.
        collations: the server's, by number.
    """

    def __init__(
        self,
        read: Callable[[Table], TableSchema | None],
        executed: Callable[[], Frontier],
        collations: Mapping[int, Collation] | None = None,
    ) -> None:
        self._read = read
        self._executed = executed
        self._collations = collations or {}
        self._known: dict[Table, _Known] = {}

    def learn(self, table: Table) -> None:
        """Read a definition before it is needed; a table that does not exist is skipped."""
        known = self._settled(table)
        if known is not None:
            self._known[table] = known

    def compile(self, table_map: TableMap) -> RowCodec:
        """Make the codec of a table map.

        Raises:
            SchemaChanged: when the server has another definition by now, or none.
        """
        table = table_map.schema, table_map.table
        if table_map.names and (codec := self._by_itself(table, table_map)) is not None:
            return codec
        known = self._known.get(table)
        codec = self._fitting(table_map, known)
        if codec is None:
            known = self._settled(table)
            if known is None:
                raise _outdated(table, "there is no such table now, or the account may not see it")
            self._known[table] = known
            try:
                codec = RowCodec.for_schema(table_map, known.schema)
            except SchemaChanged as error:
                raise _outdated(table, error.message) from error
        if known is not None:
            known.described = True
        return codec

    def _by_itself(self, table: Table, table_map: TableMap) -> RowCodec | None:
        """Make the codec of a table map that has names and members (binlog_row_metadata=FULL).

        The server's definition is preferred where both agree, because it has more (display widths,
        unique keys). None when the table map does not have everything.
        """
        schema = described(table_map, self._collations)
        if schema is None:
            return None
        if table not in self._known:
            self.learn(table)
        known = self._known.get(table)
        codec = self._fitting(table_map, known)
        if codec is not None and _same(codec.schema, schema):
            return codec
        return RowCodec.for_schema(table_map, schema)

    @staticmethod
    def _fitting(table_map: TableMap, known: _Known | None) -> RowCodec | None:
        """Make a codec of the known definition; None without one, or if it does not fit."""
        if known is None:
            return None
        with contextlib.suppress(SchemaChanged):
            return RowCodec.for_schema(table_map, known.schema)
        return None

    def _settled(self, table: Table) -> _Known | None:
        """Read a definition that did not change while ``executed`` was asked for."""
        before = self._read(table)
        for _ in range(_ATTEMPTS):
            executed = self._executed()
            after = self._read(table)
            if before is None and after is None:
                return None
            if before is not None and after is not None and shape_of(before) == shape_of(after):
                return _Known(schema=after, executed=executed)
            before = after
        raise FeedFailure(
            f"the definition of {'.'.join(table)} changes again and again",
            hint="run the same command again when its ALTERs have ended",
        )

    def altered(self, statement: Statement, seen: StatementSeen) -> bool:
        """Note a DDL statement of the stream; return whether a definition has changed.

        Args:
            statement: the statement as read from ``seen``.

        Raises:
            SchemaChanged: when rows before it were described by the definition after it.
        """
        touched = [
            table
            for table in self._known
            if any(_names(name.schema, name.table, table) for name in statement.names)
        ]
        changed, place = False, seen.place
        for table in touched:
            known = self._known[table]
            if not _reaches(known.executed, place):
                del self._known[table]
                self.learn(table)
                changed = True
            elif known.described and not _harmless(seen, known.schema):
                raise _outdated(
                    table,
                    f"{statement.verb} at {place.file}:{place.offset} may have given columns"
                    " other names or members, or the table another key, after rows that are"
                    " described by the definition of now",
                )
        return changed


def _same(known: TableSchema, schema: TableSchema) -> bool:
    """Return whether a definition describes rows as the table map's own does, the key included."""
    keys = [found.primary_key and found.primary_key.columns for found in (known, schema)]
    return agrees(known, schema) and keys[0] == keys[1]


def _names(schema: str, table: str | None, found: Table) -> bool:
    """Return whether a statement's name is that of a table, case aside."""
    same = schema.lower() == found[0].lower()
    return same and (table is None or table.lower() == found[1].lower())


def _reaches(executed: Frontier, place: Place) -> bool:
    """Return whether the transaction at a place had been executed by then."""
    wanted = executed.empty()
    wanted.advance(place)
    return executed.reaches(wanted)


def _harmless(seen: StatementSeen, behind: TableSchema) -> bool:
    """Return whether the definition after a statement describes rows from before it correctly."""
    primary = behind.primary_key
    keyed = primary is not None and bool(primary.columns)
    return seen.certain and all(
        leaves_rows_as_described(sql, plain_backslash=seen.plain_backslash, keyed=keyed)
        for sql in filter(None, (seen.sql, seen.other))
    )


def _outdated(table: Table, why: str) -> SchemaChanged:
    """Build the error for rows that cannot be described any more."""
    return SchemaChanged(
        f"rows of {'.'.join(table)} at this place of the binlog cannot be described by the"
        f" server's present definition: {why}",
        hint=_HINT,
    )
