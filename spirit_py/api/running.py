"""A run in a thread of its own: a context, an iterator of events, figures at any time.

A process that was forked during a run is refused: a lock that another thread held is never released
in the child, and the MySQL sessions and the gateway to Spark's JVM are the parent's.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar, cast

from spirit_py.codes import ErrorCode
from spirit_py.contracts import QuietReporter
from spirit_py.errors import Refusal, Stopped
from spirit_py.records import RecordOptions
from spirit_py.signals import stop_on_signals
from spirit_py.status.reporters import Reporters, recorders
from spirit_py.status.wording import ProgressEvents
from spirit_py.threads import Background, StopSwitch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Event

#: Runs under way in this process; without a lock, which a fork could find held.
_UNDER_WAY: Final[set[int]] = set()
#: What puts the signal handlers of the host back, for each run that has set its own.
_HANDLERS: Final[list[contextlib.ExitStack]] = []
#: The process whose run was under way when this one was forked; empty where none was.
_FORKED_FROM: Final[list[int]] = []


def refuse_in_fork() -> None:
    """Raise Refusal in a process that was forked during a run."""
    if _FORKED_FROM:
        raise Refusal(
            f"this process was forked while a run of spirit-py was under way in process"
            f" {_FORKED_FROM[-1]}: a fork has none of the run's threads, and the locks and"
            " connections are the parent's",
            hint="start worker processes before the run, or with"
            ' multiprocessing.get_context("spawn"), or run spirit-py with subprocess',
            error_code=ErrorCode.FORKED_PROCESS,
        )


def _in_child() -> None:
    while _HANDLERS:
        # Those of the parent's run ask that to stop, and would end nothing here.
        _HANDLERS[-1].close()
    if _UNDER_WAY:
        _UNDER_WAY.clear()
        _FORKED_FROM.append(os.getppid())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)

#: A run of days has some thousands. Where nobody reads them, the oldest are dropped.
_KEPT_EVENTS: Final = 10_000
_NO_RECORDS: Final = RecordOptions()


class RunBody(Protocol[R_co]):
    """What a run does, whose reporter and stop switch it is given."""

    def __call__(self, *, reporter: Reporter, stop: StopSwitch) -> R_co:
        """Do it; return the report."""
        ...


class Running(Generic[R, S]):
    """A run that begins when the context is entered, and has ended when the context is left.

    Its report is an ``R``, its figures are an ``S``::

        with spirit_py.start_migration(...) as running:
            for event in running:
                print(event.text)
            report = running.report

    Thread-safe, but each event goes to one reader alone. With ``handle_signals`` SIGINT and SIGTERM
    stop the run, and SIGHUP is ignored; only where the context is opened in the main thread.
    """

    def __init__(
        self,
        work: RunBody[R],
        *,
        records: RecordOptions = _NO_RECORDS,
        handle_signals: bool = False,
    ) -> None:
        self._work = work
        self._stop = StopSwitch()
        self._told = _Told()
        self._reporter = Reporters([self._told, *recorders(records, self._told.event)])
        self._handle_signals = handle_signals
        self._thread = Background("run", self._run)
        self._report: list[R] = []
        self._error: BaseException | None = None
        self._error_raised = False
        self._begun = False
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Begin to run, once; Refusal where this process was forked during a run."""
        refuse_in_fork()
        if self._begun:
            raise RuntimeError("this run was begun before: start another one")
        self._begun = True
        _UNDER_WAY.add(id(self))
        try:
            if self._handle_signals:
                self._open.enter_context(stop_on_signals(self._stop))
                _HANDLERS.append(self._open)
                self._open.callback(_HANDLERS.remove, self._open)
            self._thread.start()
        except BaseException:
            _UNDER_WAY.discard(id(self))
            self._open.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the run, wait for its end, and raise its failure unless that was raised before."""
        if _FORKED_FROM:
            return
        with self._open:
            self.stop()
            self._thread.wait(None)
        unseen = self._error is not None and not self._error_raised
        if error is None and unseen and not isinstance(self._error, Stopped):
            self._raise()

    @property
    def status(self) -> S | None:
        """The figures of now, taken twice a second; None before the first."""
        return cast("S | None", self._told.status)

    @property
    def running(self) -> bool:
        """Whether the run goes on."""
        return self._thread.running

    @property
    def report(self) -> R:
        """The report; raises SpiritError where the run failed, RuntimeError before its end."""
        if self._error is not None:
            self._raise()
        if not self._report:
            raise RuntimeError("the run has not ended: read its events to the end, or call wait()")
        return self._report[0]

    def stop(self) -> None:
        """Ask the run to stop in order; return at once. Safe to call at any time."""
        self._stop.request(
            Stopped(
                "stopped by the program that started it",
                hint="the source table is intact; the same call resumes",
            )
        )

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the run has ended, at most so long; return whether it has."""
        refuse_in_fork()
        return self._thread.wait(seconds)

    def next_event(self, seconds: float | None = None) -> Event | None:
        """Return the next event; None when the run has ended, or after so many seconds."""
        refuse_in_fork()
        return self._told.next(seconds)

    def __iter__(self) -> Iterator[Event]:
        """Yield the events until the run has ended; raise what ended it, but not :meth:`stop`."""
        while (event := self.next_event()) is not None:
            yield event
        self._thread.wait(None)
        if self._error is not None and not isinstance(self._error, Stopped):
            self._raise()

    def _run(self, _stopping: threading.Event) -> None:
        try:
            self._report.append(self._work(reporter=self._reporter, stop=self._stop))
        except BaseException as error:
            # Before the last reader is woken: it may ask for the report at once.
            self._error = error
        finally:
            _UNDER_WAY.discard(id(self))
            self._told.end()

    def _raise(self) -> None:
        self._error_raised = True
        if self._error is not None:
            raise self._error


class _Told(QuietReporter):
    """A reporter that keeps the last snapshot, and events until they are read, also after stop."""

    def __init__(self) -> None:
        self.status: object = None
        self._events: deque[Event] = deque(maxlen=_KEPT_EVENTS)
        self._news = threading.Condition()
        self._ended = False
        self._progress = ProgressEvents(time.monotonic)

    def event(self, event: Event) -> None:
        with self._news:
            self._events.append(event)
            self._news.notify()

    def progress(self, snapshot: Any) -> None:
        self.status = snapshot
        for event in self._progress.due(snapshot):
            self.event(event)

    def end(self) -> None:
        with self._news:
            self._ended = True
            self._news.notify_all()

    def next(self, seconds: float | None) -> Event | None:
        with self._news:
            limit = seconds and min(seconds, threading.TIMEOUT_MAX)
            self._news.wait_for(lambda: self._events or self._ended, limit)
            return self._events.popleft() if self._events else None
