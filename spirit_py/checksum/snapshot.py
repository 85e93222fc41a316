"""The table lock under which all snapshots open at the same moment (docs/verification.md).

A snapshot takes no table lock itself, and sees all that the lock's session wrote (measured). A
table locked WRITE brings further locks (:mod:`spirit_py.attached.implied_locks`), one locked READ
does not.
"""

from __future__ import annotations

import contextlib
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py import errors, points
from spirit_py.attached.implied_locks import implied_locks
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.locks.look import LockRequest
from spirit_py.locks.table import LockWatch, TableLock, let_go_when_silent, open_lock_session
from spirit_py.locks.turns import Front, LockTurns, SomebodyInFront, named
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import INTERRUPTED, LOCK_WAIT_TIMEOUT, Disposition, disposition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.checksum.worker import Comparison
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.locks.blockers import Blocker
    from spirit_py.mysql.session import Session

_WHAT: Final = "the table lock of its snapshot"
_FLUSH_SECONDS: Final = 10.0
_CATCH_UP_SECONDS: Final = 30
#: Requests before which a replica gets time to catch up.
_CATCH_UP_ATTEMPTS: Final = 3


@dataclass(frozen=True, kw_only=True)
class LockFigures:
    """What one snapshot cost the application, in milliseconds; ``one_moment``: on both servers."""

    waited_ms: float = 0.0
    held_ms: float = 0.0
    attempts: int = 0
    one_moment: bool = True


class SnapshotLock:
    """Takes the table lock for the moment in which the snapshots open."""

    def __init__(self, what: Comparison, *, on_wait: Callable[[str], None]) -> None:
        self._what = what
        self._on_wait = on_wait
        self._policy = what.options.locking
        self._requests = [request for _, request in _requests(what)]
        kills = self._policy.kills
        fronts = [(options, Front(request, kills)) for options, request in _requests(what)]
        self._turns = LockTurns(
            fronts,
            self._policy,
            what.stop,
            what=_WHAT,
            show=on_wait,
            tell=what.tell,
            held_up=what.held_up,
        )
        #: Seconds, in the last try.
        self._requested_for = 0.0
        #: When the last try got its first lock.
        self._locked_at: float | None = None

    def take(self, open_snapshots: Callable[[], object]) -> LockFigures:
        """Call ``open_snapshots`` while both tables are locked and up to date."""
        if not self._what.options.lock:
            open_snapshots()
            self._on_wait("")
            return LockFigures(one_moment=False)
        longest, held, attempt = 0.0, 0.0, 1
        while True:
            try:
                figures = self._attempt(open_snapshots, attempt)
            except SomebodyInFront:
                if self._turns.over:
                    raise self._failure(None) from None
            except (
                errors.ServerFault,
                errors.ChangesNotFlushed,
                errors.CutoverFailure,
                errors.FeedFailure,
            ) as error:
                held = max(held, self._held_ms())
                self._what.stop.check()
                if not _passing(error):
                    raise
                if self._turns.over:
                    raise self._failure(error) from error
                longest = max(longest, self._requested_for)
                self._turns.pause(attempt, self._requested_for, _reason(error, self._in_front()))
                attempt += 1
            else:
                self._on_wait("")
                waited = max(longest * 1000, figures.waited_ms)
                return replace(figures, waited_ms=waited, held_ms=max(held, figures.held_ms))

    def await_free(self) -> None:
        """Wait until the lock may be requested."""
        if self._what.options.lock and not self._turns.await_free():
            raise self._failure(None)

    def _held_ms(self) -> float:
        return 0.0 if self._locked_at is None else (time.monotonic() - self._locked_at) * 1000

    def _in_front(self) -> list[Blocker]:
        return [blocker for _, front in self._turns.fronts for blocker in front.last]

    def _failure(self, last: errors.MigrationFailure | None) -> errors.ChecksumFailure:
        reason = last.message if last is not None else "other sessions blocked it"
        return errors.ChecksumFailure(
            f"the checksum could not lock {self._what.name} for its snapshot: {reason}",
            hint="end the long transactions on the table, then run the same command again",
            details=tuple(f"blocked by: {blocker}" for blocker in self._in_front()),
            error_code=ErrorCode.LOCK_NOT_GRANTED,
        )

    def _attempt(self, open_snapshots: Callable[[], object], attempt: int) -> LockFigures:
        self._requested_for, self._locked_at = 0.0, None
        for (options, front), request in zip(self._turns.fronts, self._requests, strict=True):
            if written := [table for table in request.tables if table not in request.read_only]:
                with connect(options, role="lock-look", read_timeout=10) as session:
                    implied = implied_locks(session, written)
                front.request = request.including(
                    written=implied.written, read=implied.read, guessed=implied.guessed
                )
        self.await_free()
        if self._what.feed is not None:
            self._what.feed.catch_up(self._on_wait)
        # LOCK TABLES may hold the new table while it waits: nothing of ours may write there.
        with contextlib.ExitStack() as stack:
            if self._what.feed is not None:
                stack.enter_context(self._what.feed.applies_paused())
            locks = stack.enter_context(self._sessions())
            following = bool(self._what.follower) and attempt <= _CATCH_UP_ATTEMPTS
            if following:
                self._on_wait("the replica to catch up")
                began = time.monotonic()
                _catch_up(locks[0].session, locks[1].session, _CATCH_UP_SECONDS)
                if time.monotonic() - began > self._policy.wait:
                    raise _too_late(self._policy.wait)
            self._turns.require_free([each.session for each in locks])
            self._acquire(stack, locks, attempt, following=following)
            self._under_lock(locks, open_snapshots)
            for each in locks:
                each.lock.verify()
                each.lock.release()
            held = self._held_ms()
            for each in locks:
                each.session.close()
        return LockFigures(
            waited_ms=sum(each.lock.waited_ms for each in locks),
            held_ms=held,
            attempts=attempt,
            one_moment=self._what.target is None or following or self._what.feed is not None,
        )

    def _acquire(
        self, stack: contextlib.ExitStack, locks: list[_Side], attempt: int, *, following: bool
    ) -> None:
        what = f"{_WHAT} (request {attempt})"

        def tell(blockers: list[Blocker]) -> None:
            self._on_wait(f"{what}; blocked by: {named(blockers)}")

        self._on_wait(what)
        for number, each in enumerate(locks):
            let_go_when_silent(each.session)
            watching = partial(connect, each.options, role="checksum-watch", read_timeout=10)
            watch = stack.enter_context(
                LockWatch(
                    watching(),
                    each.session.id,
                    again=watching,
                    wait=self._policy.wait,
                    hold=self._what.options.lock_hold,
                    front=self._turns.fronts[number][1],
                    stop=self._what.stop,
                    tell=tell,
                )
            )
            with _kept_alive(locks[:number], self._what.options.lock_hold):
                if number and following:
                    _catch_up(locks[0].session, each.session, math.ceil(self._policy.wait))
                try:
                    _request(each, watch)
                finally:
                    self._requested_for += each.lock.waited_ms / 1000
            watch.holding()
            self._locked_at = self._locked_at or time.monotonic()

    def _under_lock(self, locks: list[_Side], open_snapshots: Callable[[], object]) -> None:
        hold = self._what.options.lock_hold
        if self._what.feed is not None:
            # The new table is written through the session that holds its lock.
            session = locks[-1].session
            with _kept_alive(locks, hold):
                self._what.feed.block_wait(min(_FLUSH_SECONDS, hold))
            self._what.feed.flush_under_table_lock(session, self._what.mapping)
            if not self._what.feed.all_changes_flushed(self._what.mapping):
                raise errors.ChangesNotFlushed(
                    "changes were left after the flush under the lock",
                    hint="run the same command again when the load is lower",
                )
        points.reach("checksum.locked")
        with _kept_alive(locks, hold):
            open_snapshots()

    @contextlib.contextmanager
    def _sessions(self) -> Iterator[list[_Side]]:
        hold = self._what.options.lock_hold
        with contextlib.ExitStack() as stack:
            locks: list[_Side] = []
            for (options, _), request in zip(self._turns.fronts, self._requests, strict=True):
                session = open_lock_session(
                    options, role="checksum-lock", wait=math.ceil(self._policy.wait), hold=hold
                )
                stack.callback(session.close)
                lock = TableLock(session, request.tables, read_only=request.read_only)
                locks.append(_Side(options, session, lock))
            yield locks


