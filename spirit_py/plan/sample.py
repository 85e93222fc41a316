"""Measure how fast this table is copied and compared on this server, for a second or two.

Sessions use the copy's own statement, into temporary tables, and the checksum's expression. What
that says of a whole table is by factors that were measured on idle servers (docs/benchmarks.md).
"""

from __future__ import annotations

import contextlib
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.checksum.query import SOURCE, ComparisonPlan, aggregate
from spirit_py.chunk.lanes import LaneChunker
from spirit_py.chunk.sizing import part_rows
from spirit_py.classes import KW_ONLY, dataclass, replace
from spirit_py.copier.chunk_sql import copy_sql
from spirit_py.copier.meter import LostValue
from spirit_py.errors import ServerFault, SpiritError, ValueLost
from spirit_py.estimates import COMPARED, COMPARED_STAGED, build_share, outdated
from spirit_py.mysql.connect import connect
from spirit_py.mysql.evaluation import as_stored, evaluating
from spirit_py.mysql.facts import RowsRead, read_status
from spirit_py.mysql.lost_values import DEPRECATED, VALUE_ERRORS, telling
from spirit_py.pace import PART_BYTES
from spirit_py.plan.definition import LOCK_WAIT
from spirit_py.plan.model import PhaseTime, TimePlan
from spirit_py.sql import identifier_list, quote_table
from spirit_py.table.mapping import ColumnPair
from spirit_py.table.names import AuxiliaryNames
from spirit_py.threads import Background
from spirit_py.throttle.server import excess
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.plan.model import IndexesPlan
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema
    from spirit_py.threads import StopSwitch
    from spirit_py.throttle.settings import LoadLimits

SECONDS: Final = 1.5
COMPARED_SECONDS: Final = 0.5
_MOST_BYTES: Final = 128 << 20
_JOIN_SECONDS: Final = 60.0
_FILES: Final = """
SELECT EVENT_NAME, SUM_NUMBER_OF_BYTES_WRITE, SUM_TIMER_WRITE, COUNT_WRITE, SUM_TIMER_MISC,
 COUNT_MISC
FROM performance_schema.file_summary_by_event_name
WHERE EVENT_NAME IN ('wait/io/file/sql/binlog', 'wait/io/file/innodb/innodb_log_file')"""
_NATIVE_ROWS: Final = (20, 200, 2000, 20_000)
_LEAST_LOGGED: Final = 16 << 20
#: In one call, of what a transaction of the copy writes to a log. Measured on 9.7.
_WRITTEN_BYTES: Final = 8 << 10
COPY_FACTOR: Final = 1.6
HASH_FACTOR: Final = 2.0
FIXED: Final = 0.8
_TOLERANCE: Final = 0.3
_FEW_ROWS: Final = 20_000
_OUTDATED: Final = (
    "not known: the table has more rows than the server's statistics say (ANALYZE TABLE counts"
    " them anew)"
)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What a sample has measured, in seconds, with all sessions together.

    ``spread`` is the difference of slowest and quickest as a share of the mean, ``log_byte`` the
    time of a copied byte in the server's logs, ``trouble`` why it was cut short. ``all_rows``: no
    row was left for it.
    """

    rows: int = 0
    seconds: float = 0.0
    row_copied: float = 0.0
    row_hashed: float = 0.0
    spread: float = 0.0
    sessions: int = 0
    log_byte: float | None = None
    trouble: str = ""
    all_rows: bool = False


@dataclass(frozen=True, kw_only=True)
class Carried:
    """A copy to another server; ``copy`` does a chunk's rows, with a session on each."""

    there: ConnectionOptions
    copy: Callable[[Session, Session, Chunk], int]


