"""Members of a gang of which the server hears nothing: cut off without a word, or standing still.

A member asks for its orders every few milliseconds or waits for a statement. Its session idles
for long only where what it sends does not arrive, or what it is sent: a network that swallows
everything tells neither side, and a statement that counts a segment may rightly take hours, so
that no read timeout would do.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.contracts import Clock, SqlSession

SILENT_SECONDS: Final = 45
_LOOK_SECONDS: Final = 5.0

_IDLE: Final = """
SELECT COUNT(*) FROM performance_schema.threads
WHERE PROCESSLIST_COMMAND = 'Sleep' AND PROCESSLIST_TIME >= %s AND THREAD_ID IN ({})"""


class Silence:
    """Looks now and then whether a member's session idles.

    Args:
        session: the driver's own in the gang.
    """

    def __init__(self, session: SqlSession, *, clock: Clock = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._next = clock() + _LOOK_SECONDS

    def around(self, threads: Collection[int]) -> bool:
        """Return whether one of these server threads has been silent for too long.

        Raises:
            ServerFault: the server could not be asked.
        """
        if not threads or self._clock() < self._next:
            return False
        self._next = self._clock() + _LOOK_SECONDS
        found = _IDLE.format(", ".join(str(int(thread)) for thread in threads))
        return bool(self._session.query(found, (SILENT_SECONDS,))[0][0])
