"""Which value of which row the server complains about, in the words of its messages (pure)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

# A message may show the value before the column, and a value may hold such words: the last count.
_COLUMN: Final = re.compile(r".*\bcolumn '(.+)'", re.IGNORECASE | re.DOTALL)
_ROW: Final = re.compile(r".*\bat row (\d+)", re.IGNORECASE | re.DOTALL)


class Complaint(NamedTuple):
    """What an error or a warning is about.

    Attributes:
        column: its name; empty where the message names none.
        row: counted from 1 in the statement's order; 0 where the message names none.
    """

    column: str
    row: int


def read_complaint(text: str) -> Complaint:
    """Read a message such as ``Data too long for column 'note' at row 3``."""
    column, row = _COLUMN.match(text), _ROW.match(text)
    return Complaint(column[1] if column else "", int(row[1]) if row else 0)
