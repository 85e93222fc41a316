"""Which engine does what, against engines that are ready, late or broken."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from spirit_py.codes import ErrorCode
from spirit_py.config import SparkConfig
from spirit_py.errors import Interrupted, MigrationFailure, Refusal
from spirit_py.spark import choice
from spirit_py.spark.choice import LOCAL_BYTES, QUICK_BYTES, DriverEngine, Engines
from spirit_py.threads import StopSwitch
from tests.kits.waiting import DEADLINE, until

LARGE = QUICK_BYTES + 1
CLUSTER = SparkConfig(spark_master="spark://host:7077", threads=3)


class Spark(DriverEngine):
    """An engine that becomes ready, or fails, when the test says so."""

    def __init__(self, *, ready=False):
        super().__init__(2)
        self.ready = ready
        self.failure = None
        self.calls: list[str] = []

    def start(self):
        """Note it."""
        self.calls.append("start")

    def stop(self):
        """Note it."""
        self.calls.append("stop")
        super().stop()

    @property
    def started(self):
        """Whether it was asked to start."""
        return "start" in self.calls


@pytest.fixture(name="engines")
def _engines():
    """Make engines over one Spark; all are stopped at the end."""
    made = []

    def make(spark, config=None, stop=None):
        warnings: list[str] = []
        engines = Engines(
            config or SparkConfig(threads=2),
            lambda _: spark,
            stop=stop or StopSwitch(),
            warn=warnings.append,
        )
        made.append(engines)
        return engines, warnings

    yield make
    for one in made:
        one.stop()


def test_a_small_table_starts_no_spark(engines):
    """Its copy and its comparison are the driver's."""
    spark = Spark()
    both, _ = engines(spark)
    both.begin(LOCAL_BYTES)
    assert both.spark is spark
    assert both.for_comparison(LOCAL_BYTES, print) is both.driver
    both.stop()
    assert not spark.started


def test_a_copy_that_takes_longer_than_expected_gets_spark(engines, monkeypatch):
    """The estimate may be wrong, and a server slow."""
    monkeypatch.setattr(choice, "_START_ANYWAY_SECONDS", 0.01)
    spark = Spark()
    both, _ = engines(spark)
    both.begin(0)
    until(lambda: spark.started, "the start")


def test_spark_is_not_started_while_the_driver_compares(engines, monkeypatch):
    """A comparison is not handed over: a start behind the copy would cost CPU for nothing."""
    monkeypatch.setattr(choice, "_START_ANYWAY_SECONDS", 0.01)
    compares, bring = threading.Event(), Engines._bring

    def held(self, spark, patience):
        """Begin the wait when the driver compares already."""
        body = bring(self, spark, patience)
        return lambda stopping: compares.wait(DEADLINE) and body(stopping)

    monkeypatch.setattr(Engines, "_bring", held)
    spark = Spark()
    both, _ = engines(spark)
    both.begin(0)
    assert both.for_comparison(0, print) is both.driver
    compares.set()
    waiting = both._bringing
    assert waiting is not None
    until(lambda: not waiting.running, "the end of the wait")
    assert not spark.started


@pytest.mark.parametrize(
    ("size", "config"),
    [(LOCAL_BYTES + 1, None), (0, CLUSTER), (0, SparkConfig(spark_master="local[2]"))],
)
def test_what_needs_spark_starts_it_at_once(engines, size, config):
    """A large table, and a master that the operator names."""
    spark = Spark()
    both, _ = engines(spark, config)
    both.begin(size)
    assert spark.started
    both.begin(size)
    assert spark.calls.count("start") <= 2


def test_a_refusal_of_spark_is_one_of_a_small_table_too(engines):
    """Whether Spark is needed shows when it is too late to refuse."""

    def refuse(_):
        raise Refusal("no such master")

    both = Engines(SparkConfig(), refuse, stop=StopSwitch(), warn=print)
    with pytest.raises(Refusal):
        both.begin(0)


@pytest.mark.parametrize(
    ("size", "master", "refused"),
    [(0, "", False), (1 << 41, "", False), (0, "local[2]", True)],
)
def test_without_java_threads_do_the_work_on_a_table_of_any_size(size, master, refused):
    """It is copied and compared by the driver, from the beginning to the end; one line says so."""

    def refuse(_):
        raise Refusal("no Java", error_code=ErrorCode.JAVA_MISSING)

    warnings: list[str] = []
    config = SparkConfig(threads=2, spark_master=master)
    both = Engines(config, refuse, stop=StopSwitch(), warn=warnings.append)
    if refused:
        with pytest.raises(Refusal):
            both.begin(size)
        return
    both.begin(size)
    assert both.spark is None
    assert both.for_comparison(1 << 41, print) is both.driver
    assert len(warnings) == 1
    assert "threads of this process copy and compare instead" in warnings[0]
    both.stop()


