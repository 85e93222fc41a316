"""NULL in a key by which rows are told apart: looked for, and what rules it out.

A unique key holds any number of rows with NULL, which are in no range and equal no value. So a key
with nullable columns serves only by choice (``--allow-nullable-unique-key``), and only as long as
no row has NULL in it. Three looks together let none pass: this one, after the change feed has begun
and again before each comparison; the feed itself, for which an image with NULL in the key is a
hidden change; and the comparison, whose first chunk has such rows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.errors import NullInKey, ServerFault
from spirit_py.mysql.faults import STATEMENT_TIMED_OUT
from spirit_py.mysql.values.duplicates import row_name
from spirit_py.sql import identifier_list, quote_identifier, quote_table

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema

_SECONDS: Final = 30
_CHECKS: Final = (
    "SELECT c.CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS AS c"
    " JOIN information_schema.TABLE_CONSTRAINTS AS t"
    " ON t.CONSTRAINT_SCHEMA = c.CONSTRAINT_SCHEMA AND t.CONSTRAINT_NAME = c.CONSTRAINT_NAME"
    " WHERE t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s AND t.ENFORCED = 'YES'"
)
_NOT_NULL: Final = re.compile(r"\(`(?P<column>(?:[^`]|``)+)` is not null\)", re.IGNORECASE)


def may_be_null(mapping: TableMapping) -> bool:
    """Return whether the key by which rows are told apart has nullable columns."""
    return any(column.nullable for column in mapping.key_columns)


def refuse_null_keys(session: SqlSession, mapping: TableMapping) -> None:
    """Look for a row of the source with NULL in the key; do nothing where it is NOT NULL.

    A look that takes long is given up: the comparison finds such a row.

    Raises:
        NullInKey: names the row.
    """
    for column in mapping.key_columns:
        if not column.nullable:
            continue
        hint = f"/*+ MAX_EXECUTION_TIME({_SECONDS * 1000}) */"
        table = quote_table(mapping.source.schema, mapping.source.name)
        index = quote_identifier(mapping.key.name)
        try:
            found = session.query(
                f"SELECT {hint} {identifier_list(mapping.key.columns)} FROM {table}"
                f" FORCE INDEX ({index}) WHERE {quote_identifier(column.name)} IS NULL LIMIT 1"
            )
        except ServerFault as fault:
            if fault.code != STATEMENT_TIMED_OUT:
                raise
            continue
        if found:
            raise NullInKey(
                f"a row of {mapping.source.schema}.{mapping.source.name} has NULL in"
                f" {column.name}, of the key {mapping.key.name} by which its rows are told apart",
                hint=NullInKey.REMEDY,
                details=(f"the row: {row_name(mapping.key.columns, found[0])}",),
            )


def ruled_out(session: SqlSession, table: TableSchema) -> frozenset[str]:
    """Return the columns, in lower case, that an enforced CHECK keeps from being NULL.

    One that says just that, or says it as one of several conditions that must all be met.
    """
    names: set[str] = set()
    for (clause,) in session.query(_CHECKS, (table.schema, table.name)):
        for term in _terms(str(clause)):
            if found := _NOT_NULL.fullmatch(term):
                names.add(found["column"].replace("``", "`").lower())
    return frozenset(names)


def _terms(clause: str) -> list[str]:
    """Return the conditions that must all be met, as the server writes them, in parentheses."""
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
    """Return the place of the parenthesis that closes the one at ``at``.

    Texts and names with parentheses in them are not looked into: the terms are then other ones,
    and only a whole term that names a column and IS NOT NULL counts.
    """
    depth = 0
    for place in range(at, len(clause)):
        depth += (clause[place] == "(") - (clause[place] == ")")
        if depth == 0:
            return place
    return len(clause) - 1
