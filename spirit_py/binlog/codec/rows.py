"""Row events and their images, decoded lazily and without loss (R9, R13, R14; pure).

A :class:`RowCodec` is compiled once for a table map and the definition of its table. It cuts
the body of a rows event into :class:`RowImage` objects, each a copy of its own bytes, and
decodes only the key. The other columns are decoded when an image is rendered, so a row that a
later change replaces in the buffer is never decoded.

Bodies are given without the 19 bytes of the common event header and without the checksum.
Types, charsets, members and lengths come from the server's definition of the table; the table
map must agree with it, else the table has been altered.
"""

from __future__ import annotations

import struct
from functools import cached_property, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from spirit_py.binlog import wire
from spirit_py.binlog.codec.definition import plain_function, render_function, split_function
from spirit_py.binlog.codec.fields import OLD_TEMPORALS, expected_type, field_of
from spirit_py.binlog.codec.tablemap import packed_integer
from spirit_py.classes import replace
from spirit_py.errors import HiddenChange, NullInKey, SchemaChanged, UnreadableChange
from spirit_py.table import values
from spirit_py.table.keys import INTEGERS, comparable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.binlog.codec.definition import Nulls
    from spirit_py.binlog.codec.tablemap import TableMap
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column, TableSchema
    from spirit_py.table.values import RenderedRow

_SIGNED = INTEGERS | {"decimal", "float", "double"}
_ALTERED: Final = "another session altered the table; start the migration again"


def check_table_map(table_map: TableMap, schema: TableSchema) -> None:
    """Raise SchemaChanged where columns differ; UnreadableChange for a format from before 5.6.4."""
    name, found, wanted = schema.full_name, len(table_map.columns), len(schema.columns)
    if found != wanted:
        raise SchemaChanged(f"{name} now has {found} columns instead of {wanted}", hint=_ALTERED)
    for place, column in enumerate(schema.columns):
        if table_map.columns[place].code in OLD_TEMPORALS:
            said = f"{name}.{column.name} is stored in the temporal format from before MySQL 5.6.4"
            raise UnreadableChange(said, hint="rebuild the table with ALTER TABLE ... FORCE first")
        if (
            table_map.columns[place] not in expected_type(column)
            or table_map.nullable[place] != column.nullable
            or (table_map.names and table_map.names[place] != column.name)
        ):
            said = f"column {column.name} of {name} is no longer {column.column_type}"
            raise SchemaChanged(said, hint=_ALTERED)
    known = (_signs(schema, _SIGNED), _signs(schema, _SIGNED | {"year"}))
    if table_map.signedness is not None and table_map.signedness not in known:
        raise SchemaChanged(f"a column of {name} is unsigned now, or no longer", hint=_ALTERED)


def _signs(schema: TableSchema, numeric: frozenset[str]) -> bytes:
    """Return the signedness bits that a table map of this definition has."""
    flags = [c.unsigned or c.data_type == "year" for c in schema.columns if c.data_type in numeric]
    size = (len(flags) + 7) // 8
    bits = sum(flag << (8 * size - 1 - place) for place, flag in enumerate(flags))
    return bits.to_bytes(size, "big")


Kind: TypeAlias = Literal["insert", "update", "delete"]
#: Bytes of the objects around an image, measured on CPython 3.11 (64 bits).
_OBJECT_BYTES: Final = 300


class RowImage(NamedTuple):
    """One image of a row: ``data`` is null bitmap and column values, which ``codec`` decodes.

    ``key``: comparable as :mod:`spirit_py.table.keys` says, else exact values that only tell
    whether an update changed the key.
    """

    codec: RowCodec
    key: tuple[Any, ...]
    data: bytes

    @property
    def key_sql(self) -> str:
        """The key as ``(literal, ...)``, for ``DELETE ... WHERE (columns) IN (...)``."""
        return self.codec.key_sql(self.key)

    @property
    def size(self) -> int:
        """Bytes of memory that the image holds, the objects around it included."""
        return len(self.data) + _OBJECT_BYTES

    def render(self) -> RenderedRow:
        """Render the mapping's old columns for SQL; UnreadableChange for what has no literal."""
        codec, data = self.codec, self.data
        try:
            return codec.renderers[data[: codec.bitmap_bytes]](data)
        except UnreadableChange as error:
            where = f"row {self.key_sql} of {codec.schema.full_name}"
            raise UnreadableChange(f"{where}, {error}", hint=error.hint) from error

    def values(self) -> dict[str, Any]:
        """Decode every column into a value that JSON can carry without loss."""
        return self.codec.values(self.data)

    def stored(self) -> dict[str, Any]:
        """Return every column as it is stored: two JSON values or SETs may have one text."""
        return self.codec.stored[self.data[: self.codec.bitmap_bytes]](self.data)


