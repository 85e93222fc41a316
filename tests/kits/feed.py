"""What the tests of the change feed share: small schemas, mappings, images and chunks."""

from __future__ import annotations

from typing import Any, NamedTuple

from spirit_py.chunk.chunk import Chunk, KeyBound
from spirit_py.table.mapping import ColumnPair, TableMapping
from spirit_py.table.schema import Column, Index, IndexPart, TableSchema


class Image(NamedTuple):
    """A row image of a test: a key and how much it weighs."""

    key: tuple[Any, ...]
    size: int = 10
    text: str = ""

    @property
    def key_sql(self) -> str:
        """The key as literals."""
        return f"({', '.join(map(repr, self.key))})"


def column(name: str, ordinal: int, data_type: str = "int", **more: Any) -> Column:
    """Build a column."""
    given: dict[str, Any] = {"column_type": data_type, "nullable": False} | more
    return Column(name=name, ordinal=ordinal, data_type=data_type, **given)


def index(name: str, *columns: str, unique: bool = True) -> Index:
    """Build an index over whole columns."""
    return Index(name=name, unique=unique, parts=tuple(IndexPart(column=c) for c in columns))


def mapping(
    *,
    key: Column | None = None,
    unique: tuple[str, ...] = (),
    converted: bool = False,
    schema: str = "s",
) -> TableMapping:
    """Build a mapping of ``t (id, v)`` to ``_t_new``; ``unique`` names more unique columns."""
    columns = (
        key or column("id", 1),
        column("v", 2, "varchar", column_type="varchar(20)", charset="utf8mb4", nullable=True),
    )
    indexes = (index("PRIMARY", columns[0].name), *(index(name, name) for name in unique))
    source, target = (
        TableSchema(schema=schema, name=name, engine="InnoDB", columns=columns, indexes=indexes)
        for name in ("t", "_t_new")
    )
    return TableMapping(
        source=source,
        target=target,
        pairs=tuple(ColumnPair(old=c, new=c, converted=converted) for c in columns),
        key=indexes[0],
        new_key_columns=(columns[0].name,),
    )


def bound(value: int | None) -> KeyBound | None:
    """Build a bound of an integer key."""
    return None if value is None else KeyBound(literals=(str(value),), comparable=(value,))


def chunk(number: int, lower: int | None, upper: int | None) -> Chunk:
    """Build the chunk ``(lower, upper]``."""
    return Chunk(number=number, lower=bound(lower), upper=bound(upper), target_rows=10)
