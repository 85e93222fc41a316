"""SQL text: the one quoting function for names, the one for strings, and the audited raw type.

Names go through :func:`quote_identifier`, values through parameters of the driver or
through :func:`string_literal` and the renderer of :mod:`spirit_py.table.values`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


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