class RowChange(NamedTuple):
    """One changed row: ``before`` of an update or delete, ``after`` of an insert or update."""

    kind: Kind
    before: RowImage | None
    after: RowImage | None


F = TypeVar("F")

_KINDS: Final[dict[int, Kind]] = {
    wire.WRITE_ROWS_V1: "insert", wire.UPDATE_ROWS_V1: "update", wire.DELETE_ROWS_V1: "delete",
    wire.WRITE_ROWS: "insert", wire.UPDATE_ROWS: "update", wire.DELETE_ROWS: "delete",
}  # fmt: skip
_VERSION_2: Final = wire.WRITE_ROWS
_BROKEN_HINT = "see whether the binlog is damaged (mysqlbinlog); start the migration again"
_FULL_IMAGE_HINT = (
    "some session writes with binlog_row_image other than FULL: SET binlog_row_image=FULL there,"
    f" {HiddenChange.CARRY_ON}"
)
_image = partial(tuple.__new__, RowImage)
_change = partial(tuple.__new__, RowChange)


class _ByBitmap(dict[bytes, F]):
    """Functions by null bitmap; compiling one takes a millisecond, so only for those seen often."""

    WORTH = 24
    MOST = 64

    def __init__(self, build: Callable[[Nulls], F], *, optional: bool) -> None:
        super().__init__()
        self._build = build
        self._general = build(None)
        self._optional = optional
        self._seen: dict[bytes, int] = {}

    def __missing__(self, bitmap: bytes) -> F:
        """Return the general function, or make one when the bitmap has become common."""
        if len(self) >= self.MOST:
            return self._general
        if not self._optional:
            self[bitmap] = self._general
            return self._general
        seen = self._seen[bitmap] = self._seen.get(bitmap, 0) + 1
        if seen < self.WORTH:
            if len(self._seen) > 16 * self.MOST:
                self._seen.clear()
            return self._general
        made = self[bitmap] = self._build(int.from_bytes(bitmap, "little"))
        return made


