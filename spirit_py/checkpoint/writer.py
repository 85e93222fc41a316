"""Write the checkpoint: the first record, then periodically and on request; notes beside it.

A note is of an old table, and of the end of reverse replication.

The uncopied ranges U and the feed's safe position P of a record may be read in either order. U
first: what the feed passed over in between was applied, or dropped because it was in U, and the
resumed copy reads it. P first: every change after P is received again. A chunk in U that had
committed is copied again, and a delete of its rows since then is not dropped: of each range of U
the resumed feed keeps changes up to the last key that the new table has there (R17). An older
record only repeats more work, so a write that is executed late does no harm.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py import __version__, points
from spirit_py.checkpoint.examination import old_table_of
from spirit_py.checkpoint.live import LiveFigures, StandingOrders
from spirit_py.checkpoint.proofs import begin_proofs, shape_digest
from spirit_py.checkpoint.record import (
    CheckpointRecord,
    OldTableRecord,
    Pointer,
    ReverseRecord,
    TableProgress,
    joined,
)
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import KW_ONLY, dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import AnotherServer, MigrationFailure, Refusal, ServerFault, SpiritError
from spirit_py.locks.look import LockedBy
from spirit_py.mysql.connect import connect
from spirit_py.mysql.facts import server_now
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT, Disposition, disposition
from spirit_py.mysql.retry import PATIENCE
from spirit_py.phases import Phase
from spirit_py.statement import parse_statement
from spirit_py.statement.cursor import line_of
from spirit_py.statement.lexer import SqlMode, tokenize
from spirit_py.threads import Background
from spirit_py.units import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from spirit_py.config import ConnectionOptions, MigrationConfig, SwapChoices
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.statement import AlterStatement
    from spirit_py.table.names import Name
    from spirit_py.table.schema import TableSchema
    from spirit_py.threads import StopSwitch

_log = logging.getLogger(__name__)

PERIOD: Final = 50.0
"""Seconds between two checkpoints, at most."""
_FIRST: Final = 5.0
"""Seconds until the first one; each next pause is twice as long."""
_AGAIN: Final = 5.0
_LOCK_WAIT: Final = 5
_ANSWER_WITHIN: Final = 10
#: Characters of a statement that is shown to be run again.
_LONGEST_SHOWN: Final = 1 << 14


def pauses(period: float) -> Iterator[float]:
    """Yield the seconds before each periodic record: few at first, when most would be lost."""
    pause = min(_FIRST, period)
    while True:
        yield pause
        pause = min(2 * pause, period)


@dataclass(eq=False)
class CheckpointWriter:
    """Writes records in a thread of its own, and in that of the caller of :meth:`write_now`.

    ``take`` is called by one thread at a time and must not block. ``stop`` is requested when
    nothing could be written for ``patience`` seconds.
    """

    connection: ConnectionOptions
    table: CheckpointTable
    take: Callable[[], CheckpointRecord]
    _: KW_ONLY
    stop: StopSwitch
    written: Callable[[CheckpointRecord], None] = lambda _: None
    period: float = PERIOD
    patience: float = PATIENCE
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        #: Held from taking a record until it is written, so that records are written in order.
        self._writing = threading.Lock()
        self._wanted = threading.Event()
        self._thread = Background("checkpoint", self._keep_writing)
        self._written_at: float | None = None
        self._locked = LockedBy((self.connection, [self.table.name]))

    @property
    def age(self) -> float | None:
        """Seconds since the last record was written; None before the first."""
        return None if self._written_at is None else self.clock() - self._written_at

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def request(self) -> None:
        """Have a record written soon, by the thread: commits of the server may stall."""
        self._wanted.set()

    def write_now(self) -> None:
        """Write a record at once; raises a ServerFault when it could not be written."""
        with self._writing:
            points.reach("checkpoint.writing")
            record = self.take()
            with connect(
                self.connection,
                role="checkpoint",
                lock_wait_timeout=_LOCK_WAIT,
                read_timeout=_ANSWER_WITHIN,
            ) as session:
                self.table.write(session, record)
            self._written_at = self.clock()
            points.reach("checkpoint.written")
        self.written(record)

    def _keep_writing(self, stopping: threading.Event) -> None:
        failing_since: float | None = None
        rhythm = pauses(self.period)
        pause = next(rhythm)
        while True:
            self._wanted.wait(pause)
            self._wanted.clear()
            if stopping.is_set():
                return
            try:
                self.write_now()
                failing_since, pause = None, next(rhythm)
            except Exception as error:
                now = self.clock()
                failing_since = (
                    now if failing_since is None or self._waits(error) else failing_since
                )
                pause = min(_AGAIN, self.period)
                _log.info("the checkpoint could not be written: %s", error)
                passes = isinstance(error, ServerFault) and (
                    disposition(error) is not Disposition.FATAL or error.hint
                )
                if not passes or now - failing_since > self.patience:
                    self.stop.request(_failure(error))
                    return
                stopping.wait(pause)

    def _waits(self, error: Exception) -> bool:
        """Return whether it is others' lock of the table that is waited for, as a dump takes it."""
        late = isinstance(error, ServerFault) and error.code == LOCK_WAIT_TIMEOUT
        return late and bool(self._locked())

    def close(self) -> None:
        """End the thread; nothing more is written. Safe to call again."""
        self._thread.stop()
        self._wanted.set()
        self._thread.join()


