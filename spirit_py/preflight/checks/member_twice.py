"""An ENUM or SET that has a member twice: ``INSERT ... SELECT`` makes the second one the first."""

from __future__ import annotations

from typing import Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.evaluation import STRICT_MODES
from spirit_py.preflight.check import Findings, PreflightContext, refuse
from spirit_py.sql import quote_identifier, quote_table

_MEMBERS: Final = frozenset({"enum", "set"})
_TWICE: Final = 1291
_PROBE: Final = "_spirit_py_members"


def check(context: PreflightContext) -> Findings:
    """Refuse a carried column that keeps such a member; strict modes refuse its definition."""
    modes = context.facts.sql_mode.upper().split(",")
    if any(mode in modes for mode in STRICT_MODES):
        return
    for pair in context.mapping.pairs:
        if pair.new.data_type in _MEMBERS and _has_one_twice(context, pair.new.name):
            yield refuse(
                f"column {pair.new.name} has a member twice: a row that holds the second one cannot"
                " be copied as it is",
                f"name each member once in the same ALTER, with MODIFY {pair.new.name}: both become"
                " that member, as by a native ALTER; or run the ALTER natively",
            )


def _has_one_twice(context: PreflightContext, column: str) -> bool:
    """Ask the server, which compares members by their collation, in the program's strict mode."""
    probe = quote_table(context.schema, _PROBE)
    new = quote_table(context.schema, context.names.new)
    try:
        context.session.execute(
            f"CREATE TEMPORARY TABLE {probe} (n INT AUTO_INCREMENT PRIMARY KEY)"
            f" SELECT {quote_identifier(column)} AS member FROM {new} LIMIT 0"
        )
    except ServerFault as fault:
        if fault.code != _TWICE:
            raise
        return True
    context.session.execute(f"DROP TEMPORARY TABLE {probe}")
    return False
