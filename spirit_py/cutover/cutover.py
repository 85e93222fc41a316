"""The swap of source and new table under one lock, in one session (R15).

A try goes through these steps; only those between the arrows hold up the application::

    drain the feed without a lock; open the sessions; drain again; pause the feed's own applying
    LOCK TABLES t WRITE, _t_new WRITE            waits for running transactions
    --> wait until the feed has received all     nothing is missing
        flush through the locking session        nothing is pending
        final checks (injected)                  nothing was eaten (R11)
        snapshot guard                           nobody reads half a copy
        RENAME TABLE t TO _t_old, _t_new TO t    in the same session, never on a new one
    --> stop the feed, UNLOCK TABLES
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.cutover.attempt import Attempt, TryFailed
from spirit_py.cutover.guard import SnapshotGuard
from spirit_py.cutover.locking import open_locking_session, quick_turns
from spirit_py.cutover.look import check_names
from spirit_py.cutover.plan import CutoverLimits, CutoverResult
from spirit_py.cutover.rename import rename
from spirit_py.errors import (
    ChangesNotFlushed,
    CutoverFailure,
    FeedFailure,
    HeldBack,
    OutcomeUnknown,
    ServerFault,
    SpiritError,
)
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import Disposition, connection_lost, disposition
from spirit_py.mysql.locks.table import TableLock, let_go_when_silent
from spirit_py.mysql.locks.watch import LockWatch
from spirit_py.mysql.retry import await_server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.config import ConnectionOptions, GuardMode
    from spirit_py.contracts import ChangeSource, Clock, SqlSession
    from spirit_py.cutover.plan import Swap
    from spirit_py.stop import StopSwitch

_LOG = logging.getLogger(__name__)
_DRAIN_ROUNDS: Final = 5
_RENAME_WAIT_SECONDS: Final = 1
#: Pending changes that are worth opening sessions for the lock.
_TRIVIAL_BACKLOG: Final = 200
#: Pending changes that cost no more than a statement does.
_NEARLY_NOTHING: Final = 10
_CATCH_UP_ROUNDS: Final = 8


def _nothing(_session: SqlSession) -> None:
    """Do nothing, where a hook was not given."""


class Cutover:
    """Swaps one or several tables at once; :meth:`run` may be called once.

    Args:
        connection: how to reach the server.
        swaps: the tables, swapped in one atomic RENAME.
        source: the running feed; it goes on after a failed try.
        stop: a stop request ends a try at once, unless RENAME was already sent.
        before_lock: called in each try shortly before the lock is asked for, in a session
            without locks; for work that need not be done under the lock (AUTO_INCREMENT).
        final_checks: called under the lock in the locking session when everything is flushed.
            Must be fast; an error it raises ends the cutover.
        message: told one line about everything that an operator should know.
        guard: when older snapshots are kept from the swapped tables.
        held_back: asked before every further try; what it names defers the swap.
        note_position: note the feed's place between RENAME and unlock, for a feed that is to
            follow the swapped tables: :attr:`CutoverResult.after_rename`.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        connection: ConnectionOptions,
        swaps: Sequence[Swap],
        source: ChangeSource,
        *,
        stop: StopSwitch,
        limits: CutoverLimits | None = None,
        before_lock: Callable[[SqlSession], None] = _nothing,
        final_checks: Callable[[SqlSession], None] = _nothing,
        message: Callable[[str], None] = _LOG.info,
        guard: GuardMode = "auto",
        held_back: Callable[[], str] = str,
        note_position: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self._connection = connection
        self._swaps = tuple(swaps)
        self._source = source
        self._stop = stop
        self._limits = limits or CutoverLimits()
        self._before_lock = before_lock
        self._final_checks = final_checks
        self._message = message
        self._guard = SnapshotGuard(guard, swaps, message)
        self._held_back = held_back
        self._note_position = note_position
        self._clock = clock
        #: The swap is known to be done; true even when :meth:`run` was interrupted after it.
        self.swapped = False
        #: RENAME was sent, or is about to be, and it is not known that it failed.
        self.renaming = False
        self._failures: list[str] = []
        self._killed: list[str] = []

    def run(self) -> CutoverResult:
        """Swap the tables.

        Raises:
            CutoverFailure: the source is in place and unlocked; the feed still runs.
            HeldBack: the same, because somebody defers the swap.
            OutcomeUnknown: the answer to RENAME was lost and the outcome was not to be seen.
            SpiritError: the reason of a stop request, or an error of a hook; as CutoverFailure.
        """
        for number in range(1, self._limits.attempts + 1):
            self._stop.check()
            try:
                return self._attempt(number)
            except TryFailed as failed:
                self._failures.append(str(failed))
                self._message(f"cutover try {number} of {self._limits.attempts} failed: {failed}")
            if number < self._limits.attempts:
                self._stop.wait(self._limits.pause_after(number))
                # A server that restarts costs one try, however long it takes.
                await_server(self._connection, self._stop)
                if name := self._held_back():
                    raise HeldBack(f"table {name} defers the cutover", hint=f"drop {name} to swap")
        self._stop.check()
        raise CutoverFailure(
            f"the swap did not happen in {self._limits.attempts} tries: {self._failures[-1]}",
            hint="the source table is whole and unlocked; run the same command again at a quieter"
            " time, or end the transactions that stand in the way",
            details=tuple(f"try {n}: {why}" for n, why in enumerate(self._failures, start=1)),
        )

    def _attempt(self, number: int) -> CutoverResult:
        """Make one try; faults that another try may not meet become :class:`TryFailed`."""
        try:
            self._drain()
            return self._with_sessions(number)
        except ServerFault as fault:
            self._stop.check()
            if disposition(fault) is Disposition.RETRY:
                raise TryFailed(fault.message) from fault
            raise CutoverFailure(
                f"the swap did not happen: {fault.message}", hint=fault.hint
            ) from fault
        except ChangesNotFlushed as error:
            raise TryFailed(error.message) from error
        except FeedFailure as error:
            self._stop.check()
            if error.resumable:
                raise TryFailed(error.message) from error
            raise

    def _drain(self) -> None:
        """Bring the feed up to now while nothing is locked."""
        for _ in range(_DRAIN_ROUNDS):
            self._stop.check()
            self._source.block_wait()
            self._source.flush()
            if self._source.pending() <= _TRIVIAL_BACKLOG:
                return

    def _with_sessions(self, number: int) -> CutoverResult:
        """Open everything that a try needs, then take the lock and swap."""
        with contextlib.ExitStack() as stack:
            attempt = self._prepare(number, stack)
            stack.enter_context(quick_turns())
            try:
                self._lock(attempt)
                self._swap(attempt)
            finally:
                # Before anything else is torn down: the application waits for this.
                self._unlock(attempt)
        points.reach("cutover.unlocked")
        self._guard.tell()
        return self._result(attempt)

    def _prepare(self, number: int, stack: contextlib.ExitStack) -> Attempt:
        """Do all that needs no lock: open the sessions, and leave next to nothing to be applied.

        The feed's own applying is paused, because LOCK TABLES may have the new table while it
        waits for the source.
        """
        wait, hold = self._limits.wait_for(number), self._limits.lock_hold
        watcher = stack.enter_context(
            connect(self._connection, role="cutover-watch", read_timeout=10)
        )
        self._before_lock(watcher)
        self._guard.prepare(watcher, self._connection)
        opened = stack.enter_context(contextlib.ExitStack())
        session, fence = open_locking_session(
            opened,
            self._connection,
            self._swaps[0].schema,
            wait=wait,
            hold=hold,
            patience=self._limits.look,
        )
        server = str(session.value("SELECT @@server_uuid"))
        check_names(session, self._swaps)
        self._catch_up()
        stack.enter_context(self._source.applies_paused())
        # The session ends before the feed applies again: what is left of it may hold the lock.
        stack.enter_context(opened.pop_all())
        # Should this process be frozen or cut off, the server soon ends session and lock (R23).
        let_go_when_silent(session)
        watch = LockWatch(
            watcher,
            session.id,
            wait=wait,
            hold=hold,
            kill_after=self._limits.kills_after,
            stop=self._stop,
            clock=self._clock,
        )
        stack.enter_context(watch)
        stack.callback(lambda: self._killed.extend(watch.killed))
        return Attempt(
            number=number,
            session=session,
            fence=fence,
            server=server,
            watch=watch,
            lock=TableLock(session, self._tables(), clock=self._clock),
            clock=self._clock,
        )

    def _catch_up(self) -> None:
        """Apply until nearly nothing is pending: what is left is applied under the lock.

        Each round leaves what is written while it runs, so it is shorter than the one before.
        """
        before = None
        for _ in range(_CATCH_UP_ROUNDS):
            self._stop.check()
            self._source.flush()
            pending = self._source.pending()
            if pending <= _NEARLY_NOTHING or (before is not None and pending >= before):
                return
            before = pending

    def _tables(self) -> list[tuple[str, str]]:
        """Return every table to lock, as schema and name."""
        return [(swap.schema, name) for swap in self._swaps for name in (swap.table, swap.new)]

    def _lock(self, attempt: Attempt) -> None:
        """Wait for the table lock."""
        points.reach("cutover.lock")
        try:
            attempt.lock.acquire()
        except ServerFault as fault:
            self._stop.check()
            if connection_lost(fault) or not attempt.watch.blockers:
                raise
            raise TryFailed(self._in_the_way(attempt, fault)) from fault
        attempt.held_from = self._clock()
        attempt.watch.holding()
        points.reach("cutover.locked")
        # RENAME needs more locks than LOCK TABLES took: LOCK INSTANCE FOR BACKUP stops it.
        attempt.session.execute(f"SET SESSION lock_wait_timeout = {_RENAME_WAIT_SECONDS}")

    @staticmethod
    def _in_the_way(attempt: Attempt, fault: ServerFault) -> str:
        """Return why there was no lock, and who stood in the way."""
        watch = attempt.watch
        who = "; ".join(watch.spared or [str(blocker) for blocker in watch.blockers])
        return f"{watch.verdict or fault.text}; in the way: {who}"

    def _swap(self, attempt: Attempt) -> None:
        """Prove under the lock that nothing is missing, then rename and stop the feed."""
        try:
            self._prove(attempt)
        except SpiritError as error:
            self._stop.check()
            if attempt.watch.verdict:
                raise TryFailed(f"the table lock was given up: {attempt.watch.verdict}") from error
            if error.resumable and not attempt.session.alive():
                raise TryFailed(f"the locking session was lost: {error.message}") from error
            raise
        with attempt.step("rename"):
            self._rename(attempt)
        points.reach("cutover.renamed")
        self._stop_feed()
        if self._note_position and not attempt.answer_lost:
            self._note_place(attempt)

    def _prove(self, attempt: Attempt) -> None:
        """Return when RENAME may be sent: all is received and applied, and the lock is held."""
        source, session, lock = self._source, attempt.session, attempt.lock
        with attempt.step("receive"):
            left = self._left(attempt)
            with session.kept_alive(left):
                source.block_wait(timeout=left, session=session)
            lock.verify()
        with attempt.step("flush"):
            source.flush_under_table_lock(session)
            lock.verify()
        if not source.all_changes_flushed():
            raise TryFailed(f"{source.pending()} changes were still pending under the lock")
        with attempt.step("checks"):
            self._final_checks(session)
            lock.verify()
        source.expect_own_ddl(session.id)
        with attempt.step("guard"):
            self._guard.apply(session)
            lock.verify()
        attempt.position = source.position()
        self._stop.check()
        if not attempt.watch.finish():
            raise TryFailed(f"the table lock was given up: {attempt.watch.verdict}")

    def _left(self, attempt: Attempt) -> float:
        """Return the seconds that the lock may still be held."""
        return max(0.1, self._limits.lock_hold - attempt.held_for())

    def _rename(self, attempt: Attempt) -> None:
        """Send the RENAME; return when the swap is done.

        The order tells whoever asks after a stop request: where :attr:`renaming` is not set, no
        RENAME will be sent any more.
        """
        self.renaming = True
        try:
            self._stop.check()
            rename(
                attempt,
                self._connection,
                self._swaps,
                patience=self._limits.look,
                message=self._message,
            )
        except OutcomeUnknown:
            self._stop_feed()
            raise
        except (SpiritError, TryFailed):
            self.renaming = False
            raise
        self.swapped = True

    def _stop_feed(self) -> None:
        """Stop the feed before the application writes to the swapped table."""
        try:
            self._source.stop()
        except Exception:
            _LOG.exception("the change feed did not stop")

    def _note_place(self, attempt: Attempt) -> None:
        """Note the place behind the RENAME, while nobody can write to the swapped tables yet."""
        with attempt.step("position"):
            try:
                attempt.after_rename = self._source.position_here(attempt.session)
            except SpiritError as error:
                self._message(f"the place behind the RENAME was not to be had: {error.message}")

    def _unlock(self, attempt: Attempt) -> None:
        """Release the lock, at once and whatever happened."""
        attempt.watch.finish()
        if not attempt.answer_lost:
            with contextlib.suppress(ServerFault):
                attempt.lock.release()
        attempt.held_ms = attempt.held_for() * 1000

    def _result(self, attempt: Attempt) -> CutoverResult:
        """Put the result together."""
        return CutoverResult(
            attempts=attempt.number,
            lock_wait_ms=attempt.lock.waited_ms,
            lock_held_ms=attempt.held_ms,
            position=attempt.position,
            killed=tuple(self._killed),
            steps_ms=attempt.steps_ms,
            failures=tuple(self._failures),
            answer_lost=attempt.answer_lost,
            after_rename=attempt.after_rename,
            guard=self._guard.outcome,
            snapshots=self._guard.snapshots,
        )
