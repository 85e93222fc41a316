"""What ``spirit-py status`` shows of each migration that left a checkpoint; nothing is touched."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.decision import (
    Afresh,
    Found,
    GiveUp,
    Refuse,
    Resume,
    ReverseState,
    Wanted,
    decide,
    was_swapped,
)
from spirit_py.checkpoint.look import damage, look_at_table, marked, unreachable
from spirit_py.checkpoint.members import Name, beside
from spirit_py.checkpoint.record import CheckpointRecord
from spirit_py.checkpoint.reverse_found import reverse_left
from spirit_py.checkpoint.table import MARK
from spirit_py.errors import FeedFailure, Refusal, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.locks.named import named_lock_holder
from spirit_py.mysql.privileges import NUMBERS, Sight
from spirit_py.table.names import AuxiliaryNames, lock_name
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from spirit_py.checkpoint.decision import Decision
    from spirit_py.checkpoint.table import StoredCheckpoint
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession

_MARKED: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_COMMENT = %s AND (%s = '' OR TABLE_SCHEMA = %s) ORDER BY 1, 2"""
_NAMES: Final = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
_HIDDEN: Final = "what is left there could be hidden from it"
_BINLOG: Final = ("REPLICATION CLIENT", "REPLICATION SLAVE")
_WORDS: Final[dict[type[Decision], str]] = {
    Resume: "carry on",
    Afresh: "start afresh",
    GiveUp: "give up",
    Refuse: "refuse",
}
_AFTER_SWAP: Final = {
    None: "done; only the cleanup is left",
    ReverseState.KEPT: "done; a way back is kept",
    ReverseState.LOST: "done; the way back is lost",
    ReverseState.REVERTED: "undone by a revert; only the cleanup is left",
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
        after_swap: what was done behind it, in words; empty before.
        worked_on_by: the server session of the process that works on it now; None for nobody.
        again: what the same command would do, and why.
        orphaned: why a table's part in an earlier migration is left over; empty otherwise.
    """

    checkpoint: str
    unreadable: str = ""
    orphaned: str = ""
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
    after_swap: str = ""
    deferred: bool = False
    worked_on_by: int | None = None
    again: str = ""
    reason: str = ""
    program: str = ""
    totals: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Say the same for people, a line each."""
        if self.unreadable:
            return [
                f"{self.checkpoint}: a checkpoint that cannot be read: {self.unreadable}",
                f"  run again  it would {self.again}: {self.reason}",
            ]
        if self.orphaned:
            return [
                f"{', '.join(self.tables)}: left over ({self.checkpoint}): {self.orphaned}",
                f"  now        {self._working}",
                "  run again  it would start afresh; spirit-py cleanup drops what is left",
            ]
        done = ", all rows" if self.copied else ""
        age, worked = human_seconds(self.age), human_seconds(self.seconds)
        reaches = self.binlog or "the binlog still reaches its position"
        return [
            f"{', '.join(self.tables)}: {self.phase}, checkpoint written {age} ago",
            f"  statement  {' '.join(self.statement.split())}",
            f"  copied     {self.rows_copied} rows{done}",
            f"  worked     {worked} in {self.runs} run(s) since {self.started_at}",
            f"  position   {self.position or 'none: the change feed had not begun'}",
            *([f"  binlog     {reaches}"] if self.position else []),
            *([f"  swap       {self.after_swap}"] if self.after_swap else []),
            *(["  deferred   the cutover waits for its sentinel"] if self.deferred else []),
            f"  now        {self._working}",
            f"  run again  it would {self.again}: {self.reason}",
        ]

    @property
    def _working(self) -> str:
        if self.worked_on_by is None:
            return "nobody works on it now"
        return f"a process works on it now (server session {self.worked_on_by})"


def migrations(
    options: ConnectionOptions, *, database: str, table: str, max_age: float
) -> list[MigrationShown]:
    """Return what is there.

    Args:
        database: the schema to look in; empty for all.
        table: the table whose migration is wanted; empty for all.
        max_age: as of ``spirit-py migrate``.

    Raises:
        ServerFault: the server could not be asked.
        Refusal: the account could not see all of it; with the GRANT that is missing.
    """
    with connect(options, role="status", read_timeout=60) as session:
        looking = _Looking(session, options, max_age)
        if table:
            looking.sight.require(("SELECT",), database, table, _HIDDEN)
        marks = [
            (str(row[0]), str(row[1])) for row in session.query(_MARKED, (MARK, *[database] * 2))
        ]
        own = (database, AuxiliaryNames.of(table).checkpoint)
        if table and own in marks:
            return looking.at([own])
        shown = looking.at(marks)
        if not shown and not table:
            looking.require_all(database)
        wanted = f"{database}.{table}"
        return [one for one in shown if not table or wanted in one.tables]


class _Looking:
    """Looks at checkpoint tables, each migration once."""

    def __init__(self, session: SqlSession, options: ConnectionOptions, max_age: float) -> None:
        self._session = session
        self._options = options
        self._max_age = max_age
        self.sight = Sight(session)

    def require_all(self, database: str) -> None:
        """Refuse an account that nothing was shown to, when that may be its own fault.

        Raises:
            Refusal: with the GRANT that is missing.
        """
        if self.sight.missing(("SELECT",), database):
            where = f"{database}.*" if database else "*.*"
            raise Refusal(
                f"account {self.sight.account} lacks SELECT on {where}: {_HIDDEN}",
                hint=self.sight.grant(["SELECT"], database)
                + ("" if database else " or name a schema with --database"),
            )

    def at(self, marks: Iterable[Name]) -> list[MigrationShown]:
        """Return the migrations of checkpoint tables; a pointer leads to the one that it is of."""
        found: dict[str, MigrationShown] = {}
        for schema, name in marks:
            owner = _owner(self._session, schema, name)
            try:
                seen = self._one(owner, f"{schema}.{name}", found)
            except ServerFault as fault:
                if not access_denied(fault):
                    raise
                raise Refusal(
                    f"account {self.sight.account} may not look at {schema}.{name} and at the"
                    f" tables beside it: {fault.text}",
                    hint=self.sight.grant(["SELECT"], schema),
                ) from fault
            if seen is not None:
                found[seen.checkpoint] = seen
        return list(found.values())

    def _one(self, owner: Name, checkpoint: str, known: Container[str]) -> MigrationShown | None:
        """Show what one leads to; None for what is known."""
        try:
            there = beside(self._session, owner)
        except UnreadableCheckpoint as error:
            return self._unreadable(checkpoint, str(error), [owner])
        if there.orphaned:
            return MigrationShown(
                checkpoint=checkpoint,
                tables=(".".join(owner),),
                orphaned=there.orphaned,
                worked_on_by=_worker(self._session, [owner]),
                again="start afresh",
                reason=there.orphaned,
            )
        home = f"{there.home[0]}.{AuxiliaryNames.of(there.home[1]).checkpoint}"
        if there.stored is None or home in known:
            return None
        record = there.stored.found
        if not isinstance(record, CheckpointRecord):
            return None
        if damaged := damage(self._session, record):
            return self._unreadable(home, damaged, [table.name for table in record.tables])
        return self._readable(home, there.stored, record)

    def _unreadable(self, checkpoint: str, why: str, tables: list[Name]) -> MigrationShown:
        """Show what is known of a migration whose record says nothing."""
        found = Found(
            unreadable=why,
            tables=tuple(
                look_at_table(
                    self._session, table, None, trusting=bool(self.sight.missing(NUMBERS, ""))
                )
                for table in tables
            ),
            way_back=reverse_left(self._session, tables),
        )
        decision = decide(found, Wanted(statement=None, max_age=self._max_age))
        return MigrationShown(
            checkpoint=checkpoint,
            unreadable=why,
            tables=tuple(".".join(table) for table in tables),
            worked_on_by=_worker(self._session, tables),
            again=_WORDS[type(decision)],
            reason=decision.reason,
        )

    def _readable(
        self, checkpoint: str, stored: StoredCheckpoint, record: CheckpointRecord
    ) -> MigrationShown:
        """Show a migration whose record can be read."""
        unseen = ""
        why = ""
        server = str(self._session.query("SELECT @@GLOBAL.server_uuid")[0][0])
        try:
            why = unreachable(self._options, stored)
        except (FeedFailure, ServerFault) as error:
            if isinstance(error, ServerFault) and not access_denied(error):
                raise
            grant = self.sight.grant(_BINLOG, "")
            hint = f"{grant};" if self.sight.missing(_BINLOG, "") else error.hint
            unseen = f"cannot be looked at: {error.message} ({hint})"
        tables = [table.name for table in record.tables]
        blind = bool(self.sight.missing(NUMBERS, ""))
        seen = [look_at_table(self._session, table, record, trusting=blind) for table in tables]
        found = Found(
            record=record,
            age=stored.age,
            server_uuid=server,
            tables=marked(self._session, seen, record),
            unreachable=why,
            way_back=reverse_left(self._session, tables),
        )
        decision = decide(found, Wanted(statement=None, max_age=self._max_age))
        shown = _told(checkpoint, stored, record, found, decision)
        proviso = unseen and isinstance(decision, Resume) and not decision.cleanup
        return replace(
            shown,
            binlog=unseen or why,
            reason=f"{decision.reason}; if the binlog still reaches its position"
            if proviso
            else decision.reason,
            worked_on_by=_worker(self._session, tables),
        )


def _owner(session: SqlSession, schema: str, checkpoint: str) -> Name:
    """Return the table that a checkpoint table is beside; it may be gone."""
    for (name,) in session.query(_NAMES, (schema,)):
        if AuxiliaryNames.of(str(name)).checkpoint == checkpoint:
            return schema, str(name)
    return schema, checkpoint.removeprefix("_").removesuffix("_chkpnt")


def _told(
    checkpoint: str,
    stored: StoredCheckpoint,
    record: CheckpointRecord,
    found: Found,
    decision: Decision,
) -> MigrationShown:
    """Put what the record says and what was found into words."""
    swapped = was_swapped(found.tables, record)
    back = found.way_back.state if found.way_back else None
    return MigrationShown(
        checkpoint=checkpoint,
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
        swapped=swapped,
        after_swap=_AFTER_SWAP[back] if swapped or back else "",
        deferred=record.sentinel,
        again=_again(decision, back),
        program=record.program,
        totals=record.totals,
    )


def _again(decision: Decision, back: ReverseState | None) -> str:
    """Return what the same command would do; behind a way back that is lost there is nothing to."""
    lost = isinstance(decision, Resume) and back is ReverseState.LOST
    return "fail" if lost else _WORDS[type(decision)]


def _worker(session: SqlSession, tables: Iterable[Name]) -> int | None:
    """Return the session that holds the lock of one of the tables."""
    holders = (named_lock_holder(session, lock_name("migration", *table)) for table in tables)
    return next((holder for holder in holders if holder is not None), None)
