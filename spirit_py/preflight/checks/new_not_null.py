"""Columns that become NOT NULL must hold no NULL (R10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.mysql.values.duplicates import row_name
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.preflight.scan import SECONDS, ScanUnfinished, first_row
from spirit_py.sql import quote_identifier
from spirit_py.table.conversions import is_timestamp

if TYPE_CHECKING:
    from spirit_py.table.mapping import ColumnPair, TableMapping


def check(context: PreflightContext) -> Findings:
    """Name a row with NULL for each column that becomes NOT NULL."""
    mapping = context.mapping
    implicit = not context.facts.is_on("explicit_defaults_for_timestamp")
    for pair in mapping.pairs:
        if not pair.old.nullable or pair.new.nullable or pair.new.auto_increment:
            continue
        if implicit and is_timestamp(pair.new):
            yield refuse(
                f"column {pair.new.name} becomes TIMESTAMP NOT NULL while"
                " explicit_defaults_for_timestamp is OFF: the server would put the present time"
                " in place of NULL",
                "SET PERSIST explicit_defaults_for_timestamp = ON",
            )
        else:
            yield from _nulls(context, mapping, pair)


def _nulls(context: PreflightContext, mapping: TableMapping, pair: ColumnPair) -> Findings:
    key = mapping.key.columns
    try:
        row = first_row(context, f"{quote_identifier(pair.old.name)} IS NULL", key)
    except ScanUnfinished:
        yield warn(
            f"whether column {pair.old.name} holds NULL was not known after {SECONDS} s; it"
            " becomes NOT NULL, and the copy would stop at such a row"
        )
        return
    if row is not None:
        yield refuse(
            f"column {pair.old.name} becomes NOT NULL and is NULL in the row with"
            f" {row_name(key, row)}",
            "give these rows a value first",
        )
