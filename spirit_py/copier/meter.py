"""The figures of a copy, for the operator: counted by the driver, read by any thread."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from spirit_py.chunk.sizing import CEILING_ROWS, ChunkSizer

if TYPE_CHECKING:
    from spirit_py.contracts import Clock

_RATE_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class CopyStatistics:
    """The progress of the copy. Rows and chunks are counted when they have committed.

    Attributes:
        fraction: how much has been cut, 0.0 to 1.0, an estimate.
        rows_per_second: over the last ten seconds or so; None before there is a figure.
        chunk_seconds_p90: of the last chunks; None before the first.
        chunk_rows: what the next chunk aims at.
        throttled: why the copy waits now; empty when it does not.
        replaced_chunks: chunk attempts that met a transient fault and were repeated.
        spark_rows: those of the rows, in this run, that tasks of Spark have copied.
    """

    rows: int = 0
    chunks: int = 0
    seconds: float = 0.0
    chunk_seconds: float = 0.0
    fraction: float = 0.0
    rows_per_second: float | None = None
    chunk_seconds_p90: float | None = None
    chunk_rows: int = 0
    in_flight: int = 0
    throttled: str = ""
    throttled_seconds: float = 0.0
    replaced_chunks: int = 0
    spark_rows: int = 0


class CopyMeter:
    """Counts chunks, rows and waits, and sizes the next chunk. Thread-safe.

    Args:
        part_rows: rows of one transaction.
        rows: rows that earlier runs have copied; they count, but not for the speed.
        chunks: their chunks.
    """

    def __init__(
        self,
        target_chunk_time: float,
        clock: Clock,
        *,
        part_rows: int = CEILING_ROWS,
        rows: int = 0,
        chunks: int = 0,
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sizer = ChunkSizer(target_chunk_time, part_rows=part_rows)
        self._began: float | None = None
        self._ended: float | None = None
        self._seen = CopyStatistics(rows=rows, chunks=chunks)
        self._throttled_since = 0.0
        #: (time, rows so far) of the last seconds.
        self._history: deque[tuple[float, int]] = deque()

    def next_rows(self, chunk_seconds: float) -> int:
        """Return the rows that the next chunk should have, to take so long."""
        with self._lock:
            self._sizer.aim(chunk_seconds)
            return self._sizer.rows

    def expected_seconds(self, rows: int) -> float:
        """Return how long a chunk of so many rows probably takes; 0 before the first."""
        with self._lock:
            return rows * self._sizer.row_seconds

    def begin(self) -> None:
        """Start the clock."""
        with self._lock:
            self._began = self._clock()

    def end(self) -> None:
        """Stop the clock."""
        with self._lock:
            self._ended = self._clock()

    def dispatched(self, fraction: float) -> None:
        """Count a chunk that is handed out; ``fraction`` of the table is cut now."""
        with self._lock:
            self._seen = replace(self._seen, in_flight=self._seen.in_flight + 1, fraction=fraction)

    def committed(
        self, *, target_rows: int, rows: int, seconds: float, retries: int, on_spark: bool
    ) -> None:
        """Count a chunk that has committed."""
        with self._lock:
            self._sizer.finished(target_rows=target_rows, rows=rows, seconds=seconds)
            seen, now = self._seen, self._clock()
            self._seen = replace(
                seen,
                in_flight=seen.in_flight - 1,
                rows=seen.rows + rows,
                chunks=seen.chunks + 1,
                chunk_seconds=seen.chunk_seconds + seconds,
                replaced_chunks=seen.replaced_chunks + retries,
                spark_rows=seen.spark_rows + (rows if on_spark else 0),
            )
            self._history.append((now, self._seen.rows))
            while self._history[0][0] < now - _RATE_SECONDS:
                self._history.popleft()

    def throttled(self, reason: str) -> None:
        """Keep why the copy waits; empty when it does not."""
        with self._lock:
            now = self._clock()
            waited = self._waited(now)
            self._throttled_since = now
            self._seen = replace(self._seen, throttled=reason, throttled_seconds=waited)

    def _waited(self, now: float) -> float:
        """Return the seconds for which the copy has waited by now."""
        waiting = now - self._throttled_since if self._seen.throttled else 0.0
        return self._seen.throttled_seconds + waiting

    def statistics(self) -> CopyStatistics:
        """Return the figures as they are now."""
        with self._lock:
            now = self._clock() if self._ended is None else self._ended
            return replace(
                self._seen,
                seconds=0.0 if self._began is None else now - self._began,
                rows_per_second=self._rate(),
                chunk_seconds_p90=self._sizer.p90,
                chunk_rows=self._sizer.rows,
                throttled_seconds=self._waited(now),
            )

    def _rate(self) -> float | None:
        """Return the rows a second between the oldest and the newest of the last commits."""
        if len(self._history) < 2:
            return None
        (since, before), (until, rows) = self._history[0], self._history[-1]
        return (rows - before) / max(until - since, 1e-3)