def test_spark_that_is_ready_compares_small_tables_too(engines):
    """It has nothing else to do."""
    spark = Spark(ready=True)
    both, _ = engines(spark)
    assert both.for_comparison(0, print).slots == spark.slots


def test_the_comparison_of_a_large_table_waits_for_spark(engines):
    """The display says so."""
    spark = Spark()
    both, _ = engines(spark)
    shown = []

    def show(waiting_for):
        shown.append(waiting_for)
        spark.ready = True

    assert both.for_comparison(LARGE, show) is not both.driver
    assert shown == ["Spark to start", ""]


@pytest.mark.parametrize(
    ("config", "waits"), [(None, False), (CLUSTER, True)], ids=["this machine", "a cluster"]
)
def test_a_table_that_is_compared_within_seconds_waits_for_a_cluster_only(engines, config, waits):
    """Threads of this machine compare as fast as Spark's tasks on it, and are here at once."""
    spark = Spark()
    both, _ = engines(spark, config)
    both.begin(QUICK_BYTES)
    assert spark.started
    shown = []

    def show(waiting_for):
        shown.append(waiting_for)
        spark.ready = True

    assert (both.for_comparison(QUICK_BYTES, show) is not both.driver) == waits
    assert bool(shown) == waits


def test_the_wait_for_spark_ends_with_a_stop_request(engines):
    """Its start may hang."""
    stop = StopSwitch()
    both, _ = engines(Spark(), stop=stop)
    with pytest.raises(Interrupted):
        both.for_comparison(LARGE, lambda _: void(stop.request(Interrupted(2))))


def void(_):
    """Return nothing."""


def test_spark_that_fails_costs_a_warning(engines):
    """The driver does all the work, however large the table is."""
    spark = Spark()
    both, warnings = engines(spark)
    both.begin(LARGE)
    spark.failure = MigrationFailure("Spark did not start at master local[2]")
    until(lambda: warnings, "the warning")
    assert both.for_comparison(LARGE, print) is both.driver
    assert warnings == ["Spark did not start at master local[2]; this process does its work alone"]


def test_spark_that_is_lost_later_costs_a_warning_too(engines, monkeypatch):
    """The JVM may be killed while tasks run; what they had is done by the driver."""
    monkeypatch.setattr(choice, "_WATCH_SECONDS", 0.01)
    spark = Spark(ready=True)
    both, warnings = engines(spark)
    both.begin(LARGE)
    spark.ready, spark.failure = False, MigrationFailure("Spark's JVM has ended")
    until(lambda: warnings, "the warning")
    assert both.for_comparison(LARGE, print) is both.driver


def test_a_start_that_failed_is_reported_before_the_driver_compares(engines, monkeypatch):
    """The comparison that waited for Spark sees the failure first, whoever looks next."""
    monkeypatch.setattr(choice, "_LOOK_SECONDS", 60)
    spark = Spark()
    both, warnings = engines(spark)

    def show(_):
        spark.failure = MigrationFailure("the JVM exited")

    assert both.for_comparison(LARGE, show) is both.driver
    assert warnings == ["the JVM exited; this process does its work alone"]
    both.rest()
    assert len(warnings) == 1


@pytest.mark.parametrize("ready", [False, True], ids=["did not start", "was lost"])
def test_a_failure_that_nobody_has_seen_yet_is_reported_at_the_rest(engines, monkeypatch, ready):
    """The work may be done within one pause of the thread that looks after Spark."""
    monkeypatch.setattr(choice, "_LOOK_SECONDS", 60)
    monkeypatch.setattr(choice, "_WATCH_SECONDS", 60)
    spark = Spark(ready=ready)
    both, warnings = engines(spark)
    both.begin(LARGE)
    spark.ready, spark.failure = False, MigrationFailure("the JVM exited")
    both.rest()
    assert warnings == ["the JVM exited; this process does its work alone"]


def test_a_failure_is_reported_once_whoever_sees_it(engines, monkeypatch):
    """The thread that looks after Spark, a comparison and the end see the same failure."""
    monkeypatch.setattr(choice, "_LOOK_SECONDS", 0.001)
    for _ in range(30):
        spark = Spark()
        both, warnings = engines(spark)
        both.begin(LARGE)
        bringing = both._bringing
        assert bringing is not None
        spark.failure = MigrationFailure("the JVM exited")
        assert both.for_comparison(LARGE, print) is both.driver
        both.stop()
        assert bringing.wait(60)
        assert len(warnings) == 1


def test_each_spark_that_fails_is_reported(engines):
    """One that is started anew after a rest may fail again."""
    spark = Spark()
    both, warnings = engines(spark)
    spark.failure = MigrationFailure("the JVM exited")
    for _ in range(2):
        assert both.for_comparison(LARGE, print) is both.driver
        both.rest()
    assert len(warnings) == 2


