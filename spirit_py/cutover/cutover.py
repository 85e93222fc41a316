"""The swap of source and new table under one lock, in one session (R15)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from spirit_py import points
from spirit_py.cutover.attempt import Attempt, open_attempt
from spirit_py.cutover.guard import SnapshotGuard
from spirit_py.cutover.rename import quick_turns
from spirit_py.cutover.tries import Tries
from spirit_py.errors import HeldBack
from spirit_py.locks.look import LockRequest
from spirit_py.locks.turns import Front, LockTurns

if TYPE_CHECKING:
    from spirit_py.cutover.plan import CutoverPlan, CutoverResult


class Cutover:
    """Swaps tables at once; :meth:`run` may be called again after :class:`HeldBack`."""

    def __init__(self, plan: CutoverPlan) -> None:
        self._plan = plan
        self._guard = SnapshotGuard(plan.guard, plan.swaps, plan.tell)
        self._attempt: Attempt | None = None
        self._front = Front(self._request(), plan.limits.lock.kills, clock=plan.clock)
        self._turns = LockTurns(
            [(plan.connection, self._front)],
            plan.limits.lock,
            plan.stop,
            what="the lock of the swap",
            show=plan.show,
            tell=plan.tell,
            held_up=plan.held_up,
            attend=plan.gate.heed,
            clock=plan.clock,
        )
        self._tries = Tries(
            turns=self._turns,
            gate=plan.gate,
            sources=[plan.source],
            servers=[plan.connection],
            what="swap",
            intact="the source table is intact",
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
        return self._tries.run(self._try)

    def _try(self) -> CutoverResult:
        self._plan.attached_objects.survey()
        self._front.request = self._request()
        self._tries.await_turn()
        with contextlib.ExitStack() as stack:
            attempt = open_attempt(self._tries.number, self._plan, self._guard, self._turns, stack)
            self._attempt = attempt
            if what := self._plan.gate.too_old():
                raise HeldBack.by(what)
            stack.enter_context(quick_turns())
            try:
                attempt.lock()
                attempt.swap()
            finally:
                self._tries.waited_ms = attempt.table_lock.waited_ms
                # Before anything else is torn down: the application waits for this.
                attempt.unlock()
        points.reach("cutover.unlocked")
        self._guard.report(self._plan.connection)
        return attempt.result(killed=self._front.killed, failures=self._tries.failures)

    def _request(self) -> LockRequest:
        """Return the locks of a try: what is attached may have changed since the one before."""
        implied = self._plan.attached_objects.implied
        locks = LockRequest(tables=self._plan.tables, defines=True, opened=implied.opened)
        return locks.including(written=implied.written, read=implied.read, guessed=implied.guessed)
