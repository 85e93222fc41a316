"""Complete, or undo, what a packet has left half-way, by whether the RENAME was made."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

from spirit_py.attached import sequence
from spirit_py.attached.foreign_keys.catalogue import concerned_now
from spirit_py.attached.implied_locks import implied_locks, there
from spirit_py.attached.sequence import Existing, remaining, undoing
from spirit_py.attached.triggers.catalogue import read_places, read_triggers
from spirit_py.attached.triggers.statements import OWN_SETTINGS
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.events.swap import AttachmentsSettled
from spirit_py.locks.look import LockRequest
from spirit_py.locks.table import TableLock, let_go_when_silent, open_lock_session
from spirit_py.locks.turns import Front, LockTurns, SomebodyInFront
from spirit_py.mysql.evaluation import accept_stored
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT, Disposition, disposition
from spirit_py.mysql.grants import require_sight

if TYPE_CHECKING:
    from spirit_py.attached.foreign_keys.model import KeyNote
    from spirit_py.attached.record import AttachmentsNote
    from spirit_py.attached.triggers.model import Trigger
    from spirit_py.attached.triggers.statements import Sql
    from spirit_py.config import RunConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.events.event import Event
    from spirit_py.locks.blockers import LockPolicy
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Name
    from spirit_py.threads import StopSwitch

_WHAT: Final = "the lock for keys and triggers of a swap"
_HOLD_SECONDS: Final = 10.0


def outstanding(session: SqlSession, noted: AttachmentsNote) -> list[Sql]:
    """Return the statements that complete or undo what is there; in their order."""
    existing, swapped = _existing(session, noted)
    return remaining(noted, existing) if swapped else undoing(noted, existing)


def settle_locked(session: Session, noted: AttachmentsNote) -> None:
    """Send what is outstanding, in a session that holds the locks; a ServerFault ends it."""
    # A packet that failed may have left those of a trigger, in which no name would be found.
    session.execute(OWN_SETTINGS)
    if statements := outstanding(session, noted):
        accept_stored(session)
        _, fault = session.execute_packet(statements)
        if fault is not None:
            raise fault


class Settler(Protocol):
    """What settling needs of a job."""

    @property
    def config(self) -> RunConfig:
        """The connection, and the limits of locks."""

    @property
    def stop(self) -> StopSwitch:
        """Ends the waiting."""

    def show(self, waiting_for: str) -> None:
        """Show what is waited for now."""

    def held_up(self, what: str, seconds: float) -> None:
        """Count seconds in which others held up a lock."""

    def tell(self, event: Event) -> None:
        """Report what happens."""


def settle_alone(
    job: Settler, noted: AttachmentsNote, session: SqlSession, policy: LockPolicy
) -> None:
    """Send what is outstanding, with the rules for locks; ``session``, without locks, reads.

    Raises a MigrationFailure when the locks were not granted in time, or the account may not see
    all, and a ServerFault for a failed statement.
    """
    statements = outstanding(session, noted)
    require_sight(session, _names_of(noted), noted.others)
    if not statements:
        return
    own = _names_of(noted)
    ends = {end for key in concerned_now(session, own) for end in (key.child, key.parent)}
    tables = there(session, [*own, *sorted(ends - set(own))])
    implied = implied_locks(session, tables)
    request = LockRequest(tables=tables, defines=True).including(
        written=implied.written, read=implied.read, guessed=implied.guessed
    )
    connection = job.config.connection
    front = [(connection, Front(request, policy.kills))]
    turns = LockTurns(
        front, policy, job.stop, what=_WHAT, show=job.show, tell=job.tell, held_up=job.held_up
    )
    tries = 0
    while turns.await_free():
        tries += 1
        try:
            with open_lock_session(
                connection, role="settle", wait=math.ceil(policy.wait), hold=_HOLD_SECONDS
            ) as locking:
                turns.require_free([locking])
                let_go_when_silent(locking)
                lock = TableLock(locking, tables)
                lock.acquire()
                settle_locked(locking, noted)
                lock.release()
        except SomebodyInFront:
            continue
        except ServerFault as fault:
            job.stop.check()
            if disposition(fault) is not Disposition.RETRY:
                raise
            in_vain = fault.code == LOCK_WAIT_TIMEOUT
            turns.pause(tries, policy.wait, fault.message, in_vain=in_vain)
            continue
        job.tell(AttachmentsSettled(lock_wait_ms=round(lock.waited_ms, 1)))
        return
    raise MigrationFailure(
        f"the keys and triggers of a swap could not be settled: {turns.described()}",
        hint="end the transactions that hold locks on the tables, then run the same command again",
        error_code=ErrorCode.KEYS_AND_TRIGGERS_UNSETTLED,
    )


def lost_keys(session: SqlSession, noted: AttachmentsNote) -> list[KeyNote]:
    """Return the keys that another session has dropped since the swap; it alone knows why."""
    existing, swapped = _existing(session, noted)
    return sequence.missing(noted, existing.keys) if swapped else []


def _names_of(noted: AttachmentsNote) -> list[Name]:
    return [(s.schema, name) for s in noted.swaps for name in (s.table, s.new, s.old)]


def _existing(session: SqlSession, noted: AttachmentsNote) -> tuple[Existing, bool]:
    """Return what is attached, and whether the RENAME, atomic over all tables, was made.

    MigrationFailure where the names do not show it: somebody else has made one of the tables.
    """
    own = there(session, _names_of(noted))
    new = [swap.new for swap in noted.swaps if (swap.schema, swap.new) in own]
    old = [swap.old for swap in noted.swaps if (swap.schema, swap.old) in own]
    if new and old:
        raise MigrationFailure(
            f"a swap was stopped half-way, and {', '.join(new)} and {', '.join(old)} are there:"
            " not all of them are of this migration",
            hint="see who has made one of them, and give it another name; then run the same command"
            " again",
            error_code=ErrorCode.KEYS_AND_TRIGGERS_UNSETTLED,
        )
    swapped = not new
    keys = concerned_now(session, own) if noted.keys else ()
    if not noted.triggers:
        return Existing(keys=keys), swapped
    if not swapped:
        return Existing(keys=keys, places=read_places(session, own)), swapped
    triggers: list[Trigger] = []
    for swap in noted.swaps:
        both = (swap.table, swap.old)
        beside = [one.name for one in noted.triggers if one.schema == swap.schema]
        for name in both:
            if (swap.schema, name) in own:
                triggers += read_triggers(session, swap.schema, name, also=both, beside=beside)
    return Existing(keys=keys, triggers=tuple(triggers)), swapped
