"""A snapshot of a migration's state, for the operator.

What is not known is None and is shown as unknown, never as zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spirit_py.progress import MigrationProgress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.phases import Phase
    from spirit_py.status.totals import RunTotals


@dataclass(frozen=True, kw_only=True)
class MigrationStatus(MigrationProgress):
    """A snapshot.

    Attributes:
        pace: how much the work takes of a server that others use; empty where nothing is spared.
        path: the phases that this run goes through; empty for those of a migration.
        totals: what the run has done since it began; None where that is not counted.
    """

    phase: Phase
    received: int | None = None
    applied: int | None = None
    deduplicated: int | None = None
    dropped: int | None = None
    pace: str = ""
    path: tuple[Phase, ...] = ()
    totals: RunTotals | None = None


@dataclass(frozen=True, kw_only=True)
class BatchStatus:
    """A snapshot of a batch.

    Attributes:
        described: how many tables are done, under way, failed and left.
        tables: those under way.
        counts: how many are ``done``, ``running``, ``failed`` and ``left``.
    """

    described: str
    elapsed: float
    tables: tuple[MigrationStatus, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
