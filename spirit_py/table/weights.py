"""Keys by weight: texts that Python compares as the server does, by asking the server (R6, pure).

``WEIGHT_STRING(text COLLATE collation)`` has equal bytes for equal texts only, once weights of
trailing spaces are cut off. Tried for every collation (``tests/integration/test_weights.py``): not
so for ``tis620_thai_ci``, ``cp1250_czech_cs``, ``gb18030_chinese_ci`` and ``big5_chinese_ci``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import PacketTooSmall
from spirit_py.table.keys import TEXTS, comparable_column
from spirit_py.table.values import introducer, text_literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.table.keys import ComparableKey
    from spirit_py.table.schema import Column

CHARSETS: Final = frozenset(
    {"ascii", "latin1", "ucs2", "utf16", "utf16le", "utf32", "utf8", "utf8mb3", "utf8mb4"}
)
_SPACES: Final = {"ucs2": b"\0 ", "utf16": b"\0 ", "utf16le": b" \0", "utf32": b"\0\0\0 "}
_SPACE_ROW: Final = -1


def weighable(columns: Sequence[Column]) -> bool:
    """Return whether keys over these columns are comparable once their texts are weighed."""
    return bool(columns) and all(comparable_column(c) or _weighed(c) for c in columns)


def _weighed(column: Column) -> bool:
    text = column.data_type in TEXTS and not comparable_column(column)
    return text and column.charset in CHARSETS and column.pad_space is not None


class KeyWeights:
    """The questions for the weights of one table's keys, whose columns are :func:`weighable`."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._places = [place for place, column in enumerate(columns) if _weighed(column)]
        texts = [columns[place] for place in self._places]
        self._charsets = [str(column.charset) for column in texts]
        self._padded = [bool(column.pad_space) for column in texts]
        selected = ", ".join(
            f"WEIGHT_STRING({_in_charset(f'column_{number}', column)} COLLATE {column.collation})"
            for number, column in enumerate(texts, 1)
        )
        spaces = [_SPACES.get(charset, b" ") for charset in self._charsets]
        self._head = f"SELECT column_0, {selected} FROM (VALUES {self._row(_SPACE_ROW, spaces)}"

    def questions(
        self, keys: Sequence[tuple[Any, ...]], room: int
    ) -> Iterator[tuple[Sequence[tuple[Any, ...]], str]]:
        """Yield queries of ``room`` bytes for the weights of keys; one key may exceed it."""
        frame = len(self._query(()))
        first, size = 0, frame
        rows: list[str] = []
        for at, key in enumerate(keys):
            row = f", {self._row(at - first, [key[place] for place in self._places])}"
            if rows and size + len(row) > room:
                yield keys[first:at], self._query(rows)
                first, size, rows = at, frame, []
                row = f", {self._row(0, [key[place] for place in self._places])}"
            rows.append(row)
            size += len(row)
        if rows:
            yield keys[first:], self._query(rows)

    def _row(self, number: int, texts: Sequence[bytes]) -> str:
        literals = map(_literal, texts, self._charsets)
        return f"ROW({number}, {', '.join(literals)})"

    def _query(self, rows: Sequence[str]) -> str:
        return f"{self._head}{''.join(rows)}) AS weighed"

    def weighed(
        self, keys: Sequence[tuple[Any, ...]], answer: Sequence[tuple[Any, ...]]
    ) -> list[ComparableKey]:
        """Return the comparable forms of the keys of a question, from its answer.

        Raises PacketTooSmall where the server has no room for a weight: such keys would be equal.
        """
        weights = {number: found for number, *found in answer}
        spaces = weights.pop(_SPACE_ROW)
        if self._places == [0] and len(keys[0]) == 1:
            pad = spaces[0] if self._padded[0] else b""
            return [(_cut(weights[number][0], pad),) for number in range(len(keys))]
        return [self._replaced(key, weights[at], spaces) for at, key in enumerate(keys)]

    def _replaced(
        self, key: tuple[Any, ...], weights: Sequence[bytes | None], spaces: Sequence[bytes]
    ) -> ComparableKey:
        found = list(key)
        for place, weight, space, padded in zip(
            self._places, weights, spaces, self._padded, strict=True
        ):
            found[place] = _cut(weight, space if padded else b"")
        return tuple(found)


def _literal(text: bytes, charset: str) -> str:
    return f"_ucs2 X'{text.hex()}'" if charset == "ucs2" else text_literal(text, charset)


def _in_charset(sql: str, column: Column) -> str:
    charset = str(column.charset)
    wider = charset != "ucs2" and introducer(charset) != f"_{charset}"
    return f"CONVERT({sql} USING {charset})" if wider else sql


def _cut(weight: bytes | None, pad: bytes) -> bytes:
    if weight is None:
        raise PacketTooSmall(
            "the weight of a changed row's key may be larger than max_allowed_packet",
            hint="SET GLOBAL max_allowed_packet=1048576 or more, then run the same command again",
        )
    if not pad or not weight.endswith(pad):
        return weight
    end = len(weight)
    while end and weight[end - len(pad) : end] == pad:
        end -= len(pad)
    return weight[:end]