def test_the_end_that_our_own_stop_brings_is_not_reported(engines, monkeypatch):
    """A start that is given up fails, and a JVM that is stopped has ended."""
    monkeypatch.setattr(choice, "_LOOK_SECONDS", 0.001)

    class Stopped(Spark):
        """Fails when it is stopped, like a start that is given up."""

        def stop(self):
            """Fail."""
            self.failure = MigrationFailure("Spark was stopped")
            super().stop()

    spark = Stopped()
    both, warnings = engines(spark)
    both.begin(LARGE)
    bringing = both._bringing
    assert bringing is not None
    # As if the thread had not heard yet that it is to end.
    monkeypatch.setattr(bringing, "stop", lambda: None)
    both.rest()
    assert bringing.wait(60)
    assert spark.failure is not None
    assert warnings == []


def ran(engine):
    """Run a gang of one; return its result."""
    (outcome,) = engine.run_gang(lambda _: 0, size=1, group="g", description="")
    return outcome.result


@pytest.mark.parametrize("said", [True, False], ids=["known to have ended", "no answer"])
def test_a_comparison_goes_on_in_the_driver_when_spark_is_lost(engines, said):
    """What the lost tasks had is compared again; the run is not at its end."""

    class Lost(Spark):
        """Runs nothing any more, once it is lost."""

        lost = False

        @property
        def slots(self):
            """Fail when it is lost."""
            if self.lost:
                raise MigrationFailure("Spark does not answer")
            return 7

        @slots.setter
        def slots(self, _):
            pass

        def run_gang(self, function, **how):
            """Fail when it is lost."""
            assert not self.lost
            return super().run_gang(function, **how)

    spark = Lost(ready=True)
    both, _ = engines(spark)
    chosen = both.for_comparison(LARGE, print)
    assert (chosen.slots, ran(chosen)) == (7, 0)
    spark.lost = True
    if said:
        spark.ready, spark.failure = False, MigrationFailure("Spark's JVM has ended")
        assert ran(chosen) == 0
    assert (chosen.slots, ran(chosen)) == (both.driver.slots, 0)


def test_spark_rests_and_starts_anew_when_the_last_one_has_stopped():
    """A process has one at a time: the second waits until the first has ended."""
    order: list[str] = []
    second = threading.Event()

    class First(Spark):
        def stop(self):
            """Leave the second one time to come too early."""
            second.wait(0.2)
            order.append("first stopped")

    class Second(Spark):
        def start(self):
            """Note it."""
            order.append("second started")
            second.set()

    made = iter((First(ready=True), Second(ready=True)))
    both = Engines(SparkConfig(), lambda _: next(made), stop=StopSwitch(), warn=print)
    both.begin(LARGE)
    both.rest()
    both.rest()
    assert both.spark is None
    both.for_comparison(LARGE, print)
    both.stop()
    assert order[:2] == ["first stopped", "second started"]


def test_a_cluster_without_a_secret_is_warned_of_once():
    """Spark rests between the comparisons of a deferred swap, for days, and begins anew."""
    config = SparkConfig(spark_master="spark://a:1", spark_conf=(("spark.authenticate", "false"),))
    warnings: list[str] = []
    both = Engines(config, lambda _: Spark(ready=True), stop=StopSwitch(), warn=warnings.append)
    for _ in range(3):
        both.begin(LARGE)
        both.rest()
    both.stop()
    assert len(warnings) == 1
    assert "ask for no secret" in warnings[0]


@pytest.mark.parametrize(
    ("config", "slots"),
    [
        (SparkConfig(threads=1), 1),
        (SparkConfig(threads=3, spark_master="local[2,4]"), 2),
        (SparkConfig(threads=1, spark_master="local[2]"), 1),
        (SparkConfig(threads=3, spark_master="local"), 1),
        (CLUSTER, 3),
    ],
)
def test_the_driver_has_as_many_slots_as_spark(engines, config, slots):
    """No more statements run on the server than the operator asked for."""
    both, _ = engines(Spark(), config)
    assert both.driver.slots == slots


def test_a_comparison_goes_on_in_threads_where_gangs_fail_on_spark(engines):
    """As with executors that reach no server: Spark itself lives, and every try would end there."""
    spark = Spark(ready=True)
    made, _ = engines(spark, CLUSTER)
    made.begin(LARGE)
    until(lambda: spark.started, "the start of Spark")
    engine: Any = made.for_comparison(LARGE, lambda _: None)

    def fails(_rank: int) -> None:
        raise MigrationFailure("no route to the server")

    where = []
    for _ in range(3):
        where.append(engine._living() is spark)
        engine.run_gang(fails, size=1, group="g", description="d")
    assert where == [True, True, False]
