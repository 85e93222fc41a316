"""Cut a table into chunks: by arithmetic, or by the key found so many rows further on (pure).

A single AUTO_INCREMENT key is cut by arithmetic from its smallest key left, so gaps are jumped.
Where keys are sparse, and for all other keys, the server looks up the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any, TypeAlias

from spirit_py.chunk.chunk import Chunk, KeyRange, chunk_predicate, order_by, walk_directions
from spirit_py.chunk.sizing import divided
from spirit_py.classes import KW_ONLY, dataclass, field
from spirit_py.sql import quote_identifier
from spirit_py.table.keys import INTEGERS, KeyBound
from spirit_py.table.values import bound_from_row, key_select_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from spirit_py.table.mapping import TableMapping

BoundaryQuery: TypeAlias = Callable[[str], Sequence[tuple[Any, ...]]]

Further: TypeAlias = Callable[[KeyRange, int], KeyBound | None]
"""Returns the bound of so many rows of a range that has no more in the table itself."""

Bounds: TypeAlias = tuple[tuple[KeyBound, ...], KeyBound | None]

INVISIBLE_INDEX = "SET_VAR(optimizer_switch='use_invisible_indexes=on')"
INVISIBLE_INDEX_HINT = f"/*+ {INVISIBLE_INDEX} */ "


@dataclass(eq=False)
class CompositeChunker:
    """Cuts a table, or a range of it, by ``LIMIT 1 OFFSET n`` along its chunk key.

    The table's ends are open for later rows. Each part of ``part_rows`` costs a query; None for
    none. ``further`` is asked for a bound where the table has none left.
    """

    mapping: TableMapping
    query: BoundaryQuery
    _: KW_ONLY
    part_rows: int | None = None
    numbers: Iterator[int] = field(default_factory=count)
    further: Further | None = None

    def __post_init__(self) -> None:
        self._rest = KeyRange()
        #: Whether everything is cut.
        self.finished = False

    def next_chunk(self, rows: int) -> Chunk | None:
        """Return the next chunk of about ``rows`` rows, or None after the last. Asks the server."""
        if self.finished:
            return None
        cuts, found = self._bounds(rows)
        if found is None and self.further is not None:
            found = self.further(self._rest, rows)
        end = self._rest.upper
        self.finished = found is None or (end is not None and found.literals == end.literals)
        upper = end if self.finished else found
        chunk = Chunk(
            number=next(self.numbers),
            lower=self._rest.lower,
            upper=upper,
            target_rows=rows,
            cuts=cuts,
            lane_end=end,
        )
        self._rest = KeyRange(lower=upper, upper=end)
        return chunk

    def observed(self, chunk: Chunk, rows: int) -> None:
        """Do nothing: every boundary is looked up."""

    def restart(self, lower: KeyBound | None, upper: KeyBound | None = None) -> None:
        """Begin again above ``lower``, and end at ``upper``; None for the ends of the table."""
        self._rest, self.finished = KeyRange(lower=lower, upper=upper), False

    def bound_after(self, rows: int) -> KeyBound | None:
        """Return the key about ``rows`` rows on; None when fewer are left. Asks the server."""
        found = self.query(boundary_sql(self.mapping, self._rest, rows))
        return bound_from_row(self.mapping.key_columns, found[0]) if found else None

    def part(self, at: KeyBound) -> Self:
        """End at a key that is not cut yet; return a chunker of what lies above it."""
        upper = copy(self)
        upper.restart(at, self._rest.upper)
        self._rest = KeyRange(lower=self._rest.lower, upper=at)
        return upper

    def width(self) -> int | None:
        """Return how many values of the key are not cut; None where they are not numbers."""
        return None

    def density(self) -> float | None:
        """Return the rows per key value not cut, None where not dense; ask the server."""
        return None

    def rows_left(self) -> int | None:
        """Return how many rows are probably not cut; None where the key does not show it."""
        return None

    def _bounds(self, rows: int) -> Bounds:
        found: list[KeyBound] = []
        rest = self._rest
        for step in divided(rows, self.part_rows):
            answer = self.query(boundary_sql(self.mapping, rest, step))
            if not answer:
                return tuple(found), None
            found.append(bound_from_row(self.mapping.key_columns, answer[0]))
            rest = KeyRange(lower=found[-1], upper=rest.upper)
        return tuple(found[:-1]), found[-1]


def boundary_sql(mapping: TableMapping, within: KeyRange, rows: int) -> str:
    """Render the query for the key of the n-th row of a range."""
    columns, directions = mapping.key_columns, walk_directions(mapping.key)
    # A row with NULL in the key stops the run (NullInKey), and is no bound.
    present = [f"{quote_identifier(c.name)} IS NOT NULL" for c in columns if c.nullable]
    where = " AND ".join([chunk_predicate(columns, within, directions), *present])
    return (
        f"SELECT {index_hint(mapping)}{', '.join(key_select_expressions(columns))}"
        f" FROM {forced_source(mapping)} WHERE {where}"
        f" ORDER BY {order_by(columns, directions)} LIMIT 1 OFFSET {rows - 1}"
    )


def forced_source(mapping: TableMapping) -> str:
    """Render the source table, read by the chunk key."""
    return f"{mapping.source.quoted} FORCE INDEX ({quote_identifier(mapping.key.name)})"


def index_hint(mapping: TableMapping) -> str:
    """Render the optimizer hint without which an invisible index cannot be forced."""
    return "" if mapping.key.visible else INVISIBLE_INDEX_HINT


_DENSE = 0.5
#: Places at which rows are counted, and key values at each.
_SAMPLES = 24
_SAMPLE_VALUES = 200


class OptimisticChunker(CompositeChunker):
    """Cuts a table whose key is one AUTO_INCREMENT integer column, signed or not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        #: Rows per key value in the last known chunk; None before the first cut.
        self._density: float | None = None
        #: The same by the server's estimate.
        self._mean = 0.0
        self._arithmetic = False
        #: Chunks cut by arithmetic whose rows are not known yet.
        self._computed: set[int] = set()
        #: The first and the last key that were not cut at the last look.
        self._first: int | None = None
        self._last: int | None = None

    def next_chunk(self, rows: int) -> Chunk | None:
        """Return the next chunk of about ``rows`` rows, or None after the last. Asks the server."""
        self._arithmetic = False
        chunk = super().next_chunk(rows)
        if chunk is not None and self._arithmetic:
            self._computed.add(chunk.number)
        return chunk

    def observed(self, chunk: Chunk, rows: int) -> None:
        """Note how many rows a chunk had: where keys are sparse, bounds are looked up instead."""
        if chunk.number in self._computed:
            self._computed.remove(chunk.number)
            self._density = rows / chunk.target_rows

    def restart(self, lower: KeyBound | None, upper: KeyBound | None = None) -> None:
        """Begin again above ``lower``, and end at ``upper``; None for the ends of the table."""
        super().restart(lower, upper)
        self._computed = set()
        self._first = None

    def bound_after(self, rows: int) -> KeyBound | None:
        """Return the key about ``rows`` rows on; None when fewer are left. Asks the server."""
        ends = self._ends()
        if ends is None:
            return None
        first, last = ends
        if self._mean < _DENSE:
            return super().bound_after(rows)
        key = first + int(rows / self._mean) - 1
        return _bound(key) if key < last else None

    def part(self, at: KeyBound) -> Self:
        """End at a key that is not cut yet; return a chunker of what lies above it."""
        upper = super().part(at)
        self._last = int(at.literals[0])
        return upper

    def width(self) -> int | None:
        """Return how many values of the key are not cut; None before the first was seen."""
        lower = self._rest.lower
        if self.finished:
            return 0
        if self._last is None or (lower is None and self._first is None):
            return None
        before = int(lower.literals[0]) if lower is not None else (self._first or 0) - 1
        return max(0, self._last - before)

    def density(self) -> float | None:
        """Return the rows per key value not cut, None where some are sparse; ask the server."""
        ends = self._ends()
        if ends is None:
            return None
        first, last = ends
        width = last - first + 1
        if width <= _SAMPLES * _SAMPLE_VALUES:
            places, values = [first], width
        else:
            places = [first + width * each // _SAMPLES for each in range(_SAMPLES)]
            values = _SAMPLE_VALUES
        counted = [int(row[0]) for row in self.query(samples_sql(self.mapping, places, values))]
        sparse = min(counted) < _DENSE * values
        return None if sparse else sum(counted) / (len(counted) * values)

    def rows_left(self) -> int | None:
        """Return how many rows are probably not cut; None where the key does not show it."""
        width = self.width()
        return None if width is None or self._mean < _DENSE else int(width * self._mean)

    def _bounds(self, rows: int) -> Bounds:
        ends = self._ends()
        if ends is None:
            return (), None
        first, last = ends
        if (self._density or 0.0) < _DENSE:
            return self._looked_up(rows, first, last)
        *cuts, upper = accumulate(divided(rows, self.part_rows), initial=first - 1)
        self._arithmetic = upper < last
        inner = tuple(_bound(key) for key in cuts[1:] if key < last)
        return inner, _bound(upper) if upper < last else None

    def _ends(self) -> tuple[int, int] | None:
        ends = self.query(ends_sql(self.mapping, self._rest))[0]
        if ends[0] is None:
            return None
        first, last = int(ends[0]), int(ends[1])
        self._first, self._last = first, last
        if self._density is None:
            self._density = self.mapping.source.estimated_rows / (last - first + 1)
            self._mean = min(1.0, self._density)
        return first, last

    def _looked_up(self, rows: int, first: int, last: int) -> Bounds:
        cuts, upper = super()._bounds(rows)
        if upper is None:
            return cuts, None
        key = int(upper.literals[0])
        # A later snapshot may have rows before ``first``, and then a bound there.
        self._density = rows / max(1, key - first + 1)
        return cuts, upper if key < last else None


def _bound(key: int) -> KeyBound:
    return KeyBound(literals=(str(key),), comparable=(key,))


def samples_sql(mapping: TableMapping, places: Sequence[int], values: int) -> str:
    """Render the query for the number of rows in a few short ranges of the key."""
    name = quote_identifier(mapping.key_columns[0].name)
    counts = (
        f"(SELECT {index_hint(mapping)}COUNT(*) FROM {forced_source(mapping)}"
        f" WHERE {name} >= {int(place)} AND {name} < {int(place) + values})"
        for place in places
    )
    return " UNION ALL ".join(counts)


def ends_sql(mapping: TableMapping, within: KeyRange) -> str:
    """Render the query for the smallest and largest key of a range, read from the index's ends."""
    columns = mapping.key_columns
    name = quote_identifier(columns[0].name)
    return (
        f"SELECT {index_hint(mapping)}MIN({name}), MAX({name}) FROM {forced_source(mapping)}"
        f" WHERE {chunk_predicate(columns, within, walk_directions(mapping.key))}"
    )


def make_chunker(
    mapping: TableMapping,
    query: BoundaryQuery,
    *,
    part_rows: int | None = None,
    numbers: Iterator[int] | None = None,
    further: Further | None = None,
) -> CompositeChunker:
    """Return the chunker for the mapping's key: arithmetic for one AUTO_INCREMENT integer.

    ``query`` runs in a session of the driver, in '+00:00', at READ COMMITTED.
    """
    columns = mapping.key_columns
    numbered = len(columns) == 1 and columns[0].auto_increment
    kind = OptimisticChunker if numbered and columns[0].data_type in INTEGERS else CompositeChunker
    return kind(mapping, query, part_rows=part_rows, numbers=numbers or count(), further=further)
