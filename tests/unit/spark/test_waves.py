"""Waves against an engine of threads: every slot busy, every result once, faults in order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spirit_py.errors import CopyFailure, Interrupted, MigrationFailure
from spirit_py.spark.outcome import guarded
from spirit_py.spark.waves import Pull, WavePlan, WaveRunner
from spirit_py.stop import StopSwitch

SLOTS = 3
DEADLINE = 20.0


class ThreadEngine:
    """Runs waves as Spark does: tasks of all jobs share the slots, first come, first served."""

    def __init__(self, *, twice: bool = False, lose: bool = False) -> None:
        """Take the faults to play: outcomes told twice, or told only at the end of the job."""
        self._pool = ThreadPoolExecutor(SLOTS)
        self._twice = twice
        self._lose = lose
        self.waves: list[int] = []
        self.cancelled: list[str] = []
        self.broken: MigrationFailure | None = None
        self.descriptions: list[str] = []

    def run_wave(self, specs, function, *, deliver, group, description) -> None:
        """Run one job."""
        self.waves.append(len(specs))
        self.descriptions.append(description)
        if self.broken is not None:
            raise self.broken

        def attempt(index: int, spec: Any):
            outcome = guarded(index, function, spec)
            for _ in range(0 if self._lose else 2 if self._twice else 1):
                deliver(outcome)
            return outcome

        futures = [self._pool.submit(attempt, i, spec) for i, spec in enumerate(specs)]
        for outcome in [future.result(DEADLINE) for future in futures]:
            deliver(outcome)

    def cancel(self, group: str) -> None:
        """Note the call."""
        self.cancelled.append(group)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


@pytest.fixture
def engine():
    """Return an engine without faults."""
    engine = ThreadEngine()
    yield engine
    engine.close()


def run(engine, function, specs, *, stop=None, grace=10.0, abandoned=None, pull=None):
    """Run specs through waves; give (spec, result) in order of completion."""
    waiting = iter(specs)
    got: list[tuple[Any, Any]] = []
    plan: WavePlan[Any, Any] = WavePlan(
        function=function,
        pull=pull or (lambda: next(waiting, Pull.END)),
        on_result=lambda spec, result: got.append((spec, result)),
        describe=lambda specs: f"{len(specs)} tasks",
        on_abandon=lambda specs: None if abandoned is None else abandoned.extend(specs),
        group="group",
        grace=grace,
    )
    ticks = iter(range(10**9))
    WaveRunner(
        engine, plan, slots=SLOTS, stop=stop or StopSwitch(), clock=lambda: next(ticks) * 0.1
    ).run()
    return got


def test_every_task_is_told_once(engine):
    """Forty tasks, forty results, whatever the waves."""
    got = run(engine, lambda n: n * 2 + 1, range(40))
    assert sorted(got) == [(n, n * 2 + 1) for n in range(40)]
    assert sum(engine.waves) == 40
    assert engine.descriptions[0] == f"{engine.waves[0]} tasks"


@pytest.mark.parametrize("fault", [{"twice": True}, {"lose": True}], ids=["twice", "late"])
def test_doubled_and_late_outcomes_count_once(fault):
    """A rerun task tells twice; when Spark drops an accumulator update the job still has it."""
    engine = ThreadEngine(**fault)
    try:
        assert sorted(run(engine, str, range(20))) == [(n, str(n)) for n in range(20)]
    finally:
        engine.close()


def test_every_slot_is_busy(engine):
    """No task starts before all slots are filled: each waits for as many others as there are."""
    together = threading.Barrier(SLOTS)

    def task(n: int) -> int:
        together.wait(DEADLINE)
        return n

    assert len(run(engine, task, range(SLOTS * 8))) == SLOTS * 8


def test_a_straggler_does_not_leave_slots_idle(engine):
    """While one task of an early wave hangs, later waves go on in the other slots."""
    others = threading.Event()
    done = []

    def task(n: int) -> int:
        if n == 0:
            assert others.wait(DEADLINE)
        else:
            done.append(n)
            if len(done) == 10 * SLOTS:
                others.set()
        return n

    assert len(run(engine, task, range(20 * SLOTS))) == 20 * SLOTS


def test_tasks_are_pulled_late(engine):
    """At most a few rounds are pulled beyond what has finished: the driver decides late."""
    pulled: list[int] = []
    finished: list[int] = []
    most = [0]

    def pull():
        if len(pulled) == 60:
            return Pull.END
        pulled.append(len(pulled))
        most[0] = max(most[0], len(pulled) - len(finished))
        return pulled[-1]

    def task(n: int) -> int:
        finished.append(n)
        return n

    run(engine, task, (), pull=pull)
    assert most[0] <= 24 * SLOTS
    assert max(engine.waves) <= 8 * SLOTS


def test_unsettled_tasks_are_pulled_as_late_as_the_slots_allow(engine):
    """While results still change the size: waves of one round, one beside the running one."""
    results = [0]
    in_flight: list[int] = []
    pulled = [0]

    def pull():
        if pulled[0] == 200:
            return Pull.END
        pulled[0] += 1
        in_flight.append(pulled[0] - results[0])
        return pulled[0]

    def on_result(spec: int, result: int) -> None:
        results[0] += 1

    plan: WavePlan[Any, Any] = WavePlan(
        function=lambda n: n,
        pull=pull,
        on_result=on_result,
        describe=str,
        on_abandon=lambda specs: None,
        group="group",
        settled=lambda: results[0] >= 100,
    )
    ticks = iter(range(10**9))
    WaveRunner(engine, plan, slots=SLOTS, stop=StopSwitch(), clock=lambda: next(ticks) * 0.1).run()
    assert results[0] == 200
    assert max(in_flight[:100]) == 2 * SLOTS
    assert set(engine.waves[: 100 // SLOTS]) == {SLOTS}
    assert max(engine.waves) > SLOTS


def test_waiting_is_asked_again(engine):
    """A throttled pull ends the wave, not the run."""
    answers = iter([1, Pull.WAIT, Pull.WAIT, 2, Pull.WAIT, 3, Pull.END])
    assert sorted(run(engine, str, (), pull=lambda: next(answers))) == [
        (1, "1"),
        (2, "2"),
        (3, "3"),
    ]


def test_nothing_to_do_starts_no_job(engine):
    """An empty table costs no wave."""
    assert run(engine, str, ()) == []
    assert engine.waves == []


def test_a_failing_task_stops_the_run(engine):
    """Its own error is raised, nothing more is pulled, and what ran is told."""
    pulled: list[int] = []

    def pull():
        pulled.append(len(pulled))
        return pulled[-1]

    def task(n: int) -> int:
        if n == 5:
            raise CopyFailure("chunk 5 is broken", hint="mend it")
        return n

    with pytest.raises(CopyFailure, match="chunk 5 is broken") as failed:
        run(engine, task, (), pull=pull)
    assert failed.value.hint == "mend it"
    assert len(pulled) < 1000


def test_a_bug_in_a_task_is_named(engine):
    """Another exception comes as one line, its trace in the details."""
    with pytest.raises(MigrationFailure, match="unexpectedly: ZeroDivisionError") as failed:
        run(engine, lambda n: 1 // n, [0])
    assert any("ZeroDivisionError" in line for line in failed.value.details)


def test_a_job_that_spark_cannot_run_stops_the_run(engine):
    """Spark's own failure is raised as the engine words it."""
    engine.broken = MigrationFailure("Spark could not run a job: no executor")
    with pytest.raises(MigrationFailure, match="no executor"):
        run(engine, str, range(5))


