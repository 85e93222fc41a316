"""Spark for a command: started in the background, then gangs of tasks, then stopped."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py.errors import SparkFailure
from spirit_py.spark.java import require_java, said_by_java
from spirit_py.spark.member import Gathering, Outcome, guarded
from spirit_py.spark.runtime import SparkRuntime
from spirit_py.spark.settings import master, settings
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.config import SparkConfig
    from spirit_py.errors import SpiritError

_log = logging.getLogger(__name__)
_R = TypeVar("_R")

_STOP_SECONDS: Final = 5.0


class SparkEngine:
    """Spark for one command: checks Java, then :meth:`start`, jobs that wait for it, :meth:`stop`.

    Thread-safe; one in a process, as PySpark's gateway is global. What needs the context raises why
    a start failed. The constructor raises `Refusal`.
    """

    in_process: bool = False

    def __init__(self, config: SparkConfig, *, patient: bool = False) -> None:
        settings(config, Path())
        self._config = config
        #: Whether a JVM that does not say how much it can run lives on, with its tasks.
        self._patient = patient
        self._lock = threading.Lock()
        self._started = threading.Event()
        self._starter: Background | None = None
        self._failure: SpiritError | None = None
        self._spark = SparkRuntime(config, require_java())
        self._stopped = False

    def start(self) -> None:
        """Begin to start Spark in a thread; safe to call again."""
        with self._lock:
            if self._starter is None and not self._stopped:
                self._starter = Background("spark-start", lambda _stopping: self._start_guarded())
                self._starter.start()

    def context(self) -> Any:
        """Return the SparkContext, once it has started; raise why it did not."""
        self.start()
        self._started.wait()
        if self.failure is not None:
            raise self.failure
        if self._stopped:
            raise SparkFailure("Spark was stopped")
        return self._spark.context

    @property
    def failure(self) -> SpiritError | None:
        """Why it will never be ready: its start failed, or its JVM has ended since."""
        if self._failure is None and self._started.is_set() and not self._stopped:
            self._failure = self._spark.lost()
        return self._failure

    @property
    def ready(self) -> bool:
        """Whether a job would begin at once: the context runs, with its executors."""
        return self._started.is_set() and self.failure is None and not self._stopped

    @property
    def slots(self) -> int:
        """How many tasks run at a time: the threads asked for, or fewer where Spark has fewer."""
        self.context()
        try:
            capacity = self._spark.capacity(patient=self._patient)
        except Exception as error:
            raise SparkFailure(f"Spark does not answer: {said_by_java(error)}") from error
        return max(1, min(self._config.threads, capacity))

    def run_gang(
        self,
        function: Callable[[int], _R],
        *,
        size: int,
        group: str,
        description: str,
        failed: list[Outcome[_R]] | None = None,
    ) -> list[Outcome[_R]]:
        """Run ``function(rank)`` in ``size`` tasks of a barrier stage; return the outcomes."""
        context = self.context()

        def attempt(ranks: Iterator[int]) -> Iterator[Outcome[_R]]:
            for rank in ranks:
                outcome = guarded(rank, function)
                if outcome.error is not None:
                    told.add([outcome])
                yield outcome

        try:
            told = context.accumulator([] if failed is None else failed, Gathering())
            context.setJobGroup(group, description)
            dataset = context.parallelize(range(size), size)
            return list(dataset.barrier().mapPartitions(attempt).collect())
        except Exception as error:
            raise SparkFailure(
                f"Spark could not run a job: {said_by_java(error)}",
                hint="see Spark's log (--verbose), then run the same command again",
            ) from error

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group; their Python workers are killed by Spark."""
        with contextlib.suppress(Exception):
            context = self.context()
            with self._spark.answering():
                context.cancelJobGroup(group)

    def stop(self) -> None:
        """Stop Spark and leave no process behind, within seconds; safe to call again."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        if not self._started.is_set():
            self._spark.abandon()
        if self._starter is not None:
            self._starter.wait(_STOP_SECONDS)
        self._spark.stop()

    def _start_guarded(self) -> None:
        began = time.monotonic()
        try:
            self._spark.start()
            _log.debug("Spark started in %.1f s", time.monotonic() - began)
        except BaseException as error:
            self._failure = SparkFailure(
                f"Spark did not start at master {master(self._config)}: {said_by_java(error)}",
                hint="check --spark-master and --spark-conf; --verbose keeps Spark's log",
                details=self._spark.last_log_lines(),
            )
            _log.debug("Spark did not start", exc_info=error)
        finally:
            self._started.set()
