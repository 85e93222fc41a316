"""A snapshot of a migration's state, for the operator.

What is not known is None and is shown as unknown, never as zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.progress import MigrationProgress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.phases import Phase
    from spirit_py.status.totals import RunTotals


HISTORY_SECONDS: Final = 2.0
"""Seconds between two speeds of :attr:`MigrationStatus.history`."""


@dataclass(frozen=True, kw_only=True)
class MigrationStatus(MigrationProgress):
    """A snapshot.

    Attributes:
        pace: how much the work takes of a server that others use; empty where nothing is spared.
        totals: what the run has done since it began; None where that is not counted.
        passed: the phases that have ended, with their seconds.
        path: the phases that this run goes through; empty for those of a migration.
        to_come: the phases that are still to come, as far as that is decided.
        history: rows a second at even times, the newest last; ``HISTORY_SECONDS`` apart.
    """

    phase: Phase
    received: int | None = None
    applied: int | None = None
    deduplicated: int | None = None
    dropped: int | None = None
    pace: str = ""
    passed: tuple[tuple[Phase, float], ...] = ()
    path: tuple[Phase, ...] = ()
    to_come: tuple[Phase, ...] = ()
    totals: RunTotals | None = None
    history: tuple[float, ...] = ()


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
