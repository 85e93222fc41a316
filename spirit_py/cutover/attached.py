"""What a cutover sends beside its RENAME: the interface, and the case of nothing at all.

RENAME does not carry triggers and foreign keys as a native ALTER does
(:mod:`spirit_py.attached`). The migration reads what there is and brings the statements; the
cutover locks the tables they need, sends them around the RENAME in one packet, and has them undone
or completed when that stops half-way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from spirit_py.attached.implied import Implied
from spirit_py.attached.sequence import SwapStatements, renaming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.table.swap import Swap


class AttachedObjects(Protocol):
    """What is attached to the tables of one cutover, over all its tries."""

    @property
    def tables(self) -> Sequence[tuple[str, str]]:
        """Schema and name of the further tables that are locked, as of the last survey."""

    @property
    def implied(self) -> Implied:
        """Return what LOCK TABLES locks besides by itself, as of the last survey."""

    @property
    def statements(self) -> SwapStatements:
        """What is sent in this try, the RENAME included."""

    @property
    def described(self) -> Sequence[str]:
        """Return what is sent along in this try, a line for each object."""

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
        """Bring under the lock what is attached to where it belongs.

        What was sent before a RENAME that was not made is undone; after one that was made, what
        remains is sent.

        Raises:
            ServerFault: something remains.
        """

    def undo_later(self) -> None:
        """Undo in a session of its own what a lost one has left; never raises for a failure.

        What is left then is undone by the next survey.
        """


@dataclass(frozen=True)
class NothingAttached:
    """Of tables that stand alone: one RENAME is sent."""

    swaps: Sequence[Swap]

    @property
    def tables(self) -> Sequence[tuple[str, str]]:
        """Return no further table."""
        return ()

    @property
    def implied(self) -> Implied:
        """Return no further table."""
        return Implied()

    @property
    def statements(self) -> SwapStatements:
        """Return the RENAME."""
        return SwapStatements(rename=renaming(self.swaps))

    @property
    def described(self) -> Sequence[str]:
        """Return nothing."""
        return ()

    def survey(self) -> None:
        """Do nothing."""

    def prove(self, session: SqlSession) -> None:
        """Do nothing."""

    def settle(self, session: Session) -> None:
        """Do nothing."""

    def undo_later(self) -> None:
        """Do nothing."""
