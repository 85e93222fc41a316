"""Commands without Spark: a small table needs none, and one that does not start is a warning."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import pytest
from pyspark import SparkContext

from spirit_py.command_config import CompareConfig
from spirit_py.compare.run import compare
from spirit_py.config import SessionModes
from spirit_py.errors import Refusal
from spirit_py.migration import auxiliary
from spirit_py.migration.entry import migrate
from spirit_py.spark import choice, launch, runtime
from tests.kits.connection import connection_options
from tests.kits.migrate import config_for, warnings_of
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import Interruption, make_table
from tests.kits.tables import tables
from tests.kits.waiting import until

ALTER = "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5"
HOME = os.environ.get("JAVA_HOME")
REAL = f"{HOME}/bin/java" if HOME else shutil.which("java")


class Java:
    """A Java that notes how it is called, and is as broken as the test wants it."""

    def __init__(self, home: Path, start: str) -> None:
        self._calls = home / "calls"
        program = home / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(
            f'#!/bin/sh\necho "$1" >> {self._calls}\n'
            f'[ "$1" = -version ] && exec {REAL} -version\n{start}\n'
        )
        program.chmod(0o755)

    @property
    def starts(self) -> int:
        """How often it was called for more than its version."""
        return sum(line != "-version" for line in self._calls.read_text().splitlines())


@pytest.fixture(name="java")
def _java(tmp_path, monkeypatch):
    """Take a Java of the test's, as if this process had no other Spark."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)

    def make(start: str = f'exec {REAL} "$@"') -> Java:
        monkeypatch.setattr(runtime, "_IN_USE", threading.Lock())
        monkeypatch.setattr(SparkContext, "_active_spark_context", None)
        home = tmp_path / "java"
        monkeypatch.setenv("JAVA_HOME", str(home))
        return Java(home, start)

    return make


@pytest.fixture(name="large")
def _large(monkeypatch):
    """Take every table for a large one."""
    monkeypatch.setattr(choice, "LOCAL_BYTES", -1)
    monkeypatch.setattr(choice, "QUICK_BYTES", -1)


def scratch_left() -> list[Path]:
    """Return the folders of Spark that runs have left."""
    return list(Path(tempfile.gettempdir()).glob("spirit-py-spark-*"))


def migrated(db, **more):
    """Migrate the table; return the report."""
    config = config_for(db, table="t", alter=ALTER, no_shortcut=True, **more)
    report = migrate(config, reporter=RecordingReporter())
    assert tables(db) == ["t"]
    assert db.query("SELECT COUNT(*), SUM(z) FROM t") == [(6000, 30000)]
    return report


def test_a_small_table_is_migrated_without_spark(db, java):
    """Copied, compared and swapped before a JVM could have started; none is."""
    make_table(db)
    called = java()
    report = migrated(db)
    assert (report.outcome, warnings_of(report)) == ("done", [])
    assert called.starts == 0


@pytest.mark.slow
def test_rows_that_are_left_out_need_no_spark(db, java, monkeypatch):
    """What is kept of a large table is copied, and compared, as a small one."""
    make_table(db)
    db.query("ANALYZE TABLE t")
    find = "SELECT data_length + index_length FROM information_schema.tables"
    ((size,),) = db.query(f"{find} WHERE table_schema = '{db.name}' AND table_name = 't'")
    monkeypatch.setattr(choice, "LOCAL_BYTES", size // 2)
    monkeypatch.setattr(choice, "QUICK_BYTES", size // 2)
    called = java()
    config = config_for(db, table="t", alter=ALTER, modes=SessionModes(keep="id > 11800"))
    report = migrate(config, reporter=RecordingReporter())
    assert (report.outcome, warnings_of(report)) == ("done", [])
    assert called.starts == 0


def test_small_tables_are_compared_without_spark(db, java):
    """The same limit holds for spirit-py checksum."""
    make_table(db)
    db.execute("CREATE TABLE u LIKE t")
    db.execute("INSERT INTO u TABLE t")
    called = java()
    options = CompareConfig(
        source=connection_options(db),
        database=db.name,
        table="t",
        target_database=db.name,
        target_table="u",
    )
    assert compare(options, reporter=RecordingReporter()).outcome == "equal"
    assert called.starts == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "why"),
    [
        ("exit 3", "the JVM exited with code 3"),
        ("exec sleep 600", "the JVM did not answer"),
    ],
    ids=["java ends", "java hangs"],
)
def test_without_a_spark_a_large_table_is_migrated_by_the_driver(
    db, java, large, monkeypatch, start, why
):
    """The operator gets the change, and a warning in display and report; nothing is left."""
    if "sleep" in start:
        # One that ends is not to be taken for one that hangs, however slow the machine is.
        monkeypatch.setattr(launch, "_START_SECONDS", 5.0)
    make_table(db)
    called = java(start)
    report = migrated(db)
    assert report.outcome == "done"
    assert called.starts == 1
    (warning,) = warnings_of(report)
    assert why in warning
    assert "this process does its work alone" in warning
    assert scratch_left() == []


def interrupted(db, engine, monkeypatch):
    """Leave behind what an interrupted migration leaves; return the tables."""
    make_table(db)
    Interruption(monkeypatch).at(engine, db, "chunk.committed", 2, target_chunk_time=0.05)
    left = tables(db)
    assert "_t_new" in left
    return left


@pytest.mark.slow
def test_a_run_that_ends_as_instant_ends_its_jvm_at_once(db, engine, java, large, monkeypatch):
    """After an earlier copy another one was likely, so that Spark has begun to start."""
    interrupted(db, engine, monkeypatch)
    called, clear_abandoned = java("exec sleep 600"), auxiliary.clear_abandoned

    def clear(*given, **more):
        until(lambda: called.starts, "a JVM")
        clear_abandoned(*given, **more)

    monkeypatch.setattr(auxiliary, "clear_abandoned", clear)
    config = config_for(db, table="t", alter="ADD COLUMN z INT", start_afresh=True)
    began = time.monotonic()
    report = migrate(config, reporter=RecordingReporter())
    assert (report.algorithm, called.starts) == ("instant", 1)
    assert time.monotonic() - began < launch._START_SECONDS
    assert scratch_left() == []


@pytest.mark.slow
def test_a_missing_java_is_refused_before_an_abandoned_table_is_dropped(
    db, engine, monkeypatch, large
):
    """What is there may be all that the operator has of a long copy."""
    left = interrupted(db, engine, monkeypatch)
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    config = config_for(
        db, table="t", alter="ADD INDEX (a)", start_afresh=True, spark_master="local[1]"
    )
    with pytest.raises(Refusal, match="Spark needs Java"):
        migrate(config, reporter=RecordingReporter())
    assert tables(db) == left
