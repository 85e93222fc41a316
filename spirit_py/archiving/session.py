"""Spark's SQL for an archive: rows of the server as a DataFrame, and files read back.

Imports pyspark where it is used: its classes are needed by the data source alone.
"""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Any, Final

from spirit_py.archiving.folder import ArchiveFailure
from spirit_py.archiving.rows import batches
from spirit_py.spark.java import said_by_java
from spirit_py.threads import Background

if TYPE_CHECKING:
    import logging
    import threading
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from spirit_py.archiving.columns import StoredTable
    from spirit_py.config import ConnectionOptions
    from spirit_py.threads import StopSwitch

#: Between two looks whether the run is to stop, and how far a job is.
_LOOK_SECONDS: Final = 0.2
_PROGRESS_SECONDS: Final = 1.0
#: It writes each error to standard error, as JSON, before that is raised.
_PYSPARKS_OWN: Final = "SQLQueryContextLogger"
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    # INT96, Spark's usual one, is known to few other readers.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # The server tells names of columns apart by its own rules.
    "spark.sql.caseSensitive": "true",
    # A damaged page whose values can still be read is damaged (measured: zstd's last bytes).
    "parquet.page.write-checksum.enabled": "true",
    "parquet.page.verify-checksum.enabled": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # Otherwise each file of an archive is a task's, to learn its size.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
}


class SparkTables:
    """One session of Spark's SQL over a context; :meth:`close` it before another one begins.

    Its jobs have the name of a ``group``, and a request to ``stop`` cancels them.
    """

    def __init__(self, context: Any, group: str, stop: StopSwitch) -> None:
        from pyspark.logger import PySparkLogger
        from pyspark.sql import SparkSession, functions

        self._context, self._group, self._stop = context, group, stop
        self._functions = functions
        self._session = SparkSession(context)
        for name, value in _SETTINGS.items():
            self._session.conf.set(name, value)
        # As PySpark makes it: another kind of logger does not take what PySpark gives it.
        self._logger = PySparkLogger.getLogger(_PYSPARKS_OWN)
        # Each session has a filter of its own: two tables may be archived at a time.
        self._logger.addFilter(self._is_shown)

    def _is_shown(self, _record: logging.LogRecord) -> bool:
        return False

    def rows(
        self,
        connection: ConnectionOptions,
        statements: Sequence[str],
        table: StoredTable,
        more: Sequence[str] = (),
    ) -> Any:
        """Return the rows of statements as a DataFrame, a partition for each."""
        source = _source(connection, tuple(statements), table, tuple(more))
        self._session.dataSource.register(source)
        return self._session.read.format(source.name()).load()

    def gathered(self, rows: Any, names: Sequence[str], most: int) -> Any:
        """Bring rows with the same values of columns together, but no more than so many bytes."""
        self._session.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", str(most))
        return rows.hint("rebalance", *names)

    def sums(self, paths: Sequence[str], number: str, *, wide: bool) -> list[Any]:
        """Read Parquet files; return path, rows and the sum of ``number`` of each with rows.

        Of ``wide`` rows one at a time: otherwise thousands are in memory at once.
        """
        self._session.conf.set("spark.sql.parquet.enableVectorizedReader", str(not wide).lower())
        rows = self._session.read.parquet(*paths)
        # Not of _metadata, which a column may be called.
        read = rows.selectExpr("input_file_name() AS file", f"{number} AS number")
        aggregates = map(self._functions.expr, ("count(*)", "sum(number)"))
        return list(read.groupBy("file").agg(*aggregates).collect())

    def try_it(self) -> None:
        """Do something that reads no file; raise where Spark itself does not work."""
        self._session.range(1).collect()

    def parts(self) -> tuple[int, int]:
        """Return how many tasks of the jobs at work have ended, and how many there are."""
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(one) for one in tracker.getJobIdsForGroup(self._group)]
        running = [one for job in jobs if job and job.status == "RUNNING" for one in job.stageIds]
        stages = [one for one in map(tracker.getStageInfo, running) if one]
        return sum(one.numCompletedTasks for one in stages), sum(one.numTasks for one in stages)

    def job(
        self, what: str, show: Callable[[], object] | None = None
    ) -> contextlib.AbstractContextManager[None]:
        """Do what :func:`job` does for the jobs of this group."""
        return job(self._context, self._group, self._stop, what, show)

    def close(self) -> None:
        """Forget the session, so that the next one has a JVM that lives."""
        from pyspark.sql import SparkSession

        SparkSession._instantiatedSession = None  # noqa: SLF001 - as its own stop() does
        self._logger.removeFilter(self._is_shown)


@contextlib.contextmanager
def job(
    context: Any,
    group: str,
    stop: StopSwitch,
    what: str,
    show: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Have a stop cancel the jobs of a group, and an ArchiveFailure say what they were to do.

    ``show`` is called now and then, in a thread, to show how far they are.
    """
    context.setJobGroup(group, what)

    def watch(stopping: threading.Event) -> None:
        while not stopping.wait(_LOOK_SECONDS):
            if stop.requested:
                context.cancelJobGroup(group)

    def look(stopping: threading.Event) -> None:
        while show is not None and not stopping.wait(_PROGRESS_SECONDS):
            show()

    # By itself: while a server does not answer, a stop has to be seen.
    showing = Background("archive-progress", look)
    watching = Background("archive-watch", watch)
    watching.start()
    try:
        with showing:
            yield
    except Exception as error:
        stop.check()
        raise ArchiveFailure(
            f"Spark could not {what}: {said_by_java(error)}",
            hint="see Spark's log (--verbose), then run the same command again",
        ) from error
    finally:
        watching.stop()


def kinds_of(table: StoredTable, more: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the names of a table's columns, and their types in Spark."""
    kinds = [(one.name, one.spark) for one in table.columns]
    kinds += [(table.beside, "map<string,string>")] if table.beside else []
    return [*kinds, *((name, "string") for name in more)]


def schema_of(table: StoredTable, more: Sequence[str] = ()) -> str:
    """Return the schema of a table's rows as Spark writes it."""
    from spirit_py.sql import quote_identifier

    kinds = kinds_of(table, more)
    return ", ".join(f"{quote_identifier(name)} {kind}" for name, kind in kinds)


def _source(
    connection: ConnectionOptions,
    statements: tuple[str, ...],
    table: StoredTable,
    more: tuple[str, ...],
) -> Any:
    """Make a data source of statements, by a class that Spark pickles with what it holds.

    Options are texts, and are shown: the password is none.
    """
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    name = f"spirit_py_{secrets.token_hex(6)}"
    schema = schema_of(table, more)

    class Reader(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(at) for at in range(len(statements))]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return batches(connection, statements[partition.value], table, more=more)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return schema

        def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - the interface's
            return Reader()

    return Source
