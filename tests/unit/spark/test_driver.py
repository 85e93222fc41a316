"""Gangs in threads of the driver: outcomes as Spark's, several at a time, ended when asked."""

from __future__ import annotations

import threading

import pytest

from spirit_py.errors import CopyFailure, MigrationFailure
from spirit_py.spark.choice import DriverEngine
from spirit_py.threads import Background
from tests.kits.waiting import until

DEADLINE = 60.0


def run(engine, function, size, group="g"):
    """Run a gang; return its outcomes by rank."""
    outcomes = engine.run_gang(function, size=size, group=group, description="a gang")
    return {outcome.rank: outcome for outcome in outcomes}


def test_it_is_ready_from_the_beginning():
    """No start is needed, so none can fail."""
    engine = DriverEngine(3)
    assert (engine.ready, engine.failure, engine.slots) == (True, None, 3)


def test_all_tasks_of_a_gang_run_at_the_same_time():
    """Each waits for all others: fewer threads than tasks would never end."""
    together = threading.Barrier(4, timeout=DEADLINE)
    got = run(DriverEngine(2), lambda rank: (together.wait(), rank)[1], 4)
    assert {rank: outcome.result for rank, outcome in got.items()} == {n: n for n in range(4)}


def test_an_error_of_a_task_is_its_outcome_and_the_others_go_on():
    """An error of the program comes as it was raised, any other as a bug with its trace."""

    def task(rank):
        if rank == 0:
            raise CopyFailure("chunk 3 is broken", hint="mend it")
        return 1 // (rank - 1)

    got = run(DriverEngine(3), task, 3)
    assert isinstance(got[0].error, CopyFailure)
    assert got[0].error.hint == "mend it"
    assert isinstance(got[1].error, MigrationFailure)
    assert "ZeroDivisionError" in got[1].error.message
    assert (got[2].result, got[2].error) == (1, None)


def test_every_task_runs_in_a_thread_of_the_program():
    """The threads have the program's names, and none is left."""
    got = run(DriverEngine(2), lambda rank: threading.current_thread().name, 2)
    names = {outcome.result for outcome in got.values()}
    assert names == {"spirit-py-task-0", "spirit-py-task-1"}
    until(lambda: not names & {thread.name for thread in threading.enumerate()}, "the threads")


def begin(engine, function, size, group):
    """Run a gang in the background; return the thread, and what it raised."""
    raised: list[BaseException] = []
    waiting = Background(
        "caller", lambda _: void(run(engine, function, size, group)), failed=raised.append
    )
    waiting.start()
    return waiting, raised


def void(_):
    """Return nothing."""


@pytest.mark.parametrize("end", [lambda engine: engine.cancel("a"), DriverEngine.stop])
def test_a_gang_that_is_cancelled_is_not_waited_for(end):
    """The call raises although a task never ends; a group with another name goes on."""
    engine, gate, begun = DriverEngine(1), threading.Event(), threading.Semaphore(0)

    def task(rank):
        begun.release()
        if rank:
            gate.wait(DEADLINE)
        return rank

    waiting, raised = begin(engine, task, 2, "a")
    begun.acquire(timeout=DEADLINE)
    begun.acquire(timeout=DEADLINE)
    engine.cancel("b")
    assert waiting.running
    end(engine)
    assert waiting.wait(DEADLINE)
    gate.set()
    assert [str(error) for error in raised] == ["a gang: its tasks were cancelled"]


def test_a_stopped_engine_runs_nothing_more():
    """A gang after the stop is refused; stopping twice does no harm."""
    engine = DriverEngine(1)
    engine.stop()
    engine.stop()
    with pytest.raises(MigrationFailure, match="stopped"):
        run(engine, str, 1)


def test_a_task_that_ends_its_thread_ends_the_gang():
    """What is no exception of a task, as SystemExit, would leave the others waiting forever."""

    def task(rank):
        if rank == 1:
            raise SystemExit(1)
        return rank

    with pytest.raises(MigrationFailure, match="task 1 was ended by SystemExit"):
        run(DriverEngine(2), task, 2)
