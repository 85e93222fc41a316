"""Complete, or undo, what a packet has left half-way: look, and send what remains.

It is the same after a packet that stopped, on a resume, before a cleanup and a revert. Where the
swap was made, the rest is sent; where it was not, what was sent before the RENAME is undone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys import moving
from spirit_py.attached.foreign_keys.catalogue import keys_of
from spirit_py.attached.implied import implied_locks
from spirit_py.attached.sequence import Existing, remaining, undoing
from spirit_py.attached.triggers.catalogue import read_places
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.events import EventName
from spirit_py.mysql.evaluation import accept_stored
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.locks.front import Front
from spirit_py.mysql.locks.look import LockRequest
from spirit_py.mysql.locks.table import TableLock, let_go_when_silent, open_lock_session
from spirit_py.mysql.locks.turns import LockTurns, SomebodyInFront
from spirit_py.mysql.tables.definition import existing_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.attached.record import Attachments, Name
    from spirit_py.attached.sequence import Sql
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.events import Tell
    from spirit_py.mysql.locks.policy import LockPolicy
    from spirit_py.mysql.session import Session
    from spirit_py.stop import StopSwitch

_WHAT: Final = "the lock for keys and triggers of a swap"
_HOLD_SECONDS: Final = 10.0


def there(session: SqlSession, tables: Iterable[Name]) -> list[Name]:
    """Return those of some tables that exist."""
    by_schema: dict[str, list[str]] = {}
    for schema, table in tables:
        by_schema.setdefault(schema, []).append(table)
    return [
        (schema, name)
        for schema, names in by_schema.items()
        for name in sorted(existing_tables(session, schema, names))
    ]


def outstanding(session: SqlSession, noted: Attachments) -> list[Sql]:
    """Return the statements that complete or undo what is there; in their order."""
    return _statements(session, noted, there(session, _tables(noted)))


def settle_locked(session: Session, noted: Attachments) -> None:
    """Send what is outstanding, in a session that holds the tables' locks.

    Raises:
        ServerFault: of the statement that failed; the rest was not sent.
    """
    if statements := outstanding(session, noted):
        accept_stored(session)
        _, fault = session.execute_packet(statements)
        if fault is not None:
            raise fault


@dataclass(kw_only=True)
class Settling:
    """Settles one record with the rules for locks that others wait behind: :meth:`run` once.

    Args:
        show: called with what is waited for, and an empty text at the end.
        tell: reports what was done.
    """

    connection: ConnectionOptions
    noted: Attachments
    policy: LockPolicy
    stop: StopSwitch
    show: Callable[[str], None]
    tell: Tell

    def run(self, session: SqlSession) -> bool:
        """Send what is outstanding; return whether there was something.

        Args:
            session: without locks; it only reads.

        Raises:
            MigrationFailure: the locks were not granted in the policy's time.
            ServerFault: a statement failed.
        """
        tables = there(session, _tables(self.noted))
        if not _statements(session, self.noted, tables):
            return False
        implied = implied_locks(session, tables)
        request = LockRequest(tables=tables, defines=True).including(
            written=implied.written, read=implied.read
        )
        front = Front(request, self.policy.kills)
        turns = LockTurns(
            [(self.connection, front)],
            self.policy,
            self.stop,
            what=_WHAT,
            show=self.show,
            tell=self.tell,
        )
        tries = 0
        while turns.await_free():
            tries += 1
            try:
                waited = self._try(turns, tables)
            except SomebodyInFront:
                continue
            except ServerFault as fault:
                self.stop.check()
                if disposition(fault) is not Disposition.RETRY:
                    raise
                turns.pause(tries, self.policy.wait, fault.message)
                continue
            self.tell(
                EventName.ATTACHMENTS_SETTLED,
                f"keys and triggers are settled, the lock waited {waited:.0f} ms",
                lock_wait_ms=round(waited, 1),
            )
            return True
        raise MigrationFailure(
            f"the keys and triggers of a swap could not be settled: {turns.described()}",
            hint="end the transactions that hold the tables, then run the same command again",
            error_code=ErrorCode.KEYS_AND_TRIGGERS_UNSETTLED,
        )

    def _try(self, turns: LockTurns, tables: list[Name]) -> float:
        """Lock, send, unlock; return the milliseconds that the lock was waited for."""
        with open_lock_session(
            self.connection,
            role="settle",
            wait=math.ceil(self.policy.wait),
            hold=_HOLD_SECONDS,
        ) as session:
            turns.require_free([session])
            let_go_when_silent(session)
            lock = TableLock(session, tables)
            lock.acquire()
            settle_locked(session, self.noted)
            lock.release()
            return lock.waited_ms


def lost_keys(session: SqlSession, noted: Attachments) -> list[ForeignKey]:
    """Return the keys that another session has dropped since the swap; it alone knows why."""
    tables = there(session, _tables(noted))
    if not _is_swapped(noted, tables):
        return []
    return moving.missing(noted, [key for table in tables for key in keys_of(session, *table)])


def _tables(noted: Attachments) -> list[Name]:
    """Return all tables that something may have to be sent for."""
    swapped = [
        (swap.schema, name) for swap in noted.swaps for name in (swap.table, swap.new, swap.old)
    ]
    return [*swapped, *noted.others]


def _statements(session: SqlSession, noted: Attachments, tables: list[Name]) -> list[Sql]:
    existing = Existing(
        keys=tuple(key for table in tables for key in keys_of(session, *table)),
        triggers=read_places(session, tables) if noted.triggers else (),
    )
    swapped = _is_swapped(noted, tables)
    return remaining(noted, existing) if swapped else undoing(noted, existing)


def _is_swapped(noted: Attachments, tables: list[Name]) -> bool:
    """Return whether the RENAME was made, which is atomic over all of the tables."""
    return not any((swap.schema, swap.new) in tables for swap in noted.swaps)
