"""The rows of a statement as Arrow's record batches, as the server sends them."""

from __future__ import annotations

import hashlib
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import SpiritError, ValueLost
from spirit_py.mysql.connect import connect
from spirit_py.mysql.own_sessions import sessions_of_run, token_of
from spirit_py.mysql.processlist import rows_sent
from spirit_py.mysql.retry import RenewedSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from spirit_py.archiving.columns import StoredTable
    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session

#: So many tuples fit into a processor's cache; with more, each column takes twice as long.
BATCH_ROWS: Final = 2_000
#: Of a table with long values so many rows are fetched at once, and a batch is no longer than this,
#: and one row.
_STEP_ROWS, _BATCH_BYTES = 1, 16 << 20
#: Seconds for an answer of the session that asks how far a job is.
_ANSWER_SECONDS: Final = 5


def batches(
    connection: ConnectionOptions, statement: str, table: StoredTable, *, more: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a statement that selects ``table.selected`` and ``more`` texts."""
    with connect(connection, role="archive") as session:
        yield from batches_of(session, statement, table, more=more)


def batches_of(
    session: Session, statement: str, table: StoredTable, *, more: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the same in a session that is there; ValueLost for a text that is not of Unicode."""
    try:
        for rows in _sized(session.stream(statement, _STEP_ROWS if table.wide else BATCH_ROWS)):
            yield record_batch(rows, table, more)
    except UnicodeDecodeError as error:
        # As the server makes of ucs2 in a column of utf8mb4, where it is one character. Spark's
        # pages and event logs keep what ends a task: no bytes of rows.
        digest = hashlib.sha256(error.object).hexdigest()
        raise ValueLost(
            "a text has half of a surrogate pair, which is no character of Unicode: the row is"
            f" found by SHA2(column, 256) = '{digest}'",
            hint="correct that row, then run the same again",
        ) from error


def _sized(steps: Iterable[Sequence[tuple[Any, ...]]]) -> Iterator[list[tuple[Any, ...]]]:
    """Join steps of rows into batches, by their number and by the length of their values."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    for step in steps:
        rows += step
        if len(step) < BATCH_ROWS:
            size += sum(len(one) for row in step for one in row if isinstance(one, (str, bytes)))
        if len(rows) >= BATCH_ROWS or size >= _BATCH_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def record_batch(
    rows: Sequence[tuple[Any, ...]], table: StoredTable, more: Sequence[str] = ()
) -> pa.RecordBatch:
    """Return rows as a record batch: a column for each of the table's, in their order."""
    import pyarrow as pa

    # By the column: zip would walk through all rows at a time.
    values = [list(map(itemgetter(at), rows)) for at in range(len(rows[0]))]
    names = [one.name for one in table.columns]
    arrays = [_array(column, one.spark) for column, one in zip(values, table.columns, strict=False)]
    if table.beside:
        kind = pa.map_(pa.string(), pa.string())
        texts = values[len(names)]
        found = [_map(text, names) for text in texts] if any(texts) else [None] * len(texts)
        arrays.append(pa.array(found, kind))
        names = [*names, table.beside]
    for at, name in enumerate(more, start=len(names)):
        arrays.append(_array(values[at], "string"))
        names = [*names, name]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _map(text: str | None, names: Sequence[str]) -> list[tuple[str, str]] | None:
    if text is None:
        return None
    parts = (part.partition("=") for part in text.split(";"))
    return [(names[int(number)], value) for number, _, value in parts]


def _array(values: Sequence[Any], spark: str) -> Any:
    import pyarrow as pa

    if spark == "binary":
        return pa.array(values, pa.binary())
    if spark == "string":
        return pa.array(values, pa.string())
    if spark.startswith("decimal"):
        precision, _, scale = spark.removeprefix("decimal(").rstrip(")").partition(",")
        # A BIGINT UNSIGNED comes as a number; a text of each takes four times as long.
        whole = isinstance(next((one for one in values if one is not None), None), int)
        numbers = pa.array(values, pa.uint64() if whole else pa.string())
        return numbers.cast(pa.decimal128(int(precision), int(scale)))
    kinds = {
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
    }
    if spark in kinds:
        return pa.array(values, kinds[spark])
    texts = pa.array(values, pa.string())
    if spark in {"double", "float"}:
        doubles = texts.cast(pa.float64())
        return doubles if spark == "double" else doubles.cast(pa.float32())
    if spark == "date":
        return texts.cast(pa.date32())
    moments = texts.cast(pa.timestamp("us"))
    return moments.cast(pa.timestamp("us", tz="UTC")) if spark == "timestamp" else moments


class SentRows:
    """Rows that the server has sent to a run's sessions, as far as it shows that.

    ``most`` is the most that is shown.
    """

    def __init__(self, connection: Any, most: int) -> None:
        self._most = most
        self._token = token_of(connection.label)
        self._rows: dict[int, int] = {}
        self._asked = RenewedSession(
            partial(connect, connection, role="progress", read_timeout=_ANSWER_SECONDS)
        )
        #: As the last :meth:`more` has left it.
        self.shown = 0

    def more(self) -> int:
        """Return how many there are beside those of the last call; 0 where nothing is known."""
        try:
            self._rows |= self._asked.ask(self._look)
        except SpiritError:
            return 0
        now = min(self._most, sum(self._rows.values()))
        before, self.shown = self.shown, max(self.shown, now)
        return self.shown - before

    def _look(self, session: Session) -> dict[int, int]:
        return rows_sent(session, sessions_of_run(session, self._token) - {session.id})

    def close(self) -> None:
        """Close its session."""
        self._asked.close()