class RowCodec:
    """Decodes the row images of one table map; made by :meth:`compile` or :meth:`for_schema`.

    ``schema`` is the definition that the images follow. ``comparable``: keys may be deduplicated
    and ordered in Python (R6). ``renderers`` render an image as SQL, by null bitmap.
    """

    def __init__(
        self, schema: TableSchema, key_columns: Sequence[Column], carried: Sequence[Column]
    ) -> None:
        self.schema = schema
        self.comparable = comparable(key_columns)
        self._key_columns = tuple(key_columns)
        self.key_names = frozenset(column.name for column in key_columns)
        places = {column.ordinal: place for place, column in enumerate(schema.columns)}
        fields = [field_of(c, place) for place, c in enumerate(schema.columns)]
        key = [places[column.ordinal] for column in key_columns]
        self._null_bits = {1 << at: fields[at].name for at in key if fields[at].nullable}
        order = [places[column.ordinal] for column in carried]
        self._columns = len(fields)
        self.bitmap_bytes = (len(fields) + 7) // 8
        self._all_present = (1 << len(fields)) - 1
        optional = self._optional = any(field.nullable for field in fields)
        self._split = _ByBitmap(lambda n: split_function(fields, key, n, self), optional=optional)
        self.renderers = _ByBitmap(lambda n: render_function(fields, order, n), optional=optional)
        self._plain = _ByBitmap(lambda n: plain_function(fields, n), optional=optional)

    @cached_property
    def stored(self) -> _ByBitmap[Callable[[bytes], dict[str, Any]]]:
        """Functions that cut an image into the values of :meth:`RowImage.stored`, by bitmap."""
        fields = [replace(field_of(c, at), plain="{v}") for at, c in enumerate(self.schema.columns)]
        return _ByBitmap(lambda n: plain_function(fields, n), optional=self._optional)

    @classmethod
    def compile(cls, table_map: TableMap, mapping: TableMapping) -> RowCodec:
        """Make the codec of a migration's source; SchemaChanged for another table's map (R14)."""
        check_table_map(table_map, mapping.source)
        return cls(mapping.source, mapping.key_columns, mapping.imaged)

    @classmethod
    def for_schema(cls, table_map: TableMap, schema: TableSchema) -> RowCodec:
        """Make a codec without a migration; its key is the first index that identifies a row."""
        check_table_map(table_map, schema)
        unique = schema.not_null_unique_indexes()
        names = unique[0].columns if unique else ()
        return cls(schema, [schema.column(name) for name in names], schema.columns)

    def rows(self, event_type: int, body: bytes) -> list[RowChange]:
        """Cut a rows event of this table into its changes, in order.

        HiddenChange without full row images (R13); UnreadableChange where it cannot be read;
        SchemaChanged for another number of columns.
        """
        kind, images = self.images(event_type, body)
        if kind == "insert":
            return list(map(_change, zip(repeat(kind), repeat(None), images, strict=False)))
        if kind == "delete":
            return list(map(_change, zip(repeat(kind), images, repeat(None), strict=False)))
        return list(map(_change, zip(repeat(kind), images[::2], images[1::2], strict=False)))

    def images(self, event_type: int, body: bytes) -> tuple[Kind, list[RowImage]]:
        """Cut a rows event into images, for the hot path; of an update before, after, before ..."""
        kind = _KINDS.get(event_type)
        if kind is None:
            raise self._unreadable(f"came as an event of type {event_type}")
        try:
            return kind, self._images(body, event_type, doubled=kind == "update")
        except (IndexError, KeyError, struct.error) as error:
            raise self._unreadable(f"cannot be read: {error!r}") from error

    def values(self, data: bytes) -> dict[str, Any]:
        """Decode an image's bytes; see :meth:`RowImage.values`."""
        return self._plain[data[: self.bitmap_bytes]](data)

    def key_sql(self, key: tuple[Any, ...]) -> str:
        """Render a key of this codec as ``(literal, ...)``; see :attr:`RowImage.key_sql`."""
        return values.key_sql(self._key_columns, key)

    def _images(self, body: bytes, event_type: int, *, doubled: bool) -> list[RowImage]:
        at = 8
        if event_type >= _VERSION_2:
            at += int.from_bytes(body[8:10], "little")
        count, at = packed_integer(body, at)
        if count != self._columns:
            said = f"a change of {self._name} has {count} columns instead of {self._columns}"
            raise SchemaChanged(said, hint=_ALTERED)
        width = self.bitmap_bytes
        for _ in range(1 + doubled):
            present = int.from_bytes(body[at : at + width], "little")
            if present & self._all_present != self._all_present:
                said = f"a change of {self._name} does not hold all columns of the row"
                raise HiddenChange(said, hint=_FULL_IMAGE_HINT)
            at += width
        found: list[Any] = []
        append, split, end = found.append, self._split, len(body)
        while at < end:
            if self._null_bits:
                self._refuse_null(int.from_bytes(body[at : at + width], "little"))
            at = split[body[at : at + width]](body, at, end, append)
        if at != end or (doubled and len(found) % 2):
            raise self._unreadable("does not end where its rows end")
        return list(map(_image, found))

    def _refuse_null(self, nulls: int) -> None:
        """Refuse a row that has NULL in the key; all that are split together have these NULLs."""
        for bit, name in self._null_bits.items():
            if nulls & bit:
                what = f"NULL in {name}, of the key that identifies its rows"
                raise NullInKey(f"a change of {self._name} has {what}", hint=NullInKey.REMEDY)

    @property
    def _name(self) -> str:
        return self.schema.full_name

    def _unreadable(self, what: str) -> UnreadableChange:
        return UnreadableChange(f"a change of {self._name} {what}", hint=_BROKEN_HINT)
