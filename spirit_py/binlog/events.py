"""The events of a stream (design section 4). All are frozen, and delivered in stream order.

::

    transaction:  Began  RowsChanged*  Committed
                  Began  RowsChanged*  XaPrepared ...  XaDecided
    between:      StatementSeen  Advanced  Restarted

A transaction without a row of a followed table is one :class:`Committed`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from spirit_py.binlog.codec.rows import RowCodec
    from spirit_py.errors import HiddenChange, SpiritError

Table: TypeAlias = tuple[str, str]
"""Schema and table, as the server stores the names."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event is.

    Attributes:
        file: binlog file.
        offset: end of the event in the file, 64 bits.
        tsid: ``uuid`` or ``uuid:tag`` of its transaction; empty without GTIDs.
        number: number of its transaction; 0 without GTIDs.
        executed_at: Unix time of the event on the server, in seconds.
        committed_at: Unix time of its transaction's commit there, to the microsecond; 0 where the
            server has not written it.
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
    """A transaction with rows of a followed table begins.

    Attributes:
        xid: the XA identifier as the server writes it; empty for a plain transaction.
    """

    place: Place
    xid: str = ""


class Doubt(enum.IntEnum):
    """Whether the server may lack changed rows that it logged; :mod:`spirit_py.binlog.cascades`."""

    NONE = 0
    BESIDE = 1
    CASCADED = 2


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """Rows of one followed table, still encoded.

    Attributes:
        event_type: the binlog's event type, which says insert, update or delete.
        body: the event after its header, without checksum.
        codec: decodes the body.
        place: the end of the event, with its transaction; empty for rows that were set aside.
        doubt: whether the server may lack these changes.
    """

    table: Table
    event_type: int
    body: bytes
    codec: RowCodec
    place: Place = Place("", 0)
    doubt: Doubt = Doubt.NONE


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction is complete.

    Attributes:
        place: its end.
        cascaded: a foreign key's cascade may have been in it.
    """

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

    It is inside a transaction or instead of one; :class:`Committed` follows separately.

    Attributes:
        plain_backslash: the session's ``sql_mode`` has NO_BACKSLASH_ESCAPES.
        other: what the bytes say in UTF-8, when that is something else.
        certain: ``sql`` is what the server read; otherwise only its ASCII characters are.
        ansi_quotes: the mode has ANSI_QUOTES.
        prepared: it is part of an XA transaction that is decided later.
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
    """Rows of a followed table that are not in the stream.

    Attributes:
        error: what to raise where they may not be passed over.
    """

    place: Place
    error: HiddenChange


@dataclass(frozen=True, slots=True)
class Advanced:
    """The stream moved without a transaction: a new file, a heartbeat."""

    place: Place


@dataclass(frozen=True, slots=True)
class Restarted:
    """The stream was opened again after the last complete transaction.

    Later events are sent again.
    """


@dataclass(frozen=True, slots=True)
class Failed:
    """The stream has failed; all events before the fault were delivered."""

    error: SpiritError


Event: TypeAlias = (
    Began
    | RowsChanged
    | Committed
    | XaPrepared
    | XaDecided
    | StatementSeen
    | Hidden
    | Advanced
    | Restarted
    | Failed
)


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
