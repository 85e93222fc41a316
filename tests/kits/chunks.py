"""Chunks, bounds, keys and mappings, and a server that is a sorted list of keys."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from spirit_py.chunk.chunk import Chunk, KeyRange
from spirit_py.chunk.watermark import OpenEnd, Rest
from spirit_py.table.keys import KeyBound
from spirit_py.table.mapping import ColumnPair, TableMapping
from spirit_py.table.schema import Index, IndexPart, TableSchema

if TYPE_CHECKING:
    from spirit_py.table.keys import ComparableKey
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


def chunk(
    number: int,
    lower: int | None,
    upper: int | None,
    rows: int = 10,
    *,
    lane_end: int | None = None,
) -> Chunk:
    """Return a chunk over one integer column; its lane is open above unless it says otherwise."""
    return Chunk(
        number=number,
        lower=_end(lower),
        upper=_end(upper),
        target_rows=rows,
        lane_end=_end(lane_end),
    )


def between(lower: int | None, upper: int | None) -> KeyRange:
    """Return a range over one integer column."""
    return KeyRange(lower=_end(lower), upper=_end(upper))


def rest(
    lower: int | None,
    upper: int | None,
    keep_up_to: ComparableKey | OpenEnd = OpenEnd.BEGINNING,
) -> Rest:
    """Return the rest of a lane over one integer column."""
    return Rest(lower=_end(lower), upper=_end(upper), keep_up_to=keep_up_to)


def _end(value: int | None) -> KeyBound | None:
    return None if value is None else bound(value)


class ListedTable:
    """Answers the boundary queries of a table with one integer key, from a list of keys."""

    def __init__(self, keys: list[int]) -> None:
        """Take the keys, in any order."""
        self.keys = sorted(keys)
        self.queries: list[str] = []

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Answer one boundary query."""
        self.queries.append(sql)
        lower, upper = re.search(r"`id` > (-?\d+)", sql), re.search(r"`id` <= (-?\d+)", sql)
        first = 0 if lower is None else bisect_right(self.keys, int(lower.group(1)))
        end = None if upper is None else bisect_right(self.keys, int(upper.group(1)))
        keys = self.keys[first:end]
        if "MIN(" in sql:
            return [(keys[0], keys[-1])] if keys else [(None, None)]
        offset = int(sql.rsplit("OFFSET ", 1)[1])
        return [(str(keys[offset]),)] if offset < len(keys) else []