def _requests(what: Comparison) -> list[tuple[ConnectionOptions, LockRequest]]:
    source = (what.mapping.source.schema, what.mapping.source.name)
    target = (what.mapping.target.schema, what.mapping.target.name)
    if what.target is None:
        # Only with a feed is the new table written, through the locking session.
        readable = [source] if what.feed is not None else [source, target]
        return [(what.source, LockRequest(tables=[source, target], read_only=readable))]
    read_only = [] if what.feed is not None else [target]
    wanted = [
        (what.source, LockRequest(tables=[source], read_only=[source])),
        (what.target, LockRequest(tables=[target], read_only=read_only)),
    ]
    return wanted[::-1] if what.follower == "source" else wanted


@contextlib.contextmanager
def _kept_alive(locks: list[_Side], longest: float) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for each in locks:
            stack.enter_context(each.session.kept_alive(longest))
        yield


def _request(side: _Side, watch: LockWatch) -> None:
    """Wait for the lock; raise 1205 when the server or the watch ended the request."""
    try:
        side.lock.acquire()
    except errors.ServerFault as fault:
        if fault.code != INTERRUPTED or not watch.verdict:
            raise
        where = f"session {side.session.id}"
        raise errors.ServerFault(LOCK_WAIT_TIMEOUT, watch.verdict, where=where) from fault


def _catch_up(leader: SqlSession, follower: SqlSession, seconds: int) -> None:
    executed = str(leader.query("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")
    late = follower.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", (executed, seconds))[0][0]
    # NULL: it could not wait.
    if late != 0:
        raise _too_late(seconds)


def _too_late(seconds: float) -> errors.ChangesNotFlushed:
    return errors.ChangesNotFlushed(
        f"the replica has not caught up within {seconds:g} s",
        hint="run the same command again when the replica lags less",
    )


def _reason(error: errors.MigrationFailure, found: list[Blocker]) -> str:
    if isinstance(error, errors.ServerFault) and error.code != LOCK_WAIT_TIMEOUT:
        # No session blocks it: a server that takes no more connections, for instance.
        return error.text
    return f"blocked at the request by: {named(found)}" if found else ""


def _passing(error: errors.MigrationFailure) -> bool:
    if isinstance(error, errors.ServerFault):
        return disposition(error) is Disposition.RETRY
    return error.resumable


class _Side(NamedTuple):
    options: ConnectionOptions
    session: Session
    lock: TableLock