def native_time(
    session: SqlSession,
    source: TableSchema,
    stop: StopSwitch,
    limits: LoadLimits = (),
) -> TimePlan:
    """Estimate how long the server copies the rows, by some that go into a temporary table.

    Ever more of them, for the statement cannot be limited in time: while it is far below that.
    """
    if outdated(source):
        return TimePlan(how=_OUTDATED)
    most = max(1, int(_MOST_BYTES / (source.row_bytes or 1.0)))
    rows, limit, seconds = 0, 0, 0.0
    try:
        for asked in _NATIVE_ROWS:
            stop.check()
            if trouble := _above_load(session, limits):
                return TimePlan(how=f"no sample was taken: {trouble}")
            limit = min(asked, most)
            # One more tells whether these are all.
            rows, seconds = _put_aside(session, source, limit + 1)
            if rows <= limit or limit == most or 10 * seconds > SECONDS:
                break
    except ServerFault as fault:
        return TimePlan(how=f"not measured: {fault.message}")
    if rows > limit and source.estimated_rows < rows:
        return TimePlan(how=_OUTDATED)
    whole = seconds * max(1.0, source.estimated_rows / max(1, rows))
    return TimePlan(
        seconds=round(whole, 1),
        least=0.0,
        most=round(3 * whole, 1),
        how=f"from {counted(rows, 'row')} that went into a temporary table in {seconds:.1f} s, if"
        " the server has to copy: then writes wait for so long",
        sample_rows=rows,
        sample_seconds=seconds,
    )


def _put_aside(session: SqlSession, source: TableSchema, most: int) -> tuple[int, float]:
    probe = quote_table(source.schema, AuxiliaryNames.of(source.name).undone)
    columns = identifier_list([one.name for one in source.columns if not one.generated])
    session.execute(f"CREATE TEMPORARY TABLE {probe} LIKE {source.quoted}")
    try:
        with as_stored(session):
            began = time.monotonic()
            rows = session.execute(
                f"INSERT INTO {probe} ({columns}) SELECT {columns} FROM {source.quoted}"
                f" LIMIT {most}"
            )
            return rows, time.monotonic() - began
    finally:
        session.execute(f"DROP TEMPORARY TABLE IF EXISTS {probe}")


def _above_load(session: SqlSession, limits: LoadLimits) -> str:
    found = read_status(session, {name for name, _ in limits}) if limits else {}
    return next(iter(excess(found, limits)), "")


def _log_byte(session: Session) -> float | None:
    try:
        return log_byte([tuple(map(int, row[1:])) for row in session.query(_FILES)])
    except ServerFault:
        return None


def log_byte(files: Iterable[tuple[int, ...]]) -> float | None:
    """Return the seconds of a copied byte in all logs; None where they say too little.

    Each is bytes written, then time (ps) and number of writes, and of syncs. The copy writes and
    syncs more at once than small commits do, and less than a load: the lower of two times counts,
    by the calls that it makes and by the bytes.
    """
    enough = [each for each in files if each[0] >= _LEAST_LOGGED]
    times = [
        min(time / written, time / max(1, calls) / piece) / 1e12
        for written, write, writes, sync, syncs in enough
        for time, calls, piece in ((write, writes, _WRITTEN_BYTES), (sync, syncs, PART_BYTES))
    ]
    return sum(times) if enough else None


