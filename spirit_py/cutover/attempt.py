"""One try of a cutover, from its sessions to the unlock (R15).

The application waits from LOCK TABLES on::

    open sessions; drain the feed; pause its applying; look once more who is in front
    LOCK TABLES t WRITE, _t_new WRITE, ...       waits for running transactions
        wait until the feed has received all     nothing is missing
        flush through the locking session        nothing is pending
        final checks (injected)                  no row was replaced (R11)
        snapshot guard                           no transaction reads half a copy
        RENAME TABLE t TO _t_old, _t_new TO t    same session, one packet with what belongs to it
    stop the feed, UNLOCK TABLES
"""

from __future__ import annotations

import contextlib
import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.classes import dataclass, field
from spirit_py.cutover.plan import CutoverResult, TryFailed, timed
from spirit_py.cutover.rename import check_names, open_locking_session, rename
from spirit_py.errors import HeldBack, OutcomeUnknown, ServerFault, SpiritError
from spirit_py.events.run import Warned
from spirit_py.events.swap import SwapIncomplete
from spirit_py.locks.table import LockWatch, TableLock, let_go_when_silent
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import INTERRUPTED, connection_lost
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from spirit_py.contracts import ChangeSource
    from spirit_py.cutover.guard import SnapshotGuard
    from spirit_py.cutover.plan import CutoverPlan
    from spirit_py.locks.turns import LockTurns
    from spirit_py.mysql.session import Session
    from spirit_py.threads import StopSwitch

_LOG = logging.getLogger(__name__)
_RENAME_WAIT_SECONDS: Final = 1
_NEARLY_NOTHING: Final = 10
#: How long a failed try waits, without a lock, until what it has sent is received.
_RECEIVED_WITHIN: Final = 5.0
_CATCH_UP_ROUNDS: Final = 8
_MOST_SENDS: Final = 8


def open_attempt(
    number: int,
    plan: CutoverPlan,
    guard: SnapshotGuard,
    turns: LockTurns,
    stack: contextlib.ExitStack,
) -> Attempt:
    """Open the sessions and apply nearly all changes; the feed's own applying stays paused."""
    points.reach("cutover.begin")
    wait, hold = plan.limits.lock.wait, plan.limits.lock_hold
    watching = partial(connect, plan.connection, role="cutover-watch", read_timeout=10)
    watcher = stack.enter_context(watching())
    plan.before_lock(watcher)
    guard.prepare(watcher, plan.connection)
    opened = stack.enter_context(contextlib.ExitStack())
    session, fence = open_locking_session(opened, plan, wait=math.ceil(wait))
    server = str(session.value("SELECT @@server_uuid"))
    check_names(session, plan.renamed)
    catch_up(plan.source, plan.stop)
    # Behind a backup the next try waits, by the time of the tries, and says so.
    stack.enter_context(plan.source.applies_paused(patient=False))
    half_way = HalfWay(plan)
    # When the locking session has ended, and before the feed applies again.
    stack.callback(half_way.undo)
    # The session ends before the feed applies again, because it may still hold the lock.
    stack.enter_context(opened.pop_all())
    turns.require_free([watcher])
    # If this process is frozen or cut off, the server soon ends session and lock (R23).
    let_go_when_silent(session)
    watch = LockWatch(
        watcher,
        session.id,
        again=watching,
        wait=wait,
        hold=hold,
        front=turns.fronts[0][1],
        stop=plan.stop,
        clock=plan.clock,
    )
    stack.enter_context(watch)
    return Attempt(
        number=number,
        plan=plan,
        guard=guard,
        session=session,
        fence=fence,
        server=server,
        watch=watch,
        half_way=half_way,
        table_lock=TableLock(session, plan.tables, clock=plan.clock),
    )


def _given_up(watch: LockWatch) -> str:
    return f"the table lock was released: {watch.verdict}"


