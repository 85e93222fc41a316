"""Where the processes of servers run: on this machine, or as tasks of a Spark cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from spirit_py.batch.report import BatchReport
from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, SparkFailure, SpiritError, WorkersLost
from spirit_py.fleet.process import ServerProcess, ServerTask
from spirit_py.spark.member import guarded, lacking
from spirit_py.threads import Background

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from spirit_py.fleet.process import ServerWork, Told
    from spirit_py.spark.gang import GangEngine
    from spirit_py.spark.member import Outcome
    from spirit_py.threads import StopSwitch

_TRIES: Final = 3
_PAUSE: Final = 5.0
_LOOK_SECONDS: Final = 0.2
_AGAIN_SECONDS: Final = 1.0
_NOTICED_SECONDS: Final = 300.0
_UNANSWERED_SECONDS: Final = 120.0
#: What a server's process imports of others, by these.
_IMPORTED: Final = ("MySQLdb", "spirit_py.batch.entry", "spirit_py.batch.planning")


class Runner(Protocol):
    """Runs the processes of servers, several at a time."""

    shows: bool
    """Whether a process tells its snapshots while it works."""

    def run(self, work: ServerWork, hear: Callable[[Told], None], stop: StopSwitch) -> None:
        """Run a server's process to its end, or until the stop; raise where it tells no end."""

    def slots(self) -> int | None:
        """Return how many can run at a time; None for as many as wanted. One thread asks."""

    def close(self) -> None:
        """End what is left of it."""


class Here:
    """Processes of this machine."""

    shows = True

    def run(self, work: ServerWork, hear: Callable[[Told], None], stop: StopSwitch) -> None:
        """Run a server's process as a child of this one."""
        process = ServerProcess(work, hear)
        with Background("stop-server", _on_stop(stop, process.stop)):
            process.run()

    def slots(self) -> int | None:
        """Return None: what works is on the servers."""
        return None

    def close(self) -> None:
        """Do nothing: each process ends with its run."""


class OnSpark:
    """Tasks of a cluster; one that is lost is begun again on another executor, and resumes."""

    shows = False

    def __init__(self, engine: GangEngine) -> None:
        self._engine = engine
        #: Since when the cluster does not say how many tasks it runs.
        self._unanswered_since: float | None = None
        #: Whether its tasks can do the work: by itself, as it may wait for an executor for minutes.
        self._trial: Background | None = None
        self._tried: Outcome[str] | None = None

    def run(self, work: ServerWork, hear: Callable[[Told], None], stop: StopSwitch) -> None:
        """Run a server's process below an executor; what it tells comes at its end."""
        task = ServerTask(work=replace(work, threads_only=True))
        lost, number = 0, 0
        held_since: float | None = None
        while True:
            number += 1
            stop.check()
            try:
                told = self._once(task, f"server-{work.server}-{number}", stop)
            except (SparkFailure, WorkersLost):
                stop.check()
                lost, held_since = lost + 1, None
                if lost == _TRIES:
                    raise
                stop.pause(_PAUSE)
                continue
            # The process of a lost executor holds the table until it has noticed.
            now = time.monotonic()
            if _runs_elsewhere(told) and now - (held_since or now) < _NOTICED_SECONDS:
                held_since = held_since or now
                if not stop.wait(_PAUSE):
                    continue
                if lost:
                    stop.check()
            for heard in told:
                hear(heard)
            return

    def _once(self, task: ServerTask, group: str, stop: StopSwitch) -> list[Told]:
        with Background("stop-server", _on_stop(stop, lambda: self._engine.cancel(group))):
            outcomes = self._engine.run_gang(
                task, size=1, group=group, description=f"server {task.work.server}"
            )
        (outcome,) = outcomes
        if outcome.error is not None:
            raise outcome.error
        return outcome.result or []

    def slots(self) -> int | None:
        """Return how many tasks the cluster runs at a time; 0 as long as it may say so later."""
        try:
            found = self._engine.slots
            lacks = self._lacks()
        except SpiritError:
            # Those at work go on.
            now = time.monotonic()
            since = self._unanswered_since = self._unanswered_since or now
            if self._engine.failure is not None or now - since > _UNANSWERED_SECONDS:
                raise
            return 0
        if lacks is None:
            return 0
        self._unanswered_since = None
        if lacks:
            raise Refusal(
                f"no server can be begun on the cluster: a task there says: {lacks}",
                hint="its executors need what docs/fleet.md names, or leave --spark-master out",
                error_code=ErrorCode.SPARK_FAILED,
            )
        return found

    def _lacks(self) -> str | None:
        """Return what its tasks lack; None as long as the trial has not ended, or raise why."""
        if self._trial is None:
            self._trial = Background("fleet-trial", self._try)
            self._trial.start()
        if not self._trial.wait(_LOOK_SECONDS) or self._tried is None:
            return None
        if self._tried.error is not None:
            self._trial = None
            raise self._tried.error
        return self._tried.result or ""

    def _try(self, _stopping: threading.Event) -> None:
        self._tried = guarded(0, lambda _rank: self._lacking())

    def _lacking(self) -> str:
        (outcome,) = self._engine.run_gang(
            lambda _rank: lacking(_IMPORTED), size=1, group="fleet-trial", description="a trial"
        )
        if outcome.error is not None:
            raise outcome.error
        return outcome.result or ""

    def close(self) -> None:
        """Stop Spark."""
        self._engine.stop()


def _on_stop(stop: StopSwitch, action: Callable[[], None]) -> Callable[[threading.Event], None]:
    def body(stopping: threading.Event) -> None:
        while not stopping.is_set():
            if stop.wait(_LOOK_SECONDS):
                # A job that is only being submitted is not found by the first call.
                action()
                stopping.wait(_AGAIN_SECONDS)

    return body


def _runs_elsewhere(told: list[Told]) -> bool:
    if not told:
        return False
    last = told[-1]
    if isinstance(last, BatchReport):
        errors = [one["report"] or {} for one in last.tables if one["failed"]]
        return any(one.get("error_code") == ErrorCode.ALREADY_RUNNING for one in errors)
    return isinstance(last, SpiritError) and last.error_code is ErrorCode.ALREADY_RUNNING
