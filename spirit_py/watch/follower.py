"""The binlog of every table in a scope: its events, and the records they become, in order."""

from __future__ import annotations

import re
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.rules import cascades_unseen
from spirit_py.binlog import events
from spirit_py.binlog.cascades import Cascades, acting_parents
from spirit_py.binlog.connection import StreamLost
from spirit_py.binlog.parser import BinlogParser
from spirit_py.binlog.position import read_position, split_log
from spirit_py.binlog.resumption import log_now, require_log
from spirit_py.binlog.source import BinlogSource
from spirit_py.binlog.statements import readings
from spirit_py.binlog.xa import XaTransactions, recoverable
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import FeedFailure, Refusal, SchemaChanged, ServerFault, UnreadableChange
from spirit_py.mysql.facts import read_facts
from spirit_py.mysql.faults import NO_SUCH_TABLE, Disposition, connection_lost, disposition
from spirit_py.mysql.replication import NO_REPLICA_NOW, unlogged_replica
from spirit_py.mysql.tables.definition import read_table
from spirit_py.watch.definitions import Definitions
from spirit_py.watch.records import Scope, TableNames, record, row_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.binlog.events import Event, Frontier, Place, RowsChanged, StatementSeen, Table
    from spirit_py.binlog.position import LogFile, ServerFrontier
    from spirit_py.binlog.statements import Statement
    from spirit_py.binlog.writes import StatementWrites
    from spirit_py.binlog.xa import XaRows
    from spirit_py.config import ConnectionOptions, FeedOptions
    from spirit_py.contracts import Clock
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema
    from spirit_py.watch.records import Progress, Record

ONWARD: Final = "follow from a later position, or from now, without --from"
_XA_MEMORY: Final = 1 << 20
_LATER_NAMES: Final = (
    "this DDL is older than this run: a run that began behind it, too, and ended before this line,"
    " gave rows before it the names of columns and members, and the key, of after it"
)
_OLDER: Final = "prepared before the start: its rows, if it has any, are not in this stream"


