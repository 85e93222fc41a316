"""The throttlers of a migration, put together."""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from spirit_py.config import SparkConfig
from spirit_py.mysql.facts import written_folders
from spirit_py.pace import Unhindered, Work, await_turn
from spirit_py.progress import FeedStatistics
from spirit_py.throttle import server
from spirit_py.throttle.adaptive import Adaptive
from spirit_py.throttle.lag import LagThrottler, Replicas
from spirit_py.throttle.latency import CommitLatency, read_traffic
from spirit_py.throttle.option_checks import is_strict, watches_replicas
from spirit_py.throttle.throttler import ALL_WORK, WRITES, backlog_throttler, window_throttler
from spirit_py.throttle.throttles import Throttles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from spirit_py.checkpoint.table import CheckpointTable
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.throttle.latency import Traffic
    from spirit_py.throttle.throttler import Throttler


def surroundings(
    run: Run,
    checkpoint: CheckpointTable | None,
    work: Collection[Work] = ALL_WORK,
) -> Iterator[tuple[Throttler, bool]]:
    """Return the throttlers of ``work``, and whether nothing may begin before their first look.

    The operator relies on those that options name; the others do not delay a short copy.
    """
    config = run.config
    connection = config.connection
    if config.allow:
        yield window_throttler(config.allow, now=lambda: datetime.now(UTC)), True
    if watches_replicas(config) and not LagThrottler.holds.isdisjoint(work):
        yield _replica_lag(run, checkpoint), is_strict(config)
    least = config.min_free_disk if not server.FREE_DISK_HOLDS.isdisjoint(work) else 0
    # Before the old tables are dropped too: an error must not end a run that has swapped.
    if least and (folders := run.step("disk", written_folders)):
        yield server.free_disk_throttler(folders, least), config.relies_on("min_free_disk")
    writes = not WRITES.isdisjoint(work)
    if config.max_binlog_space and writes:
        yield server.binlog_space_throttler(connection, config.max_binlog_space), True
    if config.max_history_length and writes:
        yield server.history_throttler(connection, config.max_history_length), True
    if config.max_checkpoint_age and writes:
        yield server.checkpoint_age_throttler(connection, config.max_checkpoint_age), True
    if config.throttle_http:
        yield server.http_throttler(config.throttle_http), True
    if config.throttle_query:
        query = config.throttle_query
        yield server.query_throttler(connection, query, database=config.database), True


def _replica_lag(run: Run, checkpoint: CheckpointTable | None) -> LagThrottler:
    config = run.config
    heartbeat = "" if checkpoint is None else checkpoint.beat_query
    account, strict = config.replica_account, is_strict(config)
    replicas = Replicas(config.connection, config.replicas, account=account, heartbeat=heartbeat)
    told = run.lag_warnings
    return LagThrottler(
        replicas,
        run.settings,
        strict=strict,
        warn=run.warn,
        told=told,
        stands=lambda: run.figures.throttles is not None and run.figures.throttles.stands(),
    )


#: The server ends a session that says nothing for long.
_KEEP_ALIVE_SECONDS: Final = 60.0


SeenTraffic: TypeAlias = "tuple[float, Traffic]"
"""When, on the monotonic clock, and what the other sessions had done by then."""


def traffic_now(session: SqlSession) -> SeenTraffic:
    """Return what the server's other users have done so far; some time before they are spared."""
    return time.monotonic(), read_traffic(session)


