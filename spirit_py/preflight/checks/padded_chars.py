"""PAD_CHAR_TO_FULL_LENGTH: a native ALTER would store the padding blanks (R22)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.preflight.check import Findings, PreflightContext, refuse
from spirit_py.table.expressions import column_names, evaluated_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.table.mapping import TableMapping


def check(context: PreflightContext) -> Findings:
    """Refuse where written values depend on it: a CHAR is converted, or read by an expression."""
    if "PAD_CHAR_TO_FULL_LENGTH" not in context.facts.sql_mode.upper():
        return
    for name in dict.fromkeys(_depending(context.mapping)):
        yield refuse(
            f"sql_mode has PAD_CHAR_TO_FULL_LENGTH and CHAR column {name} is converted"
            " or read by an expression: a native ALTER would store the blanks that fill it up",
            "name modes without PAD_CHAR_TO_FULL_LENGTH with --sql-mode, or run the ALTER natively",
        )


def _depending(mapping: TableMapping) -> Iterator[str]:
    """Yield the CHAR columns whose blanks would be stored."""
    for pair in mapping.pairs:
        if pair.old.data_type == "char" and pair.new.data_type != "char":
            yield pair.old.name
    fresh = {column.name for column in mapping.target.columns} - set(mapping.insert_names)
    for text in evaluated_expressions(mapping.target, fresh):
        for name in column_names(text):
            if mapping.target.has_column(name) and mapping.target.column(name).data_type == "char":
                yield name
