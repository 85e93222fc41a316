"""The tables, the limits and the result of a cutover, and what it sends beside its RENAME."""

from __future__ import annotations

import contextlib
import logging
import time
from functools import cached_property
from typing import TYPE_CHECKING

from spirit_py.attached.implied_locks import Implied
from spirit_py.attached.sequence import SwapStatements, renaming
from spirit_py.classes import dataclass, field
from spirit_py.errors import HeldBack
from spirit_py.events.event import Tell, untold
from spirit_py.events.swap import SwapDone
from spirit_py.locks.blockers import LockPolicy
from spirit_py.pace import uncounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.config import ConnectionOptions, GuardMode
    from spirit_py.contracts import ChangeSource, Clock, SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.pace import HeldUp
    from spirit_py.table.names import Swap
    from spirit_py.threads import StopSwitch


class AttachedObjects:
    """What is attached to the tables of one cutover, over all its tries; by itself, nothing."""

    swaps: Sequence[Swap]
    implied = Implied()
    """What LOCK TABLES locks besides by itself, as of the last survey."""
    tables: Sequence[tuple[str, str]] = ()
    """Schema and name of the further tables that are locked, as of the last survey."""

    def __init__(self, swaps: Sequence[Swap]) -> None:
        self.swaps = swaps

    @property
    def statements(self) -> SwapStatements:
        """What is sent in this try, the RENAME included."""
        return SwapStatements(rename=renaming(self.swaps))

    @property
    def described(self) -> Sequence[str]:
        """What is sent along in this try, a line for each object."""
        return ()

    def survey(self) -> None:
        """Undo an earlier try's rest, and note what is attached, without a lock; or SpiritError."""

    def prove(self, session: SqlSession) -> None:
        """Prove under the lock that what is attached is what was surveyed; else TryFailed."""

    def settle(self, session: Session) -> None:
        """Undo or complete, by the RENAME's outcome, under the lock; else raise a ServerFault."""

    def undo_later(self) -> None:
        """Undo in a new session what a lost one left; never raises, as the next survey does it."""


class SwapGate:
    """What may hold a swap back; by itself, nothing. A reason is for messages, empty for none."""

    def held_back(self) -> str:
        """Return why the swap is deferred; asked before each further try, and while it waits."""
        return ""

    def heed(self) -> None:
        """Raise HeldBack where the swap is deferred."""
        if what := self.held_back():
            raise HeldBack.by(what)

    def try_ended(self) -> None:
        """Heed that a try has failed; called before :meth:`held_back` is asked about the next."""

    def too_old(self) -> str:
        """Return which answer of :meth:`held_back` counts no more; asked right before the lock."""
        return ""

    def last_word(self) -> str:
        """Return why no RENAME is sent; without I/O, once :attr:`Cutover.renaming` is set."""
        return ""


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CutoverLimits:
    """When a cutover's lock is requested, and seconds to hold it and look for a lost outcome."""

    lock: LockPolicy = field(default_factory=LockPolicy)
    lock_hold: float = 5.0
    look: float = 60.0


def nothing(_session: SqlSession) -> None:
    """Do nothing, where a hook was not given."""


@dataclass(frozen=True, kw_only=True)
class CutoverPlan:
    """What a cutover is to do, and with what.

    ``source``: the running feed; it goes on after a failed try. ``stop``: ends a try at once,
    unless RENAME was sent. ``before_lock``: called in each try shortly before the lock request,
    without locks. ``final_checks``: called under the lock when everything is flushed; must be fast,
    and its errors end the cutover. ``show``: gets what is waited for now, and an empty text at the
    end. ``along``: tables that no feed follows. ``note_position``: note the place between RENAME
    and unlock (:attr:`CutoverResult.after_rename`). ``clock``: monotonic seconds.
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
    held_up: HeldUp = uncounted
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


@contextlib.contextmanager
def timed(steps: dict[str, float], name: str, clock: Clock = time.monotonic) -> Iterator[None]:
    """Note how many milliseconds a step of a try takes."""
    began = clock()
    try:
        yield
    finally:
        steps[name] = (clock() - began) * 1000


class NotProven(HeldBack):
    """Rows must be compared once more; found under the lock. The next try follows that."""


@dataclass(frozen=True, kw_only=True)
class CutoverResult:
    """A swap that was done.

    ``lock_wait_ms`` is of the last try; ``lock_held_ms`` ends with the release. ``position`` (the
    feed's at the swap) and ``after_rename`` are opaque; from the latter another feed gets
    everything that is written to the swapped tables. It is empty when not asked for, when
    ``answer_lost``, and when what follows the RENAME could not be sent under the lock.
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

    @property
    def event(self) -> SwapDone:
        """The event of it, with rounded figures."""
        return SwapDone(
            tries=self.attempts,
            lock_wait_ms=round(self.lock_wait_ms, 3),
            lock_held_ms=round(self.lock_held_ms, 3),
            steps_ms={name: round(ms, 3) for name, ms in self.steps_ms.items()},
        )
