"""A comparison of a few rows, one by one, in one snapshot of their own."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from spirit_py.checksum.query import ComparisonPlan, Keys
from spirit_py.checksum.worker import JoinChecksum, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spirit_py.checksum.result import RowDifference
    from spirit_py.config import ConnectionOptions
    from spirit_py.table.mapping import TableMapping

_BATCH: Final = 500


def comparable_by_key(mapping: TableMapping) -> bool:
    """Return whether a key of the source finds the new table's row, also where the source has none.

    Not where the new table is read through the source's rows.
    """
    return ComparisonPlan(mapping=mapping).aligned


def rows_that_differ(
    source: ConnectionOptions,
    mapping: TableMapping,
    keys: Iterable[str],
    *,
    between: Callable[[], object],
) -> list[RowDifference]:
    """Return the rows that differ now, of those with these keys; no lock is taken.

    Args:
        keys: each as ``(literal, ...)``, of a mapping that is :func:`comparable_by_key`.
        between: called before each batch of 500; an error that it raises ends the comparison.
    """
    join = JoinChecksum(source=source, target=None, mapping=mapping, most_differences=0, examples=0)
    reader = join(0)
    found: list[RowDifference] = []
    try:
        reader.take_snapshot()
        for batch in key_batches(keys):
            between()
            found += differences(*reader.look(batch))
    finally:
        reader.close()
    return found


def key_batches(keys: Iterable[str]) -> Iterator[Keys]:
    """Cut keys, each once, into selections for statements of bounded length."""
    rest = iter(dict.fromkeys(keys))
    while batch := tuple(islice(rest, _BATCH)):
        yield Keys(batch)
