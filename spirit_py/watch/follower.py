"""The events of a binlog, and the records they become, in order."""

from __future__ import annotations

import re
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from spirit_py.binlog import events
from spirit_py.binlog.statements import ACCOUNTS, readings
from spirit_py.binlog.xa import XaTransactions
from spirit_py.classes import dataclass
from spirit_py.errors import SchemaChanged, UnreadableChange
from spirit_py.watch.records import Scope, record, row_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.binlog.events import Event, Place, RowsChanged, StatementSeen
    from spirit_py.binlog.statements import Statement
    from spirit_py.binlog.writes import StatementWrites
    from spirit_py.binlog.xa import XaRows
    from spirit_py.contracts import Clock
    from spirit_py.watch.definitions import Definitions
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
        uncertain = not all(one.exact or one.kind in ACCOUNTS for one in found)
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
        more = statement.verb == "ALTER" or statement.kind == "INDEX"
        anew = statement.kind == "TABLE" and statement.verb in {"CREATE", "DROP"}
        # Other names of an ALTER are those that it renames to, or exchanges a partition with.
        for name in statement.own[:1] if more else statement.own if anew else ():
            shadow = (name.schema, name.table or "")
            real = _SHADOW.fullmatch(shadow[1])
            if real is None or not self.scope.covers(name.schema, real[1]):
                continue
            if more:
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


_MOST_KEPT: Final = 100
_LONGEST_KEPT: Final = 1 << 16
#: Names of new tables of this program, of pt-online-schema-change, and of gh-ost.
_SHADOW: Final = re.compile(r"_(.+)_(?:new|gho)")
