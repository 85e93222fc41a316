"""What is attached to the tables of one swap: read, noted, sent with it, and settled after it.

The row is in the checkpoint table of each swapped table, from before the first statement until
everything is in place, or undone. A run that finds one settles it before it does anything else.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from spirit_py.attached.foreign_keys.survey import concerned, moves
from spirit_py.attached.implied import Implied, implied_locks
from spirit_py.attached.record import Attachments, Places
from spirit_py.attached.sequence import sequence_of
from spirit_py.attached.settle import Settling, settle_locked, there
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.proofs import renew_all_proofs
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.cutover.plan import TryFailed
from spirit_py.errors import Refusal, SpiritError
from spirit_py.mysql.connect import connect
from spirit_py.mysql.locks.policy import LockPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.attached.sequence import SwapStatements
    from spirit_py.config import RunConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.process import Process
    from spirit_py.mysql.session import Session
    from spirit_py.mysql.tables.identity import Name
    from spirit_py.stop import StopSwitch
    from spirit_py.table.swap import Swap

_TOKEN_BYTES: Final = 4
#: While the feed is held back, so that it applies nothing to a table that is half-way.
_AT_ONCE_SECONDS: Final = 10.0


@dataclass(kw_only=True)
class SwapAttachments:
    """What is attached to the tables of one swap, over all its tries.

    Args:
        carried: returns a foreign key as the change leaves it; None for one that it drops.

    Attributes:
        implied: what LOCK TABLES locks by itself besides.
    """

    process: Process
    swaps: tuple[Swap, ...]
    carried: Callable[[ForeignKey], ForeignKey | None]
    _noted: Attachments = field(init=False)
    _keys: frozenset[ForeignKey] = field(default=frozenset(), init=False)
    _tables: Sequence[Name] = field(default=(), init=False)
    implied: Implied = field(default=Implied(), init=False)

    def __post_init__(self) -> None:
        """Nothing is known before the first survey."""
        self._noted = Attachments(swaps=self.swaps)

    @property
    def tables(self) -> Sequence[Name]:
        """Schema and name of the further tables that are locked."""
        return self._tables

    @property
    def statements(self) -> SwapStatements:
        """What is sent in this try."""
        return sequence_of(self._noted)

    def survey(self) -> None:
        """Settle what an earlier try has left; then read what is attached, and note it.

        Raises:
            SpiritError: it cannot be read, or not be settled.
        """
        with self._session() as session:
            settle_left(self.process, session, self._names)
            self._keys = concerned(session, self._names)
            found = moves(
                session,
                self._keys,
                Places(self.swaps),
                self.carried,
                secrets.token_hex(_TOKEN_BYTES),
            )
            self._noted = Attachments(swaps=self.swaps, keys=found)
            self._lock(session)
            if self._noted:
                for name in self._names:
                    CheckpointTable(*name).write(session, self._noted)

    def _lock(self, session: SqlSession) -> None:
        """Find what is locked with the tables, and tell the operator when it has changed."""
        tables = there(session, self._noted.others)
        swapped = [(s.schema, name) for s in self.swaps for name in (s.table, s.new)]
        implied = implied_locks(session, [*swapped, *tables])
        if (tables, implied) != (self._tables, self.implied) and tables:
            also = [*implied.written, *implied.read]
            self.process.message(
                f"the swap locks {_listed(tables)} too, for foreign keys"
                + (f"; the server locks {_listed(also)} with them" if also else "")
            )
        self._tables, self.implied = tables, implied

    def prove(self, session: SqlSession) -> None:
        """Prove under the lock that there are the keys that were noted, and no others.

        Raises:
            TryFailed: others are there by now.
        """
        now = concerned(session, self._names)
        if now == self._keys:
            return
        changed = ", ".join(sorted(map(str, now ^ self._keys)))
        raise TryFailed(f"foreign keys were added or dropped meanwhile: {changed}")

    def undo(self, session: Session) -> None:
        """Undo under the lock what was sent before a RENAME that was not made."""
        settle_locked(session, self._noted)

    def complete(self, session: Session) -> None:
        """Send under the lock what remains after the RENAME."""
        settle_locked(session, self._noted)

    def undo_later(self) -> None:
        """Undo in a session of its own; a failure is reported, and left to the next survey."""
        if not self._noted:
            return
        try:
            with self._session() as session:
                settle_left(self.process, session, self._names, seconds=_AT_ONCE_SECONDS)
        except SpiritError as error:
            self.process.message(f"what the try has left is not undone yet: {error.message}")

    def finish(self) -> None:
        """Settle what is left after the swap, and forget what was noted.

        Raises:
            SpiritError: it is not settled; the same command settles it.
        """
        if not self._noted:
            return
        with self._session() as session:
            settle_left(self.process, session, self._names)

    @property
    def _names(self) -> list[Name]:
        return [swap.name for swap in self.swaps]

    def _session(self) -> Session:
        return connect(self.process.config.connection, role="attached", read_timeout=60)


def _listed(tables: Iterable[Name]) -> str:
    return ", ".join(".".join(table) for table in tables)


class Settler(Protocol):
    """What settling needs of a process."""

    @property
    def config(self) -> RunConfig:
        """The connection, and the limits of locks."""

    @property
    def stop(self) -> StopSwitch:
        """Ends the waiting."""

    def show(self, waiting_for: str) -> None:
        """Show what is waited for now."""

    def message(self, text: str, **fields: object) -> None:
        """Report one thing that happened."""


def settle_left(
    process: Settler, session: SqlSession, tables: Iterable[Name], *, seconds: float = 0.0
) -> None:
    """Settle what is noted beside some tables, if anything is, and forget it.

    Args:
        session: without locks.
        seconds: for which the locks are requested; 0 for as long as those of a swap.

    Raises:
        SpiritError: it is not settled, and stays noted.
    """
    policy = LockPolicy.of(process.config)
    for table in tables:
        checkpoint = CheckpointTable(*table)
        if not checkpoint.is_ours(session):
            continue
        noted = _read(session, checkpoint)
        if noted is None:
            continue
        settling = Settling(
            connection=process.config.connection,
            noted=noted,
            policy=replace(policy, timeout=seconds) if seconds else policy,
            stop=process.stop,
            show=process.show,
            message=process.message,
        )
        settling.run(session)
        for swap in noted.swaps:
            beside = CheckpointTable(*swap.name)
            if beside.is_ours(session):
                renew_all_proofs(session, *swap.name)
                beside.forget(session, Attachments)


def _read(session: SqlSession, checkpoint: CheckpointTable) -> Attachments | None:
    """Return what is noted; None for nothing.

    Raises:
        Refusal: another version has noted it.
    """
    try:
        return checkpoint.read(session, Attachments)
    except UnreadableCheckpoint as error:
        raise Refusal(
            f"{checkpoint} says that a swap was stopped half-way, and cannot be read: {error}",
            hint="use the version of spirit-py that wrote it",
        ) from error
