"""Start and stop Spark: its JVM, PySpark's gateway to it, and the SparkContext.

The only importer of pyspark. The JVM has a process session of its own, without the terminal's
signals, and exits when its input ends, as when the driver dies.
"""

from __future__ import annotations

import contextlib
import importlib.util
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

from spirit_py.errors import MigrationFailure, SparkFailure
from spirit_py.spark import settings as spark_settings
from spirit_py.spark.launch import JavaProcess, launch, private
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.config import SparkConfig
    from spirit_py.spark.java import Java

_log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 5.0
_EXECUTORS_SECONDS: Final = 60.0
_MORE_EXECUTORS_SECONDS: Final = 5.0
#: A cluster's queue may take its time.
_CONTEXT_SECONDS: Final = 60.0
_CLUSTER_CONTEXT_SECONDS: Final = 600.0
_ANSWER_SECONDS: Final = 20.0
_IN_USE: Final = threading.Lock()


_OWN_CONTEXT: Final = "this process has a SparkContext of its own"


def _has_context() -> bool:
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None  # noqa: SLF001


def obstacle(config: SparkConfig) -> tuple[str, str] | None:
    """Return why Spark's SQL could not be used in this process, and the remedy; None if it may be.

    Another run of this process may have ended when Spark is needed.
    """
    if not _IN_USE.locked() and _has_context():
        return _OWN_CONTEXT, "stop it, or run the command in a process of its own"
    if "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        why = "this process uses Spark Connect (SPARK_CONNECT_MODE_ENABLED)"
        return why, "run the command in a process of its own, without that variable"
    if spark_settings.single_machine(config):
        found = _bundled_spark()
        if not (found / "jars").is_dir():
            return f"PySpark at {found} has no jars", "leave it out of PYTHONPATH"
        return None
    python = dict(config.spark_conf).get("spark.pyspark.python", "")
    python = python or os.environ.get("PYSPARK_PYTHON", "")
    if python and shutil.which(python) is None:
        why = f"Spark reads the table's definition on this machine, which has no {python}"
        return why, "name an interpreter that this machine and the executors have (PYSPARK_PYTHON)"
    return None


