"""A column that becomes AUTO_INCREMENT: a NULL would get a number, and a 0 natively does."""

from __future__ import annotations

import contextlib
from typing import Final

from spirit_py.errors import ServerFault
from spirit_py.preflight.check import Findings, PreflightContext, first_row, refuse, warn
from spirit_py.sql import quote_identifier

_KEEPS: Final = "NO_AUTO_VALUE_ON_ZERO"
#: A warning is not worth a long search.
_SECONDS: Final = 1.0


def check(context: PreflightContext) -> Findings:
    """Refuse to number NULLs; warn that a new column is numbered in the order of the copy."""
    mapping = context.mapping
    for pair in mapping.pairs:
        if pair.new.auto_increment and pair.old.nullable:
            yield refuse(
                f"column {pair.old.name} may be NULL and becomes AUTO_INCREMENT: each NULL would"
                " silently get a number",
                "make the column NOT NULL first",
            )
    yield from _zeros(context)
    carried = {pair.new.name for pair in mapping.pairs}
    for column in mapping.target.columns:
        if column.auto_increment and column.name not in carried:
            yield warn(
                f"the new column {column.name} is numbered in the order in which rows are copied,"
                " not in the order of the primary key",
            )


def _zeros(context: PreflightContext) -> Findings:
    """Warn of a 0 that becomes a number of its own in a native ALTER; here it is kept (R10)."""
    if _KEEPS in context.facts.sql_mode.upper():
        return
    for pair in context.mapping.pairs:
        if not pair.new.auto_increment or pair.old.auto_increment:
            continue
        zero = f"{quote_identifier(pair.old.name)} = 0"
        with contextlib.suppress(ServerFault):
            if first_row(context, zero, (pair.old.name,), seconds=_SECONDS):
                yield warn(
                    f"column {pair.old.name} becomes AUTO_INCREMENT, and a row keeps its 0: a"
                    f" native ALTER without {_KEEPS} would number that row afresh",
                )
