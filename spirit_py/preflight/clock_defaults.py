"""Evaluate the defaults of new columns that read clock or session, once for a migration (R22)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from spirit_py.sql import binary_literal, string_literal
from spirit_py.table.conversions import cast_to
from spirit_py.table.mapping import Fill
from spirit_py.table.new_columns import (
    from_unix,
    in_schema,
    instant_literal,
    of_the_moment,
    plain_digits,
)

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column


def at_one_moment(session: SqlSession, mapping: TableMapping, moment: str) -> TableMapping:
    """Return the mapping with a constant for each new column with such a default.

    Args:
        moment: ISO 8601, with its offset; to the microsecond, as the server's own clock.
    """
    columns = of_the_moment(mapping)
    if not columns:
        return mapping
    at = datetime.fromisoformat(moment)
    zone = string_literal(mapping.time_zone or "+00:00")
    try:
        # Needs no privilege, on any version (tried on 9.7 with an account that has none).
        session.execute(f"SET SESSION time_zone = {zone}, SESSION timestamp = {at.timestamp():.6f}")
        schema = mapping.source.schema
        fills = [Fill(column=column, sql=_value(session, column, at, schema)) for column in columns]
    finally:
        session.execute("SET SESSION time_zone = '+00:00', SESSION timestamp = DEFAULT")
    return replace(mapping, fills=(*mapping.fills, *fills))


def _value(session: SqlSession, column: Column, at: datetime, schema: str) -> str:
    digits = plain_digits(column)
    if digits is not None:
        return instant_literal(at, digits)
    value = cast_to(f"({in_schema(column.default or '', schema)})", None, column)
    if column.data_type == "timestamp":
        found = session.query(f"SELECT UNIX_TIMESTAMP({value})")[0][0]
        return "NULL" if found is None else instant_literal(from_unix(str(found)), 6)
    if column.data_type in {"date", "datetime"}:
        value = f"CAST({value} AS CHAR)"  # the driver has no object for a zero date
    return _literal(session.query(f"SELECT {value}")[0][0])


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return binary_literal(value) if isinstance(value, bytes) else string_literal(str(value))
