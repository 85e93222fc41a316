"""SIGINT and SIGTERM become a stop request, so that every thread ends in order (R16)."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from typing import TYPE_CHECKING

from spirit_py.errors import Interrupted
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from spirit_py.stop import StopSwitch

_LOOK_SECONDS = 0.5
#: For so long a statement may go on after a stop request before it is ended.
_PATIENCE_SECONDS = 2.0


@contextlib.contextmanager
def stop_on_signals(stop: StopSwitch) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into a stop request while the context is open.

    SIGHUP is ignored: a closed terminal does not end a migration of days. A second SIGINT
    raises KeyboardInterrupt where the main thread is, so that cleaning up starts at once.
    Outside the main thread, where Python allows no handlers, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        first = stop.request(
            Interrupted(number, hint="the source table is whole; run the same command again")
        )
        if not first and number == signal.SIGINT:
            raise KeyboardInterrupt

    earlier = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    earlier[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def run_aside(
    run: Callable[[], None],
    stop: StopSwitch,
    tell: Callable[[str], None],
    *,
    hurry: Callable[[], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run in a thread of its own, so that a signal is handled at once; raise what it raised.

    Python handles signals in the main thread only, between two steps of it; a driver's call
    that waits for the server would put the handler off until the answer comes.

    Args:
        tell: told once that a stop was asked for, and why.
        hurry: called every so often when a stop request is not followed at once.
        clock: monotonic seconds.
    """
    raised: list[BaseException] = []

    thread = Background("migration", lambda _stopping: run(), failed=raised.append)
    thread.start()
    again: float | None = None
    while not thread.wait(_LOOK_SECONDS):
        if stop.reason is None:
            continue
        if again is None:
            again = clock() + _PATIENCE_SECONDS
            tell(f"stopping and cleaning up: {stop.reason}")
        elif hurry is not None and clock() >= again:
            again = clock() + _PATIENCE_SECONDS
            hurry()
    if raised:
        raise raised[0]
