"""SQL text: the one quoting function for names, the one for strings, and the audited raw type.

Names go through :func:`quote_identifier`, values through parameters of the driver or
through :func:`string_literal` and the renderer of :mod:`spirit_py.table.values`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


#: A byte that was read as no letter (``surrogateescape``).
_NO_LETTER = re.compile("[\udc80-\udcff]")


class EndsPacket(bytes):
    """A statement that must be the last one of its packet: the server reads on behind its end."""

    __slots__ = ()


def quote_identifier(name: str) -> str:
    """Quote one identifier with backquotes (MySQL manual 11.2, Schema Object Names)."""
    return "`" + name.replace("`", "``") + "`"


def quote_table(schema: str, table: str) -> str:
    """Quote a table name together with its schema."""
    return f"{quote_identifier(schema)}.{quote_identifier(table)}"


def identifier_list(names: Iterable[str]) -> str:
    """Quote names and join them with a comma and a space."""
    return ", ".join(quote_identifier(name) for name in names)


def is_like(text: str, pattern: str) -> bool:
    r"""Return whether a text matches a pattern of the server; ``\_`` and ``\%`` are letters."""
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    regex = ({"%": ".*", "_": "."}.get(one, re.escape(one.removeprefix("\\"))) for one in pieces)
    return re.fullmatch("".join(regex), text, re.DOTALL) is not None


def is_text(sql: str) -> bool:
    """Return whether a text can be sent: it was read without bytes that are no letters."""
    return _NO_LETTER.search(sql) is None


def comment_literal(text: str) -> str:
    """Quote a fixed text of ours for ``COMMENT=``, where DDL takes no hexadecimal literal."""
    return "'" + text.replace("'", "''") + "'"


def binary_literal(value: bytes) -> str:
    """Render bytes as a hexadecimal literal, whatever the session's character set."""
    return f"X'{value.hex()}'"


def string_literal(value: str) -> str:
    """Render text as a utf8mb4 literal in hexadecimal, which no sql_mode reads otherwise."""
    return f"_utf8mb4 X'{value.encode('utf-8').hex()}'"


def node_types(name: str, form: str = "{}") -> str:
    """Render the types of all nodes of a JSON document, as an array for ``form``.

    The order is fixed (measured on 9.7): the document, members of objects, elements of arrays.
    """
    types = form.format("JSON_ARRAYAGG(JSON_TYPE(`n`.`v`))")
    return (
        f"(SELECT {types} FROM JSON_TABLE("
        f"JSON_EXTRACT({name}, '$', '$**.*', '$**[*]'),"
        " '$[*]' COLUMNS (`v` JSON PATH '$')) AS `n`)"
    )


SHORT: Final = 128
"""Hexadecimal digits of a literal that stays where it is."""
_FRAME: Final = len("SET @spirit_py_9999 = CONCAT(@spirit_py_9999, X'')")
_TOKEN: Final = re.compile(
    r"(?:_(?P<charset>\w+) )?X'(?P<digits>[0-9A-Fa-f]*)'|'(?:[^'\\]|\\.|'')*'|[()]", re.DOTALL
)


class PiecedRow:
    """One row, with its large literals taken out; ``largest`` is in bytes.

    They go to the server in pieces, into user variables (R19), each limited to max_allowed_packet
    too. These hold bytes: text gets its character set back by CONVERT with USING.
    Plain binary ones only where they are a column's value: in JSON the literal decides the type.
    """

    def __init__(self, row: str) -> None:
        self._depth = 0
        self._digits: list[str] = []
        self.text = _TOKEN.sub(self._replaced, row)
        self.largest = max((len(digits) // 2 for digits in self._digits), default=0)

    def _replaced(self, token: re.Match[str]) -> str:
        whole = token[0]
        if whole in "()":
            self._depth += 1 if whole == "(" else -1
            return whole
        charset, digits = token["charset"], token["digits"]
        if digits is None or len(digits) <= SHORT or (charset is None and self._depth != 1):
            return whole
        self._digits.append(digits)
        name = f"@spirit_py_{len(self._digits)}"
        return name if charset is None else f"CONVERT({name} USING {charset})"

    def fill(self, room: int) -> Iterator[str]:
        """Yield the statements, of ``room`` bytes at most, that fill the variables."""
        step = max(2, (room - _FRAME) // 2 * 2)
        for number, digits in enumerate(self._digits, 1):
            name = f"@spirit_py_{number}"
            yield f"SET {name} = X'{digits[:step]}'"
            for at in range(step, len(digits), step):
                yield f"SET {name} = CONCAT({name}, X'{digits[at : at + step]}')"

    def forget(self) -> str:
        """Return the statement that empties the variables."""
        names = (f"@spirit_py_{number}" for number in range(1, len(self._digits) + 1))
        return f"SET {', '.join(f'{name} = NULL' for name in names)}"
