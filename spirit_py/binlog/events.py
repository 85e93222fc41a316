"""The interface of a stream, and its events (design section 4).

A transaction is ``Began RowsChanged* Committed`` or ``Began RowsChanged* XaPrepared``, with
``XaDecided`` later; without a row of a followed table it is one :class:`Committed`. Between
transactions there are ``StatementSeen``, ``Advanced`` and ``Restarted``.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from spirit_py.classes import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from spirit_py.binlog.codec.rows import RowCodec
    from spirit_py.contracts import Origin, SqlSession
    from spirit_py.errors import FeedFailure, HiddenChange, SpiritError
    from spirit_py.progress import Retention
    from spirit_py.table.keys import ComparableKey
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.values import KeyWeights

Table: TypeAlias = tuple[str, str]
"""Schema and table, as the server stores the names."""


@dataclass(frozen=True, slots=True)
class Place:
    """The end of an event in a binlog file, with its transaction.

    ``tsid`` is ``uuid`` or ``uuid:tag``; without GTIDs it is empty, and ``number`` 0.
    ``executed_at`` is the event's Unix time on the server, in seconds; ``committed_at`` that of the
    commit, to the microsecond, or 0 where the server has not written it.
    """

    file: str
    offset: int
    tsid: str = ""
    number: int = 0
    executed_at: int = 0
    committed_at: float = field(default=0.0, compare=False)

    @property
    def gtid(self) -> str:
        """The transaction's GTID; empty without one."""
        return f"{self.tsid}:{self.number}" if self.tsid else ""


@dataclass(frozen=True, slots=True)
class Began:
    """A transaction with rows of a followed table begins; ``xid`` is empty for a plain one."""

    place: Place
    xid: str = ""


class Doubt(enum.IntEnum):
    """Whether the server may lack changed rows that it logged; :mod:`spirit_py.binlog.cascades`."""

    NONE = 0
    BESIDE = 1
    CASCADED = 2


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """Rows of one followed table, encoded; ``body`` is without header and checksum."""

    table: Table
    event_type: int
    body: bytes
    codec: RowCodec
    place: Place = Place("", 0)
    doubt: Doubt = Doubt.NONE


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction is complete; ``cascaded``: a foreign key's cascade may have been in it."""

    place: Place
    cascaded: bool = False


@dataclass(frozen=True, slots=True)
class XaPrepared:
    """The rows since ``Began`` wait for the decision on ``xid`` (R8)."""

    place: Place
    xid: str


@dataclass(frozen=True, slots=True)
class XaDecided:
    """The transaction ``xid`` is committed or rolled back. Ends a transaction of its own."""

    place: Place
    xid: str
    commit: bool


@dataclass(frozen=True, slots=True)
class StatementSeen:
    """A statement in text: DDL, or DML that was logged in STATEMENT format (R13, R14).

    :class:`Committed` follows separately. ``other`` is the text in UTF-8, if that differs. Unless
    ``certain``, only the ASCII in ``sql`` is what the server read. ``prepared``: in an XA
    transaction. ``plain_backslash``: the session's ``sql_mode`` has NO_BACKSLASH_ESCAPES.
    """

    place: Place
    schema: str
    sql: str
    session_id: int
    plain_backslash: bool = False
    other: str = ""
    certain: bool = True
    ansi_quotes: bool = False
    prepared: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """Everything that its bytes may say."""
        return (self.sql, self.other) if self.other else (self.sql,)

    @property
    def excerpt(self) -> str:
        """The beginning, on one line."""
        return " ".join(self.sql[:1000].split())[:200]

    @property
    def where(self) -> str:
        """Who ran it, and its place."""
        return f"session {self.session_id} at {self.place.file}:{self.place.offset}"


@dataclass(frozen=True, slots=True)
class Hidden:
    """Rows that are not in the stream; ``error`` is raised if they may not be passed over."""

    place: Place
    error: HiddenChange


@dataclass(frozen=True, slots=True)
class Advanced:
    """The stream moved without a transaction: a new file, a heartbeat."""

    place: Place


@dataclass(frozen=True, slots=True)
class Restarted:
    """The stream was opened again after the last complete transaction; later events come again."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The stream has failed; all events before the fault were delivered."""

    error: SpiritError


