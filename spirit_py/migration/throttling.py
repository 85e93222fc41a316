"""The throttlers of a migration, put together."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from spirit_py.contracts import FeedStatistics
from spirit_py.migration.surroundings import surroundings
from spirit_py.mysql.traffic import read_traffic
from spirit_py.pace import Unhindered, Work
from spirit_py.throttle.adaptive import Adaptive
from spirit_py.throttle.backlog import Backlog
from spirit_py.throttle.lag.throttler import LagThrottler
from spirit_py.throttle.latency import CommitLatency
from spirit_py.throttle.load import ServerLoad
from spirit_py.throttle.throttles import Throttles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.checkpoint.table import CheckpointTable
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run


#: Queries a second of a task of Spark that waits for its first order, at most.
_UNKNOWN_READS: Final = 600.0


def note_traffic(run: Run, session: SqlSession) -> None:
    """Note what the server's other users have done so far; some time before they are spared."""
    run.traffic = (time.monotonic(), read_traffic(session))


def begin_throttling(run: Run, checkpoint: CheckpointTable) -> None:
    """Let the rest of the run ask the throttlers before each piece of work.

    Before the feed starts: commits are timed while nothing of the run works.

    Args:
        checkpoint: has the heartbeat.
    """
    connection = run.config.connection
    around = tuple(surroundings(run, checkpoint))
    lag = next((one for one, _ in around if isinstance(one, LagThrottler)), None)
    adaptive = Adaptive(run.config.threads)
    throttles = Throttles(
        run.settings,
        adaptive=adaptive,
        slow_part=lambda: None if lag is None else lag.part_bytes(),
        tell=run.tell,
    )
    # First, because the application's changes go before everything of ours.
    throttles.add(Backlog(lambda: _statistics(run)))
    throttles.add(ServerLoad(connection, run.settings, run.stop))
    throttles.add(
        CommitLatency(
            connection,
            run.settings,
            adaptive,
            seen=run.traffic,
            beat=checkpoint.beat,
            working=throttles.working,
            unknown_reads=lambda: _unknown_reads(run),
            pressure=lambda: _pressure(lag),
        ),
        first=not run.config.aggressive,
    )
    if run.measures is not None:
        throttles.add(run.measures.join(adaptive))
    for throttler, first in around:
        throttles.add(throttler, first=first)
    run.closing("the throttlers", throttles.close)
    throttles.start()
    run.pace = throttles
    run.figures.throttles = throttles


def end_throttling(run: Run) -> None:
    """Hold nothing back any more, and write no heartbeat: the swap is made.

    Throttlers that no longer look would be reasons to wait for ever, for a revert too.
    """
    run.pace = Unhindered(run.settings.current.chunk_seconds)
    if run.figures.throttles is not None:
        run.figures.throttles.close()


@contextlib.contextmanager
def drop_throttled(run: Run) -> Iterator[None]:
    """Let the drop of the old tables ask what holds it back, while the context is open.

    The throttlers of the copy are closed by then. Those that nobody asked for are left out.
    """
    throttles = Throttles(run.settings, tell=run.tell)
    if run.settings.current.max_load:
        load = ServerLoad(run.config.connection, run.settings, run.stop)
        throttles.add(load, first=True)
    for throttler, relied_on in surroundings(run, None):
        if relied_on and Work.DROP in throttler.holds:
            throttles.add(throttler, first=True)
        else:
            throttler.close()
    throttles.start()
    run.pace = throttles
    try:
        yield
    finally:
        end_throttling(run)
        throttles.close()


def _pressure(lag: LagThrottler | None) -> tuple[str, float]:
    """Return how near the replicas are to what they may be behind: 1.0 is at it."""
    return "replica lag", 0.0 if lag is None else lag.pressure()


def _statistics(run: Run) -> FeedStatistics:
    source = run.figures.source
    return FeedStatistics() if source is None else source.statistics()


def _unknown_reads(run: Run) -> float:
    """Return how many queries a second Spark's tasks send, which this process does not count."""
    spark = run.engines.spark
    return _UNKNOWN_READS * run.config.threads if spark is not None and spark.ready else 0.0
