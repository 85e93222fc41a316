"""The columns of followed tables as of the stream's position, and DDL that does not change them.

"Names of columns" in docs/commands/watch.md has the rules. Commas separate clauses: a head decides
for its clause. The server makes plain comments of version comments that it did not execute.
"""

from __future__ import annotations

import contextlib
import enum
from typing import TYPE_CHECKING, Final

from spirit_py.binlog.cascades import acting_parents
from spirit_py.binlog.codec.rows import RowCodec
from spirit_py.binlog.codec.tablemap import agrees, described
from spirit_py.classes import dataclass
from spirit_py.errors import FeedFailure, Refusal, SchemaChanged
from spirit_py.mysql.tables.definition import shape_of
from spirit_py.statement.clauses import is_option
from spirit_py.statement.cursor import Cursor, split_at
from spirit_py.statement.lexer import SqlMode, tokenize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.binlog.codec.tablemap import Collation, TableMap
    from spirit_py.binlog.events import Frontier, StatementSeen, Table
    from spirit_py.binlog.statements import Statement
    from spirit_py.statement.lexer import Token
    from spirit_py.table.schema import TableSchema


class _Verdict(enum.IntEnum):
    HARMLESS = 0
    KEYED = 1
    """Harmless where there is a primary key; otherwise it may choose another unique key."""
    UNPROVEN = 2


_H, _K = _Verdict.HARMLESS, _Verdict.KEYED
_PARTITION_WORK: Final = (
    "ADD", "DROP", "REORGANIZE", "COALESCE", "TRUNCATE", "EXCHANGE", "ANALYZE", "CHECK",
    "OPTIMIZE", "REBUILD", "REPAIR", "DISCARD", "IMPORT",
)  # fmt: skip
_HEADS: Final = {
    _H: (
        "ADD INDEX", "ADD KEY", "ADD FULLTEXT", "ADD SPATIAL", "ADD CHECK", "ADD FOREIGN KEY",
        "DROP CHECK", "DROP FOREIGN KEY", "ALTER CHECK", "ALTER CONSTRAINT", "PARTITION BY",
        *(f"{work} PARTITION" for work in _PARTITION_WORK), "REMOVE PARTITIONING",
        "DISCARD TABLESPACE", "IMPORT TABLESPACE", "ENABLE KEYS", "DISABLE KEYS", "ORDER BY",
        "WITH VALIDATION", "WITHOUT VALIDATION", "ALGORITHM", "LOCK", "FORCE",
    ),
    _K: ("ADD UNIQUE", "ALTER INDEX", "RENAME INDEX", "RENAME KEY"),
}  # fmt: skip
_CONSTRAINTS: Final = {"CHECK": _H, "FOREIGN": _H, "UNIQUE": _K}
_COLUMN_PROPERTIES: Final = ("SET DEFAULT", "DROP DEFAULT", "SET VISIBLE", "SET INVISIBLE")
_WHAT: Final = "a name"


def leaves_rows_as_described(sql: str, *, plain_backslash: bool = False, keyed: bool) -> bool:
    """Return whether the definition after DDL fits earlier rows; ``keyed``: has a primary key."""
    try:
        verdict = _statement(Cursor(sql, _tokens(sql, plain_backslash=plain_backslash)))
    except Refusal:
        return False
    return verdict is _Verdict.HARMLESS or (verdict is _Verdict.KEYED and keyed)


def _tokens(sql: str, *, plain_backslash: bool) -> tuple[Token, ...]:
    """Tokenize a statement in both readings of double quotes; Refusal when they differ."""
    strings, names = (
        tokenize(sql, SqlMode(ansi, plain_backslash), executed=True) for ansi in (False, True)
    )
    if [(token.start, token.end) for token in strings] != [(t.start, t.end) for t in names]:
        raise Refusal("what the double quotes mean depends on the session's sql_mode")
    return names


def _statement(cursor: Cursor) -> _Verdict:
    if cursor.take("TRUNCATE"):
        return _Verdict.HARMLESS
    if cursor.take("ALTER", "TABLE"):
        return _alter(cursor)
    if cursor.take("DROP", "INDEX"):
        return _unless_primary(cursor)
    return _create(cursor) if cursor.take("CREATE") else _Verdict.UNPROVEN


def _create(cursor: Cursor) -> _Verdict:
    kind = cursor.take_any("UNIQUE", "FULLTEXT", "SPATIAL")
    if cursor.take("INDEX"):
        return _K if kind == "UNIQUE" else _H
    reserved = (token.upper for token in cursor.rest() if token.upper in {"TABLE", "TRIGGER"})
    return _H if next(reserved, "") == "TRIGGER" else _Verdict.UNPROVEN


def _alter(cursor: Cursor) -> _Verdict:
    cursor.name("the table's name")
    if cursor.take_symbol("."):
        cursor.name("the table's name")
    tokens = cursor.rest()
    if tokens and tokens[-1].is_symbol(";"):
        tokens = tokens[:-1]
    if any(token.is_symbol(";") for token in tokens):
        return _Verdict.UNPROVEN
    pieces = split_at(tokens, ",") if tokens else iter(())
    return max((_clause(Cursor(cursor.sql, piece)) for piece in pieces), default=_H)