class SparkRuntime:
    """One JVM with its SparkContext, to be started and stopped once."""

    def __init__(self, config: SparkConfig, java: Java) -> None:
        self._config = config
        self._java = java
        self._lock = threading.Lock()
        self._abandoned = False
        self._process: JavaProcess | None = None
        self.context: Any = None
        self._application = ""
        self._gateway: Any = None
        self._scratch: Path | None = None
        #: PySpark's gateway and JVM of an application that has stopped its own Spark.
        self._theirs: tuple[Any, Any] = (None, None)
        #: The folder of Spark's that is put on ``sys.path``, with what is in it.
        self._shipped = ""
        self._alone = False

    def start(self) -> bool:
        """Start JVM, gateway and context; return False when it was abandoned before."""
        self._require_no_other()
        scratch = self._scratch = Path(tempfile.mkdtemp(prefix="spirit-py-spark-"))
        conf = spark_settings.settings(self._config, scratch)
        with self._lock:
            if self._abandoned:
                return False
            self._process = self._launched(scratch, conf)
        from pyspark import SparkConf, SparkContext, SparkFiles

        gateway = self._process.wait_for_gateway()
        alone = spark_settings.embedded(self._config)
        limit = _CONTEXT_SECONDS if alone else _CLUSTER_CONTEXT_SECONDS
        with self.answering(limit):
            self._gateway = _connect(*gateway)
        # The application may have begun one of its own meanwhile, under this lock, perhaps for
        # minutes, in which our JVM has nothing to answer.
        with SparkContext._lock, self.answering(limit):  # noqa: SLF001
            if _has_context():
                raise MigrationFailure(_OWN_CONTEXT)
            # Otherwise the context starts in their JVM, which is not ours to watch and to end.
            self._theirs = SparkContext._gateway, SparkContext._jvm  # noqa: SLF001
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
            spark_conf = SparkConf(loadDefaults=False).setAll(list(conf.items()))
            self.context = SparkContext(conf=spark_conf, gateway=self._gateway)
            self._application = str(self.context.applicationId)
            self._shipped = SparkFiles.getRootDirectory()
        # PySpark would print the exception after a JVM is killed.
        self.context._accumulatorServer.handle_error = _note_lost_feedback  # noqa: SLF001
        # Also of a cluster's spark-defaults.conf.
        chosen = self.context.getConf().get("spark.pyspark.python", "")
        if not spark_settings.single_machine(self._config):
            chosen = chosen or os.environ.get("PYSPARK_PYTHON", "")
        self.context.pythonExec = chosen or sys.executable
        if not private(self._config):
            self.context.addPyFile(str(spark_settings.ship_package(scratch)))
        if not spark_settings.embedded(self._config):
            self._wait_for_executors()
        return True

    def _require_no_other(self) -> None:
        self._alone = _IN_USE.acquire(blocking=False)
        if not self._alone:
            raise MigrationFailure("another migration of this process uses Spark")
        if _has_context():
            raise MigrationFailure(_OWN_CONTEXT)

    def _launched(self, scratch: Path, conf: dict[str, str]) -> JavaProcess:
        how = launch(self._config, conf, self._java, bundled=_bundled_spark(), scratch=scratch)
        _log.debug("Spark starts: %s", how.command[0])
        kept = self._open_log()
        try:
            # By its number: the name may be another user's link by now.
            target = scratch / "spark.log" if kept is None else Path(f"/dev/fd/{kept}")
            log4j = spark_settings.log4j_properties(self._config, target)
            (scratch / "log4j2.properties").write_text(log4j)
            files = () if kept is None else (kept,)
            return JavaProcess(how, scratch, scratch / "jvm.log", kept=files)
        finally:
            if kept is not None:
                os.close(kept)

    def _open_log(self) -> int | None:
        if self._config.verbose:
            try:
                return spark_settings.open_verbose_log()
            except OSError as error:
                where, why = spark_settings.VERBOSE_LOG, error.strerror or error
                _log.warning("Spark's log is not kept in %s: %s", where, why)
        return None

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
                late = f"no Spark executor registered within {_EXECUTORS_SECONDS:.0f} s"
                raise SparkFailure(late)
            pause.wait(0.1)

    def capacity(self, *, patient: bool = False) -> int:
        """Return how many tasks Spark can run at a time now.

        ``patient``: a JVM that does not answer is not killed, and its tasks go on.
        """
        if not patient:
            with self.answering():
                return self._capacity()
        found: list[int] = []
        failed: list[BaseException] = []
        asking = Background(
            "spark-asked", lambda _: found.append(self._capacity()), failed=failed.append
        )
        asking.start()
        if not asking.wait(_ANSWER_SECONDS):
            raise SparkFailure(f"Spark's JVM did not answer within {_ANSWER_SECONDS:.0f} s")
        if failed:
            raise failed[0]
        return found[0]

    def _capacity(self) -> int:
        scheduler = self.context._jsc.sc()  # noqa: SLF001 - PySpark has no public way
        profile = scheduler.resourceProfileManager().defaultResourceProfile()
        return int(scheduler.maxNumConcurrentTasks(profile))

    @contextlib.contextmanager
    def answering(self, seconds: float | None = None) -> Iterator[None]:
        """Kill a JVM that does not answer (PySpark would wait), and raise `MigrationFailure`."""
        process, late = self._process, threading.Event()
        limit = _ANSWER_SECONDS if seconds is None else seconds

        def watch(stopping: threading.Event) -> None:
            if not stopping.wait(limit) and process is not None:
                late.set()
                process.kill()

        watching = Background("spark-watch", watch)
        watching.start()
        try:
            yield
        except Exception as error:
            if late.is_set():
                raise SparkFailure(f"Spark's JVM did not answer within {limit:.0f} s") from error
            raise
        finally:
            watching.stop()

    def lost(self) -> MigrationFailure | None:
        """Return an error if the JVM has ended by itself."""
        if self._process is None or self._process.running:
            return None
        hint = "look for what ended it; --verbose keeps Spark's log"
        return SparkFailure("Spark's JVM has ended", hint=hint)

    def abandon(self) -> None:
        """Make a start under way fail, and prevent a later one."""
        with self._lock:
            self._abandoned = True
            if self._process is not None:
                self._process.kill()

    def stop(self) -> None:
        """Stop all processes and delete the files; a private Spark is killed, to save 1.3 s."""
        if private(self._config):
            self._forget_context()
        else:
            self._stop_context()
        if self._process is not None:
            (self._process.kill if private(self._config) else self._process.end)()
        self.context = None
        self._forget_gateway()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        if self._alone:
            self._alone = False
            _IN_USE.release()

    def _stop_context(self) -> None:
        context, self.context = self.context, None
        if context is None:
            return
        if not _within(_STOP_SECONDS, context.stop):
            _log.info("Spark did not stop within %.0f s and is killed", _STOP_SECONDS)
        if self._config.spark_master.startswith("local-cluster["):
            # Spark's own workers log there, and do not remove the folder.
            work = _bundled_spark() / "work"
            shutil.rmtree(work / self._application, ignore_errors=True)
            with contextlib.suppress(OSError):
                work.rmdir()

    def _forget_context(self) -> None:
        context, self.context = self.context, None
        if context is None:
            return
        self._gateway._gateway_client.is_connected = False  # noqa: SLF001 - no public way
        # It takes up to half a second to notice, for which nothing has to wait.
        _within(0, context._accumulatorServer.shutdown)  # noqa: SLF001 - as SparkContext.stop does

    def _forget_gateway(self) -> None:
        if self._gateway is None:
            return
        from pyspark import SparkContext

        with contextlib.suppress(Exception):
            self._gateway.shutdown()
        with SparkContext._lock:  # noqa: SLF001 - no public way
            if SparkContext._gateway is self._gateway:  # noqa: SLF001
                if (ended := SparkContext._active_spark_context) is not None:  # noqa: SLF001
                    # A SparkSession that the application has from it is not taken for a live one.
                    ended._jsc = None  # noqa: SLF001
                SparkContext._active_spark_context = None  # noqa: SLF001
                SparkContext._gateway, SparkContext._jvm = self._theirs  # noqa: SLF001
        if self._shipped:
            sys.path[:] = [one for one in sys.path if not one.startswith(self._shipped)]
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


def _within(seconds: float, action: Callable[[], None]) -> bool:
    def failed(error: BaseException) -> None:
        _log.debug("Spark did not stop cleanly", exc_info=error)

    stopper = Background("spark-stop", lambda _stopping: action(), failed=failed)
    stopper.start()
    return stopper.wait(seconds)


def _note_lost_feedback(_request: object, address: object) -> None:
    _log.debug("Spark's report of a job from %s was cut off", address, exc_info=True)


def _bundled_spark() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise SparkFailure("PySpark is not installed", hint="install spirit-py anew")
    return Path(found.submodule_search_locations[0])


def keep_own_logger() -> None:
    """Have Py4J log to its own logger; :mod:`logging`'s functions would add a root handler."""
    from py4j import java_gateway

    java_gateway.logging = java_gateway.logger


def _connect(port: int, secret: str) -> Any:
    """Return PySpark's gateway to a running JVM; leave its secret in no child's environment."""
    from pyspark.java_gateway import launch_gateway

    keep_own_logger()
    told = {
        "PYSPARK_GATEWAY_PORT": str(port),
        "PYSPARK_GATEWAY_SECRET": secret,
        "PYSPARK_PIN_THREAD": "true",
    }
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
