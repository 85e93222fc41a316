"""The binlog of every table in a scope, and the definitions that its rows are read with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.rules import cascades_unseen
from spirit_py.binlog.cascades import Cascades, acting_parents
from spirit_py.binlog.connection import StreamLost
from spirit_py.binlog.parser import BinlogParser
from spirit_py.binlog.position import LogFile, read_position, split_log
from spirit_py.binlog.resumption import log_now, require_log
from spirit_py.binlog.source import BinlogSource
from spirit_py.binlog.xa import recoverable
from spirit_py.codes import ErrorCode
from spirit_py.errors import FeedFailure, FeedSilent, HistoryLost, Refusal, ServerFault
from spirit_py.mysql.facts import ServerLife, named, read_facts
from spirit_py.mysql.faults import NO_SUCH_TABLE, Disposition, connection_lost, disposition
from spirit_py.mysql.replication import LOGGING, NO_REPLICA_NOW, unlogged_replica
from spirit_py.mysql.tables.definition import read_table
from spirit_py.watch.definitions import Definitions
from spirit_py.watch.records import Scope, TableNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.binlog.events import Frontier, Table
    from spirit_py.binlog.position import ServerFrontier
    from spirit_py.config import ConnectionOptions, FeedOptions
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema

_MOST_READ_AHEAD: Final = 200
_MOST_NAMED: Final = 10
_CHANGED_BY_KEYS: Final = """
SELECT CONSTRAINT_SCHEMA, TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE DELETE_RULE IN ('CASCADE', 'SET NULL') OR UPDATE_RULE IN ('CASCADE', 'SET NULL')"""


class ScopeSource(BinlogSource):
    """A binlog stream of all tables in a scope; it changes nothing on the server."""

    needs_order = False

    def __init__(
        self,
        connection: ConnectionOptions,
        options: FeedOptions,
        *,
        database: str,
        table: str,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(connection, options)
        with self._control.lend() as session:
            self._facts = read_facts(session)
        self._unseen = cascades_unseen(self._facts)
        self._warn = warn
        self._warned: set[Table] = set()
        self.scope = Scope(database, table, ignore_case=self.ignore_case)
        self.definitions = Definitions(self._definition, self._executed, self.collations)
        self._events: BinlogParser | None = None
        self._log: LogFile | None = None

    def open(self, position: str) -> ServerFrontier:
        """Open the stream after a position, or now; without GTIDs some of that is yet to show."""
        with self._control.lend() as session:
            unlogged = unlogged_replica(session, self._facts)
        if unlogged:
            hint = (
                f"follow the primary, or start the replica with {LOGGING}; if it is a replica no"
                f" more: {NO_REPLICA_NOW}"
            )
            raise Refusal(unlogged, hint=hint, error_code=ErrorCode.REPLICA)
        position, log = split_log(position)
        here = position and read_position(position).server_uuid == self._server_uuid
        with self._control.lend() as session:
            if here and log:
                require_log(self._connection, session, self._server_uuid, log)
                self._require_life(log)
            else:
                log = log_now(self._connection, session, self._server_uuid)
        self._log = log
        return self.resume((), position) if position else self._open((), self.executed())

    def _require_life(self, log: LogFile) -> None:
        """Raise HistoryLost if the server may have lost commits since a position, or its log."""
        if log.started is not None:
            life = ServerLife(log.started, dict(log.relaxed))
            try:
                life.go_on(self._life)
            except HistoryLost as lost:
                settings = named({**life.relaxed, **self._life.relaxed})
                raise HistoryLost(
                    "the server was restarted since the position, and may have lost commits, or had"
                    f" its log off ({settings})",
                    hint="take a new snapshot, and follow from it; if the server was shut down"
                    " cleanly and its log was never off, --from the position up to ;start=",
                    error_code=lost.error_code,
                ) from lost
            self._life = life

    @property
    def rows_describe_themselves(self) -> bool:
        """Whether the server writes names into table maps now."""
        return self._facts.text("binlog_row_metadata") == "FULL"

    def log(self) -> LogFile | None:
        """Return the binlog file that is read, as far as it is known, and the server's start."""
        if self._events is not None and self._events.created:
            self._log = LogFile(self._events.file, self._events.created)
        life = self._life
        return self._log and self._log._replace(
            started=life.started, relaxed=tuple(life.relaxed.items())
        )

    def prepared_before(self) -> set[str] | None:
        """Return the XA transactions that are prepared now; None when the account may not see."""
        with self._control.lend() as session:
            rows = recoverable(session)
        return None if rows is None else {_xid(row[0], row[1], row[3]) for row in rows}

    def learn(self) -> int:
        """Read the definitions of the tables there are now, if not very many; count the tables."""
        with self._asking(self._control, "which tables it has") as session:
            rows = session.query(
                "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
                " WHERE TABLE_TYPE = 'BASE TABLE'"
                " AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'performance_schema')"
            )
            changed = session.query(_CHANGED_BY_KEYS) if self._unseen else []
        tables = [(str(s), str(t)) for s, t in rows if self.scope.covers(str(s), str(t))]
        self._warn_of(set(tables) & {(str(s), str(t)) for s, t in changed})
        try:
            for table in tables if len(tables) <= _MOST_READ_AHEAD else ():
                self.definitions.learn(table)
        except StreamLost as lost:
            # No reader goes on after it here.
            if isinstance(lost.__cause__, FeedFailure):
                raise lost.__cause__ from lost
            where = self._connection.address
            raise FeedSilent(
                f"the server at {where} does not say how its tables are defined: {lost}",
                hint="see whether the server is up; run the same command again",
            ) from lost
        return len(tables)

    def forget_codecs(self) -> None:
        """Ask for definitions again at the next table maps."""
        if self._events is not None:
            self._events.forget_codecs()

    def _parser(
        self,
        mappings: Sequence[TableMapping],  # noqa: ARG002 - a migration's
        start: ServerFrontier,
    ) -> BinlogParser:
        self._events = BinlogParser(
            self.definitions.compile, start, TableNames(self.scope), collations=self.collations
        )
        self._events.cascades = Cascades(self.definitions.acting)
        return self._events

    def _definition(self, table: Table) -> TableSchema | None:
        """Read a definition in the reader's thread; the stream also handles a lost server."""
        try:
            with self._control.lend() as session:
                found = read_table(session, *table)
        except ServerFault as fault:
            if connection_lost(fault) or disposition(fault) is not Disposition.FATAL:
                raise StreamLost(fault.message) from fault
            if fault.code == NO_SUCH_TABLE:  # dropped or renamed between two questions
                return None
            raise

        if self._unseen and found is not None and acting_parents(found):
            self._warn_of([table])
        return found

    def _warn_of(self, tables: Iterable[Table]) -> None:
        """Warn, once for each, of tables whose rows foreign keys change unseen."""
        if new := sorted(set(tables) - self._warned):
            self._warned.update(new)
            names = ", ".join(".".join(table) for table in new[:_MOST_NAMED])
            more = f" and {len(new) - _MOST_NAMED} more" if len(new) > _MOST_NAMED else ""
            self._warn(
                f"foreign keys (ON DELETE or ON UPDATE CASCADE or SET NULL) change rows of"
                f" {names}{more}, and {self._unseen}: these changes are not in this stream"
            )

    def _executed(self) -> Frontier:
        try:
            return self.executed()
        except FeedFailure as error:
            raise StreamLost(error.message) from error


def _xid(form: int, gtrid: int, data: str) -> str:
    digits = data.removeprefix("0x").lower()
    return f"X'{digits[: 2 * gtrid]}',X'{digits[2 * gtrid :]}',{form}"
