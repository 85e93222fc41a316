"""JSON documents carried to another server, where text alone would change their numbers (pure).

A document's text does not show the types of an unsigned number, a DECIMAL and a date; read again
they would be an INTEGER, a DOUBLE and a STRING. So the types of all nodes are read with the text,
in the order of :func:`spirit_py.checksum.render.node_types`, and values that text cannot represent,
or that not every server reads exactly, are written as SQL (:mod:`spirit_py.table.json_document`),
as :mod:`spirit_py.binlog.codec.jsonb` does with documents in binary form.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from spirit_py.binlog.codec.jsonb import opaque_sql
from spirit_py.sql import string_literal
from spirit_py.table import json_document as documents
from spirit_py.table.json_document import Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: A type as JSON_TYPE names it; None for JSON's null.
Kind: TypeAlias = "str | None"

_TEMPORAL: Final = {"DATE": "DATE", "TIME": "TIME(6)", "DATETIME": "DATETIME(6)"}
_OPAQUE: Final = re.compile(r"base64:type(\d+):(.*)", re.DOTALL)
_IN_TEXT: Final = frozenset({None, "NULL", "BOOLEAN", "STRING"})


class _Number(str):
    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """An object's members, in their order."""


def document_sql(text: str, kinds: Sequence[Kind]) -> str:
    """Return an SQL expression of type JSON for a document.

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
    return _node(tree, root, below).document


def _containers(value: Any) -> Iterator[list[Any]]:
    """List arrays and objects, each before what is in it."""
    if isinstance(value, list):
        yield value
        for item in value:
            yield from _containers(item[1] if isinstance(value, _Object) else item)


def _node(value: Any, kind: Kind, below: dict[int, list[Kind]]) -> Node:
    if isinstance(value, _Object):
        items = [_node(v, k, below) for (_, v), k in zip(value, below[id(value)], strict=True)]
        return documents.members((key for key, _ in value), items)
    if isinstance(value, list):
        items = [_node(v, k, below) for v, k in zip(value, below[id(value)], strict=True)]
        return documents.array(items)
    if kind == "DOUBLE":
        return documents.double(value)
    if kind in {"INTEGER", "UNSIGNED INTEGER"}:
        return documents.integer(value, unsigned=kind != "INTEGER")
    text = value if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
    return Node(text, _scalar_sql(value, kind))


def _scalar_sql(value: Any, kind: Kind) -> str:
    """Render any other scalar that text cannot represent; empty where it can."""
    if kind in _IN_TEXT:
        return ""
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
    return opaque_sql(int(opaque[1]), base64.b64decode(opaque[2]))