@dataclass
class Sampler:
    """Measures until a status variable exceeds its limit; an empty ``create`` hashes alone."""

    connection: ConnectionOptions
    mapping: TableMapping
    create: str
    _: KW_ONLY
    sessions: int
    stop: StopSwitch
    limits: LoadLimits = ()
    carried: Carried | None = None

    def __post_init__(self) -> None:
        self._part = part_rows(self.mapping.source)
        mapping = self.mapping if self.create else _with_itself(self.mapping)
        self._plan = ComparisonPlan(mapping=mapping)
        self._lock = threading.Lock()
        self._bytes = 0.0
        self._pieces: list[list[tuple[int, float, float]]] = [[] for _ in range(self.sessions)]
        self._error: BaseException | None = None
        self._trouble = ""
        self._all_rows = False

    def take(self) -> Sample:
        """Return what was measured; ValueLost where a row does not fit (R10), whatever was."""
        began = time.monotonic()
        with connect(self.connection, role="plan", lock_wait_timeout=LOCK_WAIT) as reader:
            if trouble := _above_load(reader, self.limits):
                return Sample(trouble=trouble)
            self._reader = reader
            self._chunker = LaneChunker(self.mapping, reader.query, workers=self.sessions)
            background = partial(Background, failed=self._fail, join_seconds=_JOIN_SECONDS)
            with contextlib.ExitStack() as stack:
                threads = [
                    stack.enter_context(background(f"sample-{n}", partial(self._run, n)))
                    for n in range(self.sessions)
                ]
                for one in threads:
                    one.wait(None)
            self.stop.check()
            spent = time.monotonic() - began
            if self.carried is None:
                return self._result(spent, _log_byte(reader))
        with connect(self.carried.there, role="plan") as writer:
            return self._result(spent, _log_byte(writer))

    def _fail(self, error: BaseException) -> None:
        if self._error is None or isinstance(error, ValueLost):
            self._error = error

    def _result(self, seconds: float, log_byte: float | None) -> Sample:
        if isinstance(self._error, ValueLost):
            raise self._error
        pieces = [piece for each in self._pieces for piece in each]
        if not pieces:
            if isinstance(self._error, SpiritError):
                raise self._error
            return Sample(seconds=seconds, trouble=self._trouble or "the table has no rows")
        rates = [self._rates(each) for each in self._pieces if each]
        each = [(copied or hashed) / rows for rows, copied, hashed in pieces]
        mean = sum(each) / len(each)
        return Sample(
            rows=sum(rows for rows, _, _ in pieces),
            seconds=round(seconds, 3),
            row_copied=1 / sum(rate for rate, _ in rates),
            row_hashed=1 / sum(rate for _, rate in rates),
            spread=(max(each) - min(each)) / mean if len(each) > 1 else 1.0,
            sessions=len(rates),
            log_byte=log_byte,
            trouble=self._trouble,
            all_rows=self._all_rows,
        )

    @staticmethod
    def _rates(pieces: list[tuple[int, float, float]]) -> tuple[float, float]:
        rows = sum(rows for rows, _, _ in pieces)
        return (
            rows / max(1e-9, sum(copied for _, copied, _ in pieces)),
            rows / max(1e-9, sum(hashed for _, _, hashed in pieces)),
        )

    def _run(self, number: int, _: threading.Event) -> None:
        with contextlib.ExitStack() as stack:
            session = own = stack.enter_context(
                connect(self.connection, role="plan", lock_wait_timeout=LOCK_WAIT)
            )
            if self.carried is not None:
                own = stack.enter_context(connect(self.carried.there, role="plan"))
            if self.create:
                with as_stored(own):
                    own.execute(self.create)
            until = time.monotonic() + (SECONDS if self.create else COMPARED_SECONDS)
            while self._goes_on():
                if (chunk := self._next(number)) is None:
                    self._all_rows = True
                    break
                self._measure(number, session, own, chunk)
                if time.monotonic() >= until:
                    break

    def _goes_on(self) -> bool:
        if self.stop.requested or self._bytes > _MOST_BYTES:
            return False
        with self._lock:
            self._trouble = self._trouble or _above_load(self._reader, self.limits)
        return not self._trouble

    def _next(self, number: int) -> Chunk | None:
        with self._lock:
            return self._chunker.next_chunk(self._part, number)

    def _measure(self, number: int, session: Session, own: Session, chunk: Chunk) -> None:
        rows = 0
        began = time.monotonic()
        if self.create:
            rows = self._copied(session, own, chunk)
        copied = time.monotonic()
        if self._plan.staged:
            hashed = (copied - began) / 2
        else:
            ((found, _),) = session.query(aggregate(self._plan, SOURCE, chunk))
            hashed = time.monotonic() - copied
            rows = rows if self.create else int(found)
        with self._lock:
            self._bytes += rows * (self.mapping.source.row_bytes or 100.0)
        if rows > 0:
            self._pieces[number].append((rows, copied - began, hashed))

    def _copied(self, session: Session, own: Session, chunk: Chunk) -> int:
        mapping = self.mapping
        complaint: tuple[int, str] | None = None
        try:
            if self.carried is not None:
                return self.carried.copy(session, own, chunk)
            read = None if mapping.keep is None else RowsRead(session, mapping.source.quoted)
            with evaluating(session, mapping):
                rows = session.execute(copy_sql(mapping, chunk))
            if read is not None:
                rows = read.since()
            said = telling(session, mapping.recomputed)
            complaint = next(((code, text) for _, code, text in said if code != DEPRECATED), None)
        except ServerFault as fault:
            if fault.code not in VALUE_ERRORS:
                raise
            complaint = (fault.code, fault.text)
        if complaint is None:
            return rows
        code, text = complaint
        lost = LostValue(
            f"a value of {mapping.source.full_name} does not fit: {text} (error {code})",
            text,
            chunk=chunk.number,
            part=0,
            code=code,
            hint="change the row, or the ALTER; there may be more of them: the sample reads a part"
            " of the table",
        )
        with self._lock:
            raise lost.named(mapping, chunk, self._reader.query)


