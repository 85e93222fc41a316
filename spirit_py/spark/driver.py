"""A gang's tasks in threads of the driver, which do as much as executors on this machine.

Tasks share the driver's memory: state belongs in the member, not in its module.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.spark.member import guarded
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.errors import SpiritError
    from spirit_py.spark.member import Outcome

_R = TypeVar("_R")


class DriverEngine:
    """Runs gangs in threads of this process; several at a time. Thread-safe; needs no start."""

    in_process: bool = True
    ready: bool = True
    failure: SpiritError | None = None

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job[Any]] = {}
        self._stopped = False

    def start(self) -> None:
        """Do nothing; the threads start with their gang."""

    def run_gang(
        self, function: Callable[[int], _R], *, size: int, group: str, description: str
    ) -> list[Outcome[_R]]:
        """Run ``function(rank)`` in ``size`` threads at once; return the outcomes.

        Raises `MigrationFailure` when cancelled or stopped; threads end with their sessions.
        """
        job: _Job[_R] = _Job(function, size, description)
        with self._lock:
            if self._stopped:
                raise MigrationFailure(
                    "the driver's tasks were stopped", error_code=ErrorCode.SPARK_FAILED
                )
            self._jobs[group] = job
        try:
            return job.run()
        finally:
            with self._lock:
                del self._jobs[group]

    def cancel(self, group: str) -> None:
        """Have the call that runs this group raise, without waiting for its tasks."""
        with self._lock:
            job = self._jobs.get(group)
        if job is not None:
            job.cancel()

    def stop(self) -> None:
        """Cancel everything that runs; safe to call again."""
        with self._lock:
            self._stopped = True
            jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()


class _Job(Generic[_R]):
    def __init__(self, function: Callable[[int], _R], size: int, description: str) -> None:
        self._function = function
        self._description = description
        self._lock = threading.Lock()
        self._outcomes: list[Outcome[_R]] = []
        self._ended = threading.Event()
        self._trouble = ""
        self._tasks = [self._task(rank) for rank in range(size)]

    def _task(self, rank: int) -> Background:
        def body(_stopping: threading.Event) -> None:
            self._note(guarded(rank, self._function, rank))

        def failed(error: BaseException) -> None:
            self._give_up(f"task {rank} was ended by {type(error).__name__}")

        return Background(f"task-{rank}", body, failed=failed)

    def run(self) -> list[Outcome[_R]]:
        for task in self._tasks:
            task.start()
        self._ended.wait()
        with self._lock:
            if len(self._outcomes) < len(self._tasks):
                raise MigrationFailure(
                    f"{self._description}: {self._trouble}", error_code=ErrorCode.SPARK_FAILED
                )
            return list(self._outcomes)

    def cancel(self) -> None:
        self._give_up("its tasks were cancelled")

    def _note(self, outcome: Outcome[_R]) -> None:
        with self._lock:
            self._outcomes.append(outcome)
            complete = len(self._outcomes) == len(self._tasks)
        if complete:
            self._ended.set()

    def _give_up(self, trouble: str) -> None:
        self._trouble = self._trouble or trouble
        self._ended.set()
