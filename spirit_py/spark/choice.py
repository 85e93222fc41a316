"""Which engine does what: threads of the driver, or Spark; docs/spark.md has the rules.

On one machine threads copy and compare as fast; Spark brings more machines. A start of Spark costs
as much CPU as the copy of a small table. Wrong settings are refused before anything is written.
Threads share the driver's memory: state belongs in the gang's member, not in its module.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, Refusal, SparkFailure
from spirit_py.spark.java import require_java
from spirit_py.spark.member import guarded
from spirit_py.spark.settings import local_slots, unprotected
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import SparkConfig
    from spirit_py.errors import SpiritError
    from spirit_py.spark.gang import GangEngine
    from spirit_py.spark.member import Outcome
    from spirit_py.threads import StopSwitch

_R = TypeVar("_R")
_CANCELLED: Final = "its tasks were cancelled"


class DriverEngine:
    """Runs gangs in threads of this process; several at a time. Thread-safe; needs no start."""

    in_process: bool = True
    ready: bool = True
    failure: SpiritError | None = None

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._lock = threading.Lock()
        #: Ends the waiting of each group's call, for a reason.
        self._jobs: dict[str, Callable[[str], None]] = {}
        self._stopped = False

    def context(self) -> Any:
        """Raise: threads are no Spark."""
        raise SparkFailure("threads of this process have no Spark", hint="Spark is needed here")

    def start(self) -> None:
        """Do nothing; the threads start with their gang."""

    def run_gang(
        self,
        function: Callable[[int], _R],
        *,
        size: int,
        group: str,
        description: str,
        failed: list[Outcome[_R]] | None = None,
    ) -> list[Outcome[_R]]:
        """Run ``function(rank)`` in ``size`` threads at once; return the outcomes.

        Raises `MigrationFailure` when cancelled or stopped; threads end with their sessions.
        """
        outcomes: list[Outcome[_R]] = []
        ended, troubles = threading.Event(), list[str]()

        def give_up(trouble: str) -> None:
            troubles.append(trouble)
            ended.set()

        def perform(rank: int) -> None:
            outcome = guarded(rank, function)
            if outcome.error is not None and failed is not None:
                failed.append(outcome)
            outcomes.append(outcome)
            if len(outcomes) == size:
                ended.set()

        def task(rank: int) -> Background:
            def lost(error: BaseException) -> None:
                give_up(f"task {rank} was ended by {type(error).__name__}")

            return Background(f"task-{rank}", lambda _stopping: perform(rank), failed=lost)

        with self._lock:
            if self._stopped:
                raise SparkFailure("the driver's tasks were stopped")
            self._jobs[group] = give_up
        try:
            for one in [task(rank) for rank in range(size)]:
                one.start()
            ended.wait()
        finally:
            with self._lock:
                del self._jobs[group]
        if len(outcomes) < size:
            raise SparkFailure(f"{description}: {troubles[0]}")
        return outcomes

    def cancel(self, group: str) -> None:
        """Have the call that runs this group raise, without waiting for its tasks."""
        with self._lock:
            give_up = self._jobs.get(group)
        if give_up is not None:
            give_up(_CANCELLED)

    def stop(self) -> None:
        """Cancel everything that runs; safe to call again."""
        with self._lock:
            self._stopped = True
            jobs = list(self._jobs.values())
        for give_up in jobs:
            give_up(_CANCELLED)


_log = logging.getLogger(__name__)

SMALL_BYTES: Final = 256 << 20
"""By estimate; two slots compare this in a second, so no cluster is waited for."""
LOCAL_BYTES: Final = 1 << 30
"""Two slots copy this in twenty seconds (50 MB/s, measured). Up to this a Spark of this machine is
not started at once: its start takes 1.2 to 2.6 s of CPU, perhaps of the server's own cores."""
QUICK_BYTES: Final = 4 << 30
"""Two threads compare this in 16 s; on a busy server Spark's tasks came after 22 s (measured)."""
#: The size is an estimate.
_START_ANYWAY_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.05
_WITHOUT_JAVA: Final = (
    "threads of this process copy and compare instead, as fast on this machine; only executors"
    " on other machines (--spark-master) are not used"
)
_WATCH_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 20.0


def engine_of(config: SparkConfig, factory: Callable[[Any], GangEngine]) -> GangEngine | str:
    """Return Spark, not started; or why the work is done without it."""
    try:
        return factory(config)
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.JAVA_MISSING or config.spark_master:
            raise
        return f"{refusal.message}; {_WITHOUT_JAVA}"


