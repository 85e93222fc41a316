"""How long the rest of a run takes, from what it has measured so far (pure).

The current phase has an end of its own (``eta``). What comes after it is the work that is left, at
the time which a row has taken in the copy and the shares of :mod:`spirit_py.table.shares`. Waits
for others (locks, throttles, windows, the operator) are in no estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.estimates import together
from spirit_py.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from spirit_py.mysql.tables.identity import Name

SWAP_SECONDS: Final = 1.0
"""Statistics, locks and the swap, if nobody is in front."""
#: A shorter copy says little about the time of a row.
_ENOUGH_SECONDS: Final = 1.0
_ENOUGH_ROWS: Final = 1000
_ESTIMATED: Final = (Phase.COPY, Phase.INDEX, Phase.DRAIN, Phase.ANALYZE, Phase.CHECKSUM)


@dataclass(frozen=True, kw_only=True)
class TableShares:
    """The work on one table after its copy, by the time of that.

    Attributes:
        index: of the indexes that are left to build.
        checksum: of the comparison.
    """

    index: float = 0.0
    checksum: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What is known of a run.

    Attributes:
        eta: seconds until the current phase's own work ends; None where that is not known.
        spent: seconds of that phase; None where it waits, so that they say nothing.
        building: the table whose indexes are built now, of which the end is.
        row_seconds: time of copying a row; None where nothing shows it.
        rows: of each table; None where they are not known.
        shares: of each table.
    """

    phase: Phase
    eta: float | None
    spent: float | None = None
    row_seconds: float | None
    building: Name | None = None
    rows: Mapping[Name, int | None] = field(default_factory=dict)
    shares: Mapping[Name, TableShares] = field(default_factory=dict)


def row_seconds(rows: int, seconds: float) -> float | None:
    """Return the time of copying a row; None where too little was copied to say it."""
    if rows < _ENOUGH_ROWS or seconds < _ENOUGH_SECONDS:
        return None
    return seconds / rows


def rest_of_run(seen: Measured) -> dict[str, float | None]:
    """Return the seconds of what is left until the swap, by phase; None for what is not known.

    Empty in a phase that waits for others, and before the copy.
    """
    if seen.phase not in _ESTIMATED:
        return {}
    rest = {seen.phase.value: seen.eta}
    builds = {name: one.index for name, one in seen.shares.items()}
    compared = _of_copy(seen, {name: one.checksum for name, one in seen.shares.items()})
    if seen.phase is Phase.INDEX:
        others = {name: share for name, share in builds.items() if name != seen.building}
        known = together(seen.eta, _of_copy(seen, others))
        rest[Phase.INDEX.value] = (
            _expected(seen, _of_copy(seen, builds)) if known is None else known
        )
    elif seen.phase is Phase.COPY and any(builds.values()):
        rest[Phase.INDEX.value] = _of_copy(seen, builds)
    if seen.phase is not Phase.CHECKSUM:
        rest[Phase.CHECKSUM.value] = compared
    elif seen.eta is None:
        rest[Phase.CHECKSUM.value] = _expected(seen, compared)
    rest[Phase.CUTOVER.value] = SWAP_SECONDS
    return rest


def until(planned: Collection[Phase]) -> str:
    """Return what the estimate leads to, for display."""
    if Phase.CUTOVER not in planned:
        return "the end of the rehearsal"
    return "the deferred swap" if Phase.SENTINEL in planned else "the swap"


def _expected(seen: Measured, whole: float | None) -> float | None:
    """Return what is left of a phase that shows no end yet; None once it takes longer."""
    if whole is None or seen.spent is None or seen.spent >= whole:
        return None
    return whole - seen.spent


def _of_copy(seen: Measured, shares: Mapping[Name, float]) -> float | None:
    """Return the time of work that takes these shares of the copy of each table."""
    parts: list[float | None] = []
    for name, share in shares.items():
        rows = seen.rows.get(name)
        if share and (rows is None or seen.row_seconds is None):
            parts.append(None)
        elif share and rows is not None and seen.row_seconds is not None:
            parts.append(rows * seen.row_seconds * share)
    return together(*parts)
