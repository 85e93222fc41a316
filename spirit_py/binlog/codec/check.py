"""Whether a table map still announces the table that we know (R14, pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.binlog.codec.fields import expected_type, old_temporal
from spirit_py.errors import SchemaChanged, UnreadableChange

if TYPE_CHECKING:
    from spirit_py.binlog.codec.tablemap import TableMap
    from spirit_py.table.schema import Column, TableSchema

_SIGNED = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double"}
)


def check_table_map(table_map: TableMap, schema: TableSchema) -> None:
    """Compare what a table map announces with the definition of the table.

    Raises:
        SchemaChanged: naming the first column that differs.
        UnreadableChange: for a column in a format from before MySQL 5.6.4.
    """
    name = f"{schema.schema}.{schema.name}"
    hint = "another session altered the table; start the migration again"
    if len(table_map.columns) != len(schema.columns):
        raise SchemaChanged(
            f"{name} now has {len(table_map.columns)} columns instead of {len(schema.columns)}",
            hint=hint,
        )
    for place, column in enumerate(schema.columns):
        if old_temporal(table_map.columns[place]):
            raise UnreadableChange(
                f"{name}.{column.name} is stored in the temporal format from before MySQL 5.6.4",
                hint="rebuild the table with ALTER TABLE ... FORCE first",
            )
        if _differs(table_map, place, column):
            raise SchemaChanged(
                f"column {column.name} of {name} is no longer {column.column_type}", hint=hint
            )
    known = (_signs(schema, _SIGNED), _signs(schema, _SIGNED | {"year"}))
    if table_map.signedness is not None and table_map.signedness not in known:
        raise SchemaChanged(f"a column of {name} is unsigned now, or no longer", hint=hint)


def _differs(table_map: TableMap, place: int, column: Column) -> bool:
    """Return whether the column in this place is another one than the definition says."""
    return (
        table_map.columns[place] not in expected_type(column)
        or table_map.nullable[place] != column.nullable
        or (bool(table_map.names) and table_map.names[place] != column.name)
    )


def _signs(schema: TableSchema, numeric: frozenset[str]) -> bytes:
    """Return the signedness bits that a table map of this definition has."""
    flags = [c.unsigned or c.data_type == "year" for c in schema.columns if c.data_type in numeric]
    size = (len(flags) + 7) // 8
    bits = sum(flag << (8 * size - 1 - place) for place, flag in enumerate(flags))
    return bits.to_bytes(size, "big")
