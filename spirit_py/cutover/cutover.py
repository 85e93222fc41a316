"""The swap of source and new table under one lock, in one session: its tries (R15)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.cutover.attempt import Attempt, open_attempt
from spirit_py.cutover.guard import SnapshotGuard
from spirit_py.cutover.plan import NotProven, TryFailed
from spirit_py.cutover.rename import quick_turns
from spirit_py.errors import ChangesNotFlushed, CutoverFailure, FeedFailure, HeldBack, ServerFault
from spirit_py.events.swap import CutoverTryFailed
from spirit_py.locks.look import LockRequest
from spirit_py.locks.turns import Front, LockTurns, SomebodyInFront
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.retry import await_server
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from spirit_py.cutover.plan import CutoverPlan, CutoverResult

_DRAIN_ROUNDS: Final = 5
#: Pending changes up to which the sessions for the lock are opened.
_TRIVIAL_BACKLOG: Final = 200
#: The last tries, which an error shows.
_SHOWN: Final = 10
#: Tries that may end in another comparison before the application gets a pause. Without one, the
#: next try has the best prospect: the least can have happened since the comparison.
_UNPROVEN_IN_A_ROW: Final = 4


class Cutover:
    """Swaps tables at once; :meth:`run` may be called again after :class:`HeldBack`."""

    def __init__(self, plan: CutoverPlan) -> None:
        self._plan = plan
        self._guard = SnapshotGuard(plan.guard, plan.swaps, plan.tell)
        self._attempt: Attempt | None = None
        self._requested_for = 0.0
        self._failures: list[str] = []
        self._number = 1
        self._unproven = 0
        self._front = Front(self._request(), plan.limits.lock.kills, clock=plan.clock)
        self._turns = LockTurns(
            [(plan.connection, self._front)],
            plan.limits.lock,
            plan.stop,
            what="the lock of the swap",
            show=plan.show,
            tell=plan.tell,
            held_up=plan.held_up,
            attend=self._heed_sentinel,
            clock=plan.clock,
        )

    @property
    def swapped(self) -> bool:
        """The swap is known to be done; true even when :meth:`run` was interrupted after it."""
        return self._attempt is not None and self._attempt.swapped

    @property
    def renaming(self) -> bool:
        """RENAME was sent, or is about to be, and it is not known that it failed."""
        return self._attempt is not None and self._attempt.renaming

    def run(self) -> CutoverResult:
        """Swap the tables, or raise a stop request's reason or a hook's error.

        After CutoverFailure the source is in place and unlocked, and the feed still runs: HeldBack
        where the swap is deferred, or rows must be compared. OutcomeUnknown: its answer is lost.
        """
        if self._unproven and self._unproven % _UNPROVEN_IN_A_ROW == 0:
            self._pause(self._unproven // _UNPROVEN_IN_A_ROW)
        while True:
            self._plan.stop.check()
            try:
                return self._try(self._number)
            except NotProven as held:
                self._failures.append(held.message)
                self._unproven, self._number = self._unproven + 1, self._number + 1
                if self._turns.over:
                    raise self._given_up() from held
                raise
            except SomebodyInFront as found:
                if self._turns.over:
                    raise self._given_up() from found
                continue
            except TryFailed as failed:
                self._failures.append(str(failed))
                self._plan.gate.try_ended()
                self._plan.tell(
                    CutoverTryFailed(
                        number=self._number,
                        reason=str(failed),
                        lock_wait_ms=round(self._requested_for * 1000, 1),
                    )
                )
            if self._turns.over:
                raise self._given_up()
            ended, self._number = self._number, self._number + 1
            self._pause(ended)

    def _pause(self, number: int) -> None:
        """Let the application go on; then the server must answer, and nothing defer the swap."""
        self._turns.pause(number, self._requested_for, self._failures[-1])
        # A server that restarts costs one try, however long it takes.
        await_server(self._plan.connection, self._plan.stop)
        self._heed_sentinel()

    def _heed_sentinel(self) -> None:
        if what := self._plan.gate.held_back():
            raise HeldBack.by(what)

    def _given_up(self) -> CutoverFailure:
        self._plan.stop.check()
        tries = len(self._failures)
        who = self._front.described()
        last = self._failures[-1] if tries else f"the lock was not requested, because of {who}"
        return CutoverFailure(
            f"the swap did not happen in {human_seconds(self._plan.limits.lock.timeout)},"
            f" {tries} tries: {last}",
            hint="the source table is intact and unlocked; run the same command again at a quieter"
            " time, or end the transactions that block it (see --kill-blockers)",
            details=tuple(f"try {n}: {why}" for n, why in enumerate(self._failures, 1))[-_SHOWN:],
        )

    def _try(self, number: int) -> CutoverResult:
        self._requested_for = 0.0
        try:
            self._plan.attached_objects.survey()
            self._front.request = self._request()
            if not self._turns.await_free():
                raise self._given_up()
            self._drain()
            self._heed_sentinel()
            return self._with_sessions(number)
        except ServerFault as fault:
            self._plan.stop.check()
            if disposition(fault) is Disposition.RETRY:
                raise TryFailed(fault.message) from fault
            raise CutoverFailure(
                f"the swap did not happen: {fault.message}", hint=fault.hint
            ) from fault
        except ChangesNotFlushed as error:
            raise TryFailed(error.message) from error
        except FeedFailure as error:
            self._plan.stop.check()
            if error.resumable:
                raise TryFailed(error.message) from error
            raise

    def _request(self) -> LockRequest:
        """Return the locks of a try: what is attached may have changed since the one before."""
        implied = self._plan.attached_objects.implied
        return LockRequest(tables=self._plan.tables, defines=True).including(
            written=implied.written, read=implied.read
        )

    def _drain(self) -> None:
        source = self._plan.source
        self._plan.show("the change feed to catch up before the lock is requested")
        for _ in range(_DRAIN_ROUNDS):
            self._plan.stop.check()
            source.block_wait()
            source.flush()
            if source.pending() <= _TRIVIAL_BACKLOG:
                return

    def _with_sessions(self, number: int) -> CutoverResult:
        with contextlib.ExitStack() as stack:
            attempt = open_attempt(number, self._plan, self._guard, self._turns, stack)
            self._attempt = attempt
            if what := self._plan.gate.too_old():
                raise HeldBack.by(what)
            stack.enter_context(quick_turns())
            try:
                attempt.lock()
                attempt.swap()
            finally:
                self._requested_for = attempt.table_lock.waited_ms / 1000
                # Before anything else is torn down: the application waits for this.
                attempt.unlock()
        points.reach("cutover.unlocked")
        self._guard.report(self._plan.connection)
        return attempt.result(killed=self._front.killed, failures=self._failures)
