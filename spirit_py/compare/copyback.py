"""Repair between two servers: rows are read from one and written to the other as literals.

Within one server the applier copies rows by ``INSERT ... SELECT``; here they pass through this
process and are applied like the change feed's row images.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.checksum.render import node_types
from spirit_py.checksum.staging_sql import row_literals, select_lossless
from spirit_py.codes import ErrorCode
from spirit_py.compare.documents import document_sql
from spirit_py.contracts import RenderedRow
from spirit_py.errors import MigrationFailure, UnreadableChange, ValueLost
from spirit_py.mysql.connect import connect
from spirit_py.sql import identifier_list, quote_identifier, quote_table
from spirit_py.table.mapping import ColumnPair
from spirit_py.table.values import key_select_expressions, row_key_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.checksum.repair import Recopier
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Applier
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import IndexPart

_MOST_UNFIT: Final = 1000
"""Rows that do not fit, after which the batch of the next one is left as a whole."""


class FittingRows:
    """Implements :class:`spirit_py.checksum.repair.Recopier`: repairs the rows that fit.

    A value that the target's type cannot hold makes a whole batch fail without a write. The batch
    is halved until the rows that do not fit are alone.

    Attributes:
        unfit: the keys of these rows, with the reason; they are not tried again.
    """

    def __init__(self, copier: Recopier) -> None:
        self._copier = copier
        self.unfit: dict[str, str] = {}

    def recopy(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Copy the rows that fit; return the keys treated."""
        keys = [key for key in keys if key not in self.unfit]
        if not keys:
            return 0
        try:
            return self._copier.recopy(mapping, keys)
        except ValueLost as error:
            if len(keys) == 1 or len(self.unfit) >= _MOST_UNFIT:
                # The rest of the message is the server's, with the value.
                self.unfit |= dict.fromkeys(keys, error.message.partition(": ")[0])
                return 0
        middle = len(keys) // 2
        return self.recopy(mapping, keys[:middle]) + self.recopy(mapping, keys[middle:])


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
        """Make the target's rows of these keys equal to the source's; return the keys treated.

        Rows that the source does not have are deleted first: they may conflict with others.
        """
        found, rows = self._read(mapping, keys)
        there = _there(mapping)
        self._applier.delete_keys(there, [key for key in keys if key not in found])
        self._applier.upsert_rows(there, rows)
        return len(keys)

    def _read(
        self, mapping: TableMapping, keys: Sequence[str]
    ) -> tuple[set[str], list[RenderedRow]]:
        columns = [pair.old for pair in mapping.pairs]
        documents = [place for place, each in enumerate(columns) if each.data_type == "json"]
        types = [node_types(quote_identifier(columns[place].name)) for place in documents]
        key = mapping.key_columns
        selected = ", ".join([*key_select_expressions(key), *select_lossless(columns), *types])
        table = quote_table(mapping.source.schema, mapping.source.name)
        with connect(self._source, role="checksum-repair") as session:
            answer = session.query(
                f"SELECT {selected} FROM {table} FORCE INDEX ({quote_identifier(mapping.key.name)})"
                f" WHERE ({identifier_list(mapping.key.columns)}) IN ({', '.join(keys)})"
            )
        rows = []
        width, end = len(key), len(key) + len(columns)
        for row in answer:
            literals = row_literals(columns, row[width:end])
            for place, kinds in zip(documents, row[end:], strict=True):
                if kinds is None:
                    continue
                try:
                    text = bytes.fromhex(str(row[width + place])).decode()
                    literals[place] = document_sql(text, json.loads(kinds))
                except (ValueError, UnreadableChange) as error:
                    raise MigrationFailure(
                        f"row {row_key_sql(key, row[:width])} of {table}, column"
                        f" {columns[place].name}: no SQL gives its JSON document: {error}",
                        hint="write the row to the other server by hand, then compare again",
                        error_code=ErrorCode.VALUE_LOST,
                    ) from error
            # Through a staging table, where the number 0 of an ENUM is no error.
            rows.append(RenderedRow(sql=f"({', '.join(literals)})", staged=True))
        return {row_key_sql(key, row[:width]) for row in answer}, rows


def _there(mapping: TableMapping) -> TableMapping:
    """Return the mapping of the target to itself: rows are read in its own types and names."""
    target = mapping.target
    key = mapping.lookup.index
    return replace(
        mapping,
        source=target,
        pairs=tuple(ColumnPair(old=pair.new, new=pair.new) for pair in mapping.pairs),
        # In the order of the keys, which is the source's.
        key=replace(key, parts=_in_order(key.parts, mapping.new_key_columns)),
        tightened=(),
    )


def _in_order(parts: Sequence[IndexPart], names: Sequence[str]) -> tuple[IndexPart, ...]:
    places = {name.lower(): place for place, name in enumerate(names)}
    return tuple(sorted(parts, key=lambda part: places[(part.column or "").lower()]))
