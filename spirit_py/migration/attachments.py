"""What is attached to the tables of one swap: read, noted, sent with it, and settled after it.

The row is in the checkpoint table of each swapped table, from before the first statement until
everything is in place, or undone. A run that finds one settles it before it does anything else.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.survey import concerned, moves
from spirit_py.attached.record import Attachments, Places
from spirit_py.attached.sequence import sequence_of
from spirit_py.attached.settle import Settling, settle_locked, there
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.cutover.plan import TryFailed
from spirit_py.errors import SpiritError
from spirit_py.mysql.connect import connect
from spirit_py.mysql.locks.policy import LockPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.attached.sequence import SwapStatements
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.process import Process
    from spirit_py.mysql.session import Session
    from spirit_py.mysql.tables.identity import Name
    from spirit_py.table.swap import Swap

_TOKEN_BYTES: Final = 4
#: While the feed is held back, so that it applies nothing to a table that is half-way.
_AT_ONCE_SECONDS: Final = 10.0


@dataclass(kw_only=True)
class SwapAttachments:
    """What is attached to the tables of one swap, over all its tries.

    Args:
        carried: returns a foreign key as the change leaves it; None for one that it drops.
    """

    process: Process
    swaps: tuple[Swap, ...]
    carried: Callable[[ForeignKey], ForeignKey | None]
    _noted: Attachments = field(init=False)
    _keys: frozenset[ForeignKey] = field(default=frozenset(), init=False)
    _tables: Sequence[Name] = field(default=(), init=False)

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
            self._tables = there(session, self._noted.others)
            if self._noted:
                for name in self._names:
                    CheckpointTable(*name).write(session, self._noted)

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


def settle_left(
    process: Process, session: SqlSession, tables: Iterable[Name], *, seconds: float = 0.0
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
        noted = checkpoint.read(session, Attachments)
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
                beside.forget(session, Attachments)
