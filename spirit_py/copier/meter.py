"""The figures of a copy, and the row whose value the new table cannot take (R10)."""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING, Any, Self

from spirit_py.chunk.sizing import CEILING_ROWS, ChunkSizer
from spirit_py.classes import asdict, dataclass, replace
from spirit_py.copier.chunk_sql import row_lookup_sql
from spirit_py.errors import ServerFault, ValueLost
from spirit_py.estimates import NOTHING_LEFT, RowsLeft, Speed, fraction_of, probable_total
from spirit_py.mysql.lost_values import NULL_REFUSED, read_complaint
from spirit_py.table.values import bound_from_row, key_select_expressions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.contracts import Clock
    from spirit_py.table.mapping import TableMapping


@dataclass(frozen=True, kw_only=True)
class ChunkCopied:
    """What a copied chunk cost; ``seconds`` of its statements alone. The crew sets ``on_spark``.

    ``rows`` of the source were read, of which ``left_out`` were not kept.
    """

    number: int
    rows: int
    seconds: float
    left_out: int = 0
    retries: int = 0
    on_spark: bool = False

    def encode(self) -> str:
        """Return the answer's text."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read an answer's text."""
        return cls(**json.loads(text))


@dataclass(frozen=True, kw_only=True)
class CopyStatistics:
    """The progress of the copy. Rows and chunks are counted when they have committed.

    ``rows_per_second`` is over ten seconds, ``steady_rows_per_second`` over a minute.
    ``replaced_chunks`` were repeated after a transient fault. ``rows_before`` (of earlier runs) and
    ``spark_rows`` are parts of ``rows``, as are the ``left_out`` of ``--keep``.
    """

    rows: int = 0
    left_out: int = 0
    rows_before: int = 0
    chunks: int = 0
    seconds: float = 0.0
    chunk_seconds: float = 0.0
    rows_total: int | None = None
    ended: bool = False
    rows_per_second: float | None = None
    steady_rows_per_second: float | None = None
    chunk_seconds_p90: float | None = None
    chunk_rows: int = 0
    in_flight: int = 0
    rows_in_flight: int = 0
    throttled: str = ""
    throttled_seconds: float = 0.0
    replaced_chunks: int = 0
    spark_rows: int = 0

    @property
    def fraction(self) -> float | None:
        """The part of the rows that is copied; None where that is not known."""
        return fraction_of(self.rows, self.rows_total, ended=self.ended)


