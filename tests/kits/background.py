"""Functions that run in a thread beside the test, once or again and again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import MySQLdb

from tests.kits.waiting import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Callable


class BackgroundCall:
    """Runs a function in a thread; its result or error is the test's."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="test-background")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error

    def result(self, seconds: float = DEADLINE) -> Any:
        """Wait for the end; return the result or raise the error."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "still running"
        if self._error is not None:
            raise self._error
        return self._result


class Loop:
    """Calls a function again and again in a thread of its own, until it is stopped."""

    def __init__(self, step: Callable[[int], None], *, pause: float = 0.0) -> None:
        self._step = step
        self._pause = pause
        self._stop = threading.Event()
        self.rounds = 0
        self.errors: list[str] = []
        self._thread = threading.Thread(target=self._run, name="test-loop")
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            try:
                self._step(self.rounds + 1)
            except (MySQLdb.Error, AssertionError) as error:
                self.errors.append(repr(error))
                return
            self.rounds += 1

    def stop(self) -> None:
        """End it."""
        self._stop.set()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive(), "a client hangs"
