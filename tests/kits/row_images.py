"""Row images and the mapping that they belong to, for tests of the change feed without a server."""

from __future__ import annotations

from typing import Any, NamedTuple

from spirit_py.table.mapping import ColumnPair, TableMapping
from spirit_py.table.schema import Column, TableSchema
from tests.kits.definitions import column, index


class Image(NamedTuple):
    """A row image of a test: a key and how much it weighs."""

    key: tuple[Any, ...]
    size: int = 10
    text: str = ""

    @property
    def key_sql(self) -> str:
        """The key as literals."""
        return f"({', '.join(map(repr, self.key))})"


def mapping(
    *,
    key: Column | None = None,
    unique: tuple[str, ...] = (),
    converted: bool = False,
    schema: str = "s",
) -> TableMapping:
    """Build a mapping of ``t (id, v)`` to ``_t_new``; ``unique`` names more unique columns."""
    columns = (
        key or column("id"),
        column("v", "varchar(20)", ordinal=2, nullable=True),
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
