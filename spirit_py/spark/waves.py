"""Keep every slot busy: tasks go to Spark in waves, results come back one by one.

A Spark job costs tens of milliseconds, so a job has several tasks. The next wave is submitted while
tasks of the earlier ones still wait, so that no slot idles while Spark starts a job. Tasks are
pulled only when a wave is made, so the next task is decided as late as possible. While results
still change the size of the next task, a wave has one task for each slot, and at most one wave
waits. This module does not know what a task does.
"""

from __future__ import annotations

import enum
import math
import queue
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from spirit_py.errors import MigrationFailure, SpiritError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.contracts import Clock
    from spirit_py.spark.outcome import Outcome
    from spirit_py.stop import StopSwitch

_S = TypeVar("_S")
_R = TypeVar("_R")

_POLL_SECONDS: Final = 0.1
#: A wave should hold this much work for each slot, so that the cost of a job is small.
_WAVE_SECONDS: Final = 0.5
_MOST_ROUNDS: Final = 8
_WAVE_THREADS: Final = 6


class Pull(enum.Enum):
    """The reason why there is no task."""

    WAIT = "wait"
    """Nothing now (throttled): ask again."""
    END = "end"
    """There are no more tasks."""


class WaveEngine(Protocol):
    """What waves need of :class:`spirit_py.spark.engine.SparkEngine`."""

    def run_wave(
        self,
        specs: Sequence[_S],
        function: Callable[[_S], _R],
        *,
        deliver: Callable[[Outcome[_R]], None],
        group: str,
        description: str,
    ) -> None:
        """Run one job, one task for each spec; see the engine."""

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group."""


@dataclass(frozen=True, kw_only=True)
class WavePlan(Generic[_S, _R]):
    """What to run, and what is called on the way.

    Attributes:
        function: the task, run on executors.
        pull: returns the next task's spec, or why there is none. Called by one thread.
        on_result: called with each spec and its result once, in order of completion, by the same
            thread that pulls.
        describe: returns the job's description for its specs. Nothing secret (R20).
        on_abandon: called with the specs whose tasks did not end within ``grace`` after a stop or a
            failure, and must end them on the server; their jobs have been cancelled by then.
        group: Spark's job group.
        settled: returns whether results no longer change how large a task should be. Until then
            tasks are pulled as late as the slots allow.
        grace: seconds that running tasks have to end after a stop or a failure.
    """

    function: Callable[[_S], _R]
    pull: Callable[[], _S | Pull]
    on_result: Callable[[_S, _R], None]
    describe: Callable[[Sequence[_S]], str]
    on_abandon: Callable[[Sequence[_S]], None]
    group: str
    settled: Callable[[], bool] = lambda: True
    grace: float = 5.0


@dataclass(frozen=True)
class _WaveEnded:
    wave: int
    error: SpiritError | None


class WaveRunner(Generic[_S, _R]):
    """Runs one plan to its end; use once.

    After a failure (of a task, a job, ``pull`` or ``on_result``) the running tasks end before
    :meth:`run` raises.

    Args:
        slots: How many tasks Spark runs at a time.
        stop: When it is requested nothing more is pulled, and :meth:`run` raises its reason.
    """

    def __init__(
        self,
        engine: WaveEngine,
        plan: WavePlan[_S, _R],
        *,
        slots: int,
        stop: StopSwitch,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._slots = slots
        self._stop = stop
        self._clock = clock
        self._events: queue.SimpleQueue[tuple[int, Outcome[_R]] | _WaveEnded] = queue.SimpleQueue()
        #: Specs without an outcome yet, by (wave, index in the wave).
        self._outstanding: dict[tuple[int, int], _S] = {}
        self._running_waves: set[int] = set()
        self._next_wave = 0
        self._mean_seconds = 0.0
        self._ended = False
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Run until :attr:`Pull.END` and the last result.

        Raises:
            SpiritError: the first failed task's, after the running ones have ended; or the
                stop switch's reason.
        """
        # Not a ``with``: it would wait without bound for a wave that hangs.
        pool = ThreadPoolExecutor(_WAVE_THREADS, thread_name_prefix="spirit-wave")
        try:
            while not self._halted() and not (self._ended and not self._outstanding):
                self._fill(pool)
                self._take(_POLL_SECONDS)
            if self._halted():
                self._wind_down()
        finally:
            pool.shutdown(wait=not self._running_waves, cancel_futures=True)
        if self._failure is not None:
            raise self._failure
        self._stop.check()

    def _halted(self) -> bool:
        return self._failure is not None or self._stop.requested

    def _wave_size(self) -> tuple[int, int]:
        """Return the size of the next wave, and how many other tasks may wait or run meanwhile.

        One round, or more of short tasks that have settled.
        """
        if not self._plan.settled():
            return self._slots, self._slots
        rounds = math.ceil(_WAVE_SECONDS / self._mean_seconds) if self._mean_seconds > 0 else 1
        size = self._slots * min(_MOST_ROUNDS, max(1, rounds))
        return size, max(size, 2 * self._slots)

    def _fill(self, pool: ThreadPoolExecutor) -> None:
        """Submit waves while fewer tasks wait than keep the slots busy until the next one."""
        while not self._ended and not self._halted() and len(self._running_waves) < _WAVE_THREADS:
            size, beside = self._wave_size()
            if len(self._outstanding) > beside:
                return
            specs = self._pull(size)
            if not specs or self._failure is not None:
                return
            wave = self._next_wave
            self._next_wave += 1
            self._running_waves.add(wave)
            self._outstanding |= {(wave, index): spec for index, spec in enumerate(specs)}
            pool.submit(self._run_wave, wave, specs, self._plan.describe(specs))

    def _pull(self, size: int) -> list[_S]:
        specs: list[_S] = []
        while len(specs) < size and not self._stop.requested:
            try:
                pulled = self._plan.pull()
            except BaseException as error:
                self._fail(error)
                break
            if isinstance(pulled, Pull):
                self._ended = pulled is Pull.END
                break
            specs.append(pulled)
        return specs

    def _run_wave(self, wave: int, specs: Sequence[_S], description: str) -> None:
        error: SpiritError | None = None
        try:
            self._engine.run_wave(
                specs,
                self._plan.function,
                deliver=lambda outcome: self._events.put((wave, outcome)),
                group=self._plan.group,
                description=description,
            )
        except SpiritError as failure:
            error = failure
        except BaseException as failure:
            error = MigrationFailure(f"a wave failed: {type(failure).__name__}: {failure}")
        self._events.put(_WaveEnded(wave, error))

    def _take(self, timeout: float) -> None:
        try:
            event = self._events.get(timeout=timeout)
            while True:
                self._handle(event)
                event = self._events.get_nowait()
        except queue.Empty:
            return

    def _handle(self, event: tuple[int, Outcome[_R]] | _WaveEnded) -> None:
        """Take one event; a second outcome of the same task is ignored (R18)."""
        if isinstance(event, _WaveEnded):
            self._running_waves.discard(event.wave)
            if event.error is not None:
                self._fail(event.error)
            return
        wave, outcome = event
        spec = self._outstanding.pop((wave, outcome.index), None)
        if spec is None:
            return
        self._mean_seconds += (outcome.seconds - self._mean_seconds) / (
            4 if self._mean_seconds else 1
        )
        if outcome.error is not None:
            self._fail(outcome.error)
        elif outcome.result is not None:
            try:
                self._plan.on_result(spec, outcome.result)
            except BaseException as error:
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Keep the first failure; failures after a stop request are its consequences."""
        if self._failure is None and not self._stop.requested:
            self._failure = error

    def _wind_down(self) -> None:
        """Let running tasks end; after the grace have them ended on the server and in Spark."""
        deadline = self._clock() + self._plan.grace
        while self._running_waves and self._clock() < deadline:
            self._take(_POLL_SECONDS)
        if not self._running_waves:
            return
        self._engine.cancel(self._plan.group)
        self._plan.on_abandon(list(self._outstanding.values()))
        deadline = self._clock() + self._plan.grace
        while self._running_waves and self._clock() < deadline:
            self._take(_POLL_SECONDS)
