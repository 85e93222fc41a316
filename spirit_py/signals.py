"""SIGINT and SIGTERM become a stop request, so that every thread ends in order (R16)."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

from spirit_py.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from spirit_py.stop import StopSwitch


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
