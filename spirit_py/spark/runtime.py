"""Start and stop Spark: its JVM, PySpark's gateway to it, and the SparkContext.

The only importer of pyspark. A plain SparkContext is enough and starts faster than a
SparkSession. The JVM runs in a session (``setsid``) of its own, so that neither the terminal's
Ctrl-C nor its hang-up reaches it or the Python workers before the driver could stop in order;
when the driver dies, the JVM reads the end of its standard input and exits, and the Python workers
with it.
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
from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import MigrationFailure
from spirit_py.spark.gateway import JavaProcess
from spirit_py.spark.settings import (
    embedded,
    environment,
    log4j_properties,
    settings,
    ship_package,
    single_machine,
)
from spirit_py.threads import Background

if TYPE_CHECKING:
    from spirit_py.config import SparkConfig

_log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 5.0
_EXECUTORS_SECONDS: Final = 60.0
_MORE_EXECUTORS_SECONDS: Final = 5.0


class SparkRuntime:
    """One JVM with its SparkContext: :meth:`start` and :meth:`stop`, once each.

    Attributes:
        context: the SparkContext; None before it has started and after it was stopped.
    """

    def __init__(self, config: SparkConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._abandoned = False
        self._process: JavaProcess | None = None
        self.context: Any = None
        self._application = ""
        self._gateway: Any = None
        self._scratch: Path | None = None
        self._path_before: list[str] = []

    def start(self) -> bool:
        """Start JVM, gateway and context; return False when it was abandoned before."""
        scratch = self._scratch = Path(tempfile.mkdtemp(prefix="spirit-py-spark-"))
        (scratch / "log4j2.properties").write_text(log4j_properties(self._config, scratch))
        conf = settings(self._config, scratch)
        with self._lock:
            if self._abandoned:
                return False
            environ = environment(self._config, scratch, os.environ)
            home = environ.get("SPARK_HOME") or _bundled_spark()
            self._process = JavaProcess(home, conf, environ, scratch / "jvm.log")
        self._path_before = list(sys.path)
        from pyspark import SparkConf, SparkContext

        self._gateway = _connect(*self._process.wait_for_gateway(scratch))
        spark_conf = SparkConf(loadDefaults=False).setAll(list(conf.items()))
        self.context = SparkContext(conf=spark_conf, gateway=self._gateway)
        self._application = str(self.context.applicationId)
        # PySpark would print the whole exception; the job's own result has the outcomes.
        self.context._accumulatorServer.handle_error = _note_lost_feedback  # noqa: SLF001
        self.context.pythonExec = self._worker_python(conf)
        self.context.addPyFile(str(ship_package(scratch)))
        if not embedded(self._config):
            self._wait_for_executors()
        return True

    def _worker_python(self, conf: dict[str, str]) -> str:
        """Return the workers' interpreter: the driver's own, unless the operator sets another."""
        chosen = conf.get("spark.pyspark.python", "")
        if not single_machine(self._config):
            chosen = chosen or os.environ.get("PYSPARK_PYTHON", "")
        return chosen or sys.executable

    def _wait_for_executors(self) -> None:
        pause = threading.Event()
        deadline = time.monotonic() + _EXECUTORS_SECONDS
        enough_by = math.inf
        while (capacity := self.capacity()) < self._config.threads and not self._abandoned:
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

    def capacity(self) -> int:
        """Return how many tasks Spark can run at a time now."""
        scheduler = self.context._jsc.sc()  # noqa: SLF001 - PySpark has no public way
        profile = scheduler.resourceProfileManager().defaultResourceProfile()
        return int(scheduler.maxNumConcurrentTasks(profile))

    def abandon(self) -> None:
        """Make a start under way fail, and prevent a later one."""
        with self._lock:
            self._abandoned = True
            if self._process is not None:
                self._process.kill()

    def stop(self) -> None:
        """Stop the context, the JVM and all its processes, and delete its files."""
        self._stop_context()
        if self._process is not None:
            self._process.end()
        self._forget_gateway()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _stop_context(self) -> None:
        """Stop the SparkContext; a JVM that hangs or died is ended by its process."""
        context, self.context = self.context, None
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
        if self._config.spark_master.startswith("local-cluster["):
            # Spark's own workers log into the Spark folder and do not remove that.
            work = Path(_bundled_spark()) / "work"
            shutil.rmtree(work / self._application, ignore_errors=True)
            with contextlib.suppress(OSError):
                work.rmdir()

    def _forget_gateway(self) -> None:
        """Reset PySpark's global state in this process, so that another engine can start."""
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

    def last_log_lines(self) -> tuple[str, ...]:
        """Return the last lines of the JVM's output, for the operator."""
        if self._scratch is None:
            return ()
        lines: list[str] = []
        for name in ("jvm.log", "spark.log"):
            with contextlib.suppress(OSError):
                lines += (self._scratch / name).read_text(errors="replace").splitlines()
        return tuple(line for line in lines if "ERROR" in line or "Exception" in line)[:3]


def _note_lost_feedback(_request: object, address: object) -> None:
    """Log that the JVM interrupted a task's report; call it in the exception's handler."""
    _log.debug("the feedback of Spark from %s was cut off", address, exc_info=True)


def _bundled_spark() -> str:
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
