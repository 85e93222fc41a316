"""Who is in the way of the checksum's table lock, named while it waits.

Nobody is killed for a checksum: unlike the cutover it can wait, at no cost but time, and a
session that is in its way would be in the cutover's too, whose rules then apply.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, Self

from spirit_py.errors import ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import find_blockers

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.kill import Blocker

_log = logging.getLogger(__name__)
_FIRST_LOOK_SECONDS: Final = 0.3
_LOOK_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 15.0


class InTheWay:
    """A context around a lock request; leave :meth:`finish` to the moment it is over.

    Args:
        options: the server of the lock.
        waiter: the id of the locking session.
        tell: told who is in the way at each look that finds somebody.
    """

    def __init__(
        self, options: ConnectionOptions, waiter: int, tell: Callable[[list[Blocker]], None]
    ) -> None:
        self._options = options
        self._waiter = waiter
        self._tell = tell
        self._over = threading.Event()
        self._telling = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="spirit-in-the-way", daemon=True)

    def finish(self) -> None:
        """Stop looking, and tell nothing more; returns at once: a lock may be held."""
        with self._telling:
            self._over.set()

    def _run(self) -> None:
        """Look until it is over; that nobody may look is no fault of the checksum."""
        if self._over.wait(_FIRST_LOOK_SECONDS):
            return
        try:
            with connect(self._options, role="checksum-look", read_timeout=10) as session:
                while not self._over.is_set():
                    found = find_blockers(session, self._waiter)
                    with self._telling:
                        if found and not self._over.is_set():
                            self._tell(found)
                    self._over.wait(_LOOK_SECONDS)
        except ServerFault as fault:
            _log.debug("cannot see who is in the way of the checksum's lock: %s", fault.message)

    def __enter__(self) -> Self:
        """Start looking, unless it is over in a moment."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for the thread, and so for the end of its session."""
        self.finish()
        self._thread.join(_JOIN_SECONDS)
