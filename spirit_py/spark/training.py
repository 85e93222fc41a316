"""The process that makes an archive of Spark's classes; see :mod:`spirit_py.spark.java`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spirit_py.config import SparkConfig
from spirit_py.spark.java import ClassArchive, require_java
from spirit_py.spark.runtime import SparkRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOWEST_PRIORITY: Final = 19
_LIMIT_SECONDS: Final = 600
_TASKS: Final = 2


def main() -> None:
    """Make the archive that the first argument names, unless another process does already."""
    os.nice(_LOWEST_PRIORITY)
    signal.alarm(_LIMIT_SECONDS)
    archive = ClassArchive(Path(sys.argv[1]))
    with (
        archive.path.with_name("archive.lock").open("w") as lock,
        contextlib.suppress(BlockingIOError),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if archive.wanted:
            make(archive)


def make(archive: ClassArchive) -> None:
    """Make an archive, complete or not at all; note a failure, and raise it."""
    unfinished = archive.path.with_suffix(".new")
    try:
        _dump(unfinished)
        unfinished.replace(archive.path)
        archive.failure.unlink(missing_ok=True)
        archive.forget_unused()
    except BaseException:
        archive.failure.touch()
        raise
    finally:
        unfinished.unlink(missing_ok=True)


def _dump(target: Path) -> None:
    def task(ranks: Iterator[int]) -> Iterator[int]:
        yield from ranks

    runtime = SparkRuntime(SparkConfig(threads=_TASKS), require_java(), dump=target)
    try:
        runtime.start()
        runtime.context.parallelize(range(_TASKS), _TASKS).barrier().mapPartitions(task).collect()
        runtime.stop_and_dump()
    finally:
        runtime.stop()
