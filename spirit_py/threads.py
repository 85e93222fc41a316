"""Threads: started, joined, and asked to stop, which the first reason decides; and processes.

Every thread is a :class:`Background`, a daemon with a name. What its body raises goes to
``failed``, which by default logs it. A fault in any thread calls :meth:`StopSwitch.request`; loops
poll :attr:`requested` or sleep in :meth:`wait`.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import queue
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from weakref import WeakSet

from spirit_py.errors import (
    DifferencesFound,
    Interrupted,
    OutcomeUnknown,
    Refusal,
    SpiritError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_log = logging.getLogger(__name__)

PROCESSES: Final = Path("/proc")
JOIN_SECONDS: Final = 15.0
"""Seconds for which a thread is waited for by default."""


class Background:
    """A named daemon thread; as a context it runs from the beginning to the end of it.

    ``body`` runs once, and returns soon after its event is set; ``failed`` is called in the thread.
    Leaving the context waits ``join_seconds`` at most.
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
            self._thread.join(seconds and min(seconds, threading.TIMEOUT_MAX))
        return not self._thread.is_alive()

    def join(self, seconds: float | None = None) -> bool:
        """Ask the thread to end and wait for it; return whether it did. Otherwise it is left."""
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
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join()


def every(seconds: float, action: Callable[[], None]) -> Callable[[threading.Event], None]:
    """Return a body that calls ``action`` every so many seconds until it is asked to end."""

    def body(stopping: threading.Event) -> None:
        while not stopping.wait(seconds):
            action()

    return body


def side_by_side(name: str, work: Iterable[Callable[[], None]], threads: int) -> None:
    """Do all of it, in so many threads at most; what is raised is logged, and ends nothing else."""
    left: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    for action in work:
        left.put(action)

    def take(_stopping: threading.Event) -> None:
        while True:
            try:
                action = left.get_nowait()
            except queue.Empty:
                return
            try:
                action()
            except Exception:
                _log.exception("%s failed", name)

    workers = [Background(name, take) for _ in range(min(threads, left.qsize()))]
    for one in workers:
        one.start()
    for one in workers:
        one.wait(None)


class StopSwitch:
    """A one-way switch that remembers the first reason.

    A signal's handler may use it while the thread that it interrupts is in one of its methods.
    """

    def __init__(self) -> None:
        #: Its lock is one that a thread may take again.
        self._asked = threading.Condition()
        self._requested = False
        self.reason: SpiritError | None = None
        #: Weak: a run of days links a switch for each comparison.
        self._linked: WeakSet[StopSwitch] = WeakSet()

    def request(self, reason: SpiritError) -> bool:
        """Ask everything to stop because of ``reason``; True when this was the first reason."""
        with self._asked:
            first = self.reason is None
            if first:
                self.reason = reason
            linked = tuple(self._linked) if first else ()
            self._requested = True
            self._asked.notify_all()
        for other in linked:
            other.request(_its_own(reason))
        return first

    def explain(self, cause: SpiritError) -> None:
        """Let ``cause`` be the reason where a failure that followed from it is; no interrupt is."""
        with self._asked:
            if self.reason is not None and not isinstance(self.reason, Interrupted):
                self.reason = cause

    def linked(self) -> StopSwitch:
        """Return a switch that a request to this one reaches too; not the other way round.

        Its reason is one of its own: to that of a table its end adds what is left of the table.
        """
        other = StopSwitch()
        with self._asked:
            self._linked.add(other)
        if self.reason is not None:
            other.request(_its_own(self.reason))
        return other

    @property
    def requested(self) -> bool:
        """Whether a stop was asked for."""
        return self._requested

    def wait(self, seconds: float) -> bool:
        """Sleep until a stop is asked for, at most ``seconds``; True when it was."""
        with self._asked:
            if not self._requested:
                self._asked.wait(min(seconds, threading.TIMEOUT_MAX))
            return self._requested

    def pause(self, seconds: float) -> None:
        """Sleep for so long; raise the reason at once when a stop is asked for."""
        self.wait(seconds)
        self.check()

    def check(self) -> None:
        """Raise the first reason, if there is one."""
        if self._requested and self.reason is not None:
            raise self.reason

    def cause_of(self, error: BaseException) -> BaseException:
        """Return the stop's reason where ``error`` may only have followed from it.

        Refusals, unknown outcomes and differences are found, not caused by a stop; what says that
        the table is changed names the reason itself.
        """
        found = isinstance(error, (DifferencesFound, OutcomeUnknown, Refusal))
        says_done = isinstance(error, SpiritError) and error.says_done
        return error if self.reason is None or found or says_done else self.reason


def _its_own(reason: SpiritError) -> SpiritError:
    own = copy.copy(reason)
    own.__cause__ = reason.__cause__
    return own


def members_of_session(leader: int) -> list[int]:
    """Return the processes of a session that have not ended; none where there is no ``/proc``."""
    found = []
    for file in PROCESSES.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # "pid (name) state parent group session ...", and the name may hold anything.
            state, _, _, session = file.read_bytes().rpartition(b")")[2].split()[:4]
            if int(session) == leader and state not in b"ZX":
                found.append(int(file.parent.name))
    return found
