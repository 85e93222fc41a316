"""Patterns of tables: ``shop_%.orders``, as LIKE reads each of its two parts (pure).

In a part without quotes ``%`` stands for any text and ``_`` for any character; a backslash before
one of them takes that away. A part in backquotes is a name, taken as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spirit_py.errors import UsageFault

_PART: Final = r"(?:`((?:[^`]|``)+)`|([^.`]+))"
_PATTERN: Final = re.compile(rf"(?:{_PART}\.)?{_PART}")


@dataclass(frozen=True)
class NamePattern:
    """One part of a pattern.

    Attributes:
        text: a pattern of LIKE, or the name itself.
        exact: it is the name itself.
    """

    text: str
    exact: bool = False

    @property
    def wild(self) -> bool:
        """Whether names that differ may match."""
        return not self.exact and "%" in re.sub(r"\\.", "", self.text)

    @property
    def operator(self) -> str:
        """The operator of SQL that compares a name with :attr:`text`."""
        return "=" if self.exact else "LIKE"


@dataclass(frozen=True)
class TablePattern:
    """A pattern of schema and table.

    Attributes:
        given: as the operator wrote it.
    """

    given: str
    schema: NamePattern
    table: NamePattern

    @property
    def condition(self) -> str:
        """The condition on a row of ``information_schema.TABLES``, with two parameters."""
        schema, table = self.schema.operator, self.table.operator
        return f"(TABLE_SCHEMA {schema} %s AND TABLE_NAME {table} %s)"

    @property
    def parameters(self) -> tuple[str, str]:
        """The parameters of :attr:`condition`."""
        return self.schema.text, self.table.text


def read_pattern(text: str, schema: str) -> TablePattern:
    """Read a pattern.

    Args:
        schema: that of ``--database``, for a pattern without a schema; empty for none.

    Raises:
        UsageFault: it is no pattern, or has no schema.
    """
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise UsageFault(
            f"{text!r} is no pattern of tables",
            hint="write for instance 'shop_%.orders'; a name with a dot or a backquote goes in"
            " backquotes",
        )
    quoted, plain, quoted_table, plain_table = found.groups()
    if quoted is None and plain is None:
        if not schema:
            raise UsageFault(
                f"the pattern {text!r} names no schema",
                hint="write for instance 'shop_%.orders', or add --database",
            )
        of_schema = NamePattern(schema, exact=True)
    else:
        of_schema = _part(quoted, plain)
    return TablePattern(text, of_schema, _part(quoted_table, plain_table))


def _part(quoted: str | None, plain: str | None) -> NamePattern:
    if quoted is not None:
        return NamePattern(quoted.replace("``", "`"), exact=True)
    return NamePattern(plain or "")
