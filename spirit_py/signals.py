"""How a command runs in its process: signals, the display, and the true cause of its end (R16)."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.errors import Interrupted
from spirit_py.events.event import Tell, teller
from spirit_py.events.run import StopRequested
from spirit_py.mysql.grants import explain_access
from spirit_py.status.report import told
from spirit_py.threads import Background, every

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from spirit_py.contracts import Reporter
    from spirit_py.errors import SpiritError
    from spirit_py.events.event import Event
    from spirit_py.progress import BatchStatus, MigrationStatus
    from spirit_py.status.report import OutcomeReport
    from spirit_py.threads import StopSwitch

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.5
#: Seconds that a statement may run after a stop request before it is ended.
_PATIENCE_SECONDS = 2.0
_SHOW_SECONDS: Final = 0.5
_SHOW_JOIN_SECONDS: Final = 5.0
_WORK: Final = "work"


def run_command(
    work: Callable[[], None],
    *,
    stop: StopSwitch,
    reporter: Reporter,
    status: Callable[[], MigrationStatus | BatchStatus],
    left_at_once: Callable[[], SpiritError],
    hurry: Callable[[], None] | None = None,
) -> None:
    """Do the work of a command to its end, showing its status, until a signal stops it.

    Within :func:`stop_on_signals`. ``reporter`` must not raise. ``left_at_once`` returns the error
    for a second SIGINT; ``hurry`` is called repeatedly when the work does not end soon after a stop
    request. Raises SpiritError: what ended the work, or the reason of a stop request where that
    came first.
    """
    try:
        with _shown(status, reporter):
            run_aside(work, stop, teller(reporter.event), hurry)
    except BaseException as error:
        cause = left_at_once() if isinstance(error, KeyboardInterrupt) else stop.cause_of(error)
        explain_access(cause)
        if cause is error:
            raise
        raise cause from error


def run_and_tell(
    work: Callable[[], None],
    *,
    stop: StopSwitch,
    reporter: Reporter,
    report_json: Path | None,
    begun: Callable[[], Event],
    broke: Callable[[BaseException], None],
    completed: Callable[[], OutcomeReport],
    status: Callable[[], MigrationStatus | BatchStatus],
    left_at_once: Callable[[], SpiritError],
    hurry: Callable[[], None] | None = None,
) -> None:
    """Do the work as :func:`run_command`, from the event of its beginning to its report.

    ``begun`` makes the first event; ``broke`` and ``completed`` are those of
    :func:`~spirit_py.status.report.told`.
    """
    # To the end of the report: a hook may be waited for.
    with (
        stop_on_signals(stop),
        told(report_json, reporter, begun=begun(), broke=broke, completed=completed),
    ):
        run_command(
            work,
            stop=stop,
            reporter=reporter,
            status=status,
            left_at_once=left_at_once,
            hurry=hurry,
        )


def work_goes_on() -> bool:
    """Whether the work of a command still runs after a second SIGINT."""
    return any(thread.name == f"spirit-py-{_WORK}" for thread in threading.enumerate())


@contextlib.contextmanager
def _shown(
    snapshot: Callable[[], MigrationStatus | BatchStatus], reporter: Reporter
) -> Iterator[None]:
    """Show ``snapshot()`` through ``reporter``; a failing one never stops a migration."""

    def show() -> None:
        try:
            reporter.progress(snapshot())
        except Exception:
            _log.debug("no snapshot", exc_info=True)

    try:
        with Background("status", every(_SHOW_SECONDS, show), join_seconds=_SHOW_JOIN_SECONDS):
            yield
    finally:
        # What the work has done in the end, for records.
        show()


@contextlib.contextmanager
def stop_on_signals(
    stop: StopSwitch, *, hint: str = "the source table is intact; run the same command again"
) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into a stop request while the context is open; main thread only.

    SIGHUP is ignored: a closed terminal does not end a migration. A SIGINT that is the second
    signal raises KeyboardInterrupt where the main thread is, so that cleaning up starts at once;
    the first signal does not, whatever has asked for the stop before.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    received: list[int] = []
    requesting: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        known = len(received)
        received.append(number)
        if requesting:
            # The request of the signal before it, which it has interrupted, goes on first.
            return
        requesting.append(number)
        try:
            stop.request(Interrupted(number, hint=hint))
        finally:
            requesting.clear()
        if signal.SIGINT in received[max(known, 1) :]:
            raise KeyboardInterrupt

    ours: dict[signal.Signals, Callable[[int, FrameType | None], None] | signal.Handlers] = {
        signal.SIGINT: handle,
        signal.SIGTERM: handle,
        signal.SIGHUP: signal.SIG_IGN,
    }
    earlier = {
        number: signal.signal(number, ours[number])
        for number in ours
        # One that a program around Python has set stays: Python could not put it back.
        if signal.getsignal(number) is not None
    }
    try:
        yield
    finally:
        for number, handler in earlier.items():
            # What the application has set meanwhile stays.
            if signal.getsignal(number) == ours[number]:
                signal.signal(number, handler)


@contextlib.contextmanager
def ended_by_sigterm(*, hint: str) -> Iterator[None]:
    """End what has no stop request yet at a SIGTERM, as a SIGINT does; main thread only.

    Without it the process is gone at once, and nobody has its report.
    """
    by_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not by_default or threading.current_thread() is not threading.main_thread():
        yield
        return

    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            # What expects errors takes this for none of its own.
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, handle)
    try:
        yield
        if received:
            # It was raised where Python ignores it, as in a finalizer.
            raise Interrupted(signal.SIGTERM, hint=hint)
    except Interrupted:
        raise
    except BaseException as error:
        if received:
            raise Interrupted(signal.SIGTERM, hint=hint) from error
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def run_aside(
    run: Callable[[], None], stop: StopSwitch, tell: Tell, hurry: Callable[[], None] | None
) -> None:
    """Run work in a thread of its own, so that a signal is handled at once; raise its error.

    Python handles signals in the main thread only, between two bytecodes: a driver's call would
    delay the handler until the answer. ``tell`` gets the reason of a stop request, once.
    """
    raised: list[BaseException] = []
    thread = Background(_WORK, lambda _stopping: run(), failed=raised.append)
    thread.start()
    again: float | None = None
    ended = False
    while not ended:
        ended = thread.wait(_LOOK_SECONDS)
        if stop.reason is None:
            continue
        if again is None:
            # Also of a run that has ended since the last look.
            again = time.monotonic() + _PATIENCE_SECONDS
            tell(StopRequested(reason=str(stop.reason)))
        elif not ended and hurry is not None and time.monotonic() >= again:
            again = time.monotonic() + _PATIENCE_SECONDS
            try:
                hurry()
            except Exception:
                # The run ends by itself; to leave it now would be a claim about what it did.
                _log.exception("the end of the work could not be hurried")
    if raised:
        raise raised[0]
