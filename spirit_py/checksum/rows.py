"""Which rows differ, of those that both sides have listed (pure)."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from spirit_py.checksum.result import RowDifference
from spirit_py.table.values import row_key_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.table.schema import Column

MOST_TOLD: Final = 64 << 10
"""Bytes of keys that an answer lists; eight answers are one message to the driver."""

Listed: TypeAlias = "Sequence[Sequence[Any]]"
"""Rows as a side has listed them: the key, the hash behind it, and the key to match by."""
Rows: TypeAlias = dict[tuple[Any, ...], tuple[str, list[str]]]
"""For each key as the new table renders it: its SQL text and the hashes of its rows."""


def by_key(rows: Listed, columns: Sequence[Column]) -> Rows:
    """Return rows by their keys, with all their hashes in order."""
    found: Rows = {}
    width = len(columns)
    for row in rows:
        same = tuple(as_bytes(item) for item in row[width + 1 :])
        if same not in found:
            found[same] = (key_text(columns, row[:width]), [])
        found[same][1].append(row[width])
    for _, hashes in found.values():
        hashes.sort()
    return found


def as_bytes(item: Any) -> bytes:
    """Return a value as its bytes: a number becomes text on the side that may be NULL."""
    return item if isinstance(item, bytes) else str(item).encode()


def key_text(columns: Sequence[Column], row: Sequence[Any]) -> str:
    """Render a key as SQL, in which single columns may be NULL."""
    if None not in row:
        return row_key_sql(columns, row)
    parts = [
        "NULL" if item is None else row_key_sql((column,), (item,))[1:-1]
        for column, item in zip(columns, row, strict=True)
    ]
    return f"({', '.join(parts)})"


def differences(source: Rows, target: Rows) -> list[RowDifference]:
    """List the keys that have not the same rows on both sides."""
    kinds: list[RowDifference] = []
    for same, (key, hashes) in source.items():
        if same not in target:
            kinds.append(RowDifference(key=key, kind="missing"))
        elif target[same][1] != hashes:
            kinds.append(RowDifference(key=key, kind="changed"))
    kinds += [
        RowDifference(key=key, kind="extra")
        for same, (key, _) in target.items()
        if same not in source
    ]
    return kinds


def unequal(source: Listed, target: Listed, width: int) -> tuple[Listed, Listed]:
    """Leave out the rows that both sides have, by their hashes; these are behind the key."""
    mine, theirs = {row[width] for row in source}, {row[width] for row in target}
    if len(mine) != len(source) or len(theirs) != len(target):
        # Twins: how often a row is there counts, too.
        return source, target
    only = mine ^ theirs
    return [row for row in source if row[width] in only], [
        row for row in target if row[width] in only
    ]


def first_keys(found: Sequence[RowDifference]) -> list[str]:
    """Return the keys of rows as far as they are :data:`MOST_TOLD` bytes at most."""
    sizes = accumulate(len(each.key) for each in found)
    return [each.key for each, size in zip(found, sizes, strict=True) if size <= MOST_TOLD]