def begin_throttling(run: Run, checkpoint: CheckpointTable, seen: SeenTraffic) -> None:
    """Let the run ask the throttlers before each piece of work; call it before the feed starts."""
    connection = run.config.connection
    around = tuple(surroundings(run, checkpoint))
    others = tuple(_of_others(run, run.config.others))
    # Of a move the target's as well: it is what the copy writes to.
    lags = [one for one in (one for one, _ in (*around, *others)) if isinstance(one, LagThrottler)]
    adaptive = Adaptive()

    def slow_part() -> float | None:
        parts = (lag.part_bytes() for lag in lags)
        return min((part for part in parts if part is not None), default=None)

    throttles = Throttles(run.settings, adaptive=adaptive, slow_part=slow_part, tell=run.tell)
    # First, because the application's changes go before everything of ours.
    throttles.add(backlog_throttler(lambda: run.figures.received() or FeedStatistics()))
    load = server.load_throttler(connection, run.settings, run.stop)
    throttles.add(load, first=_limits_load(run))
    for throttler, first in others:
        throttles.add(throttler, first=first)
    throttles.add(
        CommitLatency(
            connection,
            run.settings,
            adaptive,
            seen=seen,
            beat=checkpoint.beat,
            working=throttles.working,
            held=throttles.held,
            in_flight=run.figures.in_flight if run.measures is None else run.measures.in_flight,
            at_work=(
                (lambda: adaptive.at_work(runs=run.figures.in_flight()))
                if run.measures is None
                else run.measures.at_work
            ),
            stands=throttles.stands,
            pressure=lambda: ("replica lag", max((lag.pressure() for lag in lags), default=0.0)),
        ),
        first=not run.config.aggressive,
    )
    for one in (connection, *run.config.others):
        throttles.add(server.global_lock_throttler(one, run.tell))
    if run.measures is not None:
        throttles.add(run.measures.join(adaptive, run.figures.in_flight))
    for throttler, first in around:
        throttles.add(throttler, first=first)
    run.closing("the throttlers", throttles.close)
    throttles.start()
    run.work_at(throttles)
    run.figures.sparing(throttles)


def _limits_load(run: Run) -> bool:
    limits = run.settings.current
    return bool(limits.max_load or limits.critical_load)


def _of_others(run: Run, others: Iterable[ConnectionOptions]) -> Iterator[tuple[Throttler, bool]]:
    """Return what spares servers beside the first, as :func:`surroundings`."""
    for other in others:
        yield server.load_throttler(other, run.settings, run.stop), _limits_load(run)
        if watches_replicas(run.config):
            replicas = Replicas(other)
            strict = is_strict(run.config)
            lag = LagThrottler(
                replicas, run.settings, strict=strict, warn=run.warn, told=run.lag_warnings
            )
            yield lag, strict


def end_throttling(run: Run) -> None:
    """Hold nothing back any more, and write no heartbeat: the swap is made, a revert may follow."""
    run.work_at(Unhindered(run.settings.current.target_chunk_time, tasks=SparkConfig.threads))
    if run.figures.throttles is not None:
        run.figures.throttles.close()


@contextlib.contextmanager
def throttled(run: Run, *work: Work) -> Iterator[None]:
    """Let work before the copy, or after the swap, ask what holds it back.

    The throttlers of the copy do not run meanwhile: only those that were asked for, and the
    server's load, whose limits may be set while the work waits; of what reads or rebuilds a table,
    which keeps a global lock waiting, that one too.
    """
    throttles = Throttles(run.settings, tell=run.tell)
    load = server.load_throttler(run.config.connection, run.settings, run.stop)
    throttles.add(load, first=_limits_load(run))
    # Old tables are dropped on each source of a move.
    config = run.config
    sources = config.others[: -len(config.targets)] if Work.DROP in work and config.targets else ()
    others = _of_others(run, sources)
    for throttler, relied_on in (*surroundings(run, None, work), *others):
        if relied_on or throttler.name == server.FREE_DISK:
            throttles.add(throttler, first=True)
        else:
            throttler.close()
    if not {Work.ARCHIVE, Work.SEARCH, Work.REBUILD}.isdisjoint(work):
        # A stream that Spark reads would not be repeated: it is not ended, but no other begins.
        ends = Work.ARCHIVE not in work
        throttles.add(server.global_lock_throttler(config.connection, run.tell, ends=ends))
    throttles.start()
    run.work_at(throttles)
    try:
        yield
    finally:
        end_throttling(run)
        throttles.close()


@contextlib.contextmanager
def search_throttled(run: Run, session: SqlSession) -> Iterator[Callable[[], None]]:
    """Return what a search calls before each statement to wait; begins with the first call."""
    with contextlib.ExitStack() as stack:
        throttling = False
        seen = time.monotonic()

        def pause(seconds: float) -> None:
            nonlocal seen
            run.stop.pause(seconds)
            if time.monotonic() - seen > _KEEP_ALIVE_SECONDS:
                session.query("SELECT 1")
                seen = time.monotonic()

        def turn() -> None:
            nonlocal throttling
            run.stop.check()
            if not throttling:
                stack.enter_context(throttled(run, Work.SEARCH))
                throttling = True
            await_turn(run.pace, Work.SEARCH, pause=pause, show=run.show)

        yield turn