Completed: TypeAlias = Committed | XaPrepared | XaDecided | Advanced
"""What moves the position."""
Event: TypeAlias = Completed | Began | RowsChanged | StatementSeen | Hidden | Restarted | Failed


def is_boundary(event: Event) -> bool:
    """Return whether no transaction is incomplete after the event."""
    return not isinstance(event, (Began, RowsChanged, StatementSeen, Hidden))


def weight(event: Event) -> int:
    """Return the bytes that an event is counted with in the event store."""
    match event:
        case RowsChanged(body=body):
            return len(body) + 200
        case StatementSeen(sql=sql):
            return len(sql) + 200
        case _:
            return 200


class Frontier(Protocol):
    """Everything of one stream up to some point, to which a ledger adds. Mutable."""

    def advance(self, place: Place) -> None:
        """Add the transaction that ends at a place."""

    def absorb(self, later: Self) -> None:
        """Add everything of a later part of the stream."""

    def empty(self) -> Self:
        """Return a frontier of the same kind that nothing was added to."""

    def copy(self) -> Self:
        """Return an independent copy."""

    def reaches(self, target: Self) -> bool:
        """Return whether everything of the target is included."""

    def text(self) -> str:
        """Return the opaque position of this point; empty when there is none."""


class Stream(Protocol):
    """One kind of source: its positions, its events, and what the server has executed.

    ``begin`` or ``resume`` first, then ``run`` in the reader thread, and the rest in other threads.
    One interface because what is read and asked are of one server, whose past both must know.
    """

    #: Transactions have identifiers that a reader of the source can wait for (R3).
    has_gtids: bool
    #: Table names differ in more than case.
    ignore_case: bool

    def begin(self, mappings: Sequence[TableMapping]) -> Frontier:
        """Choose a place that cannot miss a commit (R2), and open the stream there."""

    def resume(
        self,
        mappings: Sequence[TableMapping],
        position: str,
        settled: str = "",
        *,
        pass_hidden: bool = False,
    ) -> Frontier:
        """Open the stream at a position, before this run writes; raises PositionNotFound."""

    def unknown_decision(self, xid: str, place: Place) -> FeedFailure | None:
        """Return the error for an XA COMMIT of a transaction never seen prepared (R8), or None."""

    def passes(self, place: Place) -> bool:
        """Return whether an unreadable change there was visible before the stream was resumed."""

    @property
    def written_by_others(self) -> AbstractSet[Table]:
        """The new tables written to from ``settled`` to ``resume``, once all that is received."""

    def run(self, emit: Callable[[Event], bool], heard: Callable[[], None]) -> None:
        """Emit events until closed; reconnects by itself."""

    def executed(self, session: SqlSession | None = None) -> Frontier:
        """Ask for everything that is committed and visible now; in the given session, if any."""

    def has_executed(self, received: Any, session: SqlSession) -> bool:
        """Return whether the source has executed, visibly, all of what was received (R25)."""

    def look(self) -> None:
        """Raise HistoryLost if the source may have lost commits, or its log is off or new (R25)."""

    @property
    def lapses(self) -> int:
        """How often rows may have been changed past the log since the stream was made (R25)."""

    @property
    def unlogged(self) -> Frontier | None:
        """What the source has executed that was never in its log; None as far as is known."""

    @property
    def origin(self) -> Origin:
        """What positions are of: the source's life and its log, to be known again (R25)."""

    def position_here(self, session: SqlSession) -> str:
        """Return the opaque position after everything that ``session`` finds executed."""

    def prove_visible(self, gtids: str) -> None:
        """Return once all received so far is visible; ``gtids``: what of it is not known to be."""

    def weigh(
        self, weights: KeyWeights, keys: Sequence[tuple[Any, ...]]
    ) -> Sequence[ComparableKey]:
        """Return the comparable forms of keys, in order (R6); one thread calls, and may wait."""

    def retention(self) -> Retention | None:
        """Ask how far the history reaches from the place that is read; None when unknown."""

    @property
    def reconnects(self) -> int:
        """How often the stream was opened again."""

    @property
    def traffic(self) -> tuple[int, int, int]:
        """Bytes received, those of them passed over as not followed, and of these our own."""

    @property
    def trouble(self) -> str:
        """Why the stream is not open now; empty while it is."""

    def close(self) -> None:
        """End ``run`` and every session."""
