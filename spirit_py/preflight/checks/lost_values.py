"""Values in the rows that the new definition does not take (R10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.duplicates import row_name
from spirit_py.mysql.endpoint import how_to_set, service_of
from spirit_py.mysql.evaluation import STRICT_MODES
from spirit_py.mysql.faults import STATEMENT_TIMED_OUT
from spirit_py.preflight.check import SECONDS, Findings, PreflightContext, first_row, refuse, warn
from spirit_py.sql import quote_identifier, quote_table, string_literal
from spirit_py.table import conversions
from spirit_py.table.schema import type_sql

if TYPE_CHECKING:
    from spirit_py.table.schema import Column

_KINDS: Final = frozenset({"enum", "set"})
_EXPLICIT: Final = "explicit_defaults_for_timestamp"


def converted_values(context: PreflightContext) -> Findings:
    """Warn of each conversion that makes a value another one without an error, as an ALTER does."""
    for pair in context.mapping.pairs:
        old, new = pair.old, pair.new
        if conversions.rounds(old, new):
            yield warn(
                f"column {old.name} is converted from {old.column_type} to {new.column_type}, as by"
                " a native ALTER: a value that is more exact is rounded or cut without an error",
                "where that is not meant, choose a type that holds such values",
            )
        if conversions.takes_numbers(old, new):
            yield warn(
                f"column {old.name} becomes {new.data_type.upper()}, as by a native ALTER: a number"
                " that is no member is taken as the index or the bit mask of members",
                f"where that is not meant, change such values of {old.name} first",
            )


def lost_members(context: PreflightContext) -> Findings:
    """Name a row that holds a member which the new list lacks."""
    for pair in context.mapping.pairs:
        kinds = {pair.old.data_type, pair.new.data_type}
        if kinds <= _KINDS and (gone := conversions.lost_members(pair.old, pair.new)):
            yield from _refuse_row(
                context,
                pair.old.name,
                _holds(pair.old, gone),
                doubt=f"column {pair.old.name} still uses a member that the ALTER removes",
                cause=f"column {pair.old.name} loses members that are in use",
                remedy="keep the members, or change these rows first",
            )


def _holds(column: Column, members: list[str]) -> str:
    name, literals = quote_identifier(column.name), [string_literal(one) for one in members]
    if column.data_type == "enum":
        return f"{name} IN ({', '.join(literals)})"
    return " OR ".join(f"FIND_IN_SET({literal}, {name})" for literal in literals)


def new_not_null(context: PreflightContext) -> Findings:
    """Name a row with NULL for each column that becomes NOT NULL."""
    for pair in context.mapping.pairs:
        if not pair.old.nullable or pair.new.nullable or pair.new.auto_increment:
            continue
        if context.facts.null_is_now and conversions.null_becomes_now(pair.old, pair.new):
            yield refuse(
                f"column {pair.new.name} becomes TIMESTAMP NOT NULL while"
                " explicit_defaults_for_timestamp is OFF: the server would replace"
                " NULL by the current time",
                how_to_set(service_of(context.session, context.facts), _EXPLICIT, "ON"),
            )
        else:
            name = pair.old.name
            yield from _refuse_row(
                context,
                name,
                f"{quote_identifier(name)} IS NULL",
                doubt=f"column {name}, which becomes NOT NULL, holds NULL",
                cause=f"column {name} becomes NOT NULL and is NULL",
                remedy="give these rows a value first",
            )


_TWICE: Final = 1291
_PROBE: Final = "_spirit_py_members"


def member_twice(context: PreflightContext) -> Findings:
    """Refuse a carried ENUM or SET that has a member twice.

    Strict modes refuse its definition, and ``INSERT ... SELECT`` makes the second one the first.
    """
    modes = context.facts.sql_mode.upper().split(",")
    if any(mode in modes for mode in STRICT_MODES):
        return
    for pair in context.mapping.pairs:
        if pair.new.data_type in _KINDS and _has_one_twice(context, pair.new):
            yield refuse(
                f"column {pair.new.name} has a member twice: a row that holds the second one cannot"
                " be copied as it is",
                f"name each member once in the same ALTER, with MODIFY {pair.new.name}: both become"
                " that member, as by a native ALTER; or run the ALTER natively",
            )


def _has_one_twice(context: PreflightContext, column: Column) -> bool:
    # By its type: the new table of a move is on another server.
    probe = quote_table(context.schema, _PROBE)
    try:
        context.session.execute(
            f"CREATE TEMPORARY TABLE {probe} (n INT AUTO_INCREMENT PRIMARY KEY,"
            f" member {type_sql(column)}) ENGINE=InnoDB"
        )
    except ServerFault as fault:
        if fault.code != _TWICE:
            raise
        return True
    context.session.execute(f"DROP TEMPORARY TABLE {probe}")
    return False


def _refuse_row(
    context: PreflightContext, column: str, condition: str, *, doubt: str, cause: str, remedy: str
) -> Findings:
    key = context.mapping.key.columns
    context.check_stop()
    try:
        row = first_row(context, condition, (*key, column))
    except ServerFault as error:
        if error.code != STATEMENT_TIMED_OUT:
            raise
        yield warn(
            f"whether {doubt} was not known after {SECONDS} s; the copy would stop at such a row"
        )
        return
    if row is not None:
        value = "" if row[-1] is None else f": {row[-1]!r}"
        yield refuse(f"{cause}{value} in the row with {row_name(key, row[:-1])}", remedy)
