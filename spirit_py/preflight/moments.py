"""New columns whose default reads both the clock and other columns of the row (R22)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.preflight.finding import warn
from spirit_py.table.moments import of_each_write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.preflight.context import PreflightContext
    from spirit_py.preflight.finding import Finding


def check(context: PreflightContext) -> Iterator[Finding]:
    """Return that such a default is evaluated when a row is written, not at one moment for all."""
    if context.mapping is None:
        return
    for column in of_each_write(context.mapping):
        yield warn(
            f"the default of new column {column.name}, ({column.default}), reads the time and"
            " other columns: each row gets it as of the moment at which the row is written",
            "a native ALTER takes one moment for all rows; where that matters add the column"
            " without it, fill it as you mean it, and set the default afterwards",
        )
