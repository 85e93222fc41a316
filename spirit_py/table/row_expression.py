"""An expression over a row, as the server writes it: which rows are kept, above all (pure).

The server judges every row, in the statement that reads it: the copy and the comparison in the
source, the applier among staged row images. What is not true, NULL too, is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass
from spirit_py.sql import string_literal
from spirit_py.table.conversions import is_timestamp

if TYPE_CHECKING:
    from spirit_py.table.schema import Column

#: A string, whose content is nobody's name, or a quoted name; as SHOW CREATE TABLE has them.
_TEXT: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|`(?P<name>(?:[^`]|``)+)`", re.DOTALL)


_OFFSET: Final = re.compile(r":\d\d(?:\.\d+)?[+-]\d\d?:\d\d'$")


@dataclass(frozen=True, kw_only=True)
class RowExpression:
    """An expression over ``columns`` of the source, whose names it has in backquotes.

    A TIMESTAMP is compared as the server's ``time_zone`` shows it, whatever the session's is.
    """

    expression: str
    columns: tuple[Column, ...]
    time_zone: str

    def condition(self, table: str = "") -> str:
        """Render whether it is true, which is never NULL; ``table``, quoted, has the columns."""
        return f"(({self.value(table)}) IS TRUE)"

    def value(self, table: str = "") -> str:
        """Render its value."""
        zoned = {column.name.lower() for column in self.columns if is_timestamp(column)}
        zone = string_literal(self.time_zone)

        def qualified(found: re.Match[str]) -> str:
            if found["name"] is None:
                return found[0]
            name = f"{table}.{found[0]}" if table else found[0]
            moved = found["name"].replace("``", "`").lower() in zoned
            return f"CONVERT_TZ({name}, @@SESSION.time_zone, {zone})" if moved else name

        return _TEXT.sub(qualified, self.expression)


def names_in(expression: str) -> frozenset[str]:
    """Return the names in backquotes of an expression, in lower case; not those within strings."""
    found = (one["name"] for one in _TEXT.finditer(expression))
    return frozenset(name.replace("``", "`").lower() for name in found if name)


def why_zoned(expression: str) -> str:
    """Return what of an expression another session's time zone would change; empty for nothing."""
    if re.search(r"\bfrom_unixtime\(", _TEXT.sub(" ", expression), re.IGNORECASE):
        return "FROM_UNIXTIME depends on the session's time zone"
    strings = (one[0] for one in _TEXT.finditer(expression) if one["name"] is None)
    offset = next(filter(_OFFSET.search, strings), "")
    return f"the offset of {offset} depends on the session's time zone" if offset else ""
