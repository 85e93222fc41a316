"""Who wrote to an old table after the swap, as the server's binlog has it.

Nobody should: the row would go with the table. A row that the archive leaves out, because it counts
as kept, would be nowhere then. What is rolled back does not count. What is written without the
binlog (``sql_log_bin=0``) is not seen.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py.archiving.folder import ArchiveFailure
from spirit_py.binlog import events, wire
from spirit_py.binlog.codec.rows import RowCodec
from spirit_py.binlog.parser import BinlogParser
from spirit_py.binlog.resumption import frontier_of
from spirit_py.binlog.source import BinlogSource
from spirit_py.binlog.statements import readings
from spirit_py.binlog.writes import target_of
from spirit_py.classes import dataclass, field
from spirit_py.errors import FeedFailure, ServerFault, SpiritError
from spirit_py.mysql.tables.identity import holds_up
from spirit_py.threads import Background
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.binlog.codec.tablemap import TableMap
    from spirit_py.binlog.events import Event, Place, RowsChanged, StatementSeen
    from spirit_py.binlog.position import ServerFrontier
    from spirit_py.binlog.statements import Statement
    from spirit_py.config import ConnectionOptions, FeedOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema
    from spirit_py.threads import StopSwitch

_SHOWN: Final = 10
_LOOK_SECONDS: Final = 0.5


class _OldTables(BinlogSource):
    """The binlog of some tables of one server."""

    needs_order = False

    def __init__(
        self, connection: ConnectionOptions, options: FeedOptions, tables: Sequence[TableSchema]
    ) -> None:
        super().__init__(connection, options)
        self._tables = {(one.schema, one.name): one for one in tables}

    def open(self, position: str) -> ServerFrontier:
        """Open the stream after a position, or after all that is executed now without one."""
        if not position:
            return self._open((), self.executed())
        with self._control.lend() as session:
            start = frontier_of(session, position, address=self._connection.address, whole=False)
        return self._open((), start)

    def _parser(
        self,
        mappings: Sequence[TableMapping],  # noqa: ARG002 - a migration's
        start: ServerFrontier,
    ) -> BinlogParser:
        def compile_codec(found: TableMap) -> RowCodec:
            return RowCodec.for_schema(found, self._tables[found.schema, found.table])

        followed = {wire.name_key(*name): name for name in self._tables}
        return BinlogParser(compile_codec, start, followed, collations=self.collations)


@dataclass(eq=False)
class _Rows:
    """Rows that were written: the first ones by their keys, and how many more."""

    shown: list[str] = field(default_factory=list)
    more: int = 0

    def add(self, what: str) -> None:
        if what in self.shown:
            return
        if len(self.shown) < _SHOWN:
            self.shown.append(what)
        else:
            self.more += 1

    def take(self, other: _Rows) -> None:
        for one in other.shown:
            self.add(one)
        self.more += other.more


class OldTableWrites:
    """Reads the binlog beside the archive of old tables, from a place on; :meth:`close` it.

    Without a ``position`` it begins after all that is executed now. ArchiveFailure where the binlog
    has that place no more.
    """

    def __init__(
        self,
        connection: ConnectionOptions,
        options: FeedOptions,
        tables: Sequence[TableSchema],
        *,
        position: str,
        stop: StopSwitch,
    ) -> None:
        self._names = {(one.schema.lower(), one.name.lower()) for one in tables}
        self._shown = ", ".join(one.full_name for one in tables)
        self._patience, self._stop = options.wait_timeout, stop
        self._changed = threading.Condition()
        # Of committed transactions, of the one that is read, and of those that are prepared.
        self._rows, self._read = _Rows(), _Rows()
        self._prepared: dict[str, _Rows] = {}
        self._fault: BaseException | None = None
        self._closed = False
        self._stream = _OldTables(connection, options, tables)
        try:
            self._received: Any = self._stream.open(position).copy()
        except SpiritError as error:
            self._stream.close()
            raise unknown(self._shown, error.message) from error
        body = partial(self._stream.run, self._take, lambda: None)
        self._thread = Background("old-table-writes", lambda _: body(), failed=self._failed)
        self._thread.start()

    def require_none(self, session: SqlSession | None = None) -> None:
        """Raise an ArchiveFailure if anybody wrote to one of the tables up to now.

        Where ``session`` has them locked, nobody can until it lets them go.
        """
        try:
            target = self._stream.executed(session)
        except FeedFailure as error:
            raise unknown(self._shown, error.message) from error
        with self._changed:
            seen, deadline = "", time.monotonic() + self._patience
            while not self._received.reaches(target):
                self._stop.check()
                if (unlogged := self._stream.unlogged) is not None:
                    self._received.absorb(unlogged)
                if self._fault is not None:
                    raise unknown(self._shown, _said(self._fault)) from self._fault
                if (now := self._received.text()) != seen:
                    seen, deadline = now, time.monotonic() + self._patience
                if time.monotonic() > deadline:
                    raise unknown(self._shown, "the server does not send its binlog")
                self._changed.wait(_LOOK_SECONDS)
            found = _Rows()
            for xid, rows in self._prepared.items():
                found.add(f"an XA transaction that is not decided yet ({xid})")
                found.take(rows)
            found.take(self._rows)
            if found.shown:
                self._refuse(found)

    @property
    def position(self) -> str:
        """The place in the binlog up to which it has read."""
        with self._changed:
            return str(self._received.text())

    def close(self) -> None:
        """End the thread and its sessions; safe to call again."""
        if self._closed:
            return
        # Once: a server that was restarted since gives the same numbers to sessions of others.
        self._closed = True
        self._stream.close()
        if self._thread.running:
            self._thread.join()

    def _take(self, event: Event) -> bool:
        with self._changed:
            match event:
                case events.RowsChanged():
                    self._note(event)
                case events.StatementSeen():
                    self._statement(event)
                case events.Hidden(error=error):
                    self._read.add(error.message)
                case events.Restarted():
                    self._read = _Rows()
                case events.Committed(place=place):
                    self._rows.take(self._read)
                    self._read = _Rows()
                    self._reached(place)
                case events.XaPrepared(place=place, xid=xid):
                    if self._read.shown:
                        self._prepared[xid] = self._read
                    self._read = _Rows()
                    self._reached(place)
                case events.XaDecided(place=place, xid=xid, commit=commit):
                    rows = self._prepared.pop(xid, _Rows())
                    if commit:
                        self._rows.take(rows)
                    self._reached(place)
                case events.Advanced(place=place):
                    self._reached(place)
        return True

    def _reached(self, place: Place) -> None:
        self._received.advance(place)
        self._changed.notify_all()

    def _note(self, event: RowsChanged) -> None:
        for change in event.codec.rows(event.event_type, event.body):
            image = change.before or change.after
            key = image.key_sql if image is not None and image.key else "a row"
            self._read.add(f"{key} of {'.'.join(event.table)} ({change.kind})")

    def _statement(self, event: StatementSeen) -> None:
        """Note a write without row images, unless it is certain that another table is its target.

        Of DDL, a new name and an exchanged partition: rows come under that name, and it may come
        back. For others the table's number and its definition are compared.
        """
        read = readings(event)
        if any(self._moves(one) for one in read):
            self._read.add(f"perhaps rows, under another name: {event.excerpt}")
        if not any(one.writes for one in read):
            return
        found = [target_of(sql, event.schema) for sql in event.texts] if event.certain else []
        if all(found) and found:
            targets = {(one.schema.lower(), (one.table or "").lower()) for one in found if one}
            if not targets & self._names:
                return
        self._read.add(f"perhaps rows, in STATEMENT format: {event.excerpt}")

    def _moves(self, statement: Statement) -> bool:
        """Return whether one of the tables is renamed or exchanged, but not by the swap itself."""
        names = [(one.schema.lower(), (one.table or "").lower()) for one in statement.names]
        if statement.verb == "RENAME":
            return bool(self._names.intersection(names[::2]))
        # Of EXCHANGE PARTITION either table may be the second one.
        moved = statement.verb == "ALTER" and len(names) > 1
        return moved and not self._names.isdisjoint(names)

    def _refuse(self, found: _Rows) -> None:
        more = f" and {counted(found.more, 'other')}" if found.more else ""
        raise ArchiveFailure(
            f"somebody wrote to {self._shown} after the swap: {'; '.join(found.shown)}{more}",
            hint="these rows would go with the old table: see which of them are missing, and write"
            " them to the table by hand; then spirit-py cleanup --drop-old drops the old one",
        )

    def _failed(self, error: BaseException) -> None:
        with self._changed:
            self._fault = error
            self._changed.notify_all()


def unknown(tables: str, why: str) -> ArchiveFailure:
    """Return the error where nobody knows whether old tables were written to."""
    return ArchiveFailure(
        f"whether anybody wrote to {tables} after the swap is not known: {why}",
        hint="run the same command again; where the binlog is gone, see that nobody did, and drop"
        " the old table with spirit-py cleanup --drop-old",
    )


def _said(fault: BaseException) -> str:
    return fault.message if isinstance(fault, SpiritError) else repr(fault)


def await_writers(session: Session, *, tables: Sequence[TableSchema]) -> None:
    """Wait for transactions that wrote before: the rows of a prepared one are not logged again."""
    try:
        session.execute(f"LOCK TABLES {', '.join(f'{one.quoted} READ' for one in tables)}")
    except ServerFault as fault:
        if not holds_up(fault):
            raise
        names = ", ".join(one.full_name for one in tables)
        raise unknown(names, "a transaction of it does not end (see XA RECOVER)") from fault
    session.execute("UNLOCK TABLES")