def _with_itself(mapping: TableMapping) -> TableMapping:
    pairs, computed = (
        tuple(ColumnPair(old=pair.old, new=pair.old) for pair in each)
        for each in (mapping.pairs, mapping.computed)
    )
    keys = mapping.key.columns
    same = replace(mapping, target=mapping.source, new_key_columns=keys)
    return replace(same, pairs=pairs, computed=computed)


def time_of(
    mapping: TableMapping,
    indexes: IndexesPlan | None,
    sample: Sample,
    *,
    before: int = 0,
    compared: bool = False,
) -> TimePlan:
    """Return the time of a copy; an earlier run has copied rows ``before``, and ``compared`` some.

    Its lower end is without the logs, which may be written beside the rest, and what is compared.
    """
    if not sample.rows:
        return TimePlan(how=f"no sample was taken: {sample.trouble}")
    source = mapping.source
    if outdated(source) or (sample.rows >= source.estimated_rows and not sample.all_rows):
        return TimePlan(how=_OUTDATED)
    rows = max(0, source.estimated_rows - before)
    size = source.data_bytes * rows / max(1, source.estimated_rows)
    logged = 2 * size * (sample.log_byte or 0.0)
    copied = rows * sample.row_copied * COPY_FACTOR + logged
    deferred = indexes.deferred if indexes is not None else ()
    share = build_share(mapping.target, deferred, row_bytes=source.row_bytes)
    built = source.estimated_rows * sample.row_copied * COPY_FACTOR * share
    hashed = source.estimated_rows * sample.row_hashed * HASH_FACTOR
    phases = [PhaseTime(phase="copy", seconds=round(copied, 1))]
    if deferred:
        phases.append(PhaseTime(phase="index", seconds=round(built, 1)))
    phases += [
        PhaseTime(phase="checksum", seconds=round(hashed, 1)),
        PhaseTime(phase="others", seconds=FIXED),
    ]
    whole = copied + built + hashed + FIXED
    off = _TOLERANCE + min(0.5, sample.spread / 4) + (0.3 if sample.rows < _FEW_ROWS else 0.0)
    cut = f"; the sample was cut short: {sample.trouble}" if sample.trouble else ""
    return TimePlan(
        seconds=round(whole, 1),
        least=round((whole - logged - (hashed if compared else 0.0)) / (1 + off), 1),
        most=round(whole * (1 + off), 1),
        phases=tuple(phases),
        how=f"from {counted(sample.rows, 'row')} copied and hashed by"
        f" {counted(sample.sessions, 'session')} in"
        f" {sample.seconds:.1f} s{cut}; other users of the server, its pace, throttles and locks"
        " may make it longer",
        sample_rows=sample.rows,
        sample_seconds=sample.seconds,
    )


def comparison_time(mapping: TableMapping, sample: Sample) -> float | None:
    """Return the seconds of comparing every row, from rows hashed as they are; None without any."""
    if not sample.rows:
        return None
    staged = COMPARED_STAGED / COMPARED if ComparisonPlan(mapping=mapping).staged else 1.0
    return mapping.source.estimated_rows * sample.row_hashed * HASH_FACTOR * staged
