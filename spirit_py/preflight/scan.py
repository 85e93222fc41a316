"""Search for one row in the source, for a limited time."""

from __future__ import annotations

from typing import Any

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import STATEMENT_TIMED_OUT
from spirit_py.mysql.values.duplicates import row_name
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.sql import identifier_list, quote_table

SECONDS: float = 30


def refuse_row(
    context: PreflightContext, column: str, condition: str, *, doubt: str, cause: str, remedy: str
) -> Findings:
    """Refuse a row that meets a condition on a column; warn when it is not known in time.

    Args:
        doubt: what is not known then, after "whether".
    """
    key = context.mapping.key.columns
    try:
        row = first_row(context, condition, (*key, column))
    except ServerFault as error:
        if error.code != STATEMENT_TIMED_OUT:
            raise
        yield warn(
            f"whether {doubt} was not known after {SECONDS} s; the copy would stop at such a row"
        )
        return
    if row is not None:
        value = "" if row[-1] is None else f": {row[-1]!r}"
        yield refuse(f"{cause}{value} in the row with {row_name(key, row[:-1])}", remedy)


def first_row(
    context: PreflightContext, condition: str, columns: tuple[str, ...], *, seconds: float = 0.0
) -> tuple[Any, ...] | None:
    """Return these columns of some row that meets the condition; None when there is none.

    Args:
        seconds: limit of the search; 0 for the usual one.

    Raises:
        ServerFault: also where none was found in time.
    """
    table = quote_table(context.schema, context.table)
    hint = f"/*+ MAX_EXECUTION_TIME({int((seconds or SECONDS) * 1000)}) */"
    rows = context.session.query(
        f"SELECT {hint} {identifier_list(columns)} FROM {table} WHERE {condition} LIMIT 1"
    )
    return rows[0] if rows else None
