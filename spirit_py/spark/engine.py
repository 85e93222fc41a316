"""Spark as a guest: start it quietly, run waves of tasks, leave no process behind.

The only importer of pyspark. A plain SparkContext is enough and starts faster than a
SparkSession. The JVM runs in a session (``setsid``) of its own, so that neither the terminal's
Ctrl-C nor its hang-up reaches it or the Python workers before the driver could stop in order;
when the driver dies, the JVM sees the end of its standard input and leaves, and the Python
workers with it.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py.errors import MigrationFailure, Refusal
from spirit_py.spark.gateway import JavaProcess
from spirit_py.spark.java import require_java
from spirit_py.spark.outcome import Outcome, guarded
from spirit_py.spark.settings import (
    SparkOptions,
    environment,
    log4j_properties,
    settings,
    ship_package,
)
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.config import SparkConfig

_log = logging.getLogger(__name__)
_S = TypeVar("_S")
_R = TypeVar("_R")

_STOP_SECONDS: Final = 5.0
_EXECUTORS_SECONDS: Final = 60.0
_MORE_EXECUTORS_SECONDS: Final = 5.0


class _Feedback:
    """Spark's AccumulatorParam that hands every finished task's outcome to the driver at once.

    On executors it is a list that grows; in the driver ``route`` takes the outcomes. Spark
    merges a task's list when that task has finished, before the job has.
    """

    def __init__(self, route: Callable[[int, Outcome[Any]], None] | None) -> None:
        self._route = route

    def __getstate__(self) -> dict[str, Any]:
        return {"_route": None}

    def zero(self, _value: list[Any]) -> list[Any]:
        """Return the empty list."""
        return []

    def addInPlace(self, total: list[Any], added: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        """Grow the list on an executor; pass the outcomes on in the driver."""
        if self._route is None:
            total.extend(added)
            return total
        for wave, outcome in added:
            self._route(wave, outcome)
        return []


class SparkEngine:
    """One SparkContext for a migration.

    Lifecycle: construct (checks Java), :meth:`start` (returns at once), any of the calls that
    need the context (they wait for it), :meth:`stop`. Thread-safe. One engine at a time in a
    process, because PySpark holds its gateway in class attributes.

    Raises:
        Refusal: from the constructor, for settings that cannot be, and without a usable Java.
    """

    def __init__(self, options: SparkOptions) -> None:
        settings(options, Path())
        self.options = options
        self._java = require_java()
        self._lock = threading.Lock()
        self._started = threading.Event()
        self._starter: Background | None = None
        self._failure: BaseException | None = None
        self._process: JavaProcess | None = None
        self._context: Any = None
        self._application = ""
        self._gateway: Any = None
        self._feedback: Any = None
        self._scratch: Path | None = None
        self._path_before: list[str] = []
        self._waves = 0
        self._deliver: dict[int, Callable[[Outcome[Any]], None]] = {}
        self._stopped = False

    def start(self) -> None:
        """Begin to start Spark in a thread; safe to call again."""
        with self._lock:
            if self._starter is None and not self._stopped:
                self._starter = Background("spark-start", lambda _stopping: self._start_guarded())
                self._starter.start()

    def context(self) -> Any:
        """Return the SparkContext, once it has started.

        Raises:
            SpiritError: when Spark did not start.
        """
        self.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        if self._stopped:
            raise MigrationFailure("Spark was stopped")
        return self._context

    @property
    def slots(self) -> int:
        """How many tasks run at a time: the threads asked for, or fewer where Spark has fewer."""
        self.context()
        return max(1, min(self.options.threads, self._capacity()))

    def run_wave(
        self,
        specs: Sequence[_S],
        function: Callable[[_S], _R],
        *,
        deliver: Callable[[Outcome[_R]], None],
        group: str,
        description: str,
    ) -> None:
        """Run one job with one task for each spec; return when it has ended.

        Args:
            function: Runs on executors; must pickle by reference or be a closure.
            deliver: Told every outcome as soon as its task has finished, from another thread;
                may be told one twice, when Spark reran a task.
            group: The job group, to cancel by.
            description: What Spark's UI shows. Nothing secret (R20).

        Raises:
            MigrationFailure: when Spark could not run the job to its end.
        """
        context = self.context()
        with self._lock:
            self._waves += 1
            wave = self._waves
            self._deliver[wave] = deliver
        feedback = self._feedback

        def attempt(numbered: tuple[int, _S]) -> Outcome[_R]:
            outcome = guarded(numbered[0], function, numbered[1])
            feedback.add([(wave, outcome)])
            return outcome

        try:
            context.setJobGroup(group, description)
            numbered = list(enumerate(specs))
            outcomes = context.parallelize(numbered, len(numbered)).map(attempt).collect()
        except Exception as error:
            raise MigrationFailure(
                f"Spark could not run a job: {_first_line(error)}",
                hint="see Spark's log (--verbose), then run the same command again",
            ) from error
        finally:
            with self._lock:
                self._deliver.pop(wave, None)
        # Spark only logs it when an accumulator update fails; the job's own result has all.
        for outcome in outcomes:
            deliver(outcome)

    def run_gang(
        self, function: Callable[[int], _R], *, size: int, group: str, description: str
    ) -> list[Outcome[_R]]:
        """Run ``function(rank)`` in ``size`` tasks at once, in barrier mode; return the outcomes.

        Spark runs a barrier stage again as a whole when one of its tasks was lost; the
        caller, in conversation with the tasks (:mod:`spirit_py.spark.gang`), sends the second
        attempt home at once.

        Raises:
            MigrationFailure: when Spark could not run the job to its end.
        """
        context = self.context()

        def attempt(ranks: Iterator[int]) -> Iterator[Outcome[_R]]:
            yield from (guarded(rank, function, rank) for rank in ranks)

        try:
            context.setJobGroup(group, description)
            ranks = context.parallelize(range(size), size)
            return list(ranks.barrier().mapPartitions(attempt).collect())
        except Exception as error:
            raise MigrationFailure(
                f"Spark could not run a job: {_first_line(error)}",
                hint="see Spark's log (--verbose), then run the same command again",
            ) from error

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group; their Python workers are killed by Spark."""
        with contextlib.suppress(Exception):
            self.context().cancelJobGroup(group)

    def stop(self) -> None:
        """Stop Spark and leave no process behind, within seconds; safe to call again."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            starter, process = self._starter, self._process
        if starter is not None and process is not None and not self._started.is_set():
            process.kill()
        if starter is not None:
            starter.wait(_STOP_SECONDS)
        self._stop_context()
        if self._process is not None:
            self._process.end()
        self._forget_gateway()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _start_guarded(self) -> None:
        """Start Spark; keep what went wrong for :meth:`context`."""
        try:
            self._start()
        except Refusal as error:
            self._failure = error
        except BaseException as error:
            self._failure = MigrationFailure(
                f"Spark did not start at master {self.options.resolved_master}:"
                f" {_first_line(error)}",
                hint="check --spark-master and --spark-conf; --verbose keeps Spark's log",
                details=self._last_log_lines(),
            )
            _log.debug("Spark did not start", exc_info=error)
        finally:
            self._started.set()

    def _start(self) -> None:
        """Start the JVM, the gateway to it and the context."""
        scratch = self._scratch = Path(tempfile.mkdtemp(prefix="spirit-py-spark-"))
        (scratch / "log4j2.properties").write_text(log4j_properties(self.options, scratch))
        conf = settings(self.options, scratch)
        with self._lock:
            if self._stopped:
                return
            environ = environment(self.options, scratch, os.environ)
            home = environ.get("SPARK_HOME") or _bundled_spark()
            self._process = JavaProcess(home, conf, environ, scratch / "jvm.log")
        self._path_before = list(sys.path)
        from pyspark import SparkConf, SparkContext

        self._gateway = _connect(*self._process.wait_for_gateway(scratch))
        spark_conf = SparkConf(loadDefaults=False).setAll(list(conf.items()))
        self._context = SparkContext(conf=spark_conf, gateway=self._gateway)
        self._application = str(self._context.applicationId)
        # What it would print at length is told by whoever waits for Spark.
        self._context._accumulatorServer.handle_error = _note_lost_feedback  # noqa: SLF001
        self._context.pythonExec = self._worker_python(conf)
        self._context.addPyFile(str(ship_package(scratch)))
        param: Any = _Feedback(self._route)
        self._feedback = self._context.accumulator([], param)
        if not self.options.embedded:
            self._wait_for_executors()

    def _worker_python(self, conf: dict[str, str]) -> str:
        """Return the workers' interpreter: the driver's own, where the operator says nothing."""
        chosen = conf.get("spark.pyspark.python", "")
        if not self.options.single_machine:
            chosen = chosen or os.environ.get("PYSPARK_PYTHON", "")
        return chosen or sys.executable

    def _wait_for_executors(self) -> None:
        """Wait for the first executor of a cluster, and a little for as many as were asked for."""
        pause = threading.Event()
        deadline = time.monotonic() + _EXECUTORS_SECONDS
        enough_by = math.inf
        while (capacity := self._capacity()) < self.options.threads and not self._stopped:
            now = time.monotonic()
            if capacity:
                enough_by = min(enough_by, now + _MORE_EXECUTORS_SECONDS)
            if now > enough_by:
                return
            if now > deadline and not capacity:
                raise MigrationFailure(
                    f"no Spark executor registered within {_EXECUTORS_SECONDS:.0f} s"
                )
            pause.wait(0.1)

    def _capacity(self) -> int:
        """Ask Spark how many tasks it can run at a time now."""
        scheduler = self._context._jsc.sc()  # noqa: SLF001 - PySpark has no public way
        profile = scheduler.resourceProfileManager().defaultResourceProfile()
        return int(scheduler.maxNumConcurrentTasks(profile))

    def _route(self, wave: int, outcome: Outcome[Any]) -> None:
        """Hand an outcome to the wave that waits for it."""
        with self._lock:
            deliver = self._deliver.get(wave)
        if deliver is not None:
            deliver(outcome)

    def _stop_context(self) -> None:
        """Stop the SparkContext; a JVM that hangs or died is ended by its process."""
        context, self._context = self._context, None
        if context is None:
            return
        stopper = Background(
            "spark-stop",
            lambda _stopping: context.stop(),
            failed=lambda error: _log.debug("Spark did not stop cleanly", exc_info=error),
        )
        stopper.start()
        if not stopper.wait(_STOP_SECONDS):
            _log.info("Spark did not stop within %.0f s and is killed", _STOP_SECONDS)
        if self.options.resolved_master.startswith("local-cluster["):
            # Spark's own workers log into the Spark folder and leave that behind.
            work = Path(_bundled_spark()) / "work"
            shutil.rmtree(work / self._application, ignore_errors=True)
            with contextlib.suppress(OSError):
                work.rmdir()

    def _forget_gateway(self) -> None:
        """Undo what PySpark left in this process, so that another engine can start."""
        if self._gateway is None:
            return
        from pyspark import SparkContext

        with contextlib.suppress(Exception):
            self._gateway.shutdown()
        SparkContext._gateway = None  # noqa: SLF001 - as pyspark's own tests do
        SparkContext._jvm = None  # noqa: SLF001
        SparkContext._active_spark_context = None  # noqa: SLF001
        sys.path[:] = [entry for entry in sys.path if entry in self._path_before]
        self._gateway = None

    def _last_log_lines(self) -> tuple[str, ...]:
        """Return the last lines of the JVM's output, for the operator."""
        if self._scratch is None:
            return ()
        lines: list[str] = []
        for name in ("jvm.log", "spark.log"):
            with contextlib.suppress(OSError):
                lines += (self._scratch / name).read_text(errors="replace").splitlines()
        return tuple(line for line in lines if "ERROR" in line or "Exception" in line)[:3]


