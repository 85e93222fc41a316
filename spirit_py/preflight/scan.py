"""Look for one row in the source, for a limited time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spirit_py.errors import ServerFault
from spirit_py.sql import identifier_list, quote_table

if TYPE_CHECKING:
    from spirit_py.preflight.check import PreflightContext

SECONDS: float = 30
_TIMED_OUT = 3024


class ScanUnfinished(Exception):
    """The table is too large to be looked through in the time given."""


def first_row(
    context: PreflightContext, condition: str, columns: tuple[str, ...]
) -> tuple[Any, ...] | None:
    """Return these columns of some row that meets the condition; None when there is none.

    Raises:
        ScanUnfinished: after :data:`SECONDS`.
    """
    table = quote_table(context.schema, context.table)
    hint = f"/*+ MAX_EXECUTION_TIME({int(SECONDS * 1000)}) */"
    try:
        rows = context.session.query(
            f"SELECT {hint} {identifier_list(columns)} FROM {table} WHERE {condition} LIMIT 1"
        )
    except ServerFault as error:
        if error.code == _TIMED_OUT:
            raise ScanUnfinished from error
        raise
    return rows[0] if rows else None
