"""The reporter that hands events to the operator's command, in order, in a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.events.run import HookFailed, LogWritten, ProgressMade, RunEnded, Summary
from spirit_py.events.swap import CutoverReady
from spirit_py.hooks.call import CallResult, call
from spirit_py.status.event_lines import one_line
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.events.event import Event, Tell


_log = logging.getLogger(__name__)

_MOST_WAITING: Final = 1000
_LOOK_SECONDS: Final = 0.1
#: The last one is handed over by :meth:`Hook.ask`, which waits for the answer.
_UNHANDED: Final = (ProgressMade, Summary, LogWritten, HookFailed, CutoverReady)
"""Events that no hook is called with."""


@dataclass(eq=False)
class _Item:
    event: Event
    answer: CallResult | None = None
    answered: threading.Event = field(default_factory=threading.Event)


class Hook:
    """Calls a command with each event.

    Args:
        command: for ``/bin/sh -c``.
        seconds: that one call may take.
        tell: reports that the hook is in trouble, once for each kind.
    """

    def __init__(self, command: str, *, seconds: float, tell: Tell) -> None:
        self._command = command
        self._seconds = seconds
        self._tell = tell
        self._waiting: deque[_Item] = deque()
        #: Set when something waits, or the end was asked for.
        self._woken = threading.Event()
        self._thread = Background("hook", self._work)
        self._starting = threading.Lock()
        #: Set when the rest is waited for no longer.
        self._given_up = threading.Event()
        self._warned: set[str] = set()
        self._passed_over = 0

    def start(self) -> None:
        """Do nothing: the first event starts the thread."""

    def progress(self, snapshot: object) -> None:
        """Do nothing: a command is not called twice a second."""

    def event(self, event: Event) -> None:
        """Have the command called with an event, in its turn; return at once.

        Where a thousand events wait already, this one is passed over, but for the end of the run.
        """
        if isinstance(event, _UNHANDED):
            return
        if len(self._waiting) >= _MOST_WAITING and not isinstance(event, RunEnded):
            self._passed_over += 1
            self._warn("slow", f"{_MOST_WAITING} events wait for it: others are passed over", event)
            return
        self._waiting.append(_Item(event))
        self._wake()

    def ask(self, event: Event, check: Callable[[], None]) -> str:
        """Have the command called with an event, and wait for its answer.

        It is called before it is called with events that wait: the swap waits for the answer, and
        need not wait for all that was to be told before.

        Args:
            check: called meanwhile; what it raises ends the wait, not the call.

        Returns:
            Why it does not agree, its first line of output; empty where its exit code is 0.
        """
        item = _Item(event)
        self._waiting.appendleft(item)
        self._wake()
        while not item.answered.wait(_LOOK_SECONDS):
            try:
                check()
            except BaseException:
                # Nobody waits for the answer of a call that has not begun.
                with contextlib.suppress(ValueError):
                    self._waiting.remove(item)
                raise
            if not self._thread.running:
                return "the hook is not called any more"
        answer = item.answer
        if answer is None:
            return "the hook could not be called"
        return answer.first_line if answer.trouble else ""

    def stop(self) -> None:
        """Wait until the last events were handed over, for as long as one call may take.

        A call that runs then is ended, and none begins: the process is about to end, and nobody
        would end a command that hangs.
        """
        # The thread ends when nothing waits any more.
        self._thread.stop()
        self._woken.set()
        if not self._thread.wait(self._seconds):
            _log.warning(
                "the hook is not waited for any longer: %d events wait", len(self._waiting)
            )
            self._given_up.set()
            self._thread.join()
        if self._passed_over:
            _log.warning("the hook was not called with %d events", self._passed_over)

    def _wake(self) -> None:
        self._woken.set()
        with self._starting:
            if not self._thread.running:
                self._given_up.clear()
                self._thread = Background("hook", self._work)
                self._thread.start()

    def _work(self, stopping: threading.Event) -> None:
        while not self._given_up.is_set():
            self._woken.clear()
            try:
                item = self._waiting.popleft()
            except IndexError:
                if stopping.is_set():
                    return
                self._woken.wait(_LOOK_SECONDS)
                continue
            try:
                item.answer = call(
                    self._command, item.event, seconds=self._seconds, given_up=self._given_up
                )
                self._note(item.event, item.answer)
            finally:
                item.answered.set()

    def _note(self, event: Event, answer: CallResult) -> None:
        for line in answer.lines:
            _log.info("hook at %s: %s", event.name, line)
        # The exit code of a veto is an answer, no trouble.
        refused = isinstance(event, CutoverReady) and answer.trouble == "failed"
        if answer.trouble and not refused:
            said = f": {answer.lines[0]}" if answer.lines else ""
            self._warn(answer.trouble, f"{answer.why}{said}", event, answer.code)

    def _warn(self, kind: str, why: str, event: Event, code: int | None = None) -> None:
        if kind in self._warned:
            return
        self._warned.add(kind)
        self._tell(
            HookFailed(at=event.name, kind=kind, reason=why, exit_code=code, said=one_line(why))
        )
