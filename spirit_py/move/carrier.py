"""The copy between two servers: rows are read as literals, and written by multi-row REPLACE.

The source's server renders each row as the text of its literals, so that no value becomes a number
or a text of this program. The text of a document of JSON does not tell all types apart, so those of
its nodes are read with it. Where a row is longer than ``max_allowed_packet``, columns are read one
by one (:func:`spirit_py.compare.copyback.each_row`). A converted column takes the staged path, as
a change of the feed does (R10).
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py.applier import stage, state
from spirit_py.applier.applier import SqlApplier
from spirit_py.applier.batch import Bounds, replace_rows
from spirit_py.applier.workers import Workers, judge_warnings
from spirit_py.checksum.render import is_lob
from spirit_py.checksum.staging_sql import lossless_text
from spirit_py.chunk.chunker import index_hint
from spirit_py.classes import dataclass, replace
from spirit_py.compare.copyback import document_sql, each_row, rows_of_keys
from spirit_py.copier.chunk_sql import source_range
from spirit_py.copier.task import SESSION_SECONDS, ChunkWriter, JoinCopy
from spirit_py.errors import (
    MEETING_PAUSE,
    MEETING_SECONDS,
    RowsMeet,
    ServerFault,
    UnreadableChange,
    ValueLost,
)
from spirit_py.locks.look import LockedBy
from spirit_py.mysql.connect import connect
from spirit_py.mysql.evaluation import evaluating
from spirit_py.mysql.faults import DUPLICATE_ENTRY
from spirit_py.mysql.lost_values import VALUE_ERRORS
from spirit_py.pace import PART_BYTES
from spirit_py.sql import node_types, quote_identifier
from spirit_py.table.schema import SPATIAL
from spirit_py.table.values import KeyedChange, RenderedRow, key_select_expressions, row_key_sql
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.copier.task import ChunkOrder
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column

_T = TypeVar("_T")
#: The name of the server that a task reads, among those of its sessions.
_READS: Final = "reads"
_STATEMENT_ROWS: Final = 10_000
#: So many rows are fetched at a time where none is longer than the 64 KiB of a row without BLOBs.
_FETCHED: Final = 100
_LONG_TYPES: Final = SPATIAL | {"json", "vector"}
#: Characters of the literals that a task gathers before it writes them: rows may be long.
_GATHERED: Final = 2 * PART_BYTES
_ROW: Final = re.compile(r"\bat row \d+")


#: Types of a document's nodes whose text has exactly these types when it is read again.
_PLAIN: Final = frozenset({"NULL", "BOOLEAN", "STRING", "OBJECT", "ARRAY", "INTEGER"})
#: Ten digits in hexadecimal: such an INTEGER may be one that is read again as unsigned.
_LONG: Final = re.compile(r"(?:3\d){10}")


def row_texts(columns: Sequence[Column]) -> list[str]:
    """Render the expressions for a row's literals, whose texts are joined by commas.

    A document of JSON has two, its text in hexadecimal and the types of its nodes; the columns
    between documents have one, which is NULL where it is too long.
    """
    found: list[str] = []
    together: list[str] = []

    def join() -> None:
        if together:
            joined = ", ', ', ".join(together)
            found.append(f"CONCAT({joined})")
            together.clear()

    for one in columns:
        if one.data_type != "json":
            together.append(lossless_text(one))
            continue
        join()
        name = quote_identifier(one.name)
        found += [f"HEX({name})", node_types(name)]
    join()
    return found


def needs_stage(columns: Sequence[Column]) -> str:
    """Render whether a row has a value that no literal writes: the number 0 of an ENUM."""
    enums = (quote_identifier(one.name) for one in columns if one.data_type == "enum")
    return " OR ".join(f"IFNULL({name} + 0 = 0, 0)" for name in enums) or "0"


def rows_in(
    session: Session, mapping: TableMapping, chunk: Chunk
) -> Iterator[tuple[int, list[RenderedRow]]]:
    """Yield a chunk's rows of the source as they come, some megabytes at a time.

    With the number of those before them; their order means nothing. It is 0 again where all rows
    are read anew. Nothing else may use the session before the last.
    """
    columns = [pair.old for pair in mapping.pairs]
    hint, what = index_hint(mapping), source_range(mapping, chunk)
    texts = row_texts(columns)
    sql = f"SELECT {hint}{', '.join([*texts, needs_stage(columns)])} FROM {what}"
    documents = {place for place, text in enumerate(texts) if text.startswith("HEX(")}
    long = any(is_lob(one) or one.data_type in _LONG_TYPES for one in columns)
    whole = True

    def rendered() -> Iterator[RenderedRow]:
        nonlocal whole
        for *parts, staged in _streamed(session, sql, 1 if long else _FETCHED):
            # Of one row a text is too long, or a document has no SQL: the others are passed over.
            if whole and (literals := _literals(parts, documents)) is not None:
                yield RenderedRow(f"({', '.join(literals)})", bool(staged))
            else:
                whole = False

    for found in _sized(rendered(), lambda row: len(row.sql)):
        if whole:
            yield found
    if not whole:
        # The error names the row.
        every = each_row(partial(_streamed, session), replace(mapping, keep=None), what, hint)
        yield from _sized((row for _, row in every), lambda row: len(row.sql))


def _streamed(session: Session, sql: str, rows: int = 1) -> Iterator[tuple[Any, ...]]:
    """Read row by row, fetched so many at a time: each may be long."""
    return chain.from_iterable(session.stream(sql, rows))


def _sized(rows: Iterable[_T], length: Callable[[_T], int]) -> Iterator[tuple[int, list[_T]]]:
    """Gather rows, and yield them with the number of those before, as often as they are long."""
    before, found, size = 0, list[_T](), 0
    for row in rows:
        found.append(row)
        size += length(row)
        if size >= _GATHERED:
            yield before, found
            before, found, size = before + len(found), [], 0
    if found:
        yield before, found


def _left(batches: Iterable[tuple[int, Sized]]) -> int:
    """Read to the end, so that the session can be used again; return the number of rows."""
    number = 0
    with contextlib.suppress(ServerFault):
        for _, rows in batches:
            number += len(rows)
    return number


def _literals(parts: Sequence[Any], documents: Collection[int]) -> list[str] | None:
    """Return the literals of :func:`row_texts`; None where these do not give the row exactly."""
    if not documents:
        return None if None in parts else [*map(str, parts)]
    literals = []
    places = iter(range(len(parts)))
    for place in places:
        text = parts[place]
        if place in documents:
            kinds = parts[next(places)]
            if text is None and kinds is None:
                literals.append("NULL")
                continue
            text = text and _document(str(text), str(kinds))
            if not text:
                return None
        elif text is None:
            return None
        literals.append(str(text))
    return literals


def _document(text: str, kinds: str) -> str:
    """Return a document's literal, of its text in hexadecimal; empty where no SQL gives it."""
    try:
        types = json.loads(kinds)
        if _PLAIN.issuperset(types) and not ("INTEGER" in types and _LONG.search(text)):
            return f"_utf8mb4 X'{text}'"
        return document_sql(bytes.fromhex(text).decode(), types)
    except (ValueError, UnreadableChange):
        return ""


