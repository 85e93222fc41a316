"""What ``spirit-py status`` shows of each migration that left a checkpoint; nothing is touched."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from spirit_py.checkpoint.decision import (
    Afresh,
    Found,
    GiveUp,
    Refuse,
    Resume,
    Wanted,
    decide,
    shown_age,
    was_swapped,
)
from spirit_py.checkpoint.record import CheckpointRecord, UnreadableCheckpoint
from spirit_py.checkpoint.store import MARK, CheckpointStore, StoredCheckpoint
from spirit_py.errors import FeedFailure
from spirit_py.mysql.connect import connect
from spirit_py.mysql.locks import named_lock_holder
from spirit_py.resume.look import look_at_table, unreachable
from spirit_py.table.names import AuxiliaryNames, lock_name

if TYPE_CHECKING:
    from spirit_py.checkpoint.decision import Decision
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession

_MARKED: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_COMMENT = %s AND (%s = '' OR TABLE_SCHEMA = %s) ORDER BY 1, 2"""
_WORDS: Final[dict[type[Decision], str]] = {
    Resume: "carry on",
    Afresh: "start afresh",
    GiveUp: "give up",
    Refuse: "refuse",
}


@dataclass(frozen=True, kw_only=True)
class MigrationShown:
    """One migration that left a checkpoint.

    Attributes:
        checkpoint: schema and name of the table that holds the record.
        unreadable: why there is no more to show; empty otherwise.
        age: seconds since the checkpoint was written.
        position: where the change feed goes on; opaque.
        binlog: empty when the binlog still reaches the position, else why not.
        swapped: the swap is done, its cleanup is not; None when the tables tell no story.
        worked_on_by: the server session of the process that works on it now; None for nobody.
        again: what the same command would do, and why.
    """

    checkpoint: str
    unreadable: str = ""
    statement: str = ""
    tables: tuple[str, ...] = ()
    phase: str = ""
    age: float = 0.0
    started_at: str = ""
    runs: int = 0
    seconds: float = 0.0
    rows_copied: int = 0
    copied: bool = False
    position: str = ""
    binlog: str = ""
    swapped: bool | None = False
    deferred: bool = False
    worked_on_by: int | None = None
    again: str = ""
    reason: str = ""
    program: str = ""
    totals: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Give everything for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Say the same for people, a line each."""
        if self.unreadable:
            return [
                f"{self.checkpoint}: a checkpoint that cannot be read: {self.unreadable}",
                f"  the same command would {self.again}",
            ]
        done = ", all rows" if self.copied else ""
        reaches = self.binlog or "the binlog still reaches its position"
        working = (
            "nobody works on it now"
            if self.worked_on_by is None
            else f"a process works on it now (server session {self.worked_on_by})"
        )
        return [
            f"{', '.join(self.tables)}: {self.phase}, checkpoint written {shown_age(self.age)} ago",
            f"  statement  {' '.join(self.statement.split())}",
            f"  copied     {self.rows_copied} rows{done}",
            f"  worked     {shown_age(self.seconds)} in {self.runs} run(s) since {self.started_at}",
            f"  position   {self.position or 'none: the change feed had not begun'}",
            *([f"  binlog     {reaches}"] if self.position else []),
            *(["  swap       done; only the cleanup is left"] if self.swapped else []),
            *(["  deferred   the cutover waits for its sentinel"] if self.deferred else []),
            f"  now        {working}",
            f"  run again  it would {self.again}: {self.reason}",
        ]


def migrations(
    options: ConnectionOptions, *, database: str, table: str, max_age: float
) -> list[MigrationShown]:
    """Give what is there.

    Args:
        database: the schema to look in; empty for all.
        table: the table whose migration is wanted; empty for all.
        max_age: as of ``spirit-py migrate``.

    Raises:
        ServerFault: the server could not be asked.
    """
    with connect(options, role="status", read_timeout=60) as session:
        shown = [
            one
            for schema, name in session.query(_MARKED, (MARK, database, database))
            if (one := _shown(session, options, str(schema), str(name), max_age)) is not None
        ]
    if not table:
        return shown
    wanted = {f"{database}.{table}", f"{database}.{AuxiliaryNames.of(table).checkpoint}"}
    return [one for one in shown if not wanted.isdisjoint((*one.tables, one.checkpoint))]


def _shown(
    session: SqlSession, options: ConnectionOptions, schema: str, name: str, max_age: float
) -> MigrationShown | None:
    """Show one checkpoint table; None for a pointer, whose migration is shown by its home."""
    try:
        stored = CheckpointStore(schema, name).read(session)
    except UnreadableCheckpoint as error:
        return MigrationShown(
            checkpoint=f"{schema}.{name}", unreadable=str(error), again="start afresh"
        )
    if stored is None or not isinstance(stored.found, CheckpointRecord):
        return None
    record = stored.found
    found = _found(session, options, stored, record)
    decision = decide(found, Wanted(statement=None, max_age=max_age))
    return MigrationShown(
        checkpoint=f"{schema}.{name}",
        statement=record.statement,
        tables=tuple(str(table) for table in record.tables),
        phase=record.phase,
        age=stored.age,
        started_at=record.started_at,
        runs=record.runs,
        seconds=record.seconds,
        rows_copied=record.rows_copied,
        copied=record.copied,
        position=record.position,
        binlog=found.unreachable,
        swapped=was_swapped(found.tables, record),
        deferred=record.sentinel,
        worked_on_by=_worker(session, record),
        again=_WORDS[type(decision)],
        reason=decision.reason,
        program=record.program,
        totals=record.totals,
    )


def _found(
    session: SqlSession,
    options: ConnectionOptions,
    stored: StoredCheckpoint,
    record: CheckpointRecord,
) -> Found:
    """Gather what the decision is made by; that the binlog cannot be read is shown as such."""
    server = str(session.query("SELECT @@GLOBAL.server_uuid")[0][0])
    try:
        why = unreachable(options, stored, server)
    except FeedFailure as error:
        why = error.message
    return Found(
        record=record,
        age=stored.age,
        server_uuid=server,
        tables=tuple(look_at_table(session, *table.name) for table in record.tables),
        unreachable=why,
    )


def _worker(session: SqlSession, record: CheckpointRecord) -> int | None:
    """Give the session that holds the lock of one of the tables."""
    holders = (
        named_lock_holder(session, lock_name("migration", *table.name)) for table in record.tables
    )
    return next((holder for holder in holders if holder is not None), None)
