"""A process has one Spark: a second one, or one beside the application's own, is not started."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

from spirit_py.config import SparkConfig
from spirit_py.errors import MigrationFailure
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
    with pytest.raises(ZeroDivisionError):
        make().start()
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
