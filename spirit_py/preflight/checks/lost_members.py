"""Members taken away from an ENUM or SET must not be in use (R10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.mysql.values.duplicates import row_name
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.preflight.scan import SECONDS, ScanUnfinished, first_row
from spirit_py.sql import quote_identifier, string_literal

if TYPE_CHECKING:
    from spirit_py.table.mapping import ColumnPair, TableMapping

_KINDS = frozenset({"enum", "set"})


def check(context: PreflightContext) -> Findings:
    """Name a row that holds a member which the new list lacks.

    Members that only move are converted by their text, as a native ALTER converts them.
    """
    mapping = context.mapping
    for pair in mapping.pairs:
        if pair.old.data_type in _KINDS and pair.new.data_type in _KINDS:
            kept = {member.casefold() for member in pair.new.members}
            gone = [member for member in pair.old.members if member.casefold() not in kept]
            if gone:
                yield from _in_use(context, mapping, pair, gone)


def _in_use(
    context: PreflightContext, mapping: TableMapping, pair: ColumnPair, gone: list[str]
) -> Findings:
    column, key = quote_identifier(pair.old.name), mapping.key.columns
    literals = [string_literal(member) for member in gone]
    if pair.old.data_type == "enum":
        condition = f"{column} IN ({', '.join(literals)})"
    else:
        condition = " OR ".join(f"FIND_IN_SET({literal}, {column})" for literal in literals)
    try:
        row = first_row(context, condition, (*key, pair.old.name))
    except ScanUnfinished:
        yield warn(
            f"whether column {pair.old.name} still uses a member that goes away was not known"
            f" after {SECONDS} s; the copy would stop at such a row"
        )
        return
    if row is not None:
        yield refuse(
            f"column {pair.old.name} loses members that are in use: {row[-1]!r} in the row with"
            f" {row_name(key, row[:-1])}",
            "keep the members, or change these rows first",
        )
