"""The reporter that hands events to the operator's command, in a thread of its own.

The command reads the event from a deleted file, so one that does not read it blocks nothing. Its
output is cut off after 64 KiB; the end of the command counts, so a daemon that it leaves behind
blocks nothing either. It runs in its own session: Ctrl-C does not reach it, and what it has begun
is ended with it. It inherits the standard descriptors only, and no variable that may hold secrets.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from typing import IO, TYPE_CHECKING, Final, cast

from spirit_py import points
from spirit_py.classes import dataclass, field
from spirit_py.contracts import QuietReporter
from spirit_py.events.run import (
    HookFailed,
    LogWritten,
    ProgressMade,
    RunEnded,
    Summary,
    WaveReady,
)
from spirit_py.events.swap import CutoverReady
from spirit_py.records import run_token
from spirit_py.spark.java import without_secrets
from spirit_py.status.plain import json_line
from spirit_py.threads import PROCESSES, Background, members_of_session
from spirit_py.units import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.events.event import Event, Tell

_KEPT_BYTES: Final = 64 << 10
_READ_BYTES: Final = 64 << 10
_CALL_LOOK_SECONDS: Final = 0.05
#: Between the request to end and the end of a call whose time is over.
_GRACE_SECONDS: Final = 1.0
_NOT_FOUND: Final = 127
#: No exit code that a process can have.
_LOST: Final = 1 << 8
_WHY_LOST: Final = (
    "its exit code was lost: this process ignores SIGCHLD, or something in it waits for every child"
)


@dataclass(frozen=True)
class CallResult:
    """How one call has ended; ``lines`` are the first of its output, of both streams.

    ``code``: exit code, minus the signal that ended it; None where it could not be started, and
    where it was lost.
    ``trouble``: ``missing``, ``failed`` or ``too long``; empty for none.
    """

    code: int | None
    lines: tuple[str, ...] = ()
    trouble: str = ""
    why: str = ""


def call(
    command: str, event: Event, *, seconds: float, given_up: threading.Event | None = None
) -> CallResult:
    """Run a command with an event on its standard input; never raises for what it does.

    It is ended, with all that it has begun in its session, after so many seconds, or as soon as
    ``given_up`` is set.
    """
    given_up = given_up or threading.Event()
    try:
        with tempfile.TemporaryFile() as given:
            given.write(json_line(event).encode("ascii") + b"\n")
            given.seek(0)
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment(os.environ, event),
                start_new_session=True,
            )
    except OSError as error:
        return CallResult(None, trouble="missing", why=f"could not be started: {error}")
    with cast("IO[bytes]", process.stdout) as output:
        try:
            kept, in_time = _followed(process, output, time.monotonic() + seconds, given_up)
        finally:
            # Also when this thread is ended by an error: no zombie is left.
            if not _has_ended(process):
                _end(process)
    late = ""
    if not in_time:
        late = f"took longer than {seconds:g} s and was killed"
        if given_up.is_set():
            late = "had not ended when the run stopped waiting for it, and was killed"
    return _answer(process.returncode, kept, late)


def output_of(command: str, *, seconds: float, most: int) -> tuple[int, bytes, bool]:
    """Run a command that prints a list; return its exit code, output, and whether it was in time.

    It gets none of our variables. Its own end counts, as in :func:`call`: what it has begun in the
    background is not waited for. It is ended after so many seconds, or when it has printed ``most``
    bytes. OSError where it cannot be started, or its exit code is lost.
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=_without_ours(os.environ),
        start_new_session=True,
    )
    with cast("IO[bytes]", process.stdout) as output:
        try:
            until = time.monotonic() + seconds
            kept, in_time = _followed(process, output, until, threading.Event(), enough=most)
        finally:
            # Also where an operator interrupts it.
            if not _has_ended(process):
                _end(process)
    if in_time and process.returncode == _LOST:
        raise ChildProcessError(_WHY_LOST)
    return process.returncode, kept, in_time


def environment(given: Mapping[str, str], event: Event) -> dict[bytes, bytes]:
    """Return the environment of a call: ours without what configures us, and the event's names.

    In bytes: the locale may lack the characters of a table's name, which is in UTF-8.
    """
    ours_now = {
        "SPIRIT_PY_EVENT": event.name,
        "SPIRIT_PY_EVENT_TABLE": one_line(event.table.removeprefix(event.fleet_server).strip()),
        "SPIRIT_PY_RUN": run_token(),
    }
    if event.fleet_server:
        ours_now["SPIRIT_PY_FLEET_SERVER"] = event.fleet_server
    kept = {os.fsencode(name): os.fsencode(value) for name, value in _without_ours(given).items()}
    return kept | {name.encode(): value.encode() for name, value in ours_now.items()}


