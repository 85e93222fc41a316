"""What the tests share that play cases, and the seed of what a run draws from many."""

from __future__ import annotations

import functools
import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.chunk.sizing import ChunkSizer
from spirit_py.runner import deferral
from tests.integration.case_kit import FIRST_ROWS, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spirit_py.spark.session import SparkEngine
    from tests.oracle.scene import Migrate

#: Replays what a run of the tests has drawn: cases, migrations.
DRAW_VARIABLE = "SPIRIT_PY_DRAW"
#: So often a migration looks for its sentinel, seconds.
LOOK_SECONDS = 0.1


def pytest_configure() -> None:
    """Choose the seed once, for all workers: they get the environment of the first process."""
    os.environ.setdefault(DRAW_VARIABLE, str(random.Random().randrange(10**6)))


def pytest_report_header() -> str:
    """Show how to draw the same again."""
    return f"{DRAW_VARIABLE}={os.environ[DRAW_VARIABLE]} draws the same cases and migrations again"


@pytest.fixture
def other_time_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the program run in a time zone that is neither the server's nor any writer's."""
    monkeypatch.setenv("TZ", "XYZ-11:15")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def migrate_case(
    other_time_zone: None,
    monkeypatch: pytest.MonkeyPatch,
    spark_engine: SparkEngine,
    tmp_path: Path,
) -> Migrate:
    """Return what migrates a case in this process, in chunks so small that there are many."""
    defaults: Any = ChunkSizer.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "first_rows", FIRST_ROWS)
    monkeypatch.setattr(deferral, "_LOOK_SECONDS", LOOK_SECONDS)
    return functools.partial(migrate, engine=spark_engine, folder=tmp_path)
