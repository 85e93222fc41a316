"""Hands the events of a stream to subscriptions, gate and ledger, in stream order.

The transactions of one stream in a nutshell: rows of a plain transaction are taken in as they
come, because the server writes a transaction to the binlog only when it commits; the safe
position moves at its end. Rows of an XA transaction are kept aside until it is decided.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from spirit_py.binlog.events import (
    Advanced,
    Began,
    Committed,
    Failed,
    Hidden,
    Restarted,
    RowsChanged,
    StatementSeen,
    XaDecided,
    XaPrepared,
)
from spirit_py.binlog.xa import XaTransactions
from spirit_py.errors import FeedFailure, HiddenChange, SchemaChanged, UnreadableChange

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from spirit_py.binlog.events import Event, Place, Table
    from spirit_py.binlog.statements import TableFinder
    from spirit_py.binlog.writes import StatementWrites
    from spirit_py.binlog.xa import XaRows
    from spirit_py.feed.gate import VisibilityGate
    from spirit_py.feed.ledger import Epoch, Ledger
    from spirit_py.feed.subscription import TableSubscription


_log = logging.getLogger(__name__)
_AFRESH: Final = "SET binlog_format=ROW in that client, then start the migration again"


class Dispatcher:
    """Takes one event after the other; called by one thread, changes state under ``lock``.

    Args:
        writes: stops at a write in text that may not be passed over.
        passes: whether a change there that cannot be read may be passed over.
        park: waits, without the lock, until the buffers have room.
        knows_all_prepared: decisions on XA transactions that were never seen prepared may be
            passed over, because it is known that they have no rows that count.
        xa_memory: bytes of one XA transaction kept in memory.
    """

    def __init__(
        self,
        *,
        lock: threading.Condition,
        subscriptions: Mapping[Table, TableSubscription],
        ledger: Ledger,
        gate: VisibilityGate,
        finder: TableFinder,
        writes: StatementWrites,
        passes: Callable[[Place], bool],
        park: Callable[[], None],
        knows_all_prepared: bool,
        xa_memory: int,
    ) -> None:
        self._lock = lock
        self._subscriptions = subscriptions
        self._merging = [one for one in subscriptions.values() if one.mapping.merging]
        self._ledger = ledger
        self._gate = gate
        self._finder = finder
        self._writes = writes
        self._passes = passes
        self._park = park
        self._knows_all_prepared = knows_all_prepared
        self._xa = XaTransactions(xa_memory)
        self._without_rows: set[str] = set()
        self._own_sessions: set[int] = set()
        self._ended = False
        self.lag: float | None = None

    def expect_own_ddl(self, session_id: int) -> None:
        """Let DDL by this session pass."""
        self._own_sessions.add(session_id)

    def deliver(self, event: Event) -> None:
        """Take one event.

        Raises:
            SpiritError: what the migration cannot go on after.
        """
        if self._ended and not isinstance(event, (Committed, Advanced)):
            return
        match event:
            case RowsChanged():
                self._rows(event)
            case Began(place, xid):
                with self._lock:
                    self._gate.received(place)
                    self._ledger.began()
                if xid:
                    self._xa.begin()
            case Committed(place):
                self._committed(place)
                self.lag = max(0.0, time.time() - place.executed_at)
            case Advanced(place):
                self._committed(place)
                self.lag = 0.0
            case XaPrepared(place, xid):
                self._prepared(place, xid)
            case XaDecided():
                self._decided(event)
            case StatementSeen():
                self._statement(event)
            case Hidden(place, hidden):
                self._hidden(hidden, place)
            case Restarted():
                self._restarted()
            case Failed(error):
                raise error

    def _rows(self, event: RowsChanged) -> None:
        """Row changes, at once or aside."""
        if not self._xa.keep(event):
            self._take_in(event, None, event.place)

    def _take_in(self, event: RowsChanged, epoch: Epoch | None, decided: Place) -> None:
        """Decode row changes and buffer them.

        Args:
            decided: where it was decided that they count.
        """
        try:
            changes = event.codec.rows(event.event_type, event.body)
        except HiddenChange as hidden:
            self._hidden(hidden, decided)
            return
        subscription = self._subscriptions[event.table]
        self._park()
        with self._lock:
            subscription.receive(changes, epoch or self._ledger.current)

    def _hidden(self, hidden: HiddenChange, place: Place) -> None:
        """Pass over rows that cannot be read, where the tables will be compared as a whole.

        Raises:
            HiddenChange: where they may not be passed over.
        """
        if not self._passes(place):
            where = f"before {place.file}:{place.offset} {place.gtid}".strip()
            hidden.details = (*hidden.details, where)
            raise hidden
        _log.warning("passed over, to be found by the checksum: %s", hidden.message)
        with self._lock:
            for subscription in self._subscriptions.values():
                subscription.lose_sight(self._ledger.current)

    def _committed(self, place: Place) -> None:
        """The end of a transaction, or of nothing."""
        rows = self._xa.end()
        if rows is not None:  # XA COMMIT ... ONE PHASE
            self._replay(rows, None, place)
        with self._lock:
            self._gate.received(place)
            self._ledger.committed(place)
            self._transaction_ended()
            self._lock.notify_all()

    def _transaction_ended(self) -> None:
        """Tell those who need to know that what they have is whole; called under the lock."""
        for subscription in self._merging:
            subscription.buffer.transaction_ended()

    def _replay(self, rows: XaRows, epoch: Epoch | None, decided: Place) -> None:
        """Buffer the rows that were kept aside, and drop them there."""
        for event in rows.replay():
            self._take_in(event, epoch, decided)
        rows.close()

    def _prepared(self, place: Place, xid: str) -> None:
        """The end of an XA transaction's first half."""
        with self._lock:
            self._gate.received(place)
            if self._xa.prepared(xid):
                self._ledger.prepared(xid, place)
            else:
                self._without_rows.add(xid)
                self._ledger.committed(place)
            self._lock.notify_all()

    def _decided(self, event: XaDecided) -> None:
        """XA COMMIT brings the rows in; XA ROLLBACK drops them."""
        rows = self._xa.decided(event.xid)
        if rows is not None:
            with self._lock:
                self._gate.received(event.place)
                epoch = self._ledger.epoch_of(event.xid)
            if event.commit:
                self._replay(rows, epoch, event.place)
            rows.close()
        elif event.xid in self._without_rows:
            self._without_rows.remove(event.xid)
        elif event.commit and not self._knows_all_prepared:
            raise FeedFailure(
                f"XA transaction {event.xid} was prepared before the change feed began, and it"
                " may have changed the table",
                hint="GRANT XA_RECOVER_ADMIN to the account, so that the start can wait for such"
                " transactions; then start again",
            )
        with self._lock:
            self._ledger.decided(event.xid)
            self._ledger.committed(event.place)
            self._transaction_ended()
            self._lock.notify_all()

    def _statement(self, event: StatementSeen) -> None:
        """A statement in text: nobody else may change the table (R13, R14)."""
        touch = self._finder.find(event)
        if event.session_id in self._own_sessions:
            self._ended = self._ended or (touch is not None and touch.kind == "ddl")
            return
        if touch is None:
            try:
                self._writes.take(event)
            except HiddenChange as hidden:
                if event.prepared:
                    raise UnreadableChange(hidden.message, hint=_AFRESH) from hidden
                self._hidden(hidden, event.place)
            return
        what = "changed the definition of" if touch.kind == "ddl" else "may have changed"
        raise SchemaChanged(
            f"another session {what} {'.'.join(touch.table)}{touch.doubt}:"
            f" {event.excerpt} ({event.where})",
            hint="let that change finish, then start the migration again",
        )

    def _restarted(self) -> None:
        """The transaction received in part comes again, or never."""
        self._xa.abandon()
        with self._lock:
            self._ledger.abandoned()
            for subscription in self._merging:
                subscription.buffer.transaction_abandoned()

    def close(self) -> None:
        """Drop what is kept aside."""
        self._xa.close()
