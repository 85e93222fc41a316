"""A process has one Spark: a second one, or one beside the application's own, is not started."""

from __future__ import annotations

import contextlib
import sys
import threading
from types import SimpleNamespace

import pytest

from spirit_py.codes import ErrorCode
from spirit_py.config import ConnectionOptions, MigrationConfig, SparkConfig
from spirit_py.errors import MigrationFailure, Refusal, SparkFailure
from spirit_py.preflight.checks.archive import require_archivable
from spirit_py.spark import runtime
from spirit_py.spark.java import Java
from spirit_py.spark.runtime import SparkRuntime


@pytest.fixture
def nothing_else(monkeypatch):
    """No Spark of this process, whatever else runs in it."""
    monkeypatch.setattr(runtime, "_IN_USE", threading.Lock())
    monkeypatch.setitem(sys.modules, "pyspark", None)


def make():
    """Return a runtime that fails where it would start a JVM."""
    return SparkRuntime(SparkConfig(threads=1), Java("/no/java", 21))


def test_a_second_spark_is_refused_until_the_first_has_stopped(nothing_else, monkeypatch):
    """PySpark holds its gateway in class attributes: the second would cut the first one off."""
    started: list[int] = []

    def launched(*_):
        started.append(1)
        raise ZeroDivisionError

    monkeypatch.setattr(SparkRuntime, "_launched", launched)
    first, second = make(), make()
    with pytest.raises(ZeroDivisionError):
        first.start()
    with pytest.raises(MigrationFailure, match="another migration of this process"):
        second.start()
    second.stop()
    with pytest.raises(MigrationFailure, match="another migration of this process"):
        make().start()
    first.stop()
    third = make()
    with pytest.raises(ZeroDivisionError):
        third.start()
    third.stop()
    assert started == [1, 1]


def test_beside_a_context_of_the_application_none_is_started(nothing_else, monkeypatch):
    """Its gateway is left alone."""
    active = SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=object()))
    monkeypatch.setitem(sys.modules, "pyspark", active)
    ours = make()
    with pytest.raises(MigrationFailure, match="SparkContext of its own"):
        ours.start()
    ours.stop()
    assert active.SparkContext._active_spark_context is not None
    assert runtime._IN_USE.acquire(blocking=False)


class Context:
    """PySpark's own state, as it keeps it: in attributes of a class."""

    _lock = threading.RLock()
    _gateway: object = None
    _jvm: object = None
    _active_spark_context: object = None

    def __init__(self, conf: object, gateway: object) -> None:
        kind = type(self)
        kind._gateway, kind._active_spark_context = gateway, self
        self.applicationId = "local-1"
        self._jsc: object = conf
        self._accumulatorServer = SimpleNamespace(shutdown=lambda: None)

    def getConf(self) -> dict[str, str]:  # noqa: N802
        """Return the settings."""
        return {}


@pytest.fixture
def pretended(nothing_else, monkeypatch):
    """Return a PySpark that starts nothing, and its process, which waits for no gateway."""

    class OfThisTest(Context):
        pass

    conf = SimpleNamespace(setAll=lambda _: "settings")
    files = SimpleNamespace(getRootDirectory=lambda: "")
    pyspark = SimpleNamespace(SparkContext=OfThisTest, SparkConf=lambda **_: conf, SparkFiles=files)
    monkeypatch.setitem(sys.modules, "pyspark", pyspark)
    process = SimpleNamespace(wait_for_gateway=lambda: (1, ""), kill=lambda: None)
    monkeypatch.setattr(SparkRuntime, "_launched", lambda *_: process)
    client = SimpleNamespace(is_connected=True)
    ours = SimpleNamespace(_gateway_client=client, shutdown=lambda: None)
    monkeypatch.setattr(runtime, "_connect", lambda *_: ours)
    return OfThisTest, process