def _without_ours(given: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what configures us, and with it our secrets (R20)."""
    kept = without_secrets(given)
    kept.pop(points.VARIABLE, None)
    return kept


def _followed(
    process: subprocess.Popen[bytes],
    output: IO[bytes],
    until: float,
    given_up: threading.Event,
    *,
    enough: int = 0,
) -> tuple[bytes, bool]:
    """Read the output until the command ends; return its beginning, and whether it was in time.

    Not to its end once that are ``enough`` bytes, if given.
    """
    descriptor, kept, ended = output.fileno(), b"", False
    os.set_blocking(descriptor, False)
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        open_still = True
        while not ended:
            # First: a command that has ended was in time, also where this process stood still.
            ended = _has_ended(process)
            if not ended and (time.monotonic() >= until or given_up.is_set()):
                return kept, False
            # The last look, after the end, takes what is there, and waits for nothing.
            if not open_still:
                threading.Event().wait(0.0 if ended else _CALL_LOOK_SECONDS)
                continue
            if selector.select(0.0 if ended else _CALL_LOOK_SECONDS):
                read, open_still = _available(descriptor, whole=ended)
                kept += read[: (enough or _KEPT_BYTES) - len(kept)]
                if enough and len(kept) >= enough:
                    return kept, True
    return kept, True


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Return whether a command has ended; Popen itself takes an exit code that is lost for 0."""
    if child.returncode is None:
        try:
            number, status = os.waitpid(child.pid, os.WNOHANG)
        except ChildProcessError:
            child.returncode = _LOST
        else:
            if number:
                child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode is not None


def _available(descriptor: int, *, whole: bool) -> tuple[bytes, bool]:
    """Return what can be read at once, and whether more may come."""
    found = b""
    while len(found) < _KEPT_BYTES:
        try:
            read = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return found, True
        if not read:
            return found, False
        found += read
        if not whole:
            break
    return found, True


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it has begun in its session; what ignores SIGTERM gets SIGKILL."""
    _signal(process, signal.SIGTERM)
    until = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < until and _lives(process):
        threading.Event().wait(_CALL_LOOK_SECONDS)
    _signal(process, signal.SIGKILL)
    while not _has_ended(process):
        threading.Event().wait(_CALL_LOOK_SECONDS)


def _signal(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    """Signal all processes of the command's session; unreaped, its id names no other process."""
    for member in members_of_session(process.pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(member, how)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, how)


def _lives(process: subprocess.Popen[bytes]) -> bool:
    if PROCESSES.is_dir():
        return bool(members_of_session(process.pid))
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _answer(code: int, kept: bytes, late: str) -> CallResult:
    text = kept.decode("utf-8", "replace")
    lines = tuple(one_line(line) for line in text.splitlines() if line.strip())
    if late:
        return CallResult(None if code == _LOST else code, lines, "too long", late)
    if code == _LOST:
        return CallResult(None, lines, "failed", _WHY_LOST)
    if code == _NOT_FOUND:
        how = "did not run: its command was not found (exit code 127)"
        return CallResult(code, lines, "missing", how)
    if code:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return CallResult(code, lines, "failed", how)
    return CallResult(code, lines)


_log = logging.getLogger(__name__)

_MOST_WAITING: Final = 1000
_LOOK_SECONDS: Final = 0.1
#: The last ones are handed over by :meth:`Hook.ask`, which waits for the answer.
_ASKED: Final = (CutoverReady, WaveReady)
_UNHANDED: Final = (ProgressMade, Summary, LogWritten, HookFailed, *_ASKED)
"""Events that no hook is called with."""


@dataclass(eq=False)
class _Item:
    event: Event
    answer: CallResult | None = None
    answered: threading.Event = field(default_factory=threading.Event)


class Hook(QuietReporter):
    """Calls a command with each event, in so many ``seconds``; ``tell``: trouble, once a kind.

    The first event starts its thread.
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

    def event(self, event: Event) -> None:
        """Queue an event; with a thousand in the queue, only the end of the run still is."""
        if isinstance(event, _UNHANDED):
            return
        if len(self._waiting) >= _MOST_WAITING and not isinstance(event, RunEnded):
            self._passed_over += 1
            why = f"is slow: {_MOST_WAITING} events wait for it, and others are skipped"
            self._warn("slow", why, event)
            return
        self._waiting.append(_Item(event))
        self._wake()

    def ask(self, event: Event, check: Callable[[], None]) -> str:
        """Call the command with an event, before the queued ones, and wait for its answer.

        Returns why it does not agree, its first line of output; empty where its exit code is 0.
        ``check`` is called meanwhile; what it raises ends the wait, not the call.
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
        return (*answer.lines, answer.why)[0] if answer.trouble else ""

    def stop(self) -> None:
        """Wait until the queue is empty, for as long as one call may take.

        A call that runs then is ended, and none begins: after the end of the process nothing would
        end a command that hangs. An interrupt ends the wait: how the run has ended is told by then.
        """
        # The thread ends when nothing waits any more.
        self._thread.stop()
        self._woken.set()
        ended = False
        with contextlib.suppress(KeyboardInterrupt):
            ended = self._thread.wait(self._seconds)
        if not ended:
            _log.warning("stopped waiting for the hook: %d events are left", len(self._waiting))
            self._given_up.set()
            left: bool | None = None
            while left is None:
                # A further interrupt changes nothing: the call is ended within seconds.
                with contextlib.suppress(KeyboardInterrupt):
                    left = self._thread.join()
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
                event, limit = item.event, self._seconds
                item.answer = call(self._command, event, seconds=limit, given_up=self._given_up)
                self._note(event, item.answer)
            finally:
                item.answered.set()

    def _note(self, event: Event, answer: CallResult) -> None:
        for line in answer.lines:
            _log.info("hook at %s: %s", event.name, line)
        # The exit code of a veto is an answer, no trouble.
        refused = isinstance(event, _ASKED) and answer.trouble == "failed"
        if answer.trouble and not refused:
            said = f": {answer.lines[0]}" if answer.lines else ""
            self._warn(answer.trouble, f"{answer.why}{said}", event, answer.code)

    def _warn(self, kind: str, why: str, event: Event, code: int | None = None) -> None:
        if kind in self._warned:
            return
        self._warned.add(kind)
        said = one_line(why)
        self._tell(HookFailed(at=event.name, kind=kind, reason=why, exit_code=code, said=said))
