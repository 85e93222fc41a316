"""Which table it is, whatever it is called: InnoDB's number of it (R24).

A number is given to one table only, and RENAME TABLE and a restart leave it as it is. A table that
is made anew under the name of another one has another number, as has one that was rebuilt. Each
partition has a number of its own, so that a table has several; as long as one of them is the
same, it is the same table.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.contracts import SqlSession

Identity: TypeAlias = frozenset[int]
"""The numbers of one table; empty where there is none, or where it cannot be told from others."""

# The catalogue shows names as InnoDB keeps them: letters outside of ASCII in a code of their own.
_NUMBERS: Final = """
SELECT NAME, TABLE_ID FROM information_schema.INNODB_TABLES WHERE NAME LIKE %s ESCAPE '|'"""
_PLAIN: Final = re.compile(r"[0-9A-Za-z_]")
_CODED: Final = r"@(?:[0-9a-f]{4}|[0-9A-Za-z@]{2})"
_PARTITION: Final = r"(?:#[pP]#.*)?"


def identity(session: SqlSession, schema: str, table: str) -> Identity:
    """Give the numbers of a table, named as the server keeps it.

    Two names that differ in letters outside of ASCII alone may look alike: then the answer is
    empty, which proves nothing.

    Raises:
        ServerFault: also without the privilege PROCESS.
    """
    like = "/".join(_like(name) for name in (schema, table)) + "%"
    wanted = re.compile(
        "(" + "/".join(_pattern(name) for name in (schema, table)) + ")" + _PARTITION
    )
    found: dict[str, set[int]] = {}
    for name, number in session.query(_NUMBERS, (like,)):
        if matched := wanted.fullmatch(str(name)):
            found.setdefault(matched[1], set()).add(int(number))
    return frozenset(found.popitem()[1]) if len(found) == 1 else frozenset()


def is_one_of(session: SqlSession, schema: str, table: str, numbers: Collection[int]) -> bool:
    """Tell whether a table is there and is the one with these numbers."""
    return bool(numbers) and not identity(session, schema, table).isdisjoint(numbers)


def drop_if(session: SqlSession, schema: str, table: str, numbers: Collection[int]) -> bool:
    """Drop a table if it is the one with these numbers; False where it is another one's."""
    if not is_one_of(session, schema, table, numbers):
        return False
    session.execute(f"DROP TABLE IF EXISTS {quote_table(schema, table)}")
    return True


def _like(name: str) -> str:
    """Give what LIKE finds a name by, and perhaps others."""
    return "".join("|_" if c == "_" else c if _PLAIN.match(c) else "@%" for c in name)


def _pattern(name: str) -> str:
    """Give what exactly this name can be kept as."""
    return "".join(
        c if _PLAIN.match(c) else f"@{ord(c):04x}" if c.isascii() else _CODED for c in name
    )