def write_over(
    own: SqlSession, mapping: TableMapping, rows: Sequence[RenderedRow], packet: int
) -> None:
    """Write rows over others, in one transaction."""
    bounds = Bounds(_STATEMENT_ROWS, packet)
    if mapping.converted or any(row.staged for row in rows):
        stage.fill_stage(own, mapping, rows, bounds)
        stage.write_stage(own, mapping)
        stage.drop_stage(own, mapping)
        return
    statements = replace_rows(mapping, [row.sql for row in rows], bounds)
    # Not all of them at a time: together they are as long as the rows once more.
    first = list(islice(statements, 2))
    together = stage.whole(own) if len(first) > 1 else contextlib.nullcontext()
    with evaluating(own, mapping), together:
        for statement in chain(first, statements):
            own.execute(statement)
            judge_warnings(own, mapping)


@dataclass(frozen=True, kw_only=True)
class JoinAcross(JoinCopy):
    """Opens the sessions of one task, which reads on the server of ``reads``. Picklable."""

    reads: ConnectionOptions

    def __call__(self, _rank: int) -> RowCarrier:
        """Return the member of that rank."""
        reader = connect(self.reads, role="chunk-read", wait_timeout=SESSION_SECONDS)
        try:
            return self.joined(lambda session: RowCarrier(self, session, reader))
        except BaseException:
            reader.close()
            raise

    def reach(self, server: str) -> ConnectionOptions:
        """Return the options of either server."""
        return self.reads if server == _READS else self.connection


