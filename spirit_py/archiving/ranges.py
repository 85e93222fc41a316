"""The ranges of a table that are read at once, and what reads and hashes them (pure)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.chunk.chunk import KeyRange, chunk_predicate, walk_directions
from spirit_py.chunk.chunker import CompositeChunker, forced_source, index_hint
from spirit_py.classes import dataclass
from spirit_py.sql import string_literal
from spirit_py.table.mapping import TableMapping
from spirit_py.table.values import bound_from_literals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.archiving.columns import StoredTable
    from spirit_py.chunk.chunker import BoundaryQuery
    from spirit_py.table.keys import KeyBound
    from spirit_py.table.schema import Index, TableSchema

_LONGEST_NAME: Final = 60
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of NULL, and of the empty text."""
WHOLE = KeyRange()


@dataclass(frozen=True, kw_only=True)
class Partitioning:
    """The folders by which files are parted: the column's name, and its value in SQL."""

    name: str
    value: str

    @classmethod
    def by(cls, expression: str, value: str, taken: Callable[[str], bool]) -> Partitioning:
        """Return the folders of an expression, which ``value`` computes, under a name not taken."""
        return cls(name=_column_of(expression, taken), value=_named(value))

    @property
    def text(self) -> str:
        """The value as a text, in SQL."""
        return f"CAST({self.value} AS CHAR)"


@dataclass(frozen=True, kw_only=True)
class ReadTable:
    """A table, the rows of it that are ``wanted`` (SQL over its columns), and how it is cut."""

    table: TableSchema
    stored: StoredTable
    wanted: str = "TRUE"

    @property
    def key(self) -> Index | None:
        """The key by which the table is cut; None where it is read as a whole."""
        return next((one for one in self.table.not_null_unique_indexes() if one.visible), None)

    @property
    def _mapping(self) -> TableMapping | None:
        key = self.key
        if key is None:
            return None
        table = self.table
        return TableMapping(
            source=table, target=table, pairs=(), key=key, new_key_columns=key.columns
        )

    def cut(self, query: BoundaryQuery, rows: int, within: KeyRange = WHOLE) -> Iterator[KeyRange]:
        """Yield ranges of about so many rows, which together are ``within``. Asks the server."""
        mapping = self._mapping
        if mapping is None:
            yield within
            return
        chunker = CompositeChunker(mapping, query)
        chunker.restart(within.lower, within.upper)
        while (chunk := chunker.next_chunk(rows)) is not None:
            yield KeyRange(lower=chunk.lower, upper=chunk.upper)

    def bound(self, literals: Sequence[str]) -> KeyBound | None:
        """Read a bound from literals; None for an open end, ValueError for what is no key."""
        if not literals:
            return None
        names = () if self.key is None else self.key.columns
        return bound_from_literals([self.table.column(name) for name in names], literals)

    def rows_of(self, within: KeyRange, more: Sequence[str] = ()) -> str:
        """Render the SELECT of the wanted rows of a range, and of more expressions."""
        where = f"{self._within(within)} AND {self.wanted}"
        return self._select((*self.stored.selected, *more), where)

    def values_of(self, within: KeyRange, part: str, rows: int) -> str:
        """Render the count of the values of ``part`` in the first so many rows of a range."""
        first = f"{self._select((f'{part} AS part',), self._within(within))} LIMIT {rows}"
        return f"SELECT COUNT(DISTINCT part) FROM ({first}) AS first_rows"

    def hashes_of(self, within: KeyRange, part: str = "") -> str:
        """Render count and sum of hashes of a range's rows: of those wanted (1), and the others.

        Those of each value of ``part``, a text in SQL, which has its digits in UTF-8.
        """
        digits = f"HEX(CONVERT({part} USING utf8mb4))" if part else "''"
        selected = (self.wanted, digits, "COUNT(*)", f"SUM({self.stored.row_hash})")
        return f"{self._select(selected, self._within(within))} GROUP BY 1, 2"

    def _within(self, within: KeyRange) -> str:
        mapping = self._mapping
        if mapping is None:
            return "TRUE"
        directions = walk_directions(mapping.key)
        return f"({chunk_predicate(mapping.key_columns, within, directions)})"

    def _select(self, selected: Sequence[str], where: str) -> str:
        mapping = self._mapping
        hint = "" if mapping is None else index_hint(mapping)
        table = self.table.quoted if mapping is None else forced_source(mapping)
        return f"SELECT {hint}{', '.join(selected)} FROM {table} WHERE {where}"


def _column_of(expression: str, taken: Callable[[str], bool]) -> str:
    """Name the folders of an expression: ``YEAR(created_at)`` is ``year_created_at=...``."""
    name = re.sub(r"[^0-9a-z]+", "_", expression.lower()).strip("_")[:_LONGEST_NAME] or "part"
    while taken(name):
        name += "_"
    return name


def _named(value: str) -> str:
    """Return SQL of a value that can be a folder's name; its digest where it is long or no text.

    So is that of the text by which Spark names the folder of NULL.
    """
    text = f"CAST({value} AS CHAR)"
    # Spark would write rows of that text and those of NULL to one file at a time.
    taken = f"{text} = {string_literal(NO_VALUE)}"
    odd = f"(LENGTH({text}) > {_LONGEST_NAME} OR {text} REGEXP '[[:cntrl:]]' OR {taken})"
    digest = f"CONCAT('sha256-', LEFT(SHA2({value}, 256), 16))"
    return f"IF({value} IS NULL, NULL, IF({text} IS NULL OR {odd}, {digest}, {text}))"
