"""Frozen descriptions of a table's definition, as the server reports it; see ``mysql.tables``."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import takewhile
from typing import Final, Literal

from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.sql import quote_table

Generated = Literal["", "VIRTUAL", "STORED"]
SPATIAL: Final = frozenset({
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring",
    "multipolygon", "geomcollection", "geometrycollection",
})  # fmt: skip
ROW_HEADER_BYTES: Final = 18
FIXED_BYTES: Final = {
    "tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8, "float": 4, "double": 8,
    "year": 1, "date": 3, "time": 3, "datetime": 5, "timestamp": 4,
}  # fmt: skip
_COMPRESSED: Final = re.compile(
    r"ROW_FORMAT=COMPRESSED|KEY_BLOCK_SIZE=|COMPRESSION=", re.IGNORECASE
)
_ROW_FORMAT: Final = re.compile(r" ROW_FORMAT=(\w+)", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+", re.ASCII)
_BLOCK: Final = re.compile(r" KEY_BLOCK_SIZE=([1-9]\d*)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column in table order, invisible and generated columns included.

    Attributes:
        ordinal: 1-based position, which is also its place in a binlog row image.
        data_type: in lower case, such as ``int``; ``column_type`` adds ``unsigned`` or members.
        length: characters for text, bytes for binary, bits for BIT, dimensions for VECTOR.
        precision: digits for DECIMAL; fractional digits for TIME, DATETIME and TIMESTAMP.
        default: ``COLUMN_DEFAULT`` as the server gives it; None for no default or NULL.
    """

    name: str
    ordinal: int
    data_type: str
    column_type: str
    nullable: bool
    charset: str | None = None
    collation: str | None = None
    pad_space: bool | None = None
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    unsigned: bool = False
    members: tuple[str, ...] = ()
    generated: Generated = ""
    generation_expression: str = ""
    auto_increment: bool = False
    default: str | None = None
    extra: str = ""
    srid: int | None = None
    comment: str = ""

    def __post_init__(self) -> None:
        _require_words(self.charset, self.collation)

    @property
    def default_computed(self) -> bool:
        """Whether the default is an expression, not a literal."""
        return "DEFAULT_GENERATED" in self.extra.upper()

    @property
    def type_identity(self) -> tuple[object, ...]:
        """The properties by which stored values mean the same, collation aside.

        Includes the members: ``column_type`` shows letters beyond U+FFFF as a question mark.
        """
        return self.column_type, self.members, self.charset, self.srid

    @property
    def largest(self) -> int:
        """The largest value of an integer type."""
        return (1 << 8 * FIXED_BYTES[self.data_type] - (not self.unsigned)) - 1

    @property
    def number_bytes(self) -> int:
        """The bytes that hold an ENUM's ordinal or a SET's mask."""
        if self.data_type == "enum":
            return 1 if len(self.members) < 256 else 2
        size = (len(self.members) + 7) // 8
        return size if size <= 4 else 8


def _require_words(*names: str | None) -> None:
    """Refuse names of character sets and collations, which are not quoted, that are no words."""
    for name in names:
        if name is not None and not _WORD.fullmatch(name):
            raise MigrationFailure(
                f"the server names a character set or collation {name!r}, which is no name of one",
                hint="find out who answers as this server; spirit-py uses no such name",
                error_code=ErrorCode.SERVER_ERROR,
            )


def type_sql(column: Column) -> str:
    """Render a column's type; of ENUM and SET from members: the catalogue loses U+10000 and up."""
    text = column.column_type
    if column.members:
        text = f"{column.data_type}({', '.join(map(_member, column.members))})"
    if column.charset is not None and column.collation is not None:
        text += f" CHARACTER SET {column.charset} COLLATE {column.collation}"
    if column.srid is not None:
        text += f" SRID {column.srid}"
    return text


