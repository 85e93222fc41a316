"""Values that a native ALTER would store otherwise (R10, R22)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.duplicates import row_name
from spirit_py.mysql.evaluation import STRICT_MODES, ZERO_MODES
from spirit_py.preflight.check import Findings, PreflightContext, first_row, refuse, warn
from spirit_py.preflight.checks.kept_rows import share_written
from spirit_py.sql import quote_identifier
from spirit_py.table.expressions import column_names, evaluated_expressions
from spirit_py.table.keys import INTEGERS
from spirit_py.table.new_columns import needs_fill, numbered, of_each_write
from spirit_py.units import human_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.table.mapping import TableMapping

_KEEPS: Final = "NO_AUTO_VALUE_ON_ZERO"
_SECONDS: Final = 1.0


def auto_increment(context: PreflightContext) -> Findings:
    """Refuse to number the NULLs of a column that becomes AUTO_INCREMENT; warn of its order.

    And of one that is AUTO_INCREMENT no more: MODIFY has to repeat what is to stay. Refuse a new
    one that is too small: an INSERT ... SELECT reserves 1, 2, 4, ... numbers, and leaves the rest.
    """
    mapping = context.mapping
    for pair in mapping.pairs:
        if pair.new.auto_increment and pair.old.nullable:
            yield refuse(
                f"column {pair.old.name} may be NULL and becomes AUTO_INCREMENT: each NULL would"
                " silently get a number",
                "make the column NOT NULL first",
            )
        has_none = not pair.new.nullable and pair.new.default is None
        if pair.old.auto_increment and not pair.new.auto_increment and has_none:
            yield warn(
                f"column {pair.new.name} is AUTO_INCREMENT no more, and has no default: an INSERT"
                " without it fails, or gets 0",
                "where that is not meant, write AUTO_INCREMENT into its definition: MODIFY and"
                " CHANGE drop what they do not repeat, as UNSIGNED",
            )
    yield from _zeros(context)
    if (column := numbered(mapping)) is None:
        return
    rows = int(mapping.source.estimated_rows * share_written(context))
    if column.data_type in INTEGERS and 2 * rows > column.largest:
        yield refuse(
            f"the new column {column.name} has numbers up to {column.largest}, and about"
            f" {human_count(rows)} rows are numbered: a copy uses up to two numbers for a row, and"
            " one more for each change",
            "give it a larger type, such as BIGINT UNSIGNED, or run the ALTER natively",
        )
    yield warn(
        f"the new column {column.name} is numbered in the order in which rows are copied, not in"
        " the order of the primary key, and with gaps: up to two numbers are used for a row, and"
        " one more for each change meanwhile"
    )


def _zeros(context: PreflightContext) -> Findings:
    """Warn of a 0 that a native ALTER would number afresh; here it is kept (R10)."""
    if _KEEPS in context.facts.sql_mode.upper():
        return
    for pair in context.mapping.pairs:
        if not pair.new.auto_increment or pair.old.auto_increment:
            continue
        zero = f"{quote_identifier(pair.old.name)} = 0"
        with contextlib.suppress(ServerFault):
            if first_row(context, zero, (pair.old.name,), seconds=_SECONDS):
                yield warn(
                    f"column {pair.old.name} becomes AUTO_INCREMENT, and a row keeps its"
                    f" 0: a native ALTER without {_KEEPS} would give that row a new number"
                )


def clock_defaults(context: PreflightContext) -> Findings:
    """Warn of new columns whose default reads the clock or the session, and other columns."""
    for column in of_each_write(context.mapping):
        yield warn(
            f"the default of new column {column.name}, ({column.default}), reads the time or the"
            " session, and other columns: each row gets it as of the moment at which the row is"
            " written, in the session that writes it",
            "a native ALTER evaluates it once for all rows; where that matters add"
            " the column without it, fill it as you mean it, and set the default afterwards",
        )


def padded_chars(context: PreflightContext) -> Findings:
    """Refuse PAD_CHAR_TO_FULL_LENGTH where a CHAR is converted, or read by an expression."""
    if "PAD_CHAR_TO_FULL_LENGTH" not in context.facts.sql_mode.upper():
        return
    for name in dict.fromkeys(_depending(context.mapping)):
        yield refuse(
            f"sql_mode has PAD_CHAR_TO_FULL_LENGTH and CHAR column {name} is converted"
            " or read by an expression: a native ALTER would store the blanks that fill it up",
            "name modes without PAD_CHAR_TO_FULL_LENGTH with --sql-mode, or run the ALTER natively",
        )


def _depending(mapping: TableMapping) -> Iterator[str]:
    for pair in mapping.pairs:
        if pair.old.data_type == "char" and pair.new.data_type != "char":
            yield pair.old.name
    fresh = {column.name for column in mapping.target.columns} - set(mapping.insert_names)
    for text in evaluated_expressions(mapping.target, fresh):
        for name in column_names(text):
            if mapping.target.has_column(name) and mapping.target.column(name).data_type == "char":
                yield name


_DATES: Final = frozenset({"date", "datetime", "timestamp"})


def zero_dates(context: PreflightContext) -> Findings:
    """Refuse new zero dates as a native ALTER does; warn of those that it might refuse to copy."""
    modes = context.facts.sql_mode.upper().split(",")
    if not any(mode in modes for mode in STRICT_MODES):
        return
    if "NO_ZERO_DATE" in modes:
        yield from _new_zeros(context)
    if forbidding := [mode for mode in ZERO_MODES if mode in modes]:
        yield from _zeros_in_rows(context, " and ".join(forbidding))


def _new_zeros(context: PreflightContext) -> Findings:
    mapping = context.mapping
    for fill in mapping.fills:
        if (
            needs_fill(fill.column)
            and fill.column.data_type in _DATES
            and first_row(context, "TRUE", mapping.key.columns)
        ):
            yield refuse(
                f"new column {fill.column.name} is NOT NULL without a default, and its implicit"
                " value, the zero date, is forbidden by sql_mode (NO_ZERO_DATE)",
                "give the column a DEFAULT, or make it NULL; or allow the zero with"
                " --allow-zero-dates",
            )


def _zeros_in_rows(context: PreflightContext, modes: str) -> Findings:
    key = context.mapping.key.columns
    columns = [pair.old.name for pair in context.mapping.pairs if pair.old.data_type in _DATES]
    for name in columns:
        column = quote_identifier(name)
        zeros = f"(MONTH({column}) = 0 OR DAYOFMONTH({column}) = 0)"
        with contextlib.suppress(ServerFault):
            row = first_row(context, zeros, (*key, name), seconds=_SECONDS / len(columns))
            if row is not None:
                yield warn(
                    f"column {name} holds dates with zeros, which sql_mode forbids ({modes}):"
                    f" {row[-1]} in the row with {row_name(key, row[:-1])}; they are kept, where"
                    " a native ALTER with ALGORITHM=COPY would refuse them",
                    "--allow-zero-dates confirms that this is meant",
                )
