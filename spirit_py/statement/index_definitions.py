"""Which indexes of a new table may be built after the copy, and their definitions (pure).

A deferred index comes back exactly as it was, by its text of ``SHOW CREATE TABLE``. Measured on
9.7: indexes over expressions, FULLTEXT and SPATIAL ones are added only under a lock that keeps
writes out (error 1846); an AUTO_INCREMENT column must always lead some index (1075); plain indexes
are listed by creation, in front of those over virtual columns, so none is deferred in front of one
that stays. UNIQUE indexes guard the copy (R11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.classes import dataclass
from spirit_py.statement.cursor import Cursor, outside_parentheses, split_at
from spirit_py.statement.lexer import DEFAULT_MODE, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spirit_py.statement.lexer import Token
    from spirit_py.table.schema import Index, TableSchema


@dataclass(frozen=True, kw_only=True)
class DeferrableIndexes:
    """Secondary indexes: ``clauses`` that follow ADD, ``kept`` with the reason, by name."""

    clauses: dict[str, str]
    kept: dict[str, str]


def deferrable_indexes(table: TableSchema, finder: str = "") -> DeferrableIndexes:
    """Return which indexes may be deferred; changed rows are found by ``finder``."""
    clauses: dict[str, str] = {}
    kept: dict[str, str] = {}
    for name, clause in _secondary(table.create_sql):
        index = table.index(name)
        why = "it is not in the catalogue" if index is None else _why_kept(table, index)
        if name == finder:
            why = "changed rows are found by it"
        if not why:
            clauses[name] = clause
            continue
        kept[name] = why
        if index is not None and index.kind.upper() != "FULLTEXT" and _is_stored(table, index):
            kept |= dict.fromkeys(clauses, f"{name} stays, and comes before that one")
            clauses.clear()
    return DeferrableIndexes(clauses=clauses, kept=kept)


def index_clauses(table: TableSchema) -> dict[str, str]:
    """Return what follows ADD for each index that is not unique, by name, in the table's order."""
    return dict(_secondary(table.create_sql))


def without_indexes(create_sql: str, clauses: Mapping[str, str]) -> str:
    """Return ``SHOW CREATE TABLE`` as the server shows it without these indexes, by name."""
    for clause in clauses.values():
        create_sql = create_sql.replace(f",\n  {clause}", "", 1)
    return create_sql


def _why_kept(table: TableSchema, index: Index) -> str:
    if index.kind.upper() != "BTREE":
        return f"it is {index.kind.upper()}"
    if not _is_stored(table, index):
        return "it holds values that are not stored in the rows"
    first = table.column(index.parts[0].column or "")
    if first.auto_increment and not any(
        other.unique and other.parts[0].column == first.name for other in table.indexes
    ):
        return "the AUTO_INCREMENT column needs it"
    return ""


def _is_stored(table: TableSchema, index: Index) -> bool:
    return all(
        part.column is not None and table.column(part.column).generated != "VIRTUAL"
        for part in index.parts
    )


def _secondary(create_sql: str) -> Iterator[tuple[str, str]]:
    for piece, end in _pieces(tokenize(create_sql, DEFAULT_MODE, executed=True)):
        cursor = Cursor(create_sql, piece)
        cursor.take_any("FULLTEXT", "SPATIAL")
        if cursor.take("KEY"):
            name = cursor.name("the index's name")
            yield name, create_sql[piece[0].start : end].strip()


def _pieces(tokens: tuple[Token, ...]) -> Iterator[tuple[tuple[Token, ...], int]]:
    first = next(at for at, token in enumerate(tokens) if token.is_symbol("("))
    closing = (at for at, _ in outside_parentheses(tokens[first:]))
    last = first + next(closing, len(tokens) - first)
    at = first + 1
    for piece in split_at(tokens[first + 1 : last], ","):
        at += len(piece)
        yield piece, tokens[at].start
        at += 1