@dataclass(kw_only=True, eq=False)
class Follower:
    """Takes one event after the other, in one thread.

    Rows of an XA transaction are set aside, in a file when they are many, and printed at its XA
    COMMIT (R8). ``heartbeat`` is in seconds, 0 for never. ``resumed``: an earlier run printed rows,
    and they do not describe themselves.
    """

    progress: Progress
    scope: Scope
    definitions: Definitions
    out: Callable[[Record], None]
    flush: Callable[[], None]
    forget: Callable[[], None]
    writes: StatementWrites
    heartbeat: float = 0.0
    resumed: bool = False
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._said_at = self.clock()
        self._open = self._doubtful = False
        self._statements: list[tuple[StatementSeen, Record]] = []
        self._shadows: dict[tuple[str, str], deque[str]] = {}
        self._xa = XaTransactions(_XA_MEMORY)

    def deliver(self, event: Event) -> None:
        """Take one event; raise what the stream cannot go on after."""
        match event:
            case events.RowsChanged(place=place):
                if not self._xa.keep(event):
                    self._print_rows(event, place)
            case events.Began(place, xid):
                self._began(place, xid)
            case events.Committed(place, cascaded):
                self._committed(place, cascaded=cascaded)
            case events.Advanced(place):
                self.progress.advance(place)
                self._quiet(place)
            case events.XaPrepared(place, xid):
                self._prepared(place, xid)
            case events.XaDecided():
                self._decided(event)
            case events.StatementSeen():
                self._statement(event)
            case events.Restarted():
                self._restarted()
            case events.Failed(error):
                raise error

    def _say(self, kind: str, place: Place | None = None, **fields: object) -> None:
        self.out(record(kind, self.progress.text(), place, **fields))
        self._said_at = self.clock()

    def _began(self, place: Place, xid: str) -> None:
        if xid:
            self._xa.begin()
            return
        self._open, self._doubtful = True, False
        self._say("begin", place)
        self._say_statements()

    def _print_rows(self, event: RowsChanged, place: Place) -> None:
        position = self.progress.text()
        more = {"doubt": True} if event.doubt else {}
        self._doubtful |= bool(event.doubt)
        for change in event.codec.rows(event.event_type, event.body):
            self.out(row_record(position, place, event.table, change) | more)
        self._said_at = self.clock()

    def _committed(self, place: Place, *, cascaded: bool) -> None:
        if (rows := self._xa.receiving) is not None:  # XA COMMIT ... ONE PHASE
            self._replay(rows, place)
            self._xa.end()
        self.progress.advance(place)
        if self._open:
            doubt = {"doubt": True} if cascaded and self._doubtful else {}
            self._say("commit", place, **doubt)
            self.flush()
        elif self._statements:
            self._say_statements()
            self.flush()
        else:
            self._quiet(place)
        self._open = False
        self._statements.clear()

    def _replay(self, rows: XaRows, place: Place, **fields: object) -> None:
        self._open, self._doubtful = True, False
        self._say("begin", place, **fields)
        for event in rows.replay():
            self._print_rows(event, place)

    def _prepared(self, place: Place, xid: str) -> None:
        if not self._xa.prepared(xid):
            self.progress.advance(place)
            self._quiet(place)
            return
        self.progress.prepared(xid, place)
        self._say("xa_prepare", place, xid=xid)
        self.flush()

    def _decided(self, event: events.XaDecided) -> None:
        place, xid = event.place, event.xid
        rows, known = self._xa.rows(xid), self._xa.knows(xid)
        if rows is not None and event.commit:
            self._replay(rows, place, xid=xid)
        self._xa.forget(xid)
        self._open = False
        self.progress.decided(xid, place)
        if rows is not None or not known:
            more: Record = {} if rows is not None else {"note": _OLDER}
            if rows is not None and event.commit and self._doubtful:
                more = {"doubt": True}
            self._say("xa_commit" if event.commit else "xa_rollback", place, xid=xid, **more)
            self.flush()

    def _statement(self, event: StatementSeen) -> None:
        self.writes.take(event)
        found = [one for one in readings(event) if one.ddl]
        uncertain = not all(one.exact for one in found)
        if uncertain and self.scope.may_be_touched(event.sql, event.schema):
            raise SchemaChanged(
                "a session may have changed the definition of what is followed, in a statement"
                f" that cannot be parsed for certain: {event.excerpt} ({event.where})",
                hint=ONWARD,
            )
        doubtful = self.resumed and any(self.definitions.doubtful(one, event) for one in found)
        for one in found:
            if self.definitions.altered(one, event):
                self.forget()
        for one in found[:1]:
            self._keep_of_shadows(one, event.sql)
        ours = [one for one in found if self.scope.touched(one, event.schema)]
        if not ours:
            return
        if any(one.fills for one in ours):
            raise UnreadableChange(
                "a session created and filled a table in STATEMENT format, without row images:"
                f" {event.excerpt} ({event.where})",
                hint=f"SET binlog_format=ROW in that client; {ONWARD}",
            )
        more: Record = {"note": _LATER_NAMES} if doubtful else {}
        if alters := self._alters(ours):
            more["alters"] = alters
        self._statements.append((event, more))
        if self._open:
            self._say_statements()

    def _keep_of_shadows(self, statement: Statement, sql: str) -> None:
        """Keep what is done to a table by whose name it is to replace one that is followed."""
        for name in statement.names if statement.verb != "RENAME" else ():
            shadow = (name.schema, name.table or "")
            real = _SHADOW.fullmatch(shadow[1])
            if real is None or not self.scope.covers(name.schema, real[1]):
                continue
            if statement.verb == "ALTER" or _OF_INDEX.match(sql):
                kept = self._shadows.setdefault(shadow, deque(maxlen=_MOST_KEPT))
                kept.append(sql if len(sql) <= _LONGEST_KEPT else f"{sql[:_LONGEST_KEPT]}...")
            else:
                self._shadows.pop(shadow, None)
            if len(self._shadows) > _MOST_KEPT:
                del self._shadows[next(iter(self._shadows))]

    def _alters(self, statements: Iterable[Statement]) -> list[str]:
        """Return what was done to the tables that get the names of those that are followed."""
        renames = [one.names for one in statements if one.verb == "RENAME"]
        return [
            sql
            for names in renames[:1]
            for name in names
            for sql in self._shadows.pop((name.schema, name.table or ""), ())
        ]

    def _say_statements(self) -> None:
        for event, more in self._statements:
            self._say("ddl", event.place, schema=event.schema, sql=event.sql, **more)
        self._statements.clear()

    def _restarted(self) -> None:
        self._xa.end()
        self._statements.clear()
        if self._open:
            self._open = False
            self._say("restarted")
            self.flush()

    def _quiet(self, place: Place) -> None:
        if self.heartbeat and self.clock() - self._said_at >= self.heartbeat:
            self._say("heartbeat", place)
            self.flush()

    def close(self) -> None:
        """Drop the rows that were set aside."""
        self._xa.close()


