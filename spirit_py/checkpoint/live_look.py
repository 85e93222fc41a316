"""Read what a running process shows of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.examination import find_record
from spirit_py.checkpoint.live import LiveFigures
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.own_sessions import of_run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.tables.identity import Name


def live_of(
    session: SqlSession, checkpoint: CheckpointTable, worker: int | None
) -> tuple[LiveFigures | None, float | None]:
    """Return the figures that were written last, and how many seconds ago.

    Where a process works on the migration, those of an earlier one are none.

    Args:
        worker: the session that holds the lock of the migration.
    """
    try:
        found = checkpoint.read(session, LiveFigures)
    except UnreadableCheckpoint:
        # Of another version of the program.
        return None, None
    if found is None or (worker is not None and not of_run(session, found.run, [worker])):
        return None, None
    return found, round(max(0.0, checkpoint.age(session, LiveFigures)), 3)


def runs_seen(session: SqlSession, tables: Iterable[Name]) -> set[str]:
    """Return the tokens of the runs that have last written figures for one of the tables."""
    return {found.run for table in tables if (found := _figures(session, table)) is not None}


def _figures(session: SqlSession, table: Name) -> LiveFigures | None:
    try:
        home = CheckpointTable(*find_record(session, table).home)
        return home.read(session, LiveFigures) if home.is_ours(session) else None
    except UnreadableCheckpoint:
        return None
    except ServerFault as fault:
        # Without the privilege the run is refused by its checks.
        if not access_denied(fault):
            raise
        return None
