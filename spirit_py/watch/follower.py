"""Turns the events of a stream into records, in order, each with its position."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.binlog.events import (
    Advanced,
    Began,
    Committed,
    Failed,
    Restarted,
    RowsChanged,
    StatementSeen,
    XaDecided,
    XaPrepared,
)
from spirit_py.binlog.statements import readings
from spirit_py.binlog.xa import XaTransactions
from spirit_py.errors import SchemaChanged, UnreadableChange
from spirit_py.watch.records import record, row_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.binlog.events import Event, Place
    from spirit_py.binlog.writes import StatementWrites
    from spirit_py.binlog.xa import XaRows
    from spirit_py.contracts import Clock
    from spirit_py.watch.definitions import Definitions
    from spirit_py.watch.records import Record
    from spirit_py.watch.scope import Progress, Scope

ONWARD: Final = "follow from a later position, or from now, without --from"
_XA_MEMORY: Final = 1 << 20
_OLDER: Final = "prepared before the start: its rows, if it has any, are not in this stream"


@dataclass(kw_only=True, eq=False)
class Follower:
    """Takes one event after the other, in one thread.

    Rows of an XA transaction are set aside, in a file when they are many, and printed at its XA
    COMMIT (R8). ``heartbeat`` is in seconds, 0 for never.
    """

    progress: Progress
    scope: Scope
    definitions: Definitions
    out: Callable[[Record], None]
    flush: Callable[[], None]
    forget: Callable[[], None]
    writes: StatementWrites
    heartbeat: float = 0.0
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._said_at = self.clock()
        self._open = False
        self._statements: list[StatementSeen] = []
        self._xa = XaTransactions(_XA_MEMORY)

    def deliver(self, event: Event) -> None:
        """Take one event; raise what the stream cannot go on after."""
        match event:
            case RowsChanged(place=place):
                self._rows(event, place)
            case Began(place, xid):
                self._began(place, xid)
            case Committed(place):
                self._committed(place)
            case Advanced(place):
                self.progress.advance(place)
                self._quiet(place)
            case XaPrepared(place, xid):
                self._prepared(place, xid)
            case XaDecided():
                self._decided(event)
            case StatementSeen():
                self._statement(event)
            case Restarted():
                self._restarted()
            case Failed(error):
                raise error

    def _say(self, kind: str, place: Place | None = None, **fields: object) -> None:
        self.out(record(kind, self.progress.text(), place, **fields))
        self._said_at = self.clock()

    def _began(self, place: Place, xid: str) -> None:
        if xid:
            self._xa.begin()
            return
        self._open = True
        self._say("begin", place)
        self._say_statements()

    def _rows(self, event: RowsChanged, place: Place) -> None:
        if not self._xa.keep(event):
            self._print_rows(event, place)

    def _print_rows(self, event: RowsChanged, place: Place) -> None:
        position = self.progress.text()
        for change in event.codec.rows(event.event_type, event.body):
            self.out(row_record(position, place, event.table, change))
        self._said_at = self.clock()

    def _committed(self, place: Place) -> None:
        if (rows := self._xa.receiving) is not None:  # XA COMMIT ... ONE PHASE
            self._replay(rows, place)
            self._xa.end()
        self.progress.advance(place)
        if self._open:
            self._say("commit", place)
            self.flush()
        elif self._statements:
            self._say_statements()
            self.flush()
        else:
            self._quiet(place)
        self._open = False
        self._statements.clear()

    def _replay(self, rows: XaRows, place: Place, **fields: object) -> None:
        self._open = True
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

    def _decided(self, event: XaDecided) -> None:
        place, xid = event.place, event.xid
        rows, known = self._xa.rows(xid), self._xa.knows(xid)
        if rows is not None and event.commit:
            self._replay(rows, place, xid=xid)
        self._xa.forget(xid)
        self._open = False
        self.progress.decided(xid, place)
        kind = "xa_commit" if event.commit else "xa_rollback"
        if rows is not None:
            self._say(kind, place, xid=xid)
            self.flush()
        elif not known:
            self._say(kind, place, xid=xid, note=_OLDER)
            self.flush()

    def _statement(self, event: StatementSeen) -> None:
        self.writes.take(event)
        found = [one for one in readings(event) if one.ddl]
        uncertain = not all(one.exact for one in found)
        if uncertain and self.scope.may_be_touched(event.sql, event.schema):
            raise SchemaChanged(
                "a session may have changed the definition of what is followed, in a text that"
                f" cannot be read for certain: {event.excerpt} ({event.where})",
                hint=ONWARD,
            )
        for one in found:
            if self.definitions.altered(one, event):
                self.forget()
        ours = [one for one in found if self.scope.touched(one, event.schema)]
        if not ours:
            return
        if any(one.fills for one in ours):
            raise UnreadableChange(
                "a session created and filled a table in STATEMENT format, without row images:"
                f" {event.excerpt} ({event.where})",
                hint=f"SET binlog_format=ROW in that client; {ONWARD}",
            )
        self._statements.append(event)
        if self._open:
            self._say_statements()

    def _say_statements(self) -> None:
        for event in self._statements:
            self._say("ddl", event.place, schema=event.schema, sql=event.sql)
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
