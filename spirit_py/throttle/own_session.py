"""The session of a throttler: opened when it looks, and again after a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py.errors import ServerFault
from spirit_py.mysql.connect import connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session

_T = TypeVar("_T")

_ANSWER_WITHIN: Final = 3


class OwnSession:
    """A session for short statements, which a server that is away must not hold up. One thread.

    Args:
        prepare: called with every session that is opened.
        more: further arguments of :func:`connect`.
    """

    def __init__(
        self,
        connection: ConnectionOptions,
        role: str,
        *,
        prepare: Callable[[Session], None] | None = None,
        **more: Any,
    ) -> None:
        self._connection = connection
        self._role = role
        self._prepare = prepare
        self._more = more
        self._session: Session | None = None

    def ask(self, work: Callable[[Session], _T]) -> _T:
        """Do something with the session; it is closed after a fault.

        Raises:
            ServerFault: the server reported an error, or did not answer within seconds.
        """
        if self._session is None:
            self._session = connect(
                self._connection,
                role=self._role,
                read_timeout=_ANSWER_WITHIN,
                lock_wait_timeout=_ANSWER_WITHIN,
                innodb_lock_wait_timeout=_ANSWER_WITHIN,
                **self._more,
            )
            if self._prepare is not None:
                self._prepare(self._session)
        try:
            return work(self._session)
        except ServerFault:
            self.close()
            raise

    def close(self) -> None:
        """Close the session, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
