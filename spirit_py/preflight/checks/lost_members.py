"""Members taken away from an ENUM or SET must not be in use (R10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.preflight.check import refuse_row
from spirit_py.sql import quote_identifier, string_literal

if TYPE_CHECKING:
    from spirit_py.preflight.check import Findings, PreflightContext
    from spirit_py.table.schema import Column

_KINDS = frozenset({"enum", "set"})


def check(context: PreflightContext) -> Findings:
    """Name a row that holds a member which the new list lacks.

    Members that only move are converted by their text, as a native ALTER converts them.
    """
    for pair in context.mapping.pairs:
        if pair.old.data_type in _KINDS and pair.new.data_type in _KINDS:
            kept = {member.casefold() for member in pair.new.members}
            gone = [member for member in pair.old.members if member.casefold() not in kept]
            if gone:
                yield from refuse_row(
                    context,
                    pair.old.name,
                    _holds(pair.old, gone),
                    doubt=f"column {pair.old.name} still uses a member that goes away",
                    cause=f"column {pair.old.name} loses members that are in use",
                    remedy="keep the members, or change these rows first",
                )


def _holds(column: Column, members: list[str]) -> str:
    name, literals = quote_identifier(column.name), [string_literal(one) for one in members]
    if column.data_type == "enum":
        return f"{name} IN ({', '.join(literals)})"
    return " OR ".join(f"FIND_IN_SET({literal}, {name})" for literal in literals)
