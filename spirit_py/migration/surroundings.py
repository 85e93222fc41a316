"""What a migration waits for beside the server's load: replicas, disks, the clock, other systems.

What the options name is checked before anything is written (:mod:`spirit_py.throttle.asked`); the
throttlers are made when the copy begins.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spirit_py.mysql.local_disk import written_folders
from spirit_py.throttle.asked import is_strict
from spirit_py.throttle.disk import DEFAULT_MIN_FREE, BinlogSpaceThrottler, FreeDiskThrottler
from spirit_py.throttle.http import HttpThrottler
from spirit_py.throttle.innodb import CheckpointAgeThrottler, HistoryThrottler
from spirit_py.throttle.lag.replicas import Replicas
from spirit_py.throttle.lag.throttler import LagThrottler
from spirit_py.throttle.query import QueryThrottler
from spirit_py.throttle.throttler import ALL_WORK, WRITES
from spirit_py.throttle.windows import WindowThrottler

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from spirit_py.checkpoint.table import CheckpointTable
    from spirit_py.migration.run import Run
    from spirit_py.pace import Work
    from spirit_py.throttle.throttler import Throttler


def surroundings(
    run: Run, checkpoint: CheckpointTable | None, work: Collection[Work] = ALL_WORK
) -> Iterator[tuple[Throttler, bool]]:
    """Return the throttlers, and whether nothing may begin before their first look.

    The operator relies on those that options name; the others do not delay a short copy.

    Args:
        checkpoint: has the heartbeat; None where none is written.
        work: those that hold back none of this are left out.
    """
    config = run.config
    connection = config.connection
    if config.allow:
        yield WindowThrottler(config.allow, now=lambda: datetime.now(UTC)), True
    if config.max_lag != 0 and not LagThrottler.holds.isdisjoint(work):
        yield _replica_lag(run, checkpoint), is_strict(config)
    if not FreeDiskThrottler.holds.isdisjoint(work):
        yield from ((one, config.min_free_disk is not None) for one in _disk(run))
    writes = not WRITES.isdisjoint(work)
    if config.max_binlog_space and writes:
        yield BinlogSpaceThrottler(connection, config.max_binlog_space), True
    if config.max_history_length and writes:
        yield HistoryThrottler(connection, config.max_history_length), True
    if config.max_checkpoint_age and writes:
        yield CheckpointAgeThrottler(connection, config.max_checkpoint_age), True
    if config.throttle_http:
        yield HttpThrottler(config.throttle_http), True
    if config.throttle_query:
        query = QueryThrottler(connection, config.throttle_query, database=config.database)
        yield query, True


def _replica_lag(run: Run, checkpoint: CheckpointTable | None) -> LagThrottler:
    config = run.config
    heartbeat = "" if checkpoint is None else checkpoint.beat_query
    return LagThrottler(
        Replicas(config.connection, config.replicas, heartbeat=heartbeat),
        run.settings,
        strict=is_strict(config),
        warn=run.warn,
    )


def _disk(run: Run) -> Iterator[Throttler]:
    least = run.config.min_free_disk
    if least == 0:
        return
    # Before the old tables are dropped too: an error must not end a run that has swapped.
    if folders := run.step("disk", written_folders):
        yield FreeDiskThrottler(folders, DEFAULT_MIN_FREE if least is None else least)