class Engines:
    """The two engines of one command, for one thread; ``driver`` is always ready.

    ``warn`` is called from any thread, once for each Spark that failed or was lost.
    """

    def __init__(
        self,
        config: SparkConfig,
        factory: Callable[[Any], GangEngine],
        *,
        stop: StopSwitch,
        warn: Callable[[str], None],
    ) -> None:
        self.driver: GangEngine = DriverEngine(local_slots(config))
        self._config = config
        self._factory = factory
        self._stop = stop
        self._warn = warn
        #: Not started, starting, ready or failed; None before :meth:`begin`.
        self.spark: GangEngine | None = None
        self._without_java = self._warned_of_ports = False
        self._reporting = threading.Lock()
        self._unreported: GangEngine | None = None
        self._bringing: Background | None = None
        #: The driver compares already: Spark, not started yet, is not needed.
        self._compares_alone = threading.Event()
        self._resting: Background | None = None

    def begin(self, size: int) -> None:
        """Start Spark for tables of this size, in bytes; does not wait; may be called again.

        Raises `Refusal` for impossible settings, and for a master without a usable Java.
        """
        if self.spark is not None or self._without_java:
            return
        self._await_rest()
        spark = engine_of(self._config, self._factory)
        if isinstance(spark, str):
            self._without_java = True
            self._warn(spark)
            return
        self.spark = self._unreported = spark
        if (known := unprotected(self._config)) and not self._warned_of_ports:
            self._warned_of_ports = True
            self._warn(known)
        if spark.ready or self._config.spark_master or size > LOCAL_BYTES:
            spark.start()
            patience = 0.0
        else:
            _log.debug("Spark is not started for %d bytes", size)
            patience = _START_ANYWAY_SECONDS
        self._compares_alone.clear()
        self._bringing = Background("spark-wait", self._bring(spark, patience))
        self._bringing.start()

    def for_comparison(self, size: int, show: Callable[[str], None]) -> GangEngine:
        """Return the engine that compares a table of this size, in bytes; wait where that pays."""
        self.begin(size)
        spark = self.spark
        if spark is not None and size > (SMALL_BYTES if self._config.spark_master else QUICK_BYTES):
            self._wait_for(spark, show)
        chosen = spark if spark is not None and spark.ready else self.driver
        _log.debug("%d bytes are compared by %s", size, type(chosen).__name__)
        if chosen is self.driver:
            self._compares_alone.set()
            return chosen
        return _SparkOrDriver(chosen, self.driver)

    def context(self, show: Callable[[str], None]) -> Any:
        """Return Spark's context, for work that Spark alone can do; Refusal without a Java."""
        self.begin(QUICK_BYTES)
        if self.spark is None:
            require_java()
            raise SparkFailure("Spark cannot be used in this run", hint="run the command again")
        self._wait_for(self.spark, show)
        return self.spark.context()

    def rest(self) -> None:
        """Stop Spark in the background while nothing is computed; :meth:`begin` starts it anew."""
        spark, self.spark = self.spark, None
        if spark is None:
            return
        if self._bringing is not None:
            self._bringing.stop()
        # Spark may have failed since the last look.
        self._report(spark)
        with self._reporting:
            self._unreported = None
        self._await_rest()
        self._resting = Background("spark-rest", lambda _stopping: spark.stop())
        self._resting.start()

    def stop(self) -> None:
        """End both engines; nothing is left of them."""
        self.rest()
        self._await_rest()
        self.driver.stop()

    def _bring(self, spark: GangEngine, patience: float) -> Callable[[threading.Event], None]:
        def body(stopping: threading.Event) -> None:
            if stopping.wait(patience) or (patience and self._compares_alone.is_set()):
                return
            spark.start()
            while not stopping.wait(_WATCH_SECONDS if spark.ready else _LOOK_SECONDS):
                if spark.failure is not None:
                    self._report(spark)
                    return

        return body

    def _wait_for(self, spark: GangEngine, show: Callable[[str], None]) -> None:
        spark.start()
        if not _settled(spark):
            show("Spark to start")
            while not _settled(spark):
                self._stop.pause(_LOOK_SECONDS)
            show("")
        self._report(spark)

    def _report(self, spark: GangEngine) -> None:
        with self._reporting:
            failure = spark.failure
            if failure is None or self._unreported is not spark:
                return
            self._unreported = None
        self._warn(f"{failure.message}; this process does its work alone")

    def _await_rest(self) -> None:
        resting, self._resting = self._resting, None
        if resting is not None and not resting.wait(_STOP_SECONDS):
            _log.warning("Spark did not stop within %.0f s", _STOP_SECONDS)


#: One fewer than a comparison tries.
_FAILED_GANGS: Final = 2


class _SparkOrDriver:
    """Spark as long as it lives, then the driver; a new gang does what a lost one did not.

    So too where gang after gang fails there: its executors may reach no server.
    """

    ready: bool = True
    failure: SpiritError | None = None

    def __init__(self, spark: GangEngine, driver: GangEngine) -> None:
        self._engine = spark
        self._driver = driver
        self._failed = 0

    @property
    def in_process(self) -> bool:
        """Whether Spark is lost: the driver's threads do all that is left."""
        return self._living().in_process

    @property
    def slots(self) -> int:
        try:
            return self._living().slots
        except MigrationFailure as error:
            _log.debug("Spark is given up: %s", error.message)
            self._engine = self._driver
            return self._driver.slots

    def run_gang(self, function: Callable[[int], _R], **how: Any) -> list[Outcome[_R]]:
        engine, failed = self._living(), True
        try:
            outcomes = engine.run_gang(function, **how)
            failed = any(one.error is not None for one in outcomes)
            return outcomes
        finally:
            self._failed = self._failed + 1 if failed else 0
            if self._failed >= _FAILED_GANGS and engine is not self._driver:
                _log.warning("%d gangs in a row failed on Spark; threads go on", self._failed)
                self._engine = self._driver

    def cancel(self, group: str) -> None:
        self._engine.cancel(group)

    def context(self) -> Any:
        """Return Spark's context, as long as it lives."""
        return self._engine.context()

    def start(self) -> None:
        """Do nothing: both run."""

    def stop(self) -> None:
        """Do nothing: :class:`Engines` stops both."""

    def _living(self) -> GangEngine:
        if self._engine.failure is not None:
            self._engine = self._driver
        return self._engine


def _settled(spark: GangEngine) -> bool:
    return spark.ready or spark.failure is not None
