"""Make differing rows equal again, under the change feed's rules (R5, decision of R11)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Protocol

from spirit_py.errors import ChecksumFailure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.checksum.result import RowDifference
    from spirit_py.contracts import ChangeSource
    from spirit_py.table.mapping import TableMapping

_BATCH: Final = 500
_SHOWN: Final = 10


class Recopier(Protocol):
    """What a repair needs of an applier."""

    def recopy(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Make the new table's rows of these keys equal to the source's; return their number."""


def repair(
    applier: Recopier,
    feed: ChangeSource | None,
    mapping: TableMapping,
    differences: Sequence[RowDifference],
) -> int:
    """Copy the differing rows again; return the number of keys treated.

    Applying is paused meanwhile: an older row image applied between reading and writing a row would
    be lost. Images applied later bring the row to its latest state again.

    Raises:
        ChecksumFailure: a missing row had values that only the new table held; nothing was done.
    """
    _refuse_unknown_values(mapping, differences)
    keys = list(dict.fromkeys(difference.key for difference in differences))
    treated = 0
    for begin in range(0, len(keys), _BATCH):
        paused = contextlib.nullcontext() if feed is None else feed.applies_paused()
        with paused:
            try:
                treated += applier.recopy(mapping, keys[begin : begin + _BATCH])
            finally:
                if mapping.merging and feed is not None:
                    feed.write_over(mapping)
    if mapping.merging and feed is not None:
        # Copied rows are newer than pending changes: duplicates count only after these.
        feed.block_wait()
    return treated


def _refuse_unknown_values(mapping: TableMapping, differences: Sequence[RowDifference]) -> None:
    """Refuse to insert a missing row that had values of its own: the copy would have defaults."""
    missing = [difference for difference in differences if difference.kind == "missing"]
    if not mapping.kept or not missing:
        return
    target = f"{mapping.target.schema}.{mapping.target.name}"
    columns = ", ".join(column.name for column in mapping.kept)
    raise ChecksumFailure(
        f"{len(missing)} rows are missing in {target}, and it is not known what they had in its"
        f" columns that {mapping.source.name} does not have: {columns}",
        hint=f"insert these rows into {target} with the values that are meant, then run the same"
        " command again",
        details=tuple(str(difference) for difference in missing[:_SHOWN]),
    )