def _clause(cursor: Cursor) -> _Verdict:
    for verdict, heads in _HEADS.items():
        if any(cursor.starts_with(*head.split()) for head in heads):
            return verdict
    if is_option(cursor) or _goes_on(cursor):
        return _Verdict.HARMLESS
    if cursor.take("ADD", "CONSTRAINT"):
        if cursor.keyword() not in {*_CONSTRAINTS, "PRIMARY"}:
            cursor.name(_WHAT)
        return _CONSTRAINTS.get(cursor.keyword(), _Verdict.UNPROVEN)
    if any(cursor.take("DROP", word) for word in ("INDEX", "KEY", "CONSTRAINT")):
        return _unless_primary(cursor)
    if cursor.take("ALTER"):
        cursor.take("COLUMN")
        cursor.name(_WHAT)
        if any(cursor.starts_with(*head.split()) for head in _COLUMN_PROPERTIES):
            return _Verdict.HARMLESS
    return _Verdict.UNPROVEN


def _goes_on(cursor: Cursor) -> bool:
    """Return whether a piece continues the names of ORDER BY or of partitions.

    No clause consists of one name, or has ASC, DESC or INTO (all reserved) after its first word.
    """
    first, *rest = cursor.tokens or (None,)
    if first is None or not first.is_identifier:
        return False
    return not rest or rest[0].upper in {"ASC", "DESC", "INTO"}


def _unless_primary(cursor: Cursor) -> _Verdict:
    return _Verdict.UNPROVEN if cursor.name(_WHAT).upper() == "PRIMARY" else _Verdict.KEYED


_ATTEMPTS: Final = 20
_HINT: Final = (
    "follow from a place after the change of the definition (--from with a later position, or"
    " without --from); with binlog_row_metadata=FULL on the server rows describe themselves"
)


@dataclass(kw_only=True)
class _Known:
    """A definition; ``described``: it described rows whose table map does not describe itself."""

    schema: TableSchema
    executed: Frontier
    described: bool = False


class Definitions:
    """Makes a codec for each table map of a followed table."""

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
        #: The tables from which foreign keys change rows of a table, as far as that is known.
        self.acting: dict[Table, frozenset[bytes]] = {}
        self._read_at: Frontier | None = None

    def learn(self, table: Table) -> None:
        """Read a definition before it is needed; a table that does not exist is skipped."""
        if (known := self._settled(table)) is not None:
            self._known[table] = known

    def compile(self, table_map: TableMap) -> RowCodec:
        """Make the codec of a table map; SchemaChanged when the server has another definition."""
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
        schema = described(table_map, self._collations)
        if schema is None:
            return None
        if table not in self._known:
            self.learn(table)
        codec = self._fitting(table_map, self._known.get(table))
        if codec is not None and agrees(codec.schema, schema):
            keys = [one.primary_key and one.primary_key.columns for one in (codec.schema, schema)]
            if keys[0] == keys[1]:
                return codec
        return RowCodec.for_schema(table_map, schema)

    @staticmethod
    def _fitting(table_map: TableMap, known: _Known | None) -> RowCodec | None:
        if known is None:
            return None
        with contextlib.suppress(SchemaChanged):
            return RowCodec.for_schema(table_map, known.schema)
        return None

    def _settled(self, table: Table) -> _Known | None:
        before = self._read(table)
        self.acting.pop(table, None)
        for _ in range(_ATTEMPTS):
            executed = self._executed()
            after = self._read(table)
            if before is None and after is None:
                return None
            if before is not None and after is not None and shape_of(before) == shape_of(after):
                self.acting[table] = acting_parents(after)
                self._read_at = executed
                return _Known(schema=after, executed=executed)
            before = after
        said = f"the definition of {'.'.join(table)} changes again and again"
        raise FeedFailure(said, hint="when its ALTERs have ended, run the same command again")

    def take_read_at(self) -> Frontier | None:
        """Return the place of the definition that was read last, if any was since the last call.

        A DDL up to there may be in the definition: rows before it are proved by reading so far.
        """
        found, self._read_at = self._read_at, None
        return found

    def doubtful(self, statement: Statement, seen: StatementSeen) -> bool:
        """Return whether a definition behind DDL may have described rows of an earlier run."""
        for table, known in self._known.items():
            if any(_names(name.schema, name.table, table) for name in statement.own):
                wanted = known.executed.empty()
                wanted.advance(seen.place)
                if known.executed.reaches(wanted) and not _spares(statement, seen, known.schema):
                    return True
        return False

    def altered(self, statement: Statement, seen: StatementSeen) -> bool:
        """Return whether DDL changed a definition; SchemaChanged if earlier rows used it."""
        changed, place = False, seen.place
        for table in list(self._known):
            if not any(_names(name.schema, name.table, table) for name in statement.own):
                continue
            known = self._known[table]
            wanted = known.executed.empty()
            wanted.advance(place)
            if not known.executed.reaches(wanted):
                del self._known[table]
                self.learn(table)
                changed = True
            elif known.described and not _spares(statement, seen, known.schema):
                raise _outdated(
                    table,
                    f"{statement.verb} at {place.file}:{place.offset} may have given columns"
                    " other names or members, or the table another key, after rows that are"
                    " described by the definition of now",
                )
        return changed


def _names(schema: str, table: str | None, found: Table) -> bool:
    same = schema.lower() == found[0].lower()
    return same and (table is None or table.lower() == found[1].lower())


def _spares(statement: Statement, seen: StatementSeen, behind: TableSchema) -> bool:
    """Return whether the definition ``behind`` DDL describes the rows before it, too."""
    if statement.unless_there:
        return True
    primary = behind.primary_key
    keyed = primary is not None and bool(primary.columns)
    plain = seen.plain_backslash
    return seen.certain and all(
        leaves_rows_as_described(sql, plain_backslash=plain, keyed=keyed) for sql in seen.texts
    )


def _outdated(table: Table, why: str) -> SchemaChanged:
    return SchemaChanged(
        f"rows of {'.'.join(table)} at this place of the binlog cannot be described by the"
        f" server's present definition: {why}",
        hint=_HINT,
    )
