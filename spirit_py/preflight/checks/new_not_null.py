"""Columns that become NOT NULL must hold no NULL (R10)."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse, refuse_row
from spirit_py.sql import quote_identifier
from spirit_py.table.conversions import is_timestamp


def check(context: PreflightContext) -> Findings:
    """Name a row with NULL for each column that becomes NOT NULL."""
    implicit = not context.facts.is_on("explicit_defaults_for_timestamp")
    for pair in context.mapping.pairs:
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
            name = pair.old.name
            yield from refuse_row(
                context,
                name,
                f"{quote_identifier(name)} IS NULL",
                doubt=f"column {name}, which becomes NOT NULL, holds NULL",
                cause=f"column {name} becomes NOT NULL and is NULL",
                remedy="give these rows a value first",
            )