class CopyMeter:
    """Counts chunks, rows and waits, and sizes the next chunk. Thread-safe.

    ``rows`` and ``chunks`` of earlier runs do not count for the speed.
    """

    def __init__(
        self,
        target_chunk_time: float,
        clock: Clock,
        *,
        part_rows: int = CEILING_ROWS,
        rows: int = 0,
        chunks: int = 0,
        estimate: int | None = None,
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sizer = ChunkSizer(target_chunk_time, part_rows=part_rows)
        self._began: float | None = None
        self._ended: float | None = None
        self._seen = CopyStatistics(rows=rows, rows_before=rows, chunks=chunks)
        self._throttled_since = 0.0
        self._speed = Speed()
        self._estimate = estimate
        self._left = RowsLeft()

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
            self._speed.note(self._began, self._seen.rows)

    def end(self) -> None:
        """Stop the clock."""
        with self._lock:
            self._ended = self._clock()

    def all_committed(self) -> None:
        """Note that every row is copied."""
        with self._lock:
            self._seen = replace(self._seen, ended=True)

    def dispatched(self, rows: int, left: RowsLeft) -> None:
        """Count a chunk of about so many rows that is handed out; ``left`` are not cut yet."""
        with self._lock:
            seen, self._left = self._seen, left
            self._seen = replace(
                seen, in_flight=seen.in_flight + 1, rows_in_flight=seen.rows_in_flight + rows
            )

    def all_cut(self) -> None:
        """Note that no further chunk follows."""
        with self._lock:
            self._left = NOTHING_LEFT

    def committed(self, target_rows: int, copied: ChunkCopied) -> None:
        """Count a chunk that has committed."""
        with self._lock:
            rows, seconds = copied.rows, copied.seconds
            self._sizer.finished(target_rows=target_rows, rows=rows, seconds=seconds)
            seen, now = self._seen, self._clock()
            self._seen = replace(
                seen,
                in_flight=seen.in_flight - 1,
                rows_in_flight=seen.rows_in_flight - target_rows,
                rows=seen.rows + rows,
                left_out=seen.left_out + copied.left_out,
                chunks=seen.chunks + 1,
                chunk_seconds=seen.chunk_seconds + seconds,
                replaced_chunks=seen.replaced_chunks + copied.retries,
                spark_rows=seen.spark_rows + (rows if copied.on_spark else 0),
            )
            self._speed.note(now, self._seen.rows)

    def throttled(self, reason: str) -> None:
        """Keep why the copy waits; empty when it does not."""
        with self._lock:
            if not reason and not self._seen.throttled:
                return
            now = self._clock()
            waited = self._waited(now)
            self._throttled_since = now
            self._seen = replace(self._seen, throttled=reason, throttled_seconds=waited)

    def _waited(self, now: float) -> float:
        waiting = now - self._throttled_since if self._seen.throttled else 0.0
        return self._seen.throttled_seconds + waiting

    def statistics(self) -> CopyStatistics:
        """Return the figures as they are now."""
        with self._lock:
            now = self._clock() if self._ended is None else self._ended
            return replace(
                self._seen,
                seconds=0.0 if self._began is None else now - self._began,
                rows_total=self._total(),
                rows_per_second=self._speed.recent(now),
                steady_rows_per_second=self._speed.steady(now),
                chunk_seconds_p90=self._sizer.p90,
                chunk_rows=self._sizer.rows,
                throttled_seconds=self._waited(now),
            )

    def _total(self) -> int | None:
        seen = self._seen
        if seen.ended:
            return seen.rows
        return probable_total(
            seen.rows, handed_out=seen.rows_in_flight, left=self._left, estimate=self._estimate
        )


_log = logging.getLogger(__name__)


class LostValue(ValueLost):
    """A :class:`~spirit_py.errors.ValueLost` with the row of the chunk that it was.

    ``part`` counts from 0, ``row`` from 1 within it in key order; 0 and an empty ``column``: the
    server's text, ``complaint``, does not name them.
    """

    def __init__(
        self, message: str, complaint: str, *, chunk: int, part: int, code: int, hint: str
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.chunk = chunk
        self.part = part
        self.column, self.row = read_complaint(complaint)

    def named(
        self,
        mapping: TableMapping,
        part: Chunk | None,
        query: Callable[[str], Sequence[tuple[Any, ...]]],
    ) -> ValueLost:
        """Return the error with the key of its row, where that can still be found."""
        details = self.details
        try:
            sql = "" if part is None else self._lookup_sql(mapping, part)
            found = query(sql) if sql else []
        except ServerFault as fault:
            _log.debug("the row could not be looked up: %s", fault)
            found = []
        if found:
            columns = mapping.key_columns
            literals = bound_from_row(columns, found[0]).literals
            pairs = zip(columns, literals, strict=True)
            key = ", ".join(f"{column.name} = {literal}" for column, literal in pairs)
            details = (*details, f"in or near the row with {key}")
        # RENAME TABLE will restore the original names of constraints.
        made, final = (f"'{table.name}_chk_" for table in (mapping.target, mapping.source))
        return ValueLost(self.message.replace(made, final), hint=self.hint, details=details)

    def _lookup_sql(self, mapping: TableMapping, part: Chunk) -> str:
        pair = next((p for p in mapping.pairs if p.new.name == self.column), None)
        expressions = key_select_expressions(mapping.key_columns)
        if self.row:
            return row_lookup_sql(mapping, part, expressions, row=self.row)
        if self.code == NULL_REFUSED and pair is not None:
            return row_lookup_sql(mapping, part, expressions, null=pair.old.name)
        return ""
