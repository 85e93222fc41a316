"""A new NOT NULL date without a default: its zero may be forbidden."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse
from spirit_py.preflight.scan import first_row
from spirit_py.table.new_columns import needs_fill

_DATES = frozenset({"date", "datetime", "timestamp"})


def check(context: PreflightContext) -> Findings:
    """Refuse as a native ALTER does, when the table has rows and ``sql_mode`` forbids zeros."""
    mapping, mode = context.mapping, context.facts.sql_mode.upper()
    if "NO_ZERO_DATE" not in mode or "STRICT_" not in mode:
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
