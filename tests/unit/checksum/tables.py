"""Small mappings, built by hand."""

from __future__ import annotations

import re
from typing import Any

from spirit_py.table.mapping import ColumnPair, TableMapping
from spirit_py.table.schema import Column, Index, IndexPart, TableSchema


def column(name: str, column_type: str, **given: Any) -> Column:
    """Describe a column by its type; ``given`` overrides."""
    kind = re.split(r"[ (]", column_type)[0]
    text = kind in {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
    described: dict[str, Any] = {
        "name": name,
        "ordinal": 1,
        "data_type": kind,
        "column_type": column_type,
        "nullable": False,
        "charset": "utf8mb4" if text else None,
        "collation": "utf8mb4_0900_ai_ci" if text else None,
        "unsigned": "unsigned" in column_type,
    }
    return Column(**(described | given))


def schema(name: str, *columns: Column, key: tuple[str, ...] = ("id",)) -> TableSchema:
    """Describe a table of schema ``d`` with a primary key."""
    parts = tuple(IndexPart(column=part) for part in key)
    return TableSchema(
        schema="d",
        name=name,
        engine="InnoDB",
        columns=columns,
        indexes=(Index(name="PRIMARY", unique=True, parts=parts),),
    )


def mapping(*pairs: tuple[Column, Column], **given: Any) -> TableMapping:
    """Map columns pair by pair; the key is ``id`` on both sides."""
    source = schema("t", *(old for old, _ in pairs))
    target = schema("_t_new", *(new for _, new in pairs))
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


ID = column("id", "int")
