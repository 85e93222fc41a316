"""The tables, the limits and the result of a cutover, and what it sends beside its RENAME.

RENAME does not carry triggers and foreign keys as a native ALTER does
(:mod:`spirit_py.attached`). The migration reads what there is and brings the statements; the
cutover locks the tables they need, sends them around the RENAME in one packet, and has them undone
or completed when that stops half-way.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from spirit_py.attached.implied_locks import Implied
from spirit_py.attached.sequence import SwapStatements, renaming
from spirit_py.errors import HeldBack
from spirit_py.events.event import Tell, untold
from spirit_py.locks.blockers import LockPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.config import ConnectionOptions, GuardMode
    from spirit_py.contracts import ChangeSource, Clock, SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Swap
    from spirit_py.threads import StopSwitch


class AttachedObjects:
    """What is attached to the tables of one cutover, over all its tries; by itself, nothing."""

    swaps: Sequence[Swap]
    implied = Implied()
    """What LOCK TABLES locks besides by itself, as of the last survey."""

    def __init__(self, swaps: Sequence[Swap]) -> None:
        self.swaps = swaps

    @property
    def tables(self) -> Sequence[tuple[str, str]]:
        """Schema and name of the further tables that are locked, as of the last survey."""
        return ()

    @property
    def statements(self) -> SwapStatements:
        """What is sent in this try, the RENAME included."""
        return SwapStatements(rename=renaming(self.swaps))

    @property
    def described(self) -> Sequence[str]:
        """What is sent along in this try, a line for each object."""
        return ()

    def survey(self) -> None:
        """Read what is attached and note it; first undo what an earlier try has left.

        Called at the beginning of each try, without a lock.

        Raises:
            SpiritError: it cannot be kept, or not be read.
        """

    def prove(self, session: SqlSession) -> None:
        """Prove under the lock that what is attached is what was surveyed.

        Raises:
            TryFailed: something else is attached by now.
        """

    def settle(self, session: Session) -> None:
        """Undo under the lock what was sent before a RENAME that failed; else send what remains.

        Raises:
            ServerFault: something remains.
        """

    def undo_later(self) -> None:
        """Undo in a session of its own what a lost one has left; never raises for a failure.

        What is left then is undone by the next survey.
        """


class SwapGate:
    """What may hold a swap back; by itself, nothing. A reason is for messages, empty for none."""

    def held_back(self) -> str:
        """Return why the swap is deferred; asked before each further try, and while it waits."""
        return ""

    def try_ended(self) -> None:
        """Heed that a try has failed; called before :meth:`held_back` is asked about the next."""

    def too_old(self) -> str:
        """Return which answer of :meth:`held_back` counts no more; asked right before the lock."""
        return ""

    def last_word(self) -> str:
        """Return why no RENAME is sent, without I/O, because the application waits.

        Asked right before it, once :attr:`Cutover.renaming` is set.
        """
        return ""


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CutoverLimits:
    """How the lock of a cutover is requested and how long it may be held. Seconds.

    Attributes:
        lock: when the lock is requested, and for how long at most.
        lock_hold: how long a try may hold the lock before the RENAME is sent.
        look: how long to look for the outcome when the answer to the RENAME was lost.
    """

    lock: LockPolicy = field(default_factory=LockPolicy)
    lock_hold: float = 5.0
    look: float = 60.0


def nothing(_session: SqlSession) -> None:
    """Do nothing, where a hook was not given."""


@dataclass(frozen=True, kw_only=True)
class CutoverPlan:
    """What a cutover is to do, and with what.

    Attributes:
        swaps: the tables, swapped in one atomic RENAME.
        source: the running feed; it goes on after a failed try.
        stop: a stop request ends a try at once, unless RENAME was already sent.
        before_lock: called in each try shortly before the lock is asked for, in a session
            without locks; for work that need not be done under the lock (AUTO_INCREMENT).
        final_checks: called under the lock in the locking session when everything is flushed.
            Must be fast; an error it raises ends the cutover.
        tell: reports what happens.
        show: called with what is waited for now, and with an empty text at the end.
        guard: when older snapshots are kept from the swapped tables.
        gate: what may hold the swap back.
        attached: what is sent beside the RENAME; without it, nothing is.
        along: tables that no feed follows, exchanged in the same RENAME.
        note_position: note the feed's place between RENAME and unlock, for a feed that is to
            follow the swapped tables: :attr:`CutoverResult.after_rename`.
        clock: monotonic seconds.
    """

    connection: ConnectionOptions
    swaps: Sequence[Swap]
    source: ChangeSource
    stop: StopSwitch
    limits: CutoverLimits = field(default_factory=CutoverLimits)
    before_lock: Callable[[SqlSession], None] = nothing
    final_checks: Callable[[SqlSession], None] = nothing
    tell: Tell = untold
    show: Callable[[str], None] = _LOG.debug
    guard: GuardMode = "auto"
    gate: SwapGate = field(default_factory=SwapGate)
    attached: AttachedObjects | None = None
    along: Sequence[Swap] = ()
    note_position: bool = False
    clock: Clock = time.monotonic

    @cached_property
    def attached_objects(self) -> AttachedObjects:
        """What is sent beside the RENAME."""
        return self.attached or AttachedObjects(self.renamed)

    @property
    def renamed(self) -> tuple[Swap, ...]:
        """All that the RENAME exchanges."""
        return (*self.swaps, *self.along)

    @property
    def tables(self) -> list[tuple[str, str]]:
        """The tables that are locked in this try; those that are swapped come first."""
        swapped = [(swap.schema, name) for swap in self.renamed for name in (swap.table, swap.new)]
        return [*swapped, *self.attached_objects.tables]


class TryFailed(Exception):
    """A try was given up cleanly: nothing is locked, nothing was renamed, the feed goes on."""


class NotProven(HeldBack):
    """Rows must be compared once more; found under the lock. The next try follows that."""


@dataclass(frozen=True, kw_only=True)
class CutoverResult:
    """A swap that was done.

    Attributes:
        attempts: tries in which the lock was requested, or that failed on the way there.
        lock_wait_ms: milliseconds that the lock request of the last try waited.
        lock_held_ms: milliseconds from getting the lock to its release.
        position: the feed's safe position at the swap (opaque).
        killed: the sessions killed in all tries, with what they were doing.
        attached: what went along with the RENAME, a line for each foreign key and trigger.
        guard: what the snapshot guard did; see :class:`spirit_py.cutover.guard.SnapshotGuard`.
        snapshots: the transactions that may have held a snapshot from before the swap.
        answer_lost: the answer to the RENAME was lost, and the tables proved the swap.
        after_rename: the place right after the RENAME (opaque), from which another feed gets
            everything that is written to the swapped tables. Empty when it was not asked for, and
            when ``answer_lost``: then the lock was lost before the place could be noted. Nor is it
            noted when what follows the RENAME could not be sent under the lock.
    """

    attempts: int
    lock_wait_ms: float
    lock_held_ms: float
    position: str
    killed: tuple[str, ...] = ()
    steps_ms: dict[str, float] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    answer_lost: bool = False
    after_rename: str = ""
    attached: tuple[str, ...] = ()
    guard: str = ""
    snapshots: tuple[str, ...] = ()
