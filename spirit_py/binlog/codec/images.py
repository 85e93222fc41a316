"""Row images: the bytes of one row, decoded only as far as it is used (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from spirit_py.errors import UnreadableChange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.contracts import RenderedRow
    from spirit_py.table.schema import TableSchema

Kind: TypeAlias = Literal["insert", "update", "delete"]
#: Bytes of the objects around an image, measured on CPython 3.11 (64 bits).
_OBJECT_BYTES: Final = 300


class ImageDecoder(Protocol):
    """The codec, as an image uses it; see :class:`spirit_py.binlog.codec.rows.RowCodec`."""

    schema: TableSchema
    key_names: frozenset[str]
    bitmap_bytes: int

    @property
    def renderers(self) -> Mapping[bytes, Callable[[bytes], RenderedRow]]:
        """The functions that render an image as SQL, by null bitmap."""

    def values(self, data: bytes) -> dict[str, Any]:
        """Decode an image's bytes into values that JSON can carry."""

    def key_sql(self, key: tuple[Any, ...]) -> str:
        """Render a key as ``(literal, ...)``."""


class RowImage(NamedTuple):
    """One image of a row, undecoded but for its key.

    Attributes:
        codec: decodes it.
        key: the key's values; comparable as :mod:`spirit_py.table.keys` says, else exact
            values that only tell whether an update changed the key.
        data: null bitmap and column values.
    """

    codec: ImageDecoder
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
        """Render the mapping's old columns for SQL.

        Raises:
            UnreadableChange: a value has no literal; with row and column.
        """
        codec, data = self.codec, self.data
        try:
            return codec.renderers[data[: codec.bitmap_bytes]](data)
        except UnreadableChange as error:
            where = f"row {self.key_sql} of {codec.schema.schema}.{codec.schema.name}"
            raise UnreadableChange(f"{where}, {error}", hint=error.hint) from error

    def values(self) -> dict[str, Any]:
        """Decode every column into a value that JSON can carry without loss."""
        return self.codec.values(self.data)


class RowChange(NamedTuple):
    """One changed row: ``before`` of an update or delete, ``after`` of an insert or update."""

    kind: Kind
    before: RowImage | None
    after: RowImage | None
