"""New columns whose default reads the clock or the session, and other columns too (R22)."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, warn
from spirit_py.table.new_columns import of_each_write


def check(context: PreflightContext) -> Findings:
    """Warn that such a default is evaluated when a row is written, not once for all rows."""
    for column in of_each_write(context.mapping):
        yield warn(
            f"the default of new column {column.name}, ({column.default}), reads the time or the"
            " session, and other columns: each row gets it as of the moment at which the row is"
            " written, in the session that writes it",
            "a native ALTER takes one moment and one session for all rows; where that matters add"
            " the column without it, fill it as you mean it, and set the default afterwards",
        )
