"""A session that is opened when it is needed, and another one after a fault."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import login_counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import Clock
    from spirit_py.mysql.session import Session

_T = TypeVar("_T")
#: The pause after the first refused login, and the longest one: seconds.
_FIRST_REFUSAL: Final = 2.0
_LONGEST_REFUSAL: Final = 300.0


def pause_after_refusals(count: int) -> float:
    """Return the seconds until the next login, after so many that were refused in a row."""
    return min(_LONGEST_REFUSAL, _FIRST_REFUSAL * 2.0 ** min(count - 1, 10))


class RenewedSession:
    """A session for work that repeats for days, of which a fault costs one turn. One thread.

    A login that was refused is not repeated at once: until its pause is over the same fault is
    raised, and no server is asked (:func:`pause_after_refusals`).

    Args:
        open_session: opens one.
        prepare: called with each that is opened.
    """

    def __init__(
        self,
        open_session: Callable[[], Session],
        *,
        prepare: Callable[[Session], None] | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._open = open_session
        self._prepare = prepare
        self._clock = clock
        self._session: Session | None = None
        self._refused: ServerFault | None = None
        self._refusals, self._again_at = 0, 0.0

    def session(self) -> Session:
        """Return the session, opened at need.

        Raises:
            ServerFault: it could not be opened.
        """
        if self._session is None:
            self._session = self._logged_in()
            if self._prepare is not None:
                try:
                    self._prepare(self._session)
                except ServerFault:
                    self.close()
                    raise
        return self._session

    def _logged_in(self) -> Session:
        if self._refused is not None and self._clock() < self._again_at:
            raise self._refused.with_traceback(None)
        try:
            session = self._open()
        except ServerFault as fault:
            if login_counted(fault):
                self._refused, self._refusals = fault, self._refusals + 1
                self._again_at = self._clock() + pause_after_refusals(self._refusals)
            raise
        self._refused, self._refusals = None, 0
        return session

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
