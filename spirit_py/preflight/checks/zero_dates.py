"""Dates with zeros, where ``sql_mode`` forbids them: new ones, and those in the rows."""

from __future__ import annotations

import contextlib
from typing import Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.duplicates import row_name
from spirit_py.mysql.evaluation import STRICT_MODES, ZERO_MODES
from spirit_py.preflight.check import Findings, PreflightContext, first_row, refuse, warn
from spirit_py.sql import quote_identifier
from spirit_py.table.new_columns import needs_fill

_DATES: Final = frozenset({"date", "datetime", "timestamp"})
#: A warning is not worth a long search.
_SECONDS: Final = 1.0


def check(context: PreflightContext) -> Findings:
    """Refuse new zeros as a native ALTER does; warn of those that it might refuse to copy."""
    modes = context.facts.sql_mode.upper().split(",")
    if not any(mode in modes for mode in STRICT_MODES):
        return
    if "NO_ZERO_DATE" in modes:
        yield from _new_zeros(context)
    if forbidding := [mode for mode in ZERO_MODES if mode in modes]:
        yield from _zeros_in_rows(context, " and ".join(forbidding))


def _new_zeros(context: PreflightContext) -> Findings:
    """Refuse a new NOT NULL date without a default, when the table has rows."""
    mapping = context.mapping
    for fill in mapping.fills:
        if (
            needs_fill(fill.column)
            and fill.column.data_type in _DATES
            and first_row(context, "TRUE", mapping.key.columns)
        ):
            yield refuse(
                f"new column {fill.column.name} is NOT NULL without a default, and its implicit"
                " value, the zero date, is forbidden by sql_mode (NO_ZERO_DATE)",
                "give the column a DEFAULT, or make it NULL; or allow the zero with"
                " --allow-zero-dates",
            )


def _zeros_in_rows(context: PreflightContext, modes: str) -> Findings:
    """Warn of a date with zeros; it is kept, as by a native ALTER that rebuilds in place.

    A native ALTER that copies the rows refuses it.
    """
    key = context.mapping.key.columns
    columns = [pair.old.name for pair in context.mapping.pairs if pair.old.data_type in _DATES]
    for name in columns:
        column = quote_identifier(name)
        zeros = f"(MONTH({column}) = 0 OR DAYOFMONTH({column}) = 0)"
        # What is not found in time is kept all the same.
        with contextlib.suppress(ServerFault):
            row = first_row(context, zeros, (*key, name), seconds=_SECONDS / len(columns))
            if row is not None:
                yield warn(
                    f"column {name} holds dates with zeros, which sql_mode forbids ({modes}):"
                    f" {row[-1]} in the row with {row_name(key, row[:-1])}; they are kept, where"
                    " a native ALTER with ALGORITHM=COPY would refuse them",
                    "--allow-zero-dates says that this is meant",
                )
