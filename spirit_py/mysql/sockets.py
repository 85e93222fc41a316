"""A session's socket: keepalive probes, and shutdown when no KILL can reach the server.

While a thread waits for an answer, no other thread may use the driver's connection. On a network
that drops all packets that thread would wait until its read timeout.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spirit_py.mysql.session import Session


#: A peer that answers no probe is lost after IDLE + COUNT * INTERVAL, 45 seconds.
_PROBES: Final = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 6}
_UNANSWERED_MILLISECONDS: Final = 45_000


def probe(number: int) -> None:
    """Have the operating system detect within a minute that the other end of a socket is gone.

    A statement may run for hours without a byte, so a read timeout cannot detect it. Options that
    the system does not have are left out.

    Args:
        number: of the connection's socket.
    """
    options = {**_PROBES, "TCP_USER_TIMEOUT": _UNANSWERED_MILLISECONDS}
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as wire:
        if wire.family not in {socket.AF_INET, socket.AF_INET6}:
            return
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options.items():
            option = getattr(socket, name, None)
            if option is not None:
                wire.setsockopt(socket.IPPROTO_TCP, option, value)


def duplicate(session: Session) -> socket.socket:
    """Return a handle of our own on a session's socket; in the session's thread, while it is idle.

    The driver may close its own number, which then becomes another file's.
    """
    return socket.socket(fileno=os.dup(session.fileno()))


class CuttableSession:
    """Holds a session that another thread can cut; none at first. For one user at a time."""

    def __init__(self) -> None:
        # Never held while the server is waited for.
        self._guard = threading.Lock()
        self.session: Session | None = None
        self._socket: socket.socket | None = None

    def take(self, session: Session) -> Session:
        """Hold a new session, while it is idle; return it."""
        with self._guard:
            self.session, self._socket = session, duplicate(session)
        return session

    def cut(self) -> int:
        """Break the connection: a statement that waits on it fails with error 2013.

        Returns:
            The session to kill, because the server learns of the cut only when its statement
            ends; 0 for none.
        """
        with self._guard:
            if self.session is None or self._socket is None:
                return 0
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            return self.session.id

    def close(self) -> None:
        """Close the session, if there is one."""
        with self._guard:
            if self.session is not None:
                self.session.close()
            if self._socket is not None:
                self._socket.close()
            self.session = self._socket = None
