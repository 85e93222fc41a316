"""Chunks, bounds, keys and mappings, and a server that is a sorted list of keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from spirit_py.chunk.chunk import Chunk, KeyBound
from spirit_py.table.mapping import ColumnPair, TableMapping
from spirit_py.table.schema import Index, IndexPart, TableSchema

if TYPE_CHECKING:
    from spirit_py.table.schema import Column


def primary(*names: str, descending: tuple[str, ...] = (), visible: bool = True) -> Index:
    """Return a primary key over columns."""
    parts = tuple(IndexPart(column=name, descending=name in descending) for name in names)
    return Index(name="PRIMARY", unique=True, parts=parts, visible=visible)


def mapping(
    key: Index, *columns: Column, estimated_rows: int = 1000, time_zone: str = ""
) -> TableMapping:
    """Map table ``s.t`` to ``s._t_new``, every column to itself."""
    tables = [
        TableSchema(
            schema="s",
            name=name,
            engine="InnoDB",
            columns=columns,
            indexes=(key,),
            estimated_rows=estimated_rows,
        )
        for name in ("t", "_t_new")
    ]
    return TableMapping(
        source=tables[0],
        target=tables[1],
        pairs=tuple(ColumnPair(old=each, new=each) for each in columns),
        key=key,
        new_key_columns=key.columns,
        time_zone=time_zone,
    )


def bound(*values: int) -> KeyBound:
    """Return a bound of integers."""
    return KeyBound(literals=tuple(map(str, values)), comparable=values)


def chunk(number: int, lower: int | None, upper: int | None, rows: int = 10) -> Chunk:
    """Return a chunk over one integer column."""
    return Chunk(
        number=number,
        lower=None if lower is None else bound(lower),
        upper=None if upper is None else bound(upper),
        target_rows=rows,
    )


class ListedTable:
    """Answers the boundary queries of a table with one integer key, from a list of keys."""

    def __init__(self, keys: list[int]) -> None:
        """Take the keys, in any order."""
        self.keys = sorted(keys)
        self.queries: list[str] = []

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Answer one boundary query."""
        self.queries.append(sql)
        lower = re.search(r"WHERE `id` > (-?\d+)", sql)
        keys = [key for key in self.keys if lower is None or key > int(lower.group(1))]
        if "MIN(" in sql:
            return [(min(keys), max(keys))] if keys else [(None, None)]
        offset = int(sql.rsplit("OFFSET ", 1)[1])
        return [(str(keys[offset]),)] if offset < len(keys) else []
