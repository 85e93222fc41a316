"""The server's errors and warnings for values that cannot be stored unchanged (R10).

Errors of a strict session for a row, one list for copy, feed and checksum; not those of a statement
whichever row it carries, such as 1136 and 1364. Notes about generated columns mean no lost value,
but may crowd others out of the limited list.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, NumbersUsedUp, ServerFault
from spirit_py.mysql.faults import DUPLICATE_ENTRY
from spirit_py.table.keys import INTEGERS
from spirit_py.table.new_columns import numbered

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping

# A message may show the value before the column, and a value may hold such words: the last count.
_COLUMN: Final = re.compile(r".*\bcolumn '(.+)'", re.IGNORECASE | re.DOTALL)
_ROW: Final = re.compile(r".*\bat row (\d+)", re.IGNORECASE | re.DOTALL)


#: For several rows. For one the largest is given out again, which REPLACE does not write over.
_NO_NUMBER: Final = frozenset({167, 1467})


def numbers_used_up(fault: ServerFault, mapping: TableMapping) -> NumbersUsedUp | None:
    """Return the error, if that is the fault of a row that was written."""
    column = numbered(mapping)
    if column is None or column.data_type not in INTEGERS:
        return None
    again = fault.code == DUPLICATE_ENTRY and f"'{column.largest}" in fault.text
    if fault.code not in _NO_NUMBER and not again:
        return None
    return NumbersUsedUp(
        f"the new column {column.name} of {mapping.source.full_name} has no number left for a row:"
        f" {fault.text} (error {fault.code})",
        hint="give it a larger type, such as BIGINT UNSIGNED, or run the ALTER natively",
    )


class Complaint(NamedTuple):
    """What an error or warning is about: column or empty; row of the statement from 1, or 0."""

    column: str
    row: int


def read_complaint(text: str) -> Complaint:
    """Read a message such as ``Data too long for column 'note' at row 3``."""
    column, row = _COLUMN.match(text), _ROW.match(text)
    return Complaint(column[1] if column else "", int(row[1]) if row else 0)


NULL_REFUSED: Final = 1048
DEPRECATED: Final = 1287
"""A note about some old character sets' introducers; the value is what was meant."""

VALUE_ERRORS: Final = frozenset(
    {
        NULL_REFUSED,
        1138,  # NULL where it may not be, as ALTER TABLE says it
        1263,  # NULL became the default, as LOAD DATA says it
        1264,  # out of range
        1265,  # data truncated
        1292,  # truncated incorrect value
        1300,  # text of a literal that its character set cannot have
        1365,  # division by zero
        1366,  # incorrect value for a column
        1367,  # illegal value found during parsing
        1406,  # data too long
        1411,  # incorrect value for a function
        1416,  # not a geometry
        1441,  # date out of range in an expression, before 9.x
        1526,  # no partition for the value
        1690,  # out of range in an expression
        1748,  # row outside of the partitions that were named
        3037,  # not a geometry, in a function
        *(3140, 3141),  # invalid JSON, also in a function
        3144,  # JSON of binary data
        3147,  # value that cannot be JSON
        3150,  # document too large
        3151,  # key of an object too long
        3156,  # JSON value that the type does not take
        3157,  # document too deep
        *(3616, 3617),  # longitude, latitude out of range, in a function
        3643,  # SRID is not the column's
        3669,  # out of range for a column of JSON_TABLE
        3673,  # NULL in a geometry
        *(3731, 3732),  # longitude, latitude out of range in a geometry
        *(3751, 3752),  # data truncated, out of range for a functional index
        3819,  # check constraint
        3854,  # string that the character set cannot hold
        *(3903, 3904),  # JSON value that a functional index does not take, out of its range
        *(3905, 3906),  # too many, too long values for a multi-valued index
        3907,  # data too long for a functional index
        *(6136, 6138),  # not a vector, also in a function
        6137,  # vector too long
        6527,  # date out of range in an expression
    }
)
MOST_WARNINGS: Final = 65_535
"""``max_error_count`` of our sessions, where the account may set it; nothing counts further."""


def telling(session: SqlSession, computed: Collection[str]) -> list[tuple[str, int, str]]:
    """Return the last warnings, but for notes on ``computed``; MigrationFailure if cut short."""
    if not (count := session.warning_count):
        return []
    said = session.warnings()
    found = [one for one in said if not _about(one, computed)]
    if not found and (len(said) < count or len(said) >= MOST_WARNINGS):
        text = f"; the first: {said[0][2]}" if said else ""
        raise MigrationFailure(
            f"a statement gave more warnings than the server keeps ({len(said)} of {count} were"
            f" read{text}), so that a changed value would not be seen",
            hint="change the column types in one migration, and the generated columns that are"
            " rounded in another; or lower --target-chunk-time",
            error_code=ErrorCode.VALUE_LOST,
        )
    return found


def _about(warning: tuple[str, int, str], computed: Collection[str]) -> bool:
    level, _, text = warning
    return level == "Note" and read_complaint(text).column.lower() in computed
