"""The two ends of a mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.contracts import SqlSession

Orders: TypeAlias = "list[tuple[int, str]]"
"""Orders, each with its number."""


class MemberEnd(Protocol):
    """A member's end; used by one thread."""

    def write(self, letter: dict[str, Any]) -> None:
        """Replace the member's message to the driver."""

    def orders(self) -> Orders:
        """Return the member's orders.

        Raises:
            MigrationFailure: when the driver is gone.
            ServerFault: when the member's session is lost.
        """

    def close(self) -> None:
        """Withdraw the message; the member's session may be closed already."""


class MemberBox(Protocol):
    """What a task needs to open its end. Picklable if tasks run in other processes."""

    def join(self, rank: int, session: SqlSession) -> MemberEnd:
        """Open the end of a member.

        Args:
            session: the member's, on the driver's server.
        """


class DriverEnd(Protocol):
    """The driver's end; used by one thread.

    A *sender* is a number that identifies one attempt of a member, for as long as it lives.

    Attributes:
        name: distinguishes the gang from all others.
        box: for the tasks.
    """

    @property
    def name(self) -> str:
        """A name for the gang."""

    @property
    def box(self) -> MemberBox:
        """What the tasks are given."""

    def post(self, rank: int, orders: Collection[tuple[int, str]]) -> None:
        """Replace a member's orders."""

    def letters(self) -> list[tuple[int, Any]]:
        """Return the sender and the message of each member that lives.

        The message may be None while a member comes or ends.
        """

    def silent(self, senders: Collection[int], seconds: int) -> bool:
        """Return whether the session of one of these members has idled for so long.

        A member that lives uses its session several times a minute, or waits for a statement. So
        the session idles only if packets are lost in either direction. A network that drops all
        packets is reported to neither side, and no read timeout is possible, because a statement
        that counts a segment may take hours.
        """

    def close(self) -> None:
        """Remove what the mailbox leaves on the server, as far as it can be reached."""
