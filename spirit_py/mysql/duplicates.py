"""Rows of the source that a unique key of the new table cannot hold or tell apart (R11).

A key with nullable columns serves only by choice, and only while no row has NULL in it: a look here
before the copy and each comparison, the feed and the comparison find such rows.
"""

from __future__ import annotations

import contextlib
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py.classes import dataclass
from spirit_py.errors import NullInKey, ServerFault
from spirit_py.mysql.faults import STATEMENT_TIMED_OUT
from spirit_py.mysql.hashes import Hashes, free_names, ranges, room_for
from spirit_py.sql import identifier_list, quote_identifier, string_literal
from spirit_py.table.conversions import cast_to, value_in_new_column
from spirit_py.table.new_columns import value_of_fresh_column
from spirit_py.table.unique_keys import walkable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Index, IndexPart, TableSchema

EXAMPLES = 10
RANGE_ROWS = 100_000
"""Rows of a range; all rows with one value are in the same range, which may have twice as many."""
_CARDINALITY = """
SELECT CARDINALITY FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND INDEX_NAME = %s AND SEQ_IN_INDEX = 1"""
_ROWS = "`_spirit_py_rows`"
_ARRAY = re.compile(r"cast\((?P<json>.*) as (?P<type>.+?) array\)\Z", re.IGNORECASE | re.DOTALL)
_ARRAY_TYPES = {"unsigned": "BIGINT UNSIGNED", "signed": "BIGINT"}


@dataclass(frozen=True, kw_only=True)
class Duplicate:
    """Rows that are equal in a unique key: its parts, their values, and how many rows there are."""

    columns: tuple[str, ...]
    values: tuple[Any, ...]
    rows: int

    def __str__(self) -> str:
        return f"{row_name(self.columns, self.values)} in {self.rows} rows"


def row_name(columns: Sequence[str], values: Sequence[Any]) -> str:
    """Name a row by these columns; long values are cut short."""
    pairs = zip(columns, values, strict=True)
    return ", ".join(f"{column}={_shown(value)}" for column, value in pairs)


def _shown(value: Any) -> str:
    text = f"X'{value.hex()}'" if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def duplicates_for(
    session: SqlSession,
    mapping: TableMapping,
    index: Index,
    limit: int = EXAMPLES,
    *,
    seen: Callable[[int], None] = lambda _: None,
    hashing: Callable[[int], None] = lambda _: None,
) -> tuple[Duplicate, ...]:
    """Find values that several rows of the source share in a unique index of the new table.

    Compared under the new collation, type and expression. Locks nothing; reads the source in short
    ranges of an index of :func:`_walked`, or of the chunk key with hashes
    (:mod:`spirit_py.mysql.hashes`), from the first value on that has too many rows for a range.
    ``seen`` is called after each range with the rows read so far, ``hashing`` before hashes are
    kept, with about the bytes of temporary tablespace that they take; both may raise.
    """
    columns = tuple(part.column or part.expression or "" for part in index.parts)
    found: list[Duplicate] = []
    try:
        session.execute(f"SET SESSION time_zone = {string_literal(mapping.time_zone or '+00:00')}")
        with contextlib.closing(_within(session, mapping, index, seen, hashing)) as within:
            for where in within:
                if where is None:
                    found = []
                    continue
                rows = session.query(duplicates_sql(mapping, index, limit - len(found), where))
                found += [
                    Duplicate(columns=columns, values=tuple(row[:-1]), rows=int(row[-1]))
                    for row in rows
                ]
                if len(found) >= limit:
                    break
    finally:
        session.execute("SET SESSION time_zone = '+00:00'")
    return tuple(found)


def search_room(session: SqlSession, mapping: TableMapping) -> int:
    """Return about how many bytes of temporary tablespace a search takes at once; 0 for few.

    One frequent value among many others is not known before it is met.
    """
    hashed = any(_walked(session, mapping, index) is None for index in mapping.tightened)
    return room_for(mapping.source, mapping.key) if hashed else 0


def _walked(session: SqlSession, mapping: TableMapping, index: Index) -> Index | None:
    """Return the index's first part to walk by; None if a value has more rows than a range."""
    source = mapping.source
    if (walk := walkable(source, index, mapping.pairs)) is None:
        return None
    found = session.query(_CARDINALITY, (source.schema, source.name, walk.name))
    values = found[0][0] if found else None
    return None if values and source.estimated_rows / int(values) > RANGE_ROWS else walk


