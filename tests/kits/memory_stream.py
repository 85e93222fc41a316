"""A change source without a server: the second implementation of the stream interface.

The test appends changes, which come out as events, numbered from 1. It serves
tests of everything above the stream, and shows that nothing there is MySQL's shape: positions
are numbers, and a change is already what it becomes.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from spirit_py.binlog.codec.rows import RowChange
from spirit_py.binlog.events import Began, Committed, Place, RowsChanged
from spirit_py.contracts import Origin
from spirit_py.errors import PositionNotFound
from spirit_py.progress import Retention
from spirit_py.table.values import RenderedRow
from tests.kits.waiting import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.binlog.events import Event, Table
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.values import KeyWeights


class MemoryImage(NamedTuple):
    """A row image that is rendered already."""

    key: tuple[Any, ...]
    sql: str = ""

    @property
    def key_sql(self) -> str:
        """The key as literals."""
        return f"({', '.join(str(value) for value in self.key)})"

    @property
    def size(self) -> int:
        """Bytes that the image counts."""
        return len(self.sql) + 100

    def render(self) -> RenderedRow:
        """Return the row."""
        return RenderedRow(sql=self.sql)


@dataclass
class CountFrontier:
    """How many transactions are known; implements the ledger's frontier."""

    count: int = 0

    def advance(self, place: Place) -> None:
        """Add a transaction, which are numbered without gaps."""
        self.count = max(self.count, place.offset)

    def absorb(self, later: CountFrontier) -> None:
        """Add what a later part brought."""
        self.count = max(self.count, later.count)

    def empty(self) -> CountFrontier:
        """Return a frontier at the beginning."""
        return CountFrontier()

    def copy(self) -> CountFrontier:
        """Return an independent copy."""
        return CountFrontier(self.count)

    def reaches(self, target: CountFrontier) -> bool:
        """Return whether this is at or behind the target."""
        return self.count >= target.count

    def text(self) -> str:
        """Return the opaque position."""
        return f"memory;{self.count}"


class _Prepared:
    """Stands where a codec decodes: the changes of an event are there already."""

    def __init__(self, changes: Sequence[RowChange]) -> None:
        self._changes = changes

    def rows(self, _: int, __: bytes) -> Sequence[RowChange]:
        """Return the changes."""
        return self._changes


def _set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass
class MemoryStream:
    """Implements :class:`spirit_py.binlog.events.Stream` over a list.

    Attributes:
        purged: transactions at the beginning that can no longer be sent.
        visible: transactions that a new reader sees; None for all of them.
        weighed: how many keys each question for weights had.
        may_weigh: questions for weights wait until it is set.
        unweighable: raised instead of an answer.
        unprovable: raised by proofs of visibility, one after the other.
    """

    purged: int = 0
    visible: int | None = None
    has_gtids: bool = False
    ignore_case: bool = False
    reconnects: int = 0
    trouble: str = ""
    traffic: tuple[int, int, int] = (0, 0, 0)
    written_by_others: frozenset[Table] = frozenset()
    proofs: int = 0
    weighed: list[int] = field(default_factory=list)
    may_weigh: threading.Event = field(default_factory=_set_event)
    unweighable: Exception | None = None
    unprovable: list[Exception] = field(default_factory=list)
    _transactions: list[list[Event]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _from: int = 0
    _passing: int = 0
    _closed: bool = False

    def commit(self, table: Table, *changes: RowChange) -> None:
        """Append a transaction with changes of one table."""
        with self._changed:
            number = len(self._transactions) + 1
            place = Place("memory.000001", number)
            codec: Any = _Prepared(changes)
            self._transactions.append(
                [Began(place), RowsChanged(table, 0, b"", codec), Committed(place)]
            )
            self._changed.notify_all()

    def append(self, *events: Event) -> None:
        """Append a transaction of given events."""
        with self._changed:
            self._transactions.append(list(events))
            self._changed.notify_all()

    def begin(self, mappings: Sequence[TableMapping]) -> CountFrontier:
        """Begin behind what is there."""
        self._from, self._closed = len(self._transactions), False
        return CountFrontier(self._from)

    def resume(
        self,
        mappings: Sequence[TableMapping],
        position: str,
        settled: str = "",
        *,
        pass_hidden: bool = False,
    ) -> CountFrontier:
        """Begin behind a position."""
        kind, _, count = position.partition(";")
        if kind != "memory" or not self.purged <= int(count) <= len(self._transactions):
            raise PositionNotFound(f"cannot resume from {position!r}", hint="start afresh")
        self._from, self._closed = int(count), False
        self._passing = len(self._transactions) if pass_hidden else 0
        return CountFrontier(self._from)

    def unknown_decision(self, xid: str, place: Place) -> None:
        """Know every XA transaction that was prepared before."""

    def passes(self, place: Place) -> bool:
        """Return whether a place is before the resumption."""
        return 0 < place.offset <= self._passing

    def run(self, emit: Callable[[Event], bool], heard: Callable[[], None]) -> None:
        """Emit transactions as they are appended."""
        at = self._from
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or len(self._transactions) > at)  # noqa: B023
                if self._closed:
                    return
                events = self._transactions[at]
            at += 1
            heard()
            for event in events:
                if not emit(event):
                    return

    def executed(self, session: SqlSession | None = None) -> CountFrontier:
        """Return how many transactions there are."""
        return CountFrontier(len(self._transactions))

    def has_executed(self, received: CountFrontier, session: SqlSession) -> bool:
        """Return that nothing is received that is not there."""
        return len(self._transactions) >= received.count

    def look(self) -> None:
        """Nothing is lost."""

    lapses = 0
    unlogged: CountFrontier | None = None

    @property
    def origin(self) -> Origin:
        """The one list."""
        return Origin()

    def position_here(self, session: SqlSession) -> str:
        """Return the place behind what there is."""
        return self.executed().text()

    def prove_visible(self, gtids: str) -> None:
        """Everything is visible at once."""
        if self.unprovable:
            raise self.unprovable.pop()
        self.proofs += 1

    def weigh(
        self, weights: KeyWeights, keys: Sequence[tuple[Any, ...]]
    ) -> Sequence[tuple[Any, ...]]:
        """Weigh texts by their letters, in whatever case; wait, or fail, as the test says."""
        self.weighed.append(len(keys))
        assert self.may_weigh.wait(DEADLINE)
        if self.unweighable is not None:
            raise self.unweighable
        return [tuple(str(value).casefold() for value in key) for key in keys]

    def retention(self) -> Retention | None:
        """Everything is kept."""
        return Retention(kept=None, age=0.0)

    def close(self) -> None:
        """End ``run``, and questions that wait."""
        self.may_weigh.set()
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def upsert(key: int | str, sql: str = "", *, before: int | str | None = None) -> RowChange:
    """Build an insert, or an update of the row that had the key ``before``."""
    old: Any = None if before is None else MemoryImage((before,))
    new: Any = MemoryImage((key,), sql or f"({key})")
    return RowChange("insert" if before is None else "update", old, new)


def delete(key: int | str) -> RowChange:
    """Build a delete."""
    old: Any = MemoryImage((key,))
    return RowChange("delete", old, None)
