"""Whole migrations all of whose tasks are Spark's: those of other tests are threads.

Spark takes the place of the driver's threads too, which would otherwise have copied a small table
before its tasks had come together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.spark import choice
from tests.integration.test_reverse import test_a_revert_loses_no_write as revert_under_load
from tests.kits.batch import ShardWriters, batch_config, batch_here, shards
from tests.kits.engine import SharedEngine
from tests.kits.resume import Interruption, Writers, assert_nothing_left, make_table, start
from tests.oracle.case import FOLDER as CASES
from tests.oracle.case import load
from tests.oracle.scene import play

if TYPE_CHECKING:
    from spirit_py.spark.engine import SparkEngine
    from tests.oracle.scene import Migrate


class OnlySpark(SharedEngine):
    """Both engines of a command at once; it counts the gangs."""

    gangs = 0

    def run_gang(self, *given: Any, **more: Any) -> Any:
        """Run one on Spark."""
        self.gangs += 1
        return self._engine.run_gang(*given, **more)


@pytest.fixture
def engine(spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> OnlySpark:
    """Return Spark, for all tasks."""
    shared = OnlySpark(spark_engine)
    monkeypatch.setattr(choice, "DriverEngine", lambda _slots: shared)
    return shared


@pytest.mark.slow
def test_a_migration_under_load_loses_nothing(db, engine):
    """Spark copies, builds the indexes' rows and compares, and no session of its tasks stays."""
    make_table(db)
    with Writers(db) as writers:
        report = start(engine, db, defer_indexes="on").end()
    writers.assert_kept()
    assert (report.outcome, report.differences_found, report.chunks_repaired) == ("done", 0, 0)
    assert engine.gangs >= 2
    assert_nothing_left(db)


@pytest.mark.slow
def test_an_interrupted_migration_is_resumed(db, engine, monkeypatch):
    """What the tasks of the first run have copied is not copied again (R16)."""
    make_table(db)
    with Writers(db) as writers:
        Interruption(monkeypatch).at(engine, db, "chunk.committed", 2, target_chunk_time=0.05)
        report = start(engine, db).end()
    writers.assert_kept()
    assert (report.outcome, report.differences_found) == ("done", 0)
    assert report.resumed
    assert report.rows_copied_before > 0
    assert engine.gangs >= 3
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_batch_changes_its_tables(db, engine):
    """The tables of a batch share one Spark, two at a time."""
    with shards(db, 2) as made:
        config = batch_config(
            db, made.pattern, alter="MODIFY a BIGINT, FORCE", parallel=2, no_shortcut=True
        )
        with ShardWriters(made) as writers:
            report, _ = batch_here(engine, config)
        writers.assert_kept()
        assert made.type_of("a") == ["bigint"] * 2
    assert report.outcome == "done"
    assert engine.gangs >= 4


@pytest.mark.slow
def test_a_revert_loses_no_write(db, engine):
    """The comparison before a table is swapped back is Spark's."""
    revert_under_load(db, engine)
    assert engine.gangs


@pytest.mark.slow
def test_a_case_ends_as_a_native_alter_would(db, engine, migrate_case: Migrate):
    """The judge of the cases finds the same rows as on the driver's threads."""
    play(load(CASES / "add_column"), db, migrate_case)
    assert engine.gangs >= 2