def engine_for(config: SparkConfig) -> SparkEngine:
    """Make the Spark engine that a command's options ask for.

    Raises:
        Refusal: when there is no usable Java.
    """
    return SparkEngine(SparkOptions.of(config))


def _note_lost_feedback(_request: object, address: object) -> None:
    """Log that the JVM broke off what its tasks report; in the handler of the exception."""
    _log.debug("the feedback of Spark from %s was cut off", address, exc_info=True)


def _bundled_spark() -> str:
    """Return the folder of the Spark that came with PySpark."""
    import pyspark

    return str(Path(pyspark.__file__).parent)


def _connect(port: int, secret: str) -> Any:
    """Return PySpark's gateway to a JVM that runs already.

    PySpark is told through its own variables; they are in the environment for this call only,
    so that no child process inherits the secret.
    """
    from pyspark.java_gateway import launch_gateway

    told = {
        "PYSPARK_GATEWAY_PORT": str(port),
        "PYSPARK_GATEWAY_SECRET": secret,
        "PYSPARK_PIN_THREAD": "true",
    }
    os.environ.update(told)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in told:
            os.environ.pop(name, None)


def _first_line(error: BaseException) -> str:
    """Return the cause in one line; a Java error by its own message, without the trace."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() or java) if java is not None else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
