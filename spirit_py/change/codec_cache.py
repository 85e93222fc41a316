"""Codecs by table id, for a stream that repeats its table maps in every statement (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.change.codec_tablemap import parse_table_map, rows_table_id
from spirit_py.errors import UnreadableChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.change.codec import RowCodec
    from spirit_py.change.codec_tablemap import TableMap

#: The id in a rows event without rows, which only ends a statement.
_NO_TABLE: Final = 0xFFFFFF


class CodecCache:
    """Parses each distinct table map once and remembers the codec of each table id.

    Args:
        compile_codec: Makes the codec of a table map; None for a table that nobody follows.
    """

    #: Definitions and ids kept; a table gets a new id with each ALTER and server restart.
    MOST: Final = 4096

    def __init__(self, compile_codec: Callable[[TableMap], RowCodec | None]) -> None:
        self._compile = compile_codec
        self._by_definition: dict[bytes, RowCodec | None] = {}
        self._by_id: dict[int, RowCodec | None] = {}

    def add(self, body: bytes) -> RowCodec | None:
        """Take in a table map event; give its codec, or None when nobody follows the table."""
        definition = body[6:]
        if definition not in self._by_definition:
            if len(self._by_definition) >= self.MOST:
                self._by_definition.clear()
            self._by_definition[definition] = self._compile(parse_table_map(body))
        codec = self._by_definition[definition]
        table_id = rows_table_id(body)
        self._by_id.pop(table_id, None)
        self._by_id[table_id] = codec
        if len(self._by_id) > self.MOST:
            del self._by_id[next(iter(self._by_id))]
        return codec

    def get(self, table_id: int) -> RowCodec | None:
        """Give the codec of a table id; None when nobody follows the table.

        Raises:
            UnreadableChange: when no table map has announced the id.
        """
        if table_id == _NO_TABLE:
            return None
        try:
            return self._by_id[table_id]
        except KeyError:
            raise UnreadableChange(
                f"rows of table id {table_id} came without their table map",
                hint="the stream began inside a statement; resume from an earlier position",
            ) from None

    def forget(self) -> None:
        """Forget all definitions, because DDL may have given them another meaning."""
        self._by_definition.clear()