def _failure(error: Exception) -> SpiritError:
    if isinstance(error, AnotherServer):
        # Whoever notices it first: what has happened is not about the checkpoint (R14).
        return error
    text = error.message if isinstance(error, SpiritError) else repr(error)
    hint = error.hint if isinstance(error, SpiritError) else ""
    failure = MigrationFailure(
        f"the checkpoint cannot be written any more: {text}",
        hint=hint or "remove the cause, then run the same command again",
        error_code=ErrorCode.CHECKPOINT_NOT_WRITTEN,
    )
    failure.__cause__ = error
    return failure


def normal_form(statements: Mapping[Name, AlterStatement]) -> str:
    """Return one text for statements, by tables as the server spells them, whatever their order."""
    return joined(
        (name, replace(statement, schema=name[0], table=name[1]).normalized)
        for name, statement in statements.items()
    )


def as_written(statements: Mapping[Name, AlterStatement]) -> str:
    """Return the same as they were given, for a record to show."""
    return joined(
        (name, replace(statement, schema=name[0], table=name[1]).sql)
        for name, statement in statements.items()
    )


def shown_statement(record: CheckpointRecord, sql_mode: str) -> str:
    """Return a record's statements in a line, to be run again under these modes; or nothing.

    As they were given, where the record has that: the normal form folds letters that a definition
    keeps. Whoever may write the row has written both (R26): what is shown is read once more, and
    not where that would take long.
    """
    for text in (record.written, record.statement):
        if not 0 < len(text) <= _LONGEST_SHOWN:
            continue
        with contextlib.suppress(Refusal):
            line = one_line(line_of(text, tokenize(text, SqlMode.of(sql_mode))))
            parsed = parse_statement(line, "", sql_mode=sql_mode)
            named = {(one.schema, one.table): one for one in parsed}
            same = normal_form(named) == record.statement and len(named) == len(parsed)
            if same and set(named) == {table.name for table in record.tables}:
                return line
    return ""


def first_record(
    session: SqlSession,
    statement: str,
    sources: Mapping[Name, TableSchema],
    facts: ServerFacts,
    config: MigrationConfig,
) -> CheckpointRecord:
    """Return the record of a migration that begins now, of a :func:`normal_form`."""
    now = session.query("SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%f')")[0][0]
    return CheckpointRecord(
        statement=statement,
        tables=tuple(
            TableProgress(schema=schema, table=table, source_shape=shape_digest(source))
            for (schema, table), source in sources.items()
        ),
        server_uuid=facts.uuid,
        phase=Phase.PREFLIGHT.value,
        started_at=f"{now}+00:00",
        modes=config.modes,
        choices=config.swap_choices,
        program=__version__,
        mysql=facts.version,
        unlogged=config.connection.unlogged,
    )


def renewed(record: CheckpointRecord, facts: ServerFacts, choices: SwapChoices) -> CheckpointRecord:
    """Return the record of a run that resumes with an earlier one's."""
    return replace(
        record,
        runs=record.runs + 1,
        program=__version__,
        mysql=facts.version,
        server_uuid=facts.uuid,
        choices=choices,
    )


def note_choices(session: SqlSession, record: CheckpointRecord, choices: SwapChoices) -> None:
    """Note what another run that finishes the swapped migration is to be asked for, too."""
    home = CheckpointTable(*record.home)
    if choices != record.choices and home.is_ours(session):
        home.amend(session, replace(record, choices=choices))


def with_new_tables(
    record: CheckpointRecord, targets: Mapping[Name, TableSchema], shard: str = ""
) -> CheckpointRecord:
    """Return the record with the definitions of a shard's new tables, by their sources' names."""
    shapes = {name: shape_digest(target) for name, target in targets.items()}

    def noted(tables: Iterable[TableProgress]) -> tuple[TableProgress, ...]:
        return tuple(
            replace(one, target_shape=shapes[one.name]) if one.shard == shard else one
            for one in tables
        )

    return replace(record, tables=noted(record.tables), shards=noted(record.shards))


def create_checkpoint_tables(
    session: SqlSession, record: CheckpointRecord, *, there: bool = False
) -> None:
    """Create the checkpoint tables; later auxiliary tables are proven to be ours by them (R24).

    Those that are ``there`` already get other rows, without what operators had asked for.
    """
    pointer = Pointer(home=record.home, program=__version__)
    for table in record.tables:
        first = record if table.name == record.home else pointer
        checkpoint = CheckpointTable(*table.name)
        (checkpoint.write if there else checkpoint.create)(session, first)
        for kind in (StandingOrders, LiveFigures) if there else ():
            checkpoint.forget(session, kind)
        begin_proofs(session, *table.name)


def end_reverse(session: SqlSession, tables: Sequence[Name], *, noted: bool = False) -> None:
    """Forget reverse replication; the place of a later revert stays, unless ``noted`` too."""
    for table in tables:
        checkpoint = CheckpointTable(*table)
        record = checkpoint.read(session, ReverseRecord)
        if record is not None and (noted or not record.is_noted):
            note_of_old(session, table, followed=True)
            checkpoint.forget(session, ReverseRecord)


def note_of_old(session: SqlSession, table: Name, **changes: Any) -> None:
    """Change what is noted of a table's old one; without a note it is to be dropped at once."""
    now = server_now(session)
    noted = old_table_of(session, table) or OldTableRecord(swapped_at=now, until=now)
    CheckpointTable(*table).write(session, replace(noted, **changes))