def _within(
    session: SqlSession,
    mapping: TableMapping,
    index: Index,
    seen: Callable[[int], None],
    hashing: Callable[[int], None],
) -> Generator[str | None]:
    """Yield a condition for each range; None where all begins again."""
    if (walk := _walked(session, mapping, index)) is not None:
        for where in _by_index(session, mapping, walk, seen):
            yield where
            if where is None:
                break
        else:
            return
    hashing(room_for(mapping.source, mapping.key))
    yield from _by_hashes(session, mapping, index, seen)


def _by_hashes(
    session: SqlSession, mapping: TableMapping, index: Index, seen: Callable[[int], None]
) -> Generator[str]:
    own = free_names(mapping, 2 + len(mapping.key.columns))
    parts = _sources(mapping, index, "").parts
    hashes = Hashes(session, mapping, parts, own, partial(_selecting, mapping, index, own[2:]))
    try:
        rows = 0
        for rows in hashes.fill(RANGE_ROWS):
            seen(rows)
        for where in hashes.several(RANGE_ROWS):
            if where is None:
                seen(rows)
            else:
                yield where
    finally:
        with contextlib.suppress(ServerFault):
            hashes.drop()


def _selecting(mapping: TableMapping, index: Index, keys: Sequence[str], where: str) -> str:
    old = zip(mapping.key.columns, keys, strict=True)
    more = [f"{quote_identifier(name)} AS {key}" for name, key in old]
    limit = where if where.startswith(" LIMIT") else ""
    rows = _sources(mapping, index, "" if limit else where, more)
    return f"FROM {rows.sql} WHERE {rows.present}{limit}"


def _by_index(
    session: SqlSession, mapping: TableMapping, walk: Index, seen: Callable[[int], None]
) -> Generator[str | None]:
    """Yield a condition for each range; None for one that has too many rows with one value."""
    column = mapping.source.column(walk.columns[0])
    # NULL equals no value; without this it would be the first range's bound.
    first = f"{quote_identifier(column.name)} IS NOT NULL"
    within = ranges(session, mapping.source.quoted, walk, [column], rows=RANGE_ROWS, lower=first)
    for number, where in enumerate(within, start=1):
        many = f"SELECT 1 FROM {mapping.source.quoted}{where} LIMIT 1 OFFSET {2 * RANGE_ROWS}"
        yield None if session.query(many) else where
        seen(number * RANGE_ROWS)


def duplicates_sql(mapping: TableMapping, index: Index, limit: int, where: str = "") -> str:
    """Build the query: a row for each duplicate, its last value the number of rows.

    GROUP BY and HAVING use positions and the count: an alias could be the name of a column.
    """
    rows = _sources(mapping, index, where)
    key = (f"{_ROWS}.{quote_identifier(name)}" for name in mapping.new_key_columns)
    count = f"COUNT(DISTINCT {', '.join(key)})" if rows.listed else "COUNT(*)"
    places = ", ".join(str(place) for place in range(1, len(rows.parts) + 1))
    return (
        f"SELECT {', '.join(rows.parts)}, {count} FROM {rows.sql} WHERE {rows.present}"
        f" GROUP BY {places} HAVING {count} > 1 LIMIT {limit}"
    )


@dataclass(frozen=True, kw_only=True)
class _Sources:
    """What is selected from; ``listed``: a row may come several times, once per array element."""

    sql: str
    parts: tuple[str, ...]
    listed: bool

    @property
    def present(self) -> str:
        return " AND ".join(f"{part} IS NOT NULL" for part in self.parts)


def _sources(mapping: TableMapping, index: Index, of: str, more: Sequence[str] = ()) -> _Sources:
    rows, parts, listed = _rows(mapping, of, more), [], False
    for number, part in enumerate(index.parts):
        array = _ARRAY.match(part.expression or "")
        if array is None:
            parts.append(_part(part))
            continue
        alias = f"`_spirit_py_list{number}`"
        # Expressions do not qualify their columns, so that no column may have this name.
        (element,) = free_names(mapping, 1, "_spirit_py_element")
        value, kind = array["json"], _ARRAY_TYPES.get(array["type"].lower(), array["type"])
        # A scalar counts as an array of one.
        rows += (
            f" CROSS JOIN JSON_TABLE(IF(JSON_TYPE({value}) = 'ARRAY', {value},"
            f" JSON_ARRAY({value})), '$[*]' COLUMNS ({element} {kind} PATH '$')) AS {alias}"
        )
        parts.append(f"{alias}.{element}")
        listed = True
    return _Sources(sql=rows, parts=tuple(parts), listed=listed)


