"""How a command runs in its process: what ends it, and which error it ends with."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from spirit_py import signals
from spirit_py.batch.entry import run_batch
from spirit_py.batch.plan import BatchPlan
from spirit_py.command_config import BatchConfig, CompareConfig
from spirit_py.compare.run import compare
from spirit_py.config import ConnectionOptions, MigrationConfig, RevertConfig
from spirit_py.contracts import QuietReporter
from spirit_py.errors import (
    AnotherServer,
    CopyFailure,
    DifferencesFound,
    Interrupted,
    OutcomeUnknown,
    Refusal,
    SchemaChanged,
    SpiritError,
    Stopped,
)
from spirit_py.events.run import RunBegun, StopRequested
from spirit_py.migration.entry import migrate
from spirit_py.migration.reverse.revert import revert
from spirit_py.phases import Phase
from spirit_py.progress import MigrationStatus
from spirit_py.signals import ended_by_sigterm, run_command, stop_on_signals, work_goes_on
from spirit_py.status import report as report_module
from spirit_py.status.report import OutcomeReport, told
from spirit_py.threads import StopSwitch
from tests.kits.waiting import until

BEGUN = RunBegun(command="migrate", server="db1", program="1")


class Said:
    """A reporter that keeps its messages."""

    def __init__(self):
        self.lines = []

    def start(self):
        """Begin."""

    def stop(self):
        """End."""

    def progress(self, snapshot):
        """Show nothing."""

    def event(self, event):
        """Keep a line."""
        self.lines.append(event.line)


def run(work, stop=None, said=None, **more):
    """Run a command whose work gets the stop switch; return what it said."""
    stop, said = stop or StopSwitch(), said or Said()
    now = MigrationStatus(table="t", phase=Phase.COPY, elapsed=0.0, phase_elapsed=0.0)
    with stop_on_signals(stop):
        run_command(
            lambda: work(stop),
            stop=stop,
            reporter=said,
            status=lambda: now,
            left_at_once=lambda: Interrupted(signal.SIGINT, hint="left"),
            **more,
        )
    return said.lines


def fail_after_stop(error):
    """Return work that is asked to stop for a changed schema, and fails with another error."""

    def work(stop):
        stop.request(SchemaChanged("somebody changed t"))
        raise error

    return work


def test_work_that_ends_raises_nothing():
    """A command whose work returns, returns."""
    assert run(lambda _: None) == []


def test_an_error_after_a_stop_request_is_reported_as_its_reason():
    """A copy that fails because it was stopped did not fail by itself (R16)."""
    with pytest.raises(SchemaChanged) as raised:
        run(fail_after_stop(CopyFailure("a chunk was cancelled")))
    assert isinstance(raised.value.__cause__, CopyFailure)


@pytest.mark.parametrize("kind", [OutcomeUnknown, Refusal, DifferencesFound])
def test_what_a_stop_cannot_cause_is_reported_itself(kind):
    """An unknown outcome, a refusal and differences are not hidden by the reason of a stop."""
    with pytest.raises(kind):
        run(fail_after_stop(kind("found")))


def test_a_signal_stops_the_work_and_is_told():
    """SIGTERM becomes the reason of a stop request, which the work follows."""
    said = Said()

    def work(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        while not stop.wait(0.05):
            pass
        until(lambda: said.lines, "the line of the stop request")
        stop.check()

    with pytest.raises(Interrupted) as raised:
        run(work, said=said)
    assert raised.value.exit_code == 128 + signal.SIGTERM
    assert said.lines == [StopRequested(reason=str(raised.value)).line]


def test_a_stop_request_is_told_once_though_the_work_ends_at_once():
    """Who is called with the events learns that a signal came, however soon the work has ended."""
    said = Said()

    def work(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        while not stop.wait(0.05):
            pass
        stop.check()

    with pytest.raises(Interrupted) as raised:
        run(work, said=said)
    assert said.lines == [StopRequested(reason=str(raised.value)).line]


def test_a_second_interrupt_leaves_the_work_behind():
    """The process ends at once, with the error for what is left behind, though the work goes on."""
    going_on, done = threading.Event(), threading.Event()

    def work(stop):
        os.kill(os.getpid(), signal.SIGINT)
        while not stop.wait(0.05):
            pass
        os.kill(os.getpid(), signal.SIGINT)
        going_on.wait(60)
        done.set()

    with pytest.raises(Interrupted) as raised:
        run(work)
    assert raised.value.hint == "left"
    assert work_goes_on()
    going_on.set()
    assert done.wait(60)


def test_the_first_interrupt_after_a_fault_lets_the_work_end():
    """A fault that has asked for the stop before it is no signal: the second one leaves at once."""

    def work(stop):
        stop.request(SchemaChanged("somebody changed t"))
        os.kill(os.getpid(), signal.SIGINT)
        raise CopyFailure("a chunk was cancelled")

    with pytest.raises(SchemaChanged):
        run(work)


SIGNALLED = """
import signal, sys, threading
from spirit_py.signals import stop_on_signals
from spirit_py.threads import StopSwitch
first, again = (getattr(signal, name) for name in sys.argv[1:])
def interrupt(frame, what, _):
    if what == "line":
        seen.append(frame.f_lineno)
        if len(seen) == at:
            signal.raise_signal(again)
    return interrupt
