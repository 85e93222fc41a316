"""A session that is opened when it is needed, and another one after a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from spirit_py.errors import ServerFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.mysql.session import Session

_T = TypeVar("_T")


class RenewedSession:
    """A session for work that repeats for days, of which a fault costs one turn. One thread.

    Args:
        open_session: opens one.
        prepare: called with each that is opened.
    """

    def __init__(
        self,
        open_session: Callable[[], Session],
        *,
        prepare: Callable[[Session], None] | None = None,
    ) -> None:
        self._open = open_session
        self._prepare = prepare
        self._session: Session | None = None

    def session(self) -> Session:
        """Return the session, opened at need.

        Raises:
            ServerFault: it could not be opened.
        """
        if self._session is None:
            self._session = self._open()
            if self._prepare is not None:
                try:
                    self._prepare(self._session)
                except ServerFault:
                    self.close()
                    raise
        return self._session

    def ask(self, work: Callable[[Session], _T]) -> _T:
        """Do something with the session; it is closed after a fault.

        Raises:
            ServerFault: of the server, or of the network.
        """
        try:
            return work(self.session())
        except ServerFault:
            self.close()
            raise

    def close(self) -> None:
        """Close the session, if there is one; safe to call again, and another may be opened."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
