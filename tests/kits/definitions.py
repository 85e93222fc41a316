"""Table definitions and mappings in few words, for tests without a server."""

from __future__ import annotations

import re
from typing import Any

from spirit_py.table.mapping import ColumnPair, TableMapping
from spirit_py.table.schema import Column, Index, IndexPart, TableSchema

_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "enum", "set"})
_LENGTHS = {"tinytext": 255, "text": 65_535, "blob": 65_535}


def column(name: str, column_type: str = "int", **more: Any) -> Column:
    """Return a NOT NULL column from its type as SQL writes it; text is utf8mb4_0900_ai_ci."""
    data_type = re.split(r"\W", column_type)[0]
    numbers = [int(n) for n in re.findall(r"\d+", column_type)]
    members = tuple(re.findall(r"'([^']*)'", column_type))
    given: dict[str, Any] = {
        "ordinal": 1,
        "nullable": False,
        "unsigned": "unsigned" in column_type,
        "members": members,
    }
    if data_type in _TEXTS:
        given |= {"charset": "utf8mb4", "collation": "utf8mb4_0900_ai_ci", "pad_space": False}
    if data_type == "decimal" or (data_type in {"float", "double"} and numbers):
        given |= {"precision": numbers[0], "scale": numbers[1]}
    elif data_type in {"time", "datetime", "timestamp"}:
        given["precision"] = numbers[0] if numbers else 0
    elif not members:
        given["length"] = numbers[0] if numbers else _LENGTHS.get(data_type)
    return Column(name=name, data_type=data_type, column_type=column_type, **(given | more))


def index(name: str, *parts: str | IndexPart, unique: bool = True, visible: bool = True) -> Index:
    """Return an index; ``c(3)`` is a prefix, ``(x)`` an expression."""
    return Index(
        name=name,
        unique=unique,
        visible=visible,
        parts=tuple(part if isinstance(part, IndexPart) else _part(part) for part in parts),
    )


def _part(text: str) -> IndexPart:
    if text.startswith("("):
        return IndexPart(column=None, expression=text[1:-1])
    name, _, prefix = text.partition("(")
    return IndexPart(column=name, prefix=int(prefix[:-1]) if prefix else None)


def table(*parts: Column | Index, name: str = "t") -> TableSchema:
    """Return a table of columns and indexes; with ``PRIMARY`` over ``id`` when it has no index."""
    columns = tuple(part for part in parts if isinstance(part, Column))
    indexes = tuple(part for part in parts if isinstance(part, Index))
    return TableSchema(
        schema="s",
        name=name,
        engine="InnoDB",
        columns=columns,
        indexes=indexes or (index("PRIMARY", "id"),),
    )


def mapping(*pairs: tuple[Column, Column], **given: Any) -> TableMapping:
    """Map columns pair by pair; the key is ``id`` on both sides."""
    source = table(*(old for old, _ in pairs))
    target = table(*(new for _, new in pairs), name="_t_new")
    key = source.primary_key
    assert key is not None
    return TableMapping(
        source=source,
        target=target,
        pairs=tuple(ColumnPair(old=old, new=new) for old, new in pairs),
        key=key,
        new_key_columns=("id",),
        **given,
    )


ID = column("id")