def catch_up(source: ChangeSource, stop: StopSwitch) -> None:
    """Apply what is received until nearly nothing is pending, or it does not become less."""
    before: int | None = None
    for _ in range(_CATCH_UP_ROUNDS):
        stop.check()
        source.flush()
        pending = source.pending()
        if pending <= _NEARLY_NOTHING or (before is not None and pending >= before):
            return
        before = pending


@dataclass
class HalfWay:
    """Whether statements before a RENAME that was not made may have to be undone."""

    plan: CutoverPlan
    left: bool = False

    def undo(self) -> None:
        """Undo them in a session of its own, where the locking session could not."""
        if self.left:
            self.plan.attached_objects.undo_later()


@dataclass(kw_only=True)
class Attempt:
    """The try that is under way: :meth:`lock`, :meth:`swap`, and :meth:`unlock` in any case.

    ``fence``: the named lock of the session. ``renaming``: RENAME was or may be sent, and is not
    known to have failed. ``position``: the feed's safe position. ``answer_lost``: the tables proved
    the swap. ``settled``: nothing remains to be sent after the RENAME, whose DDL would end a feed
    that begins at ``after_rename``, the place after it, or empty.
    """

    number: int
    plan: CutoverPlan
    guard: SnapshotGuard
    session: Session
    fence: str
    server: str
    watch: LockWatch
    half_way: HalfWay
    table_lock: TableLock
    swapped: bool = False
    renaming: bool = False
    held_from: float | None = None
    position: str = ""
    sent: bool = False
    answer_lost: bool = False
    settled: bool = True
    after_rename: str = ""
    steps_ms: dict[str, float] = field(default_factory=dict)
    held_ms: float = 0.0

    def lock(self) -> None:
        """Wait for the table lock; raise TryFailed or, for a lost session, ServerFault."""
        points.reach("cutover.lock")
        limit = human_seconds(self.plan.limits.lock.wait)
        self.plan.show(f"the lock of the swap (request {self.number}, for {limit} at most)")
        try:
            self.table_lock.acquire()
        except ServerFault as fault:
            self.plan.stop.check()
            if connection_lost(fault) or not self.watch.blockers:
                raise
            who = self.watch.front.described()
            raise TryFailed(f"{self.watch.verdict or fault.text}; blocked by {who}") from fault
        self.held_from = self.plan.clock()
        self.plan.show("")
        self.watch.holding()
        points.reach("cutover.locked")
        # RENAME needs more locks than LOCK TABLES took: LOCK INSTANCE FOR BACKUP stops it.
        self.session.execute(f"SET SESSION lock_wait_timeout = {_RENAME_WAIT_SECONDS}")

    def swap(self) -> None:
        """Prove under the lock that nothing is missing, then rename and stop the feed."""
        try:
            self._prove()
        except SpiritError as error:
            self.plan.stop.check()
            if self.watch.verdict:
                raise TryFailed(_given_up(self.watch)) from error
            if error.resumable and not self.session.alive():
                raise TryFailed(f"the locking session was lost: {error.message}") from error
            raise
        with self._step("rename"):
            self._rename()
        points.reach("cutover.renamed")
        self._stop_feed()
        if self.plan.note_position and not self.answer_lost and self.settled:
            self._note_place()

    def unlock(self) -> None:
        """Release the lock, after success and failure alike."""
        self.watch.finish()
        # Where the session is lost or closed, the lock is gone with it.
        with contextlib.suppress(ServerFault):
            self.table_lock.release()
        if not self.swapped:
            if self.sent:
                with contextlib.suppress(SpiritError):
                    self.plan.source.block_wait(timeout=_RECEIVED_WITHIN)
            self.plan.source.forget_own_ddl()
        self.held_ms = self._held_for() * 1000

    def _prove(self) -> None:
        """Raise unless RENAME may be sent: all is received and applied, and the lock is held."""
        source, session, lock = self.plan.source, self.session, self.table_lock
        with self._step("receive"):
            left = max(0.1, self.plan.limits.lock_hold - self._held_for())
            with session.kept_alive(left):
                source.block_wait(timeout=left, session=session)
            lock.verify()
        with self._step("flush"):
            source.flush_under_table_lock(session)
            lock.verify()
        if not source.all_changes_flushed():
            what = f"{source.pending()} changes were still pending"
            half = "a transaction was not whole yet, or an XA transaction was undecided"
            raise TryFailed(f"{what if source.pending() else half} under the lock")
        with self._step("checks"):
            self.plan.final_checks(session)
            self.plan.attached_objects.prove(session)
            lock.verify()
        source.expect_own_ddl(session.id, self.plan.attached_objects.statements.rename)
        with self._step("guard"):
            self.guard.apply(session)
            lock.verify()
        self.position = source.position()
        self.plan.stop.check()
        if not self.watch.finish():
            raise TryFailed(_given_up(self.watch))

    def _rename(self) -> None:
        """Send the RENAME, after a stop request only if :attr:`renaming` was set before it."""
        self.renaming = True
        try:
            self.plan.stop.check()
            if what := self.plan.gate.last_word():
                raise HeldBack.by(what)
            statements = self.plan.attached_objects.statements
            self.sent = self.half_way.left = bool(statements.before)
            renamed = rename(
                self.session, self.plan, statements, fence=self.fence, server=self.server
            )
        except OutcomeUnknown:
            self.half_way.left = False
            self._stop_feed()
            raise
        except (SpiritError, TryFailed):
            self.renaming = False
            self._undo()
            raise
        self.half_way.left = False
        self.answer_lost = renamed.answer_lost
        self.swapped = True
        if renamed.stopped_by is not None:
            self._complete(renamed.stopped_by)

    def _undo(self) -> None:
        if not self.half_way.left:
            return
        try:
            self.plan.attached_objects.settle(self.session)
        except ServerFault as fault:
            _LOG.warning("not undone under the lock: %s", fault.message)
        else:
            self.half_way.left = False

    def _complete(self, stopped_by: ServerFault) -> None:
        """Send the rest after the RENAME, repeatedly after KILL QUERY; else it is settled later."""
        why = stopped_by.message
        self.plan.tell(SwapIncomplete(said="a statement after the RENAME failed", reason=why))
        self.settled = False
        for sends_left in reversed(range(_MOST_SENDS)):
            try:
                self.plan.attached_objects.settle(self.session)
            except ServerFault as fault:
                if fault.code == INTERRUPTED and sends_left:
                    continue
                why = fault.message
                said = "it failed again, and is sent again later"
                self.plan.tell(SwapIncomplete(said=said, reason=why))
            else:
                self.settled = True
            return

    def _stop_feed(self) -> None:
        try:
            self.plan.source.stop()
        except Exception:
            _LOG.exception("the change feed did not stop")

    def _note_place(self) -> None:
        with self._step("position"):
            try:
                self.after_rename = self.plan.source.position_here(self.session)
            except SpiritError as error:
                why = f"the binlog position after the RENAME is unknown: {error.message}"
                self.plan.tell(Warned(said=why))

    def _step(self, name: str) -> AbstractContextManager[None]:
        return timed(self.steps_ms, name, self.plan.clock)

    def _held_for(self) -> float:
        return 0.0 if self.held_from is None else self.plan.clock() - self.held_from

    def result(self, *, killed: list[str], failures: list[str]) -> CutoverResult:
        """Return the result of a cutover of which this try was the last."""
        return CutoverResult(
            attempts=self.number,
            lock_wait_ms=self.table_lock.waited_ms,
            lock_held_ms=self.held_ms,
            position=self.position,
            killed=tuple(killed),
            steps_ms=self.steps_ms,
            attached=tuple(self.plan.attached_objects.described),
            failures=tuple(failures),
            answer_lost=self.answer_lost,
            after_rename=self.after_rename,
            guard=self.guard.outcome,
            snapshots=self.guard.snapshots,
        )