def _rows(mapping: TableMapping, of: str, more: Sequence[str] = ()) -> str:
    fills = {fill.column.name: fill.sql for fill in mapping.fills}
    sources = {pair.new.name: value_in_new_column(pair.old, pair.new) for pair in mapping.pairs}
    columns = [
        f"{sources.get(column.name) or value_of_fresh_column(column, fills)}"
        f" AS {quote_identifier(column.name)}"
        for column in mapping.target.columns
        if not column.generated
    ]
    hint, _, where = of.partition(" WHERE ")
    if mapping.keep is not None:
        of = f"{hint} WHERE ({where or 'TRUE'}) AND {mapping.keep.condition()}"
    rows = f"(SELECT {', '.join([*columns, *more])} FROM {mapping.source.quoted}{of}) AS {_ROWS}"
    for column in mapping.target.columns:
        if column.generated:
            value = cast_to(f"({column.generation_expression})", None, column)
            name = quote_identifier(column.name)
            rows = f"(SELECT {_ROWS}.*, {value} AS {name} FROM {rows}) AS {_ROWS}"
    return rows


def _part(part: IndexPart) -> str:
    if part.column is None:
        return f"({part.expression})"
    column = f"{_ROWS}.{quote_identifier(part.column)}"
    return column if part.prefix is None else f"LEFT({column}, {part.prefix})"


_SECONDS: Final = 30
_CHECKS: Final = (
    "SELECT c.CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS AS c"
    " JOIN information_schema.TABLE_CONSTRAINTS AS t"
    " ON t.CONSTRAINT_SCHEMA = c.CONSTRAINT_SCHEMA AND t.CONSTRAINT_NAME = c.CONSTRAINT_NAME"
    " WHERE t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s AND t.ENFORCED = 'YES'"
)
_NOT_NULL: Final = re.compile(r"\(`(?P<column>(?:[^`]|``)+)` is not null\)", re.IGNORECASE)


def may_be_null(mapping: TableMapping) -> bool:
    """Return whether the key that identifies rows has nullable columns."""
    return any(column.nullable for column in mapping.key_columns)


def refuse_null_keys(session: SqlSession, mapping: TableMapping) -> None:
    """Raise NullInKey for a row of the source with NULL in the key; a long look is given up."""
    for column in mapping.key_columns:
        if not column.nullable:
            continue
        hint = f"/*+ MAX_EXECUTION_TIME({_SECONDS * 1000}) */"
        index = quote_identifier(mapping.key.name)
        try:
            found = session.query(
                f"SELECT {hint} {identifier_list(mapping.key.columns)} FROM {mapping.source.quoted}"
                f" FORCE INDEX ({index}) WHERE {quote_identifier(column.name)} IS NULL LIMIT 1"
            )
        except ServerFault as fault:
            if fault.code != STATEMENT_TIMED_OUT:
                raise
            continue
        if found:
            raise NullInKey(
                f"a row of {mapping.source.full_name} has NULL in"
                f" {column.name}, of the key {mapping.key.name} that identifies its rows",
                hint=NullInKey.REMEDY,
                details=(f"the row: {row_name(mapping.key.columns, found[0])}",),
            )


def ruled_out(session: SqlSession, table: TableSchema) -> frozenset[str]:
    """Return the columns, in lower case, that an enforced CHECK keeps from being NULL."""
    names: set[str] = set()
    for (clause,) in session.query(_CHECKS, (table.schema, table.name)):
        for term in _terms(str(clause)):
            if found := _NOT_NULL.fullmatch(term):
                names.add(found["column"].replace("``", "`").lower())
    return frozenset(names)


def _terms(clause: str) -> list[str]:
    if not clause.startswith("((") or _closing(clause, 0) != len(clause) - 1:
        return [clause]
    terms, at = [], 1
    while at < len(clause) - 1:
        end = _closing(clause, at)
        terms.append(clause[at : end + 1])
        rest = clause[end + 1 :]
        if rest != ")" and not rest.lower().startswith(" and ("):
            return [clause]
        at = end + 1 + len(" and ")
    return terms


def _closing(clause: str, at: int) -> int:
    """Return the place of the closing parenthesis; texts and names are not looked into."""
    depth = 0
    for place in range(at, len(clause)):
        depth += (clause[place] == "(") - (clause[place] == ")")
        if depth == 0:
            return place
    return len(clause) - 1