_MOST_READ_AHEAD: Final = 200
_MOST_NAMED: Final = 10
_CHANGED_BY_KEYS: Final = """
SELECT CONSTRAINT_SCHEMA, TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE DELETE_RULE IN ('CASCADE', 'SET NULL') OR UPDATE_RULE IN ('CASCADE', 'SET NULL')"""
_MOST_KEPT: Final = 100
_LONGEST_KEPT: Final = 1 << 16
_OF_INDEX: Final = re.compile(
    r"\s*(?:CREATE|DROP)\s+(?:(?:UNIQUE|FULLTEXT|SPATIAL)\s+)?INDEX\b", re.IGNORECASE
)
#: Names of new tables of this program, of pt-online-schema-change, and of gh-ost.
_SHADOW: Final = re.compile(r"_(.+)_(?:new|gho)")


class ScopeSource(BinlogSource):
    """A binlog stream of all tables in a scope; it changes nothing on the server."""

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
        """Open the stream after a position, or after everything committed and visible now."""
        with self._control.lend() as session:
            unlogged = unlogged_replica(session, self._facts)
        if unlogged:
            hint = (
                "follow the primary, or start the replica with --log-replica-updates; if it is a"
                f" replica no more: {NO_REPLICA_NOW}"
            )
            raise Refusal(unlogged, hint=hint, error_code=ErrorCode.REPLICA)
        position, log = split_log(position)
        here = position and read_position(position).server_uuid == self._server_uuid
        with self._control.lend() as session:
            if here and log:
                require_log(self._connection, session, self._server_uuid, log)
            else:
                log = log_now(self._connection, session, self._server_uuid)
        self._log = log
        return self.resume((), position) if position else self._open((), self.executed())

    @property
    def rows_describe_themselves(self) -> bool:
        """Whether the server writes names into table maps now."""
        return self._facts.text("binlog_row_metadata") == "FULL"

    def log(self) -> LogFile | None:
        """Return the binlog file that is read, as far as it is known."""
        if self._events is not None and self._events.created:
            self._log = self._events.file, self._events.created
        return self._log

    def prepared_before(self) -> set[str] | None:
        """Return the XA transactions that are prepared now; None when the account may not see."""
        with self._control.lend() as session:
            rows = recoverable(session)
        return None if rows is None else {_xid(row[0], row[1], row[3]) for row in rows}

    def learn(self) -> int:
        """Read the definitions of the tables there are now, if not very many; count the tables."""
        with self._control.lend() as session:
            rows = session.query(
                "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
                " WHERE TABLE_TYPE = 'BASE TABLE'"
                " AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'performance_schema')"
            )
            changed = session.query(_CHANGED_BY_KEYS) if self._unseen else []
        tables = [(str(s), str(t)) for s, t in rows if self.scope.covers(str(s), str(t))]
        self._warn_of(set(tables) & {(str(s), str(t)) for s, t in changed})
        for table in tables if len(tables) <= _MOST_READ_AHEAD else ():
            self.definitions.learn(table)
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
