"""JSON documents carried to another server, where text alone would change their numbers (pure).

In a document's text an unsigned number, a DECIMAL and a date look like others; read again they
would be an INTEGER, a DOUBLE and a STRING. So the types of all nodes come beside the text, in
the order of :func:`spirit_py.checksum.render.node_types`, and what text cannot say is written as
SQL of that very type, in ``JSON_ARRAY`` and ``JSON_OBJECT``, as
:mod:`spirit_py.change.jsonb` does with documents in binary form.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from spirit_py.change.jsonb import sql_expression
from spirit_py.sql import string_literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: A type as JSON_TYPE names it; None for JSON's null.
Kind: TypeAlias = "str | None"

#: A whole number in JSON text is unsigned from here on, signed below (measured on 9.7).
_UNSIGNED_IN_TEXT: Final = 1 << 32
_TEMPORAL: Final = {"DATE": "DATE", "TIME": "TIME(6)", "DATETIME": "DATETIME(6)"}
_OPAQUE: Final = re.compile(r"base64:type(\d+):(.*)", re.DOTALL)
_OPAQUE_IN_BINARY: Final = 15
_IN_TEXT: Final = frozenset({None, "NULL", "BOOLEAN", "DOUBLE", "STRING", "ARRAY", "OBJECT"})


class _Number(str):
    """A number as the text has it."""

    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """An object's members, in their order."""


class _Node(NamedTuple):
    """A value as JSON text, or as SQL where text cannot say it."""

    text: str
    sql: str = ""

    @property
    def argument(self) -> str:
        """The value as an argument of JSON_ARRAY and JSON_OBJECT."""
        return self.sql or f"CAST({string_literal(self.text)} AS JSON)"


def document_sql(text: str, kinds: Sequence[Kind]) -> str:
    """Give an SQL expression of type JSON for a document.

    Args:
        text: the document as the server shows it.
        kinds: the types of all its nodes.

    Raises:
        ValueError: the two do not belong together.
    """
    tree = json.loads(text, parse_int=_Number, parse_float=_Number, object_pairs_hook=_Object)
    said = iter(kinds)
    root = next(said, "")
    below: dict[int, list[Kind]] = {}
    containers = list(_containers(tree))
    for of_objects in (True, False):
        for each in containers:
            if isinstance(each, _Object) == of_objects:
                below[id(each)] = [next(said, "") for _ in each]
    if next(said, None) is not None or "" in [root, *(k for ks in below.values() for k in ks)]:
        raise ValueError("the types of a JSON document are not those of its nodes")
    node = _node(tree, root, below)
    if not node.sql or isinstance(tree, list):
        return node.argument
    return f"JSON_EXTRACT(JSON_ARRAY({node.sql}), '$[0]')"


def _containers(value: Any) -> Iterator[list[Any]]:
    """List arrays and objects, each before what is in it."""
    if isinstance(value, list):
        yield value
        for item in value:
            yield from _containers(item[1] if isinstance(value, _Object) else item)


def _node(value: Any, kind: Kind, below: dict[int, list[Kind]]) -> _Node:
    """Render a value and what is in it."""
    if isinstance(value, _Object):
        keys = [key for key, _ in value]
        items = [_node(v, k, below) for (_, v), k in zip(value, below[id(value)], strict=True)]
        shown = ", ".join(f"{_json(k)}: {item.text}" for k, item in zip(keys, items, strict=True))
        pairs = (f"{string_literal(k)}, {i.argument}" for k, i in zip(keys, items, strict=True))
        sql = f"JSON_OBJECT({', '.join(pairs)})" if any(item.sql for item in items) else ""
        return _Node(f"{{{shown}}}", sql)
    if isinstance(value, list):
        items = [_node(v, k, below) for v, k in zip(value, below[id(value)], strict=True)]
        arguments = (item.argument for item in items)
        sql = f"JSON_ARRAY({', '.join(arguments)})" if any(item.sql for item in items) else ""
        return _Node(f"[{', '.join(item.text for item in items)}]", sql)
    return _Node(value if isinstance(value, _Number) else _json(value), _scalar_sql(value, kind))


def _json(value: Any) -> str:
    """Write a value other than a number as JSON."""
    return json.dumps(value, ensure_ascii=False)


def _scalar_sql(value: Any, kind: Kind) -> str:
    """Render a scalar that text cannot say; empty where text can."""
    if kind in _IN_TEXT:
        return ""
    if kind in {"INTEGER", "UNSIGNED INTEGER"}:
        signed = kind == "INTEGER"
        if signed == (int(value) < _UNSIGNED_IN_TEXT):
            return ""
        return f"CAST({value} AS {'' if signed else 'UN'}SIGNED)"
    if kind == "DECIMAL":
        digits, _, fraction = str(value).lstrip("-").partition(".")
        return f"CAST({value} AS DECIMAL({len(digits) + len(fraction)}, {len(fraction)}))"
    if kind in _TEMPORAL:
        return f"CAST({string_literal(value)} AS {_TEMPORAL[kind]})"
    if kind == "TIMESTAMP":
        at = f"CAST({string_literal(value)} AS DATETIME(6))"
        column = "COLUMNS (v TIMESTAMP(6) PATH '$')"
        return f"(SELECT v FROM JSON_TABLE(JSON_ARRAY({at}), '$[*]' {column}) AS t)"
    opaque = _OPAQUE.fullmatch(value)
    if opaque is None:
        raise ValueError(f"a JSON value of type {kind} cannot be carried")
    payload = base64.b64decode(opaque[2])
    return sql_expression(
        bytes((_OPAQUE_IN_BINARY, int(opaque[1]))) + _length(len(payload)) + payload
    )


def _length(size: int) -> bytes:
    """Write a length as binary JSON does: seven bits a byte, the lowest first."""
    written = bytearray()
    while size >= 0x80:
        written.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((*written, size))