class RowCarrier(ChunkWriter):
    """A task of the copy that reads on one server, and writes on another.

    Its own session, which holds the locks of its chunks (R18), is the one that writes.
    """

    def __init__(self, spec: JoinAcross, session: Session, reader: Session) -> None:
        super().__init__(spec, session)
        self._reader = reader
        self._locked = LockedBy.of(spec.reads, spec.mapping, spec.connection)
        self.sessions = [*self.sessions, (_READS, reader.id)]
        self._packet = int(session.value("SELECT @@SESSION.max_allowed_packet"))
        #: What is read here is kept: it is not judged again.
        self._judged = replace(spec.mapping, keep=None)

    def close(self) -> None:
        """Close both sessions."""
        self._reader.close()
        super().close()

    def _write(self, order: ChunkOrder, part: int, piece: Chunk) -> tuple[int, int]:
        mapping = self._spec.mapping
        batches, read = rows_in(self._reader, mapping, piece), 0
        while True:
            try:
                before, rows = next(batches, (read, []))
            except ServerFault as error:
                if mapping.keep is None or error.code not in VALUE_ERRORS:
                    raise
                text = f"{error.text}; the row has the key {self._not_judged(piece)}"
                raise self._lost_value(order.chunk, part, error.code, text) from error
            if not rows:
                return read, read
            read = before + len(rows)
            try:
                self._carry(self._judged, rows)
            except (ServerFault, ValueLost) as error:
                read += _left(batches)
                if isinstance(error, ValueLost) or error.code in VALUE_ERRORS:
                    raise self._named(order, part, before, rows, error) from error
                if mapping.owned is None or error.code != DUPLICATE_ENTRY:
                    raise
                self._carry_over_own(piece)

    def _carry_over_own(self, piece: Chunk) -> None:
        """Write a part of which rows are there already, over rows of the same source alone."""
        mapping, bounds = self._judged, Bounds(_STATEMENT_ROWS, self._packet)
        what, hint = source_range(mapping, piece), index_hint(mapping)

        def write() -> None:
            found = each_row(partial(_streamed, self._reader), mapping, what, hint)
            batches = _sized(found, lambda keyed: len(keyed[1].sql))
            parts = ([KeyedChange(*keyed) for keyed in rows] for _, rows in batches)
            try:
                state.write(self._own, mapping, parts, bounds, complete=False)
            finally:
                _left(batches)

        pause, until = StopSwitch(), time.monotonic() + MEETING_SECONDS
        while True:
            try:
                return write()
            except RowsMeet:
                # A row that has come from another source is about to be deleted for that.
                if time.monotonic() > until:
                    raise
                pause.wait(MEETING_PAUSE)

    def _not_judged(self, piece: Chunk) -> str:
        """Return the key of a row for which the condition of the kept rows is an error."""
        mapping = self._spec.mapping
        every, key = replace(mapping, keep=None), mapping.key_columns
        listed = ", ".join(key_select_expressions(key))
        found = self._reader.query(f"SELECT {listed} FROM {source_range(every, piece)}")
        keys = [row_key_sql(key, row) for row in found]
        while len(keys) > 1:
            half = keys[: len(keys) // 2]
            try:
                rows_of_keys(self._reader, mapping, half)
            except ServerFault as error:
                if error.code not in VALUE_ERRORS:
                    raise
                keys = half
            else:
                keys = keys[len(half) :]
        return keys[0] if keys else "of one that has changed since"

    def _carry(self, mapping: TableMapping, rows: Sequence[RenderedRow]) -> None:
        write_over(self._own, mapping, rows, self._packet)

    def _named(
        self,
        order: ChunkOrder,
        part: int,
        before: int,
        rows: Sequence[RenderedRow],
        error: ServerFault | ValueLost,
    ) -> Exception:
        """Return the error with the number of the row within the part, found one by one."""
        code, text = getattr(error, "code", 0), getattr(error, "text", error.message)
        for number, row in enumerate(rows, before + 1):
            try:
                self._carry(self._judged, [row])
            except (ServerFault, ValueLost) as found:
                if getattr(found, "code", 0) == DUPLICATE_ENTRY:
                    # It is there already.
                    continue
                text = _ROW.sub(f"at row {number}", text)
                break
        return self._lost_value(order.chunk, part, code, text)


@dataclass(eq=False, kw_only=True)
class ApartApplier(SqlApplier):
    """Applies changes on the target; what needs the source's rows reads them ``here``."""

    here: ConnectionOptions

    def recopy(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Make the new table's rows of these keys equal to the source's; see the contract."""
        for at in range(0, len(keys), self.batch_rows):
            part = keys[at : at + self.batch_rows]
            with connect(self.here, role="repair") as session:
                found = dict(rows_of_keys(session, mapping, part))
            self.delete_keys(mapping, [key for key in part if key not in found])
            self.upsert_rows(mapping, list(found.values()), keys=list(found))
        return len(keys)

    def superseded(self, mapping: TableMapping, key: str, row: RenderedRow) -> bool:
        """Return whether the source's row is another one by now; see the contract."""
        reader = SqlApplier(self.here, sessions=1, batch_rows=self.batch_rows, stop=self.stop)
        try:
            return reader.superseded(replace(mapping, apart=False), key, row)
        finally:
            reader.close()


@dataclass(eq=False, kw_only=True)
class ShardedApplier(ApartApplier):
    """Applies changes on several targets; ``ways`` has each, with the mappings to its tables."""

    ways: Sequence[tuple[ConnectionOptions, Sequence[TableMapping]]]

    def __post_init__(self, options: ConnectionOptions, sessions: int) -> None:
        super().__post_init__(options, sessions)
        self._shards = [(own, Workers(there, max(1, sessions))) for there, own in self.ways]

    def interrupt(self) -> None:
        """End the statements that run now; their calls raise, and so do later ones."""
        for _, workers in self._shards:
            workers.interrupt()

    def close(self) -> None:
        """End what still runs, and close the sessions."""
        super().close()
        for _, workers in self._shards:
            workers.close()

    def _reaching(self, mapping: TableMapping) -> Workers:
        return next(workers for own, workers in self._shards if mapping in own)

    def _bounds(self, session: SqlSession) -> Bounds:
        packet = int(session.query("SELECT @@SESSION.max_allowed_packet")[0][0])
        return Bounds(self.batch_rows, packet)
