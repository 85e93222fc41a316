"""The text that SQLAlchemy's own compiler makes of a change, and several made one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.schema import DDLElement

from spirit_py.errors import Refusal
from spirit_py.sql import quote_identifier
from spirit_py.statement import parse_statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Executable
    from sqlalchemy.engine import Dialect


def text_of(construct: Executable | str, dialect: Dialect) -> str:
    """Return the statement that the server would get; empty for what is no DDL or text.

    A driver that takes ``%`` for its own sign gets it twice; the server gets it once.
    """
    if isinstance(construct, str):
        construct = sa.text(construct)
    if not isinstance(construct, (DDLElement, sa.TextClause)):
        return ""
    if isinstance(construct, sa.TextClause) and construct.compile().params:
        return ""
    text = str(construct.compile(dialect=dialect)).strip()
    doubled = getattr(dialect.identifier_preparer, "_double_percents", False)
    return text.replace("%%", "%") if doubled else text


def joined(statements: Iterable[str], schema: str, table: str, *, sql_mode: str) -> str:
    """Return one ALTER TABLE that does what the statements do one after another.

    Args:
        sql_mode: of the session, by whose rules the compiler has quoted.

    Raises:
        Refusal: one of them is no change of this table, or cannot be honoured.
    """
    clauses = []
    for text in statements:
        (one,) = parse_statement(text, schema or "-", sql_mode=sql_mode)
        if one.table != table:
            raise Refusal(
                f"{text!r} changes table {one.table}, not {table}",
                hint="change each table in a block of its own",
            )
        clauses.append(one.clauses)
    name = ".".join(quote_identifier(part) for part in (schema, table) if part)
    return f"ALTER TABLE {name} {', '.join(clauses)}"