def test_a_stop_lets_running_tasks_end(engine):
    """After a stop nothing is pulled, running tasks are told, and the reason is raised."""
    stop = StopSwitch()
    told = []

    def task(n: int) -> int:
        stop.request(Interrupted(2))
        told.append(n)
        return n

    with pytest.raises(Interrupted):
        run(engine, task, iter(int, 1), stop=stop)
    assert len(told) == sum(engine.waves)
    assert engine.cancelled == []


def test_a_task_that_does_not_end_is_abandoned(engine):
    """After the grace its job is cancelled and its spec handed over to be ended."""
    stop = StopSwitch()
    release = threading.Event()
    abandoned: list[Any] = []

    def task(n: int) -> int:
        if n == 0:
            stop.request(Interrupted(15))
            release.wait(DEADLINE)
        return n + 1

    def abandon(specs) -> None:
        abandoned.extend(specs)
        release.set()

    waiting = iter(range(SLOTS))
    plan: WavePlan[Any, Any] = WavePlan(
        function=task,
        pull=lambda: next(waiting, Pull.END),
        on_result=lambda spec, result: None,
        describe=str,
        on_abandon=abandon,
        group="group",
        grace=1.0,
    )
    ticks = iter(range(10**9))
    runner: WaveRunner[Any, Any] = WaveRunner(
        engine, plan, slots=SLOTS, stop=stop, clock=lambda: next(ticks) * 0.1
    )
    with pytest.raises(Interrupted):
        runner.run()
    assert abandoned == [0]
    assert engine.cancelled == ["group"]


def test_a_pull_that_fails_lets_running_tasks_end(engine):
    """The chunker lost its session: its error is raised, after what ran has been told."""
    numbers = iter(range(4))

    def pull():
        for number in numbers:
            return number
        raise CopyFailure("the next boundary could not be read")

    got: list[int] = []
    plan: WavePlan[Any, Any] = WavePlan(
        function=str,
        pull=pull,
        on_result=lambda spec, result: got.append(spec),
        describe=str,
        on_abandon=lambda specs: None,
        group="group",
    )
    ticks = iter(range(10**9))
    runner: WaveRunner[Any, Any] = WaveRunner(
        engine, plan, slots=SLOTS, stop=StopSwitch(), clock=lambda: next(ticks) * 0.1
    )
    with pytest.raises(CopyFailure, match="next boundary"):
        runner.run()
    assert sorted(got) == list(range(sum(engine.waves)))


def test_a_result_that_cannot_be_taken_ends_the_run(engine):
    """A bug in the driver's own bookkeeping is raised as it is, and nothing hangs."""

    def on_result(spec: int, result: str) -> None:
        raise ZeroDivisionError

    plan: WavePlan[Any, Any] = WavePlan(
        function=str,
        pull=lambda: 1,
        on_result=on_result,
        describe=str,
        on_abandon=lambda specs: None,
        group="group",
    )
    ticks = iter(range(10**9))
    runner: WaveRunner[Any, Any] = WaveRunner(
        engine, plan, slots=SLOTS, stop=StopSwitch(), clock=lambda: next(ticks) * 0.1
    )
    with pytest.raises(ZeroDivisionError):
        runner.run()
