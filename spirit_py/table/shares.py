"""How long the later parts of a run take, as shares of the time of copying the same rows (pure).

Measured shares, for times that are shown as "about" before there is anything better: a build shows
its own progress, and a comparison its own speed, soon after they have begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.table.schema import TableSchema

COMPARED: Final = 0.2
"""Time of comparing a row in both tables by that of copying it."""
COMPARED_STAGED: Final = 0.6
"""The same where the server converts the values once more to compare them."""
_BUILT: Final = 0.25
"""Time of an index's entry by that of copying its row into a table without that index."""


def build_share(table: TableSchema, names: Iterable[str]) -> float:
    """Return the time of building indexes by that of copying the rows without them."""
    return sum(_BUILT for name in names if table.index(name) is not None)
