"""The process of one server: what it does, and how the coordinator's side follows it.

Its standard input has the work as a pickle, and closes when it is to stop; its standard output has
what it tells, one pickle after the other: events, snapshots, and its report or what ended it. Both
ends are this program on this machine, and nobody else can write into a pipe between them. No
password is in its arguments or its environment.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias, cast

from spirit_py.batch.report import BatchReport
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.contracts import QuietReporter
from spirit_py.errors import Interrupted, MigrationFailure, Refusal, SpiritError
from spirit_py.events.run import LogWritten
from spirit_py.progress import BatchStatus
from spirit_py.spark.java import without_secrets
from spirit_py.threads import Background, StopSwitch
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.batch.plan import BatchPlan
    from spirit_py.command_config import BatchConfig
    from spirit_py.config import MigrationConfig
    from spirit_py.events.event import Event
    from spirit_py.progress import MigrationStatus
    from spirit_py.spark.gang import GangEngine

Told: TypeAlias = "Event | BatchStatus | BatchReport | SpiritError"
"""What a process tells; the last is its report, or what ended it."""

_KEPT_LINES: Final = 8
_MOST_TOLD: Final = 5000
_END_SECONDS: Final = 10.0
#: A statement under way may have to end first.
_STOP_SECONDS: Final = 600.0


@dataclass(frozen=True, kw_only=True)
class ServerWork:
    """The part of one server; ``threads_only``: it starts no Spark of its own.

    ``tables`` are those that were planned and agreed to; ``begun``: it had a record then.
    """

    server: str
    batch: BatchConfig
    tables: tuple[str, ...] = ()
    begun: bool = False
    threads_only: bool = False


class ServerProcess:
    """The coordinator's side. ``hear`` is called with all that is told, in the caller's thread."""

    def __init__(self, work: ServerWork, hear: Callable[[Told], None]) -> None:
        self._work = work
        self._hear = hear
        self._stop = StopSwitch()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped_at: float | None = None
        self._given = threading.Event()

    def run(self) -> None:
        """Start the process and follow it to its end; MigrationFailure where it tells none."""
        with tempfile.TemporaryFile() as errors:
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, self._work.server],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(),
                start_new_session=True,
            )
            with process, cast("BinaryIO", process.stdout) as told:
                ended = self._followed(process, told)
                self.stop()
            if not ended:
                raise self._gone(process.returncode, errors)

    def _followed(self, process: subprocess.Popen[bytes], told: BinaryIO) -> bool:
        given = cast("BinaryIO", process.stdin)
        # It may have ended, or been stopped, before it has read its work.
        with contextlib.suppress(OSError, ValueError):
            pickle.dump(self._work, given)
            given.flush()
        self._given.set()
        if self._stop.requested:
            self.stop()
        ended = False
        with contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                heard = pickle.load(told)  # noqa: S301 - of our own process
                ended = ended or isinstance(heard, BatchReport | SpiritError)
                self._hear(heard)
        return ended

    def _gone(self, code: int, errors: BinaryIO) -> MigrationFailure:
        errors.seek(0)
        lines = errors.read().decode("utf-8", "replace").splitlines()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return MigrationFailure(
            f"the process of {self._work.server} {how}, without a report",
            hint="see what ended it; the same command resumes",
            details=tuple(lines[-_KEPT_LINES:]),
            error_code=ErrorCode.WORKERS_LOST,
        )

    def stop(self) -> None:
        """Ask the process to end, as by SIGTERM; safe to call again, and before its start.

        One that has not ended minutes after the first call is killed: its tables are whole, as
        after any kill.
        """
        self._stop.request(Interrupted(signal.SIGTERM))
        process, now = self._process, time.monotonic()
        if process is not None and process.poll() is None:
            self._stopped_at = self._stopped_at or now
            # Without its work it has begun nothing, and whoever writes that holds the stream.
            if not self._given.is_set() or now - self._stopped_at > _STOP_SECONDS:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                return
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                process.stdin.close()


def _environment() -> dict[str, str]:
    """Return ours, with the folders from which this process has imported the program."""
    return without_secrets(os.environ) | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONSAFEPATH": "1",
    }


@dataclass(frozen=True, kw_only=True)
class ServerTask:
    """The same as a task of Spark, whose machine runs the process; returns what was told."""

    work: ServerWork

    def __call__(self, _rank: int) -> list[Told]:
        """Run the process; of what it told the last events are kept."""
        told: list[Told] = []

        def hear(heard: Told) -> None:
            if not isinstance(heard, BatchStatus):
                told.append(heard)
                del told[:-_MOST_TOLD]

        ServerProcess(self.work, hear).run()
        return told


class _Teller(QuietReporter):
    """Passes on what happens, from a thread of its own: a coordinator that hangs holds up none."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._waiting: queue.SimpleQueue[Told | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        #: The newest snapshot, of which the queue has a place at most.
        self._seen: BatchStatus | None = None
        self._thread = Background("teller", lambda _stopping: self._work(), failed=_ignored)
        self._thread.start()

    def tell(self, told: Told) -> None:
        self._waiting.put(told)

    def event(self, event: Event) -> None:
        """Pass on an event."""
        self.tell(event)

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Pass on a snapshot."""
        if isinstance(snapshot, BatchStatus):
            with self._lock:
                waits, self._seen = self._seen is not None, snapshot
            if not waits:
                self.tell(snapshot)

    def close(self, stop: StopSwitch) -> None:
        """Wait until all is read: a coordinator may be stopped for a while, or gone."""
        self._waiting.put(None)
        while not self._thread.wait(_END_SECONDS) and not stop.requested:
            pass

    def _work(self) -> None:
        while (told := self._waiting.get()) is not None:
            if isinstance(told, BatchStatus):
                with self._lock:
                    told, self._seen = self._seen or told, None
            try:
                text = pickle.dumps(told)
            except Exception as error:
                said = f"{type(told).__name__} could not be told: {error}"
                text = pickle.dumps(
                    LogWritten(said=said, weight="warning", logger=__name__, trace=None)
                )
            self._stream.write(text)
            self._stream.flush()


def _ignored(_error: BaseException) -> None:
    """Its coordinator has gone: the end of its input says so."""


class _Logs(logging.Handler):
    def __init__(self, tell: Callable[[Event], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        weight: Any = "error" if record.levelno >= logging.ERROR else "warning"
        said = record.getMessage()
        self._tell(LogWritten(said=said, weight=weight, logger=record.name, trace=None))


def carry_out(work: ServerWork, teller: _Teller, stop: StopSwitch) -> None:
    """Do the work of one server, and tell its report, or what ended it."""
    from spirit_py.batch.entry import reported, run_batch
    from spirit_py.batch.planning import plan_batch

    engine: Callable[[MigrationConfig], GangEngine] | None = None
    if work.threads_only:
        from spirit_py.spark.choice import DriverEngine
        from spirit_py.spark.settings import local_slots

        def engine(config: MigrationConfig) -> GangEngine:
            return DriverEngine(local_slots(config))

    try:
        with reported(work.batch, teller):
            plan = plan_batch(work.batch)
            _require_as_agreed(work, plan)
            stop.check()
            report = run_batch(work.batch, plan, reporter=teller, engine_factory=engine, stop=stop)
        teller.tell(report)
    except SpiritError as error:
        teller.tell(error)


def _require_as_agreed(work: ServerWork, plan: BatchPlan) -> None:
    """Refuse what is not what the coordinator has seen, and its operator has agreed to."""
    if work.begun and plan.earlier is None and not work.batch.each.dry_run:
        raise Refusal(
            f"the record of {work.server} is gone since the plan was made",
            hint="see who has dropped it, and whether its tables are changed; then run the same"
            " command again, for what the plan shows then",
            error_code=ErrorCode.BATCH_RECORD,
        )
    new = sorted({str(one.change) for one in plan.left} - set(work.tables))
    if new:
        raise Refusal(
            f"{counted(len(new), 'table')} of {work.server} were not there when the plan was made:"
            f" {', '.join(new[:3])}",
            hint="run the same command again, for what the plan shows then",
            error_code=ErrorCode.BATCH_REFUSED,
        )


def main() -> None:
    """Run the process of one server, as its coordinator starts it."""
    given, told = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Whatever else is printed must not be in between.
    os.dup2(2, 1)
    work: ServerWork = pickle.load(given)  # noqa: S301 - of our own coordinator
    stop = StopSwitch()

    def follow(_stopping: Any) -> None:
        given.read()
        hint = "the source tables are intact; the same command resumes"
        stop.request(Interrupted(signal.SIGTERM, hint=hint))

    Background("coordinator", follow).start()
    teller = _Teller(told)
    logging.basicConfig(level=logging.WARNING, handlers=[_Logs(teller.event)])
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    code = 1
    try:
        try:
            carry_out(work, teller, stop)
        except BaseException as error:
            teller.tell(_broken(error))
        teller.close(stop)
        code = 0
    finally:
        # A thread may wait for the coordinator, or for what a second signal has left; and one that
        # reads the input makes an orderly end an abort, with a core dump that has the password.
        os._exit(code)


def _broken(error: BaseException) -> MigrationFailure:
    trace = "".join(traceback.format_exception(error)).splitlines()
    return MigrationFailure(
        f"{type(error).__name__}: {error}",
        hint="see what ended it, and report it with the details; the same command resumes",
        details=tuple(trace[-_KEPT_LINES:]),
        error_code=ErrorCode.DEFECT,
    )


if __name__ == "__main__":
    main()