def entered(frame, what, _):
    return interrupt if frame.f_code in inside else None
inside = {getattr(StopSwitch, name).__code__ for name in ("request", "linked", "wait")}
ended = set()
for doing in (
    lambda stop: signal.raise_signal(first),
    lambda stop: stop.linked(),
    lambda stop: stop.wait(0.01),
):
    at, seen = 0, [0]
    while at <= len(seen):
        at, seen, stop = at + 1, [], StopSwitch()
        linked = stop.linked()
        try:
            with stop_on_signals(stop):
                sys.settrace(entered)
                try:
                    doing(stop)
                finally:
                    sys.settrace(None)
        except KeyboardInterrupt:
            ended.add("at once")
        if stop.reason is not None:
            assert stop.requested and linked.requested, (at, seen)
        # The lock is free for every other thread.
        thread = threading.Thread(target=stop.wait, args=(0,))
        thread.start()
        thread.join(60)
        assert not thread.is_alive(), (at, seen)
print("goes on", *ended)
"""


@pytest.mark.parametrize(
    ("second", "said"), [("SIGTERM", "goes on\n"), ("SIGINT", "goes on at once\n")]
)
@pytest.mark.parametrize("first", ["SIGTERM", "SIGINT"])
def test_a_signal_within_the_request_of_another_one_does_not_hang(first, second, said):
    """Its handler interrupts, at any line, the thread that is at the stop switch."""
    command = [sys.executable, "-c", SIGNALLED, first, second]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.stdout == said, done.stderr


EMBEDDED = """
import ctypes, importlib, signal, sys
library = ctypes.CDLL(None)
library.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
library.signal(signal.SIGTERM, ctypes.cast(library.getpid, ctypes.c_void_p))
# Python learns of handlers as this module begins.
del sys.modules["_signal"], sys.modules["signal"]
signal = importlib.import_module("signal")
assert signal.getsignal(signal.SIGTERM) is None
hung_up = signal.getsignal(signal.SIGHUP)
from spirit_py.signals import stop_on_signals
from spirit_py.threads import StopSwitch
with stop_on_signals(StopSwitch()):
    assert signal.getsignal(signal.SIGTERM) is None
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
assert signal.getsignal(signal.SIGTERM) is None
assert signal.getsignal(signal.SIGHUP) == hung_up
print("goes on")
"""


def test_a_handler_of_a_program_around_python_stays():
    """Python cannot put it back: a server that embeds it keeps its own way to end."""
    done = subprocess.run(
        [sys.executable, "-c", EMBEDDED], capture_output=True, text=True, check=False
    )
    assert done.stdout == "goes on\n", done.stderr


@pytest.fixture
def impatient(monkeypatch):
    """Have a stop that is not followed hurried at once."""
    monkeypatch.setattr(signals, "_PATIENCE_SECONDS", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_stop_that_is_not_followed_is_hurried():
    """Where the work does not end within seconds of a stop request, ``hurry`` is called."""
    hurried = threading.Event()

    def work(stop):
        stop.request(SchemaChanged("somebody changed t"))
        assert hurried.wait(60)
        stop.check()

    with pytest.raises(SchemaChanged):
        run(work, hurry=hurried.set)


@pytest.mark.usefixtures("impatient")
def test_a_hurry_that_fails_leaves_no_work_behind():
    """The work ends by itself, and may find that nobody knows what became of its statement."""
    hurried = threading.Event()

    def hurry():
        hurried.set()
        raise AnotherServer("another server answers")

    def work(stop):
        stop.request(Interrupted(signal.SIGTERM))
        assert hurried.wait(60)
        raise OutcomeUnknown("the ALTER was sent")

    with pytest.raises(OutcomeUnknown):
        run(work, hurry=hurry)
    assert not work_goes_on()


def test_the_report_is_written_whatever_happens(tmp_path):
    """A report holds the last figures, and the error that ended the run."""
    path, report, said = tmp_path / "report.json", OutcomeReport(), Said()
    with (
        pytest.raises(Refusal),
        told(path, said, begun=BEGUN, broke=report.note_failure, completed=lambda: report),
    ):
        raise Refusal("no", hint="none")
    assert '"outcome": "refused"' in path.read_text()
    assert said.lines == [BEGUN.line, "error: ended: refused: no"]


class _Closing(QuietReporter):
    """Notes what SIGTERM would do while a slow hook is waited for."""

    def __init__(self):
        self.handlers = []

    def event(self, event):
        """Show nothing."""

    def stop(self):
        """Wait for the hook."""
        self.handlers.append(signal.getsignal(signal.SIGTERM))


SERVER = ConnectionOptions(port=1)
ENTRIES = {
    "migrate": lambda **to: migrate(MigrationConfig(connection=SERVER, database="s"), **to),
    "batch": lambda **to: run_batch(
        BatchConfig(each=MigrationConfig(connection=SERVER, database="s", dry_run=True)),
        BatchPlan(name="b", server_uuid="u", tables=()),
        **to,
    ),
    "revert": lambda **to: revert(RevertConfig(connection=SERVER, database="s", table="t"), **to),
    "checksum": lambda **to: compare(
        CompareConfig(
            source=SERVER, database="s", table="t", target_database="s", target_table="u"
        ),
        **to,
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_signals_are_handled_until_the_end_is_told(name):
    """A SIGTERM while a slow hook is waited for does not end the process in the midst of it."""
    before, closing, stop = signal.getsignal(signal.SIGTERM), _Closing(), StopSwitch()
    stop.request(Stopped("before it began"))
    with contextlib.suppress(SpiritError):
        ENTRIES[name](reporter=closing, stop=stop)
    assert closing.handlers
    assert before not in closing.handlers
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("name", ["migrate", "revert", "checksum"])
def test_signals_are_handled_before_the_beginning_is_told(name, monkeypatch):
    """No moment is left in which a SIGTERM would end the process without a report."""
    before, seen, stop = signal.getsignal(signal.SIGTERM), [], StopSwitch()
    stop.request(Stopped("before it began"))

    def begun(**fields):
        seen.append(signal.getsignal(signal.SIGTERM))
        return RunBegun(**fields)

    monkeypatch.setattr(report_module, "RunBegun", begun)
    with contextlib.suppress(SpiritError):
        ENTRIES[name](reporter=_Closing(), stop=stop)
    assert len(seen) == 1
    assert before not in seen


def test_a_sigterm_whose_exception_is_lost_ends_what_is_planned_all_the_same():
    """Python ignores what is raised in a finalizer, and some code what it does not expect."""
    with (
        pytest.raises(Interrupted, match="SIGTERM"),
        ended_by_sigterm(hint="again"),
        contextlib.suppress(KeyboardInterrupt),
    ):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