def test_a_context_that_the_application_begins_meanwhile_is_left_alone(pretended):
    """Between the first look and our own context lie the seconds in which our JVM starts."""
    pyspark, process = pretended

    def begun():
        pyspark("theirs", "their gateway")
        return 1, ""

    process.wait_for_gateway = begun
    ours = make()
    with pytest.raises(MigrationFailure, match="SparkContext of its own"):
        ours.start()
    ours.stop()
    assert (pyspark._gateway, pyspark._active_spark_context._jsc) == ("their gateway", "theirs")


def test_our_jvm_is_not_watched_while_the_application_begins_a_context(pretended, monkeypatch):
    """That may take minutes: ours was killed meanwhile, and said not to have answered."""
    pyspark, _ = pretended
    watching: list[object] = []
    watched: list[bool] = []

    @contextlib.contextmanager
    def answering(ours, _seconds):
        watching.append(ours)
        yield
        watching.pop()

    class Lock:
        def __enter__(self):
            watched.append(bool(watching))

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(SparkRuntime, "answering", answering)
    monkeypatch.setattr(pyspark, "_lock", Lock())
    ours = make()
    assert ours.start()
    ours.stop()
    assert watched
    assert not any(watched)


def test_a_session_over_our_context_is_none_that_lives_once_its_jvm_has_ended(pretended):
    """PySpark gives the application's next session a context of its own then."""
    pyspark, _ = pretended
    pyspark._gateway = "their gateway"
    ours = make()
    assert ours.start()
    got = pyspark._active_spark_context
    assert got._jsc is not None
    ours.stop()
    assert (got._jsc, pyspark._active_spark_context) == (None, None)
    assert pyspark._gateway == "their gateway"


def archive(**more):
    """Return what is asked of a migration with an archive."""
    return MigrationConfig(
        connection=ConnectionOptions(), database="s", archive_to="s3a://bucket/a", **more
    )


@pytest.mark.parametrize("why", ["SparkContext of its own", "Spark Connect", "has no jars", ""])
def test_an_archive_is_refused_before_the_swap_where_spark_could_not_start(
    monkeypatch, tmp_path, why
):
    """Threads copy without Spark, but only Spark archives: it would be found after the swap."""
    monkeypatch.setattr(runtime, "_IN_USE", threading.Lock())
    mine = SimpleNamespace(_active_spark_context=object() if "of its own" in why else None)
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(SparkContext=mine))
    monkeypatch.setattr(runtime, "_bundled_spark", lambda: tmp_path)
    if why != "has no jars":
        (tmp_path / "jars").mkdir()
    if why == "Spark Connect":
        monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    if not why:
        require_archivable(archive())
        return
    with pytest.raises(Refusal, match=why) as refused:
        require_archivable(archive())
    assert refused.value.error_code is ErrorCode.ARCHIVE_REFUSED


def test_an_archive_needs_the_executors_python_on_this_machine_too(monkeypatch):
    """Spark plans a data source on the driver, with the interpreter of the tasks."""
    monkeypatch.setattr(runtime, "_IN_USE", threading.Lock())
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    with pytest.raises(Refusal, match=r"has no \./environment/bin/python"):
        require_archivable(archive(spark_master="yarn"))
    require_archivable(
        archive(spark_master="yarn", spark_conf=(("spark.pyspark.python", sys.executable),))
    )


@pytest.mark.parametrize("patient", [False, True])
def test_a_jvm_that_does_not_say_what_it_can_run_lives_on_for_its_tasks(monkeypatch, patient):
    """Where each task is the process of a server of a fleet; a migration ends it, and goes on."""
    ended = threading.Event()
    monkeypatch.setattr(runtime, "_ANSWER_SECONDS", 0.01)
    spark = make()
    spark._process = SimpleNamespace(kill=ended.set)

    def hangs(_self: object) -> int:
        assert ended.wait(60)
        raise ConnectionError

    monkeypatch.setattr(SparkRuntime, "_capacity", hangs)
    try:
        with pytest.raises(SparkFailure, match="did not answer within"):
            spark.capacity(patient=patient)
        assert ended.is_set() is not patient
    finally:
        ended.set()
    with pytest.raises(ConnectionError):
        spark.capacity(patient=True)
