"""A copier on a real table, and a change feed that only keeps the watermarks."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from spirit_py.chunk.chunk import walk_directions
from spirit_py.chunk.lanes import LaneChunker
from spirit_py.chunk.watermark import WatermarkTracker
from spirit_py.copier.copier import BoundaryReader, Copier, CopyOptions, TableCopy
from spirit_py.errors import SpiritError
from spirit_py.pace import Unhindered
from spirit_py.spark.choice import DriverEngine
from spirit_py.threads import StopSwitch
from tests.kits.connection import connection_options
from tests.kits.waiting import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.chunk.watermark import CopiedSoFar
    from spirit_py.pace import Work
    from spirit_py.spark.gang import GangEngine
    from spirit_py.table.mapping import TableMapping

PART_ROWS = 500


class Feed:
    """A subscription that counts, and says which transactions a chunk has to wait for."""

    def __init__(self, mapping: TableMapping) -> None:
        """Begin with nothing dispatched."""
        self.tracker = WatermarkTracker(walk_directions(mapping.key))
        self.visibility = ""
        self.dispatched: list[Chunk] = []
        self.finished = False

    def dispatch(self, chunk: Chunk) -> str:
        """Raise the high watermark."""
        self.tracker.dispatch(chunk)
        self.dispatched.append(chunk)
        return self.visibility

    def committed(self, chunk: Chunk, rows: int = 0) -> None:
        """Move the low watermark."""
        self.tracker.committed(chunk, rows)

    def copied(self) -> CopiedSoFar:
        """Return what is copied."""
        return self.tracker.copied()

    def copy_finished(self) -> None:
        """Note that the copy is over."""
        self.finished = True


class Throttle(Unhindered):
    """A pace with a reason that the test sets or computes; it counts how often it was asked."""

    def __init__(self, why: Callable[[], str] | None = None, **more: Any) -> None:
        """Begin without a reason."""
        super().__init__(**more)
        self.why = ""
        self.asked = 0
        self._compute = why

    def reason(self, work: Work) -> str:
        """Return the reason."""
        self.asked += 1
        return self.why if self._compute is None else self._compute()


class Copying:
    """A copier with all its parts at hand, run here or in a thread."""

    def __init__(
        self,
        db,
        mapping: TableMapping,
        engine: GangEngine | None = None,
        *,
        spark: GangEngine | None = None,
        part_rows: int = PART_ROWS,
        first_rows: int = 0,
        target_chunk_time: float = 0.5,
        **more: Any,
    ) -> None:
        """Build the copier.

        Args:
            engine: runs the first tasks; two threads by default.
            spark: takes over when it is ready.
            first_rows: size of the first chunks.
            more: goes into the copier's options.
        """
        self.feed = Feed(mapping)
        self.throttle = Throttle(chunk_seconds=target_chunk_time)
        self.stop = StopSwitch()
        self.connection = connection_options(db)
        driver = engine or DriverEngine(2)
        workers = driver.slots
        self.reader = BoundaryReader(self.connection, stop=self.stop)
        self.copier = Copier(
            TableCopy(
                mapping=mapping,
                connection=self.connection,
                chunker=LaneChunker(
                    mapping, self.reader.query, workers=workers, part_rows=part_rows
                ),
                query=self.reader.query,
                subscription=self.feed,
            ),
            driver=driver,
            spark=spark,
            pace=self.throttle,
            stop=self.stop,
            options=CopyOptions(**more),
        )
        if first_rows:
            self.copier._meter._sizer.rows = first_rows
        self.error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Run in a thread."""
        self._thread = threading.Thread(target=self._run, name="test-copier")
        self._thread.start()

    def _run(self) -> None:
        try:
            self.copier.run()
        except BaseException as error:
            self.error = error

    @property
    def running(self) -> bool:
        """Whether the thread still runs."""
        return self._thread is not None and self._thread.is_alive()

    def join(self) -> None:
        """Wait for the thread; raise what the copier raised."""
        assert self._thread is not None
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive(), "the copier did not end"
        if self.error is not None:
            raise self.error


@contextlib.contextmanager
def copying(
    db, mapping: TableMapping, engine: GangEngine | None = None, **more: Any
) -> Iterator[Copying]:
    """Yield a :class:`Copying`, stopped and closed afterwards whatever the test did."""
    made = Copying(db, mapping, engine, **more)
    try:
        yield made
    finally:
        made.stop.request(SpiritError("the test is over"))
        if made.running:
            with contextlib.suppress(SpiritError):
                made.join()
        made.reader.close()


def chunk_sessions(db) -> dict[int, str]:
    """Return the chunk sessions on the server and what each executes."""
    rows = db.query(
        "SELECT t.processlist_id, COALESCE(t.processlist_info, '')"
        " FROM performance_schema.user_variables_by_thread v"
        " JOIN performance_schema.threads t USING (thread_id)"
        " WHERE v.variable_name = 'spirit_py_role' AND v.variable_value = 'chunk'"
    )
    return dict(rows)
