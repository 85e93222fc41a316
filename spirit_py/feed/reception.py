"""Waits until all executed was received, or the backlog is trivial (R12); the feed's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass
from spirit_py.errors import ChangesNotFlushed, FeedFailure, FeedSilent
from spirit_py.mysql.retry import retrying
from spirit_py.progress import FeedStatistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.binlog.events import Frontier
    from spirit_py.contracts import ChangeSource, SqlSession
    from spirit_py.feed.dispatch import Dispatcher
    from spirit_py.feed.ledger import Ledger
    from spirit_py.feed.shared import Backpressure, Shared
    from spirit_py.feed.subscription import Subscriptions
    from spirit_py.threads import StopSwitch

_LOOK_AGAIN: Final = 0.001


@dataclass(eq=False)
class Reception:
    """How far the stream was received; ``check`` raises what ends a wait."""

    shared: Shared
    ledger: Ledger
    dispatcher: Dispatcher
    backpressure: Backpressure
    check: Callable[[], None]

    def __post_init__(self) -> None:
        self.heard()

    def heard(self) -> None:
        """Note that the source sent something."""
        self._heard_at = self.shared.clock()

    def wait(self, seconds: float, session: SqlSession | None, *, while_moving: bool) -> None:
        """Wait until all that is visible at the call was received; FeedFailure after ``seconds``.

        All that was received before must be executed in ``session``: else the numbers are of
        another log (R25). ``while_moving``: progress restarts the limit.
        """
        deadline = self.shared.clock() + seconds
        with self.shared.lock:
            claims = [(one, one.claim()) for one in self.shared.subscriptions]
            before = self.ledger.received.copy()
        target = self.shared.stream.executed(session)
        with self.shared.lock:
            seen = self._progress()
            while not self.ledger.received.reaches(target):
                self.check()
                self.ledger.absorb(self.shared.stream.unlogged)
                if while_moving and (now := self._progress()) != seen:
                    seen, deadline = now, self.shared.clock() + seconds
                left = deadline - self.shared.clock()
                if left <= 0 or self.shared.ended.is_set():
                    progress = "made no progress" if while_moving else "not caught up"
                    raise FeedSilent(
                        "the change feed has not received all that the server had executed: for"
                        f" {seconds:.0f} s it has {progress}; {self._liveness()}",
                        hint="see whether the server sends its binlog; run the same command again",
                    )
                self.shared.lock.wait(min(left, 1.0))
            for subscription, claim in claims:
                subscription.trust(claim)
        if session is not None and not target.reaches(before):
            self._await_execution(before, session, deadline)
        self.check()

    def _await_execution(self, received: Frontier, session: SqlSession, deadline: float) -> None:
        while not self.shared.stream.has_executed(received, session):
            # Commits of other tables may be in the binlog, and not be visible yet.
            self.check()
            if self.shared.clock() > deadline or self.shared.ended.wait(_LOOK_AGAIN):
                raise FeedFailure(
                    "the change feed has received transactions that the server has not executed",
                    hint="see whether its commits wait for a semi-synchronous replica",
                )

    def _progress(self) -> tuple[object, ...]:
        totals = self.shared.subscriptions.totals()
        received = self.ledger.received.text()
        return received, self.shared.stream.traffic[1], totals.received, totals.applied

    def _liveness(self) -> str:
        if trouble := self.shared.stream.trouble:
            return f"it is not connected ({trouble})"
        if trouble := self.dispatcher.trouble:
            return f"it reads a batch again ({trouble})"
        if self.backpressure.waiting:
            return "it waits, because its buffers are full"
        return f"it last heard from the server {self.shared.clock() - self._heard_at:.0f} s ago"


TRIVIAL_BACKLOG: Final = 1000
"""Pending changes up to which the backlog is trivial."""
_STALLED_ROUNDS: Final = 10
_FIRST_PAUSE: Final = 0.5


def flush_backlog(apply: Callable[[], int], pending: Callable[[], int], *, trivial: int) -> None:
    """Apply in rounds until the backlog is trivial; ChangesNotFlushed if it does not shrink."""
    best, stalled = None, 0
    while True:
        applied = apply()
        left = pending()
        if left <= trivial or not applied:
            return
        stalled = stalled + 1 if best is not None and left >= best else 0
        best = left if best is None else min(best, left)
        if stalled >= _STALLED_ROUNDS:
            raise ChangesNotFlushed(
                f"{left} changes are still pending after {stalled} rounds without progress",
                hint="the table is written faster than changes are applied: wait for a"
                " quieter time, or raise the apply threads",
            )


def patiently_with(
    source: ChangeSource,
    stop: StopSwitch,
    *,
    tell: Callable[[str], None],
    apply: Callable[[], object],
) -> None:
    """Receive and apply until that succeeds; fails after a standstill of :data:`PATIENCE` s."""

    def moved() -> object:
        seen = source.statistics()
        return seen.received, seen.applied, seen.read_position

    def attempt() -> None:
        stop.check()
        source.block_wait()
        apply()

    waited = False

    def hiccup(_: int, error: BaseException) -> None:
        nonlocal waited
        waited = True
        tell(f"the change feed to catch up: {error}")

    hiccups = FeedFailure, ChangesNotFlushed
    retrying(stop, first_pause=_FIRST_PAUSE, on_retry=hiccup, hiccups=hiccups, progress=moved)(
        attempt
    )
    if waited:
        tell("")


def statistics(
    backpressure: Backpressure,
    *,
    ledger: Ledger | None,
    lag: float | None,
    paused: bool,
    apply_sessions: int,
) -> FeedStatistics:
    """Return the counters of a feed; ``ledger`` and ``lag`` are None before the start."""
    shared = backpressure.shared
    stream, subscriptions = shared.stream, shared.subscriptions
    received, skipped, own = stream.traffic
    with shared.lock:
        totals = subscriptions.totals()
        return FeedStatistics(
            received=totals.received,
            applied=totals.applied,
            deduplicated=totals.deduplicated,
            dropped_above_high_watermark=totals.dropped,
            pending=subscriptions.pending,
            buffered_bytes=subscriptions.bytes + backpressure.store.bytes,
            peak_buffered_bytes=backpressure.peak,
            backpressure_seconds=backpressure.seconds,
            backpressure=backpressure.waiting,
            parked=_parked(subscriptions, backpressure, paused=paused),
            retention=backpressure.retention,
            # Of a connection that is closed on purpose there is none.
            trouble="" if shared.ended.is_set() else stream.trouble,
            reconnects=stream.reconnects,
            received_bytes=received,
            skipped_bytes=skipped,
            own_bytes=own,
            apply_sessions=apply_sessions,
            lag_seconds=lag,
            read_position=ledger.received.text() if ledger else "",
            behind_seconds=ledger.behind_seconds if ledger else None,
        )


def _parked(subscriptions: Subscriptions, backpressure: Backpressure, *, paused: bool) -> str:
    if backpressure.waiting:
        return "the buffers are full, the reader waits"
    if paused:
        return "the swap or a repair applies them"
    if not all(one.may_apply for one in subscriptions):
        return "the build of indexes holds them"
    fifo = [one for one in subscriptions if not one.buffer.comparable]
    if any(one.buffer.pending and one.tracker.settled < one.tracker.dispatched for one in fifo):
        return "chunks in flight hold the queue"
    return ""