def _member(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


@dataclass(frozen=True, kw_only=True)
class IndexPart:
    """One part of an index: a column (with an optional prefix) or an expression."""

    column: str | None
    expression: str | None = None
    prefix: int | None = None
    descending: bool = False


@dataclass(frozen=True, kw_only=True)
class Index:
    """One index; ``name`` is ``PRIMARY`` for the primary key."""

    name: str
    unique: bool
    parts: tuple[IndexPart, ...]
    visible: bool = True
    kind: str = "BTREE"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, when every part is a whole column; else an empty tuple."""
        return self.whole if len(self.whole) == len(self.parts) else ()

    @property
    def whole(self) -> tuple[str, ...]:
        """Names of the columns that it holds as a whole, in the order of its parts."""
        return tuple(p.column for p in self.parts if p.column is not None and p.prefix is None)

    @property
    def leading(self) -> tuple[str, ...]:
        """Names in lower case of the whole columns that it begins with."""
        parts = takewhile(lambda part: part.column is not None and part.prefix is None, self.parts)
        return tuple((part.column or "").lower() for part in parts)


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """A table's definition and the server's estimates; ``auto_increment`` is the next value.

    ``file_bytes``: what so many ``files`` hold, where that was asked; 0 for not known.
    """

    schema: str
    name: str
    engine: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]
    collation: str | None = None
    estimated_rows: int = 0
    data_bytes: int = 0
    index_bytes: int = 0
    file_bytes: int = 0
    files: int = 0
    auto_increment: int | None = None
    create_sql: str = ""

    def __post_init__(self) -> None:
        _require_words(self.collation)

    @property
    def full_name(self) -> str:
        """Schema and name, as messages show them."""
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        """Schema and name, as SQL writes them."""
        return quote_table(self.schema, self.name)

    @property
    def total_bytes(self) -> int:
        """The server's estimate of data and indexes together."""
        return self.data_bytes + self.index_bytes

    @property
    def row_bytes(self) -> float | None:
        """The average bytes of a row; None where the estimates are missing or impossible."""
        if not self.estimated_rows:
            return None
        average = self.data_bytes / self.estimated_rows
        return average if average >= self._least_row_bytes else None

    @property
    def unzipped_row_bytes(self) -> float | None:
        """The same, at most, as a statement has them; InnoDB zips no page above 16 KiB."""
        average = self.row_bytes
        return average and average * self.unzipped(16 << 10)

    def unzipped(self, page: int) -> float:
        """By how much pages of ROW_FORMAT=COMPRESSED are larger as rows; ``page``: the server's."""
        options = self.create_sql.rpartition("\n)")[2]
        kind, block = _ROW_FORMAT.search(options), _BLOCK.search(options)
        if (kind or block) and (kind is None or kind[1].upper() == "COMPRESSED"):
            # Without a size it is half of a page (manual 17.9.1.2).
            return page / (int(block[1]) << 10) if block else 2.0
        return 1.0

    @cached_property
    def _least_row_bytes(self) -> int:
        if _COMPRESSED.search(self.create_sql):
            return 1
        held = (c for c in self.columns if not c.nullable and c.generated != "VIRTUAL")
        return ROW_HEADER_BYTES + sum(FIXED_BYTES.get(c.data_type, 0) for c in held)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name.lower(): column for column in self.columns}

    def column(self, name: str) -> Column:
        """Return the column of that name, case aside, as in MySQL; else raise ``KeyError``."""
        return self._by_name[name.lower()]

    def has_column(self, name: str) -> bool:
        """Return whether a column of that name exists, case aside."""
        return name.lower() in self._by_name

    def index(self, name: str) -> Index | None:
        """Return the index of that name, case aside, or None."""
        return next((i for i in self.indexes if i.name.lower() == name.lower()), None)

    @property
    def primary_key(self) -> Index | None:
        """The primary key, or None."""
        return self.index("PRIMARY")

    @cached_property
    def computed_index_parts(self) -> bool:
        """Whether an index holds an expression or a column that is not stored in the rows."""
        return any(
            part.column is None or self.column(part.column).generated == "VIRTUAL"
            for index in self.indexes
            for part in index.parts
        )

    def nullable_unique_indexes(self) -> tuple[Index, ...]:
        """Unique indexes over whole columns some of which may be NULL."""
        others = self.not_null_unique_indexes()
        found = (index for index in self.indexes if index.unique and index.columns)
        return tuple(index for index in found if index not in others)

    def not_null_unique_indexes(self) -> tuple[Index, ...]:
        """Unique indexes over whole, NOT NULL columns: each identifies a row. PRIMARY first."""
        whole = (index for index in self.indexes if index.unique and index.columns)
        usable = (one for one in whole if not any(self.column(c).nullable for c in one.columns))
        return tuple(sorted(usable, key=lambda index: index.name != "PRIMARY"))
