"""Hands the events of a stream to subscriptions, visibility gate and ledger, in stream order.

An event is handed on completely or not at all ("Rollback" in docs/change-feed.md).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from spirit_py.binlog import events
from spirit_py.binlog.statements import TableFinder
from spirit_py.binlog.writes import StatementWrites
from spirit_py.binlog.xa import XaTransactions
from spirit_py.errors import HandOverFailed, HiddenChange, SchemaChanged, UnreadableChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spirit_py.binlog.events import Event, Place, RowsChanged, StatementSeen, Table
    from spirit_py.binlog.statements import Touch
    from spirit_py.binlog.xa import XaRows
    from spirit_py.feed.ledger import Epoch, Ledger
    from spirit_py.feed.shared import EventStore, Shared

_log = logging.getLogger(__name__)

HAND_OVER_TRIES: Final = 10
"""Times that one event is tried before the feed fails: with the pauses between, about a minute."""
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 15.0
_GET_EVENTS: Final = 1024
_AFRESH: Final = "SET binlog_format=ROW in that client, then start the migration again"
_AGAIN: Final = (
    "%s; the changes since the last acknowledged transaction are read again in %.1f s"
    " (try %d of %d)"
)


class Dispatcher:
    """Handles one event after the other; called by one thread, changes state under ``lock``.

    ``wait_for_room`` waits without the lock. ``xa_memory`` is in bytes, for each XA transaction.
    Once ``ended`` (the swap was seen) nothing is taken in. ``lag`` is in seconds from commit to
    receipt. ``trouble`` is why a batch is tried again. ``unaltered`` looks, for a table, whether it
    is as it was, and nothing else is attached to it.
    """

    def __init__(
        self,
        shared: Shared,
        ledger: Ledger,
        *,
        passable: Iterable[Table],
        wait_for_room: Callable[[], None],
        xa_memory: int,
        pause: Callable[[float], object],
        unaltered: Mapping[Table, Callable[[], bool]] = MappingProxyType({}),
        behind_swap: bool = False,
    ) -> None:
        stream, subscriptions = shared.stream, shared.subscriptions
        self._lock = shared.lock
        self._subscriptions = subscriptions
        self._merging = [one for one in subscriptions if one.mapping.merging]
        self._ledger = ledger
        self._gate = shared.gate
        self._finder = TableFinder(
            subscriptions.by_table, ignore_case=stream.ignore_case, referred=not behind_swap
        )
        tables = [(t.schema, t.name) for m in subscriptions.mappings for t in (m.source, m.target)]
        self._both = TableFinder(tables, ignore_case=stream.ignore_case)
        self._writes = StatementWrites(
            passable,
            self._both.has,
            ignore_case=stream.ignore_case,
            onward="run the same command again with {} to resume after the statement",
            give_up="spirit-py cleanup drops the copy made so far",
        )
        self._behind_swap = behind_swap
        self._passes = stream.passes
        self._unknown_decision = stream.unknown_decision
        self._wait_for_room = wait_for_room
        self._pause = pause
        self._unaltered = unaltered
        self._xa = XaTransactions(xa_memory)
        #: Session and text of the swap that is under way, and whether the stream is as it was then.
        self._own: tuple[int, str, bool] | None = None
        self.ended = False
        self.rebuilt: Counter[Table] = Counter()
        self._handed_on = self._tries = 0
        self.lag: float | None = None
        self.trouble = ""

    def expect_own_ddl(self, session_id: int, sql: str) -> None:
        """Let the swap of this session pass; it ends the feed."""
        self._own = session_id, sql, True

    def forget_own_ddl(self) -> None:
        """Let nothing pass any more."""
        self._own = None

    def run(self, store: EventStore[Event]) -> None:
        """Hand on what the store holds, batch after batch, until it is closed."""
        while not store.closed:
            batch = store.get(_GET_EVENTS, timeout=1.0)
            if not batch:
                continue
            try:
                self._hand_on(batch)
                store.ack()
                self._handed_on = 0
            except Exception as error:
                store.rollback()
                if not isinstance(error, HandOverFailed) or store.closed:
                    raise
                self._try_again(error)

    def _hand_on(self, batch: Sequence[Event]) -> None:
        before = at = self._handed_on
        try:
            for event in islice(batch, before, None):
                self.deliver(event)
                at += 1
        finally:
            self._handed_on = at
            if at > before:
                self._tries, self.trouble = 0, ""

    def _try_again(self, error: HandOverFailed) -> None:
        self._tries, self.trouble = self._tries + 1, error.message
        if self._tries >= HAND_OVER_TRIES:
            raise error
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (self._tries - 1))
        _log.warning(_AGAIN, error.message, pause, self._tries + 1, HAND_OVER_TRIES)
        self._pause(pause)

    def deliver(self, event: Event) -> None:
        """Take one event; raise what the migration cannot go on after."""
        if self.ended:
            return
        match event:
            case events.RowsChanged():
                self._rows(event)
            case events.Began(place, xid):
                if xid:
                    self._xa.begin()
                with self._lock:
                    self._gate.received(place)
                    self._ledger.began()
            case events.Committed(place, cascaded):
                self._committed(place, cascaded=cascaded)
                self.lag = max(0.0, time.time() - (place.committed_at or place.executed_at))
            case events.Advanced(place):
                self._committed(place)
                self.lag = 0.0
            case events.XaPrepared(place, xid):
                self._prepared(place, xid)
            case events.XaDecided():
                self._decided(event)
            case events.StatementSeen():
                self._statement(event)
            case events.Hidden(place, hidden):
                self._hidden(hidden, place)
            case events.Restarted():
                self._restarted()
            case events.Failed(error):
                raise error

    def _rows(self, event: RowsChanged) -> None:
        if not self._xa.keep(event):
            self._take_in(event, None, event.place)

    def _take_in(self, event: RowsChanged, epoch: Epoch | None, decided: Place) -> None:
        try:
            changes = event.codec.rows(event.event_type, event.body)
        except HiddenChange as hidden:
            self._hidden(hidden, decided)
            return
        except MemoryError as error:
            raise HandOverFailed(
                f"there is not enough memory to read {len(event.body)} bytes of changed rows",
                hint="give the process more memory, then run the same command again",
            ) from error
        followers = self._subscriptions.by_table[event.table]
        self._wait_for_room()
        with self._lock:
            for subscription in followers:
                subscription.receive(changes, epoch or self._ledger.current, event.doubt)

    def _hidden(self, hidden: HiddenChange, place: Place) -> None:
        if not self._passes(place):
            where = f"before {place.file}:{place.offset} {place.gtid}".strip()
            hidden.details = (*hidden.details, where)
            raise hidden
        _log.warning("skipped, left to the checksum: %s", hidden.message)
        with self._lock:
            for subscription in self._subscriptions:
                subscription.note_unread(self._ledger.current)

    def _committed(self, place: Place, *, cascaded: bool = False) -> None:
        if (rows := self._xa.receiving) is not None:  # XA COMMIT ... ONE PHASE
            self._replay(rows, None, place)
            self._xa.end()
        with self._lock:
            self._gate.received(place)
            self._ledger.committed(place)
            self._transaction_ended(cascaded=cascaded)
            self._lock.notify_all()

    def _transaction_ended(self, *, cascaded: bool) -> None:
        for subscription in self._merging:
            subscription.buffer.transaction_ended()
        for subscription in self._subscriptions:
            subscription.in_doubt.transaction_ended(cascaded=cascaded)

    def _replay(self, rows: XaRows, epoch: Epoch | None, decided: Place) -> None:
        for event in rows.replay():
            self._take_in(event, epoch, decided)

    def _prepared(self, place: Place, xid: str) -> None:
        with self._lock:
            self._gate.received(place)
            if self._xa.prepared(xid):
                self._ledger.prepared(xid, place)
            else:
                self._ledger.committed(place)
            self._lock.notify_all()

    def _decided(self, event: events.XaDecided) -> None:
        if not (self._xa.knows(event.xid) or self._behind_swap) and event.commit:
            fault = self._unknown_decision(event.xid, event.place)
            if fault is not None:
                raise fault
        if (rows := self._xa.rows(event.xid)) is not None:
            with self._lock:
                self._gate.received(event.place)
                epoch = self._ledger.epoch_of(event.xid)
            if event.commit:
                self._replay(rows, epoch, event.place)
        self._xa.forget(event.xid)
        with self._lock:
            self._ledger.decided(event.xid)
            self._ledger.committed(event.place)
            # It is not known what else was in the statements of rows that were set aside.
            self._transaction_ended(cascaded=True)
            self._lock.notify_all()

    def _statement(self, event: StatementSeen) -> None:
        touch = self._finder.find(event)
        with self._lock:
            self.rebuilt.update(self._both.rebuilt(event))
        if self._is_own(event, touch) or self._was_vain(touch):
            return
        if touch is None:
            try:
                self._writes.take(event)
            except HiddenChange as hidden:
                if event.prepared:
                    raise UnreadableChange(hidden.message, hint=_AFRESH) from hidden
                self._hidden(hidden, event.place)
            return
        what = "changed the definition of" if touch.certain else "may have changed"
        doubt = "" if touch.certain else ", in a statement that cannot be parsed for certain"
        raise SchemaChanged(
            f"another session {what} {'.'.join(touch.table)}{doubt}:"
            f" {event.excerpt} ({event.where})",
            hint="let that change finish, then start the migration again",
        )

    def _was_vain(self, touch: Touch | None) -> bool:
        """Whether DDL has changed nothing; one of the table itself counts as a rebuild (R25)."""
        look = self._unaltered.get(touch.table) if touch is not None and touch.vain else None
        if touch is None or look is None or not look():
            return False
        with self._lock:
            self.rebuilt[touch.table] += touch.alters
        return True

    def _is_own(self, event: StatementSeen, touch: Touch | None) -> bool:
        """Whether it is of the swap that is under way; the RENAME itself ends the feed."""
        if self._own is None or event.session_id != self._own[0]:
            return False
        _, sql, uninterrupted = self._own
        # In a packet of several statements the log has the text with the white space behind it.
        if sql in {text.strip() for text in event.texts}:
            with self._lock:
                self.ended = True
                self._lock.notify_all()
            return True
        # Texts of that session may be unreadable; after a restart its number proves nothing (R24).
        return uninterrupted and touch is not None and not touch.certain

    def _restarted(self) -> None:
        if (own := self._own) is not None:
            self._own = own[0], own[1], False
        self._xa.end()
        with self._lock:
            self._ledger.abandoned()
            for subscription in self._merging:
                subscription.buffer.transaction_abandoned()
            for subscription in self._subscriptions:
                subscription.in_doubt.transaction_abandoned()

    def close(self) -> None:
        """Drop the rows of XA transactions that were set aside."""
        self._xa.close()
