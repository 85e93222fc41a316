"""Find equal values without an index, by hashes in a temporary table, in short statements."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from spirit_py.chunk.chunk import above, order_by, up_to, walk_directions
from spirit_py.classes import InitVar, dataclass
from spirit_py.mysql.evaluation import as_stored
from spirit_py.sql import binary_literal, quote_identifier, quote_table
from spirit_py.table.schema import FIXED_BYTES
from spirit_py.table.values import bound_from_row, key_select_expressions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column, Index, TableSchema

#: Of a row's hash, its number and the index over the hash; what a byte of the key takes.
_HASHED_BYTES, _KEY_FACTOR, _USUAL = 96, 1.25, 24
_PADDING: Final = "SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE PAD_ATTRIBUTE"
_FLOATS: Final = ("float", "double")


@dataclass
class Hashes:
    """The hashes of one key's values, in a temporary table of a session."""

    session: SqlSession
    mapping: TableMapping
    parts: Sequence[str]
    own: InitVar[Sequence[str]]
    selecting: Callable[[str], str]

    def __post_init__(self, own: Sequence[str]) -> None:
        self._hash, self._number, *self._keys = own
        source = self.mapping.source
        self._source = source.quoted
        self._table = quote_table(source.schema, "_spirit_py_hashes")
        self._shape = quote_table(source.schema, "_spirit_py_shape")

    def fill(self, rows: int) -> Iterator[int]:
        """Hash the whole source, so many rows in a statement; yield how many after each."""
        self.drop()
        key = ", ".join(f"{name} AS {own}" for name, own in zip(self._old, self._keys, strict=True))
        with as_stored(self.session):
            self.session.execute(
                f"CREATE TEMPORARY TABLE {self._table} ({self._number} BIGINT UNSIGNED NOT NULL"
                f" AUTO_INCREMENT PRIMARY KEY, {self._hash} BINARY(8) NOT NULL DEFAULT '',"
                f" KEY ({self._hash})) ENGINE=InnoDB SELECT {key} FROM {self._source} LIMIT 0"
            )
        hashed, names = self._hashed(), ", ".join((self._hash, *self._keys))
        key_columns = self.mapping.key_columns
        within = ranges(self.session, self._source, self.mapping.key, key_columns, rows=rows)
        for number, where in enumerate(within, 1):
            # A value that does not convert is an error of the copy, not of this search.
            self.session.execute(
                f"INSERT IGNORE INTO {self._table} ({names})"
                f" SELECT DISTINCT {', '.join((hashed, *self._keys))} {self.selecting(where)}"
            )
            yield number * rows

    def several(self, rows: int) -> Iterator[str | None]:
        """Yield a condition of the source's rows for each hash that several have; None between."""
        lower = "TRUE"
        while True:
            bounds = self.session.query(
                f"SELECT {self._hash} FROM {self._table} WHERE {lower} ORDER BY {self._hash}"
                f" LIMIT 1 OFFSET {rows - 1}"
            )
            upper = f"{self._hash} <= {binary_literal(bounds[0][0])}" if bounds else "TRUE"
            found = self.session.query(
                f"SELECT {self._hash} FROM {self._table} WHERE {lower} AND {upper}"
                f" GROUP BY {self._hash} HAVING COUNT(*) > 1"
            )
            keys = ", ".join(f"{self._table}.{name}" for name in self._keys)
            for (value,) in found:
                yield (
                    f" WHERE ({', '.join(self._old)}) IN (SELECT {keys} FROM {self._table}"
                    f" WHERE {self._table}.{self._hash} = {binary_literal(value)})"
                )
            yield None
            if not bounds:
                return
            lower = f"{self._hash} > {binary_literal(bounds[0][0])}"

    def drop(self) -> None:
        """Drop the temporary tables."""
        self.session.execute(f"DROP TEMPORARY TABLE IF EXISTS {self._table}, {self._shape}")

    @property
    def _old(self) -> tuple[str, ...]:
        return tuple(quote_identifier(name) for name in self.mapping.key.columns)

    def _hashed(self) -> str:
        """Return the hash of the parts, equal for parts that the server equates by their types."""
        names = [quote_identifier(f"p{number}") for number in range(len(self.parts))]
        parts = ", ".join(f"{p} AS {name}" for p, name in zip(self.parts, names, strict=True))
        padded = {str(row[0]) for row in self.session.query(f"{_PADDING} = 'PAD SPACE'")}
        self.session.execute(
            f"CREATE TEMPORARY TABLE {self._shape} (n INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB"
            f" SELECT {parts} {self.selecting(' LIMIT 0')}"
        )
        columns = self.session.query(f"SHOW FULL COLUMNS FROM {self._shape}")[1:]
        forms = [
            _form(part, str(row[1]), row[2], padded)
            for part, row in zip(self.parts, columns, strict=True)
        ]
        return f"UNHEX(LEFT(SHA2(CONCAT_WS('/', {', '.join(forms)}), 256), 16))"


def room_for(table: TableSchema, key: Index) -> int:
    """Return about how many bytes the hashes take in a temporary tablespace (measured on 9.7)."""
    columns = (table.column(name) for name in key.columns)
    declared = sum(FIXED_BYTES.get(one.data_type) or one.length or _USUAL for one in columns)
    width = min(declared, table.row_bytes or declared)
    return int(table.estimated_rows * (_HASHED_BYTES + _KEY_FACTOR * width))


def ranges(
    session: SqlSession,
    table: str,
    index: Index,
    columns: Sequence[Column],
    *,
    rows: int,
    lower: str = "TRUE",
) -> Iterator[str]:
    """Yield hint and condition of ranges of about so many rows; equal ``columns`` share one."""
    directions = walk_directions(index)
    by = f" FORCE INDEX ({quote_identifier(index.name)})"
    shown, order = ", ".join(key_select_expressions(columns)), order_by(columns, directions)
    while True:
        bounds = session.query(
            f"SELECT {shown} FROM {table}{by} WHERE {lower}"
            f" ORDER BY {order} LIMIT 1 OFFSET {rows - 1}"
        )
        if not bounds:
            yield f"{by} WHERE {lower}"
            return
        bound = bound_from_row(columns, bounds[0])
        yield f"{by} WHERE ({lower}) AND ({up_to(columns, bound, directions)})"
        lower = above(columns, bound, directions)


def _form(part: str, kind: str, collation: str | None, padded: set[str]) -> str:
    if collation is not None:
        text = f"TRIM(TRAILING ' ' FROM {part})" if collation in padded else part
        return f"HEX(WEIGHT_STRING({text}))"
    if kind.startswith(_FLOATS):
        return f"IF({part} = 0, 0, {part})"
    return f"HEX(CAST({part} AS BINARY))"


def free_names(mapping: TableMapping, count: int, stem: str = "_spirit_py_") -> list[str]:
    """Return quoted names that no column of either table has."""
    taken = {column.name.lower() for column in (*mapping.source.columns, *mapping.target.columns)}
    free = (name for number in itertools.count() if (name := f"{stem}{number}") not in taken)
    return [quote_identifier(name) for name in itertools.islice(free, count)]
