"""A snapshot of a migration's state, for the operator.

What is not known is None and is shown as unknown, never as zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spirit_py.progress import MigrationProgress

if TYPE_CHECKING:
    from spirit_py.phases import Phase


@dataclass(frozen=True, kw_only=True)
class MigrationStatus(MigrationProgress):
    """A snapshot.

    Attributes:
        pace: how much the work takes of a server that others use; empty where nothing is spared.
        path: the phases that this run goes through; empty for those of a migration.
    """

    phase: Phase
    received: int | None = None
    applied: int | None = None
    deduplicated: int | None = None
    dropped: int | None = None
    pace: str = ""
    path: tuple[Phase, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BatchStatus:
    """A snapshot of a batch.

    Attributes:
        described: how many tables are done, under way, failed and left.
        tables: those under way.
    """

    described: str
    elapsed: float
    tables: tuple[MigrationStatus, ...] = ()
