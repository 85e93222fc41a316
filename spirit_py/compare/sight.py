"""Whether the servers of a comparison answer: it has no change feed that would notice."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Final

from spirit_py.errors import SpiritError
from spirit_py.mysql.retry import waiting_for
from spirit_py.throttle.throttler import own_session

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.retry import RenewedSession

_LOOK_SECONDS: Final = 1.0


class Sight:
    """Asks each of some servers every second; :meth:`run` is a thread's body."""

    def __init__(self, servers: Sequence[ConnectionOptions]) -> None:
        self._asked = [(one, own_session(one, "sight")) for one in servers]
        #: The server that did not answer when it was asked last; empty for none.
        self.trouble = ""

    def run(self, stopping: threading.Event) -> None:
        """Ask until the event is set."""
        while not stopping.is_set():
            self.trouble = next(filter(None, starmap(_trouble, self._asked)), "")
            stopping.wait(_LOOK_SECONDS)
        for _, session in self._asked:
            session.close()


def _trouble(options: ConnectionOptions, asked: RenewedSession) -> str:
    try:
        asked.ask(lambda session: session.query("SELECT 1"))
    except SpiritError as fault:
        return waiting_for(options, fault)
    return ""
