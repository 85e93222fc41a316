"""Repair between two servers: rows are read from one and written to the other as literals.

Within one server the applier copies rows by ``INSERT ... SELECT``; here they pass through this
process, as the change feed's row images do, and take the applier's path for these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spirit_py.checksum.staging import row_literals, select_lossless
from spirit_py.contracts import RenderedRow
from spirit_py.mysql.connect import connect
from spirit_py.sql import identifier_list, quote_identifier, quote_table
from spirit_py.table.mapping import ColumnPair
from spirit_py.table.values import key_select_expressions, row_key_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Applier
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import IndexPart


class TwoServerCopier:
    """Implements :class:`spirit_py.checksum.repair.Recopier`.

    Args:
        source: where the rows are right.
        applier: writes on the target's server.
    """

    def __init__(self, source: ConnectionOptions, applier: Applier) -> None:
        self._source = source
        self._applier = applier

    def recopy(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Make the target's rows of these keys equal to the source's; give the keys treated.

        Rows that the source does not have go first: one may stand in the way of another.
        """
        found, rows = self._read(mapping, keys)
        there = _there(mapping)
        self._applier.delete_keys(there, [key for key in keys if key not in found])
        self._applier.upsert_rows(there, rows)
        return len(keys)

    def _read(
        self, mapping: TableMapping, keys: Sequence[str]
    ) -> tuple[set[str], list[RenderedRow]]:
        """Read the source's rows of these keys: their keys, and the rows as SQL."""
        columns = [pair.old for pair in mapping.pairs]
        key = mapping.key_columns
        selected = ", ".join([*key_select_expressions(key), *select_lossless(columns)])
        table = quote_table(mapping.source.schema, mapping.source.name)
        with connect(self._source, role="checksum-repair") as session:
            answer = session.query(
                f"SELECT {selected} FROM {table} FORCE INDEX ({quote_identifier(mapping.key.name)})"
                f" WHERE ({identifier_list(mapping.key.columns)}) IN ({', '.join(keys)})"
            )
        width = len(key)
        # Through a staging table, where the number 0 of an ENUM is no error.
        rows = [
            RenderedRow(sql=f"({', '.join(row_literals(columns, row[width:]))})", staged=True)
            for row in answer
        ]
        return {row_key_sql(key, row[:width]) for row in answer}, rows


def _there(mapping: TableMapping) -> TableMapping:
    """Give the mapping of the target to itself: rows arrive in its own types and names."""
    target = mapping.target
    key = next(
        index
        for index in target.not_null_unique_indexes()
        if {name.lower() for name in index.columns}
        == {name.lower() for name in mapping.new_key_columns}
    )
    return replace(
        mapping,
        source=target,
        pairs=tuple(ColumnPair(old=pair.new, new=pair.new) for pair in mapping.pairs),
        # In the order of the keys that come: theirs is the source's.
        key=replace(key, parts=_in_order(key.parts, mapping.new_key_columns)),
        tightened=(),
    )


def _in_order(parts: Sequence[IndexPart], names: Sequence[str]) -> tuple[IndexPart, ...]:
    """Put the parts of an index into the order of these names."""
    places = {name.lower(): place for place, name in enumerate(names)}
    return tuple(sorted(parts, key=lambda part: places[(part.column or "").lower()]))
