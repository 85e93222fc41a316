"""A new NOT NULL date without a default: its zero may be forbidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.preflight.finding import refuse
from spirit_py.preflight.scan import first_row
from spirit_py.table.fills import needs_fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.preflight.context import PreflightContext
    from spirit_py.preflight.finding import Finding

_DATES = frozenset({"date", "datetime", "timestamp"})


def check(context: PreflightContext) -> Iterator[Finding]:
    """Refuse as a native ALTER does, when the table has rows and ``sql_mode`` forbids zeros."""
    mapping, mode = context.mapping, context.facts.sql_mode.upper()
    if mapping is None or "NO_ZERO_DATE" not in mode or "STRICT_" not in mode:
        return
    for fill in mapping.fills:
        if (
            needs_fill(fill.column)
            and fill.column.data_type in _DATES
            and first_row(context, "TRUE", mapping.key.columns)
        ):
            yield refuse(
                f"new column {fill.column.name} is NOT NULL without a default, and its implicit"
                " value, the zero date, is forbidden by sql_mode (NO_ZERO_DATE)",
                "give the column a DEFAULT, or make it NULL",
            )
