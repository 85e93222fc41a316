"""Background threads: one way to start, stop and join them, and to learn that one failed.

Every thread of the program is a :class:`Background`. It is a daemon thread with a name, so that a
process can always end, and a log line or a debugger says whose thread it is. It ends when its body
returns; :meth:`Background.stop` asks it to. What a body raises never disappears: it reaches
``failed``, which by default logs it.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

JOIN_SECONDS: Final = 15.0
"""Seconds for which a thread is waited for by default."""


class Background:
    """A named daemon thread; as a context it runs from the beginning to the end of it.

    Args:
        name: shown after ``spirit-py-`` in logs and debuggers.
        body: runs once in the thread. It looks at the event, or waits on it, and returns soon
            after it is set.
        failed: called in the thread with what ``body`` raised.
        join_seconds: how long leaving the context waits for the thread.
    """

    def __init__(
        self,
        name: str,
        body: Callable[[threading.Event], None],
        *,
        failed: Callable[[BaseException], None] | None = None,
        join_seconds: float = JOIN_SECONDS,
    ) -> None:
        self._body = body
        self._failed = failed or self._log
        self._join_seconds = join_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"spirit-py-{name}", daemon=True)

    @property
    def running(self) -> bool:
        """Whether the thread was started and has not ended."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, once."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; return at once. Safe to call again and before the start."""
        self._stopping.set()

    def wait(self, seconds: float | None) -> bool:
        """Wait until the thread has ended, at most ``seconds``; return whether it has."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def join(self, seconds: float | None = None) -> bool:
        """Ask the thread to end and wait for it; return whether it has ended in time.

        One that has not is named in the log and left: it is a daemon thread.

        Args:
            seconds: the time to wait; by default that of the constructor.
        """
        self.stop()
        seconds = self._join_seconds if seconds is None else seconds
        ended = self.wait(seconds)
        if not ended:
            _log.warning("thread %s did not stop within %.0f s", self._thread.name, seconds)
        return ended

    def _run(self) -> None:
        try:
            self._body(self._stopping)
        except BaseException as error:
            self._failed(error)

    def _log(self, error: BaseException) -> None:
        _log.error("thread %s failed", self._thread.name, exc_info=error)

    def __enter__(self) -> Self:
        """Start the thread."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread."""
        self.join()


def every(seconds: float, action: Callable[[], None]) -> Callable[[threading.Event], None]:
    """Return a body that calls ``action`` every so many seconds until it is asked to end."""

    def body(stopping: threading.Event) -> None:
        while not stopping.wait(seconds):
            action()

    return body
