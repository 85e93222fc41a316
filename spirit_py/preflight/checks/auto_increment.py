"""A nullable column that becomes AUTO_INCREMENT would get numbers in place of NULL."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn


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
    carried = {pair.new.name for pair in mapping.pairs}
    for column in mapping.target.columns:
        if column.auto_increment and column.name not in carried:
            yield warn(
                f"the new column {column.name} is numbered in the order in which rows are copied,"
                " not in the order of the primary key",
            )
