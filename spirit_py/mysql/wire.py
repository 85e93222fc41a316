"""Breaks a session's connection from another thread, when no KILL can reach the server.

The driver lets nobody but the waiting thread touch a connection. On a network that swallows
everything that thread would wait until its read timeout.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spirit_py.mysql.session import Session


class Wire:
    """A handle of our own on a session's socket; made in the session's thread, while idle.

    The server learns of a cut only when its statement ends: whoever cuts also kills the session.
    """

    def __init__(self, session: Session) -> None:
        # A duplicate: the driver may close its own number, which then becomes another file's.
        self._socket = socket.socket(fileno=os.dup(session.fileno()))

    def cut(self) -> None:
        """End the connection: a statement that waits on it fails with error 2013."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the handle back; safe to call again."""
        self._socket.close()
