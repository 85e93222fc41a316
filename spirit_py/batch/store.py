"""The table that keeps a batch until all of it is done: its rows, found on the server by its mark.

The state of a table is written before and after each step that changes it, so that the same command
knows after any end, ``kill -9`` too, what is done. A table counts as done by what was proven while
it was changed, never by its definition now: ``ENGINE=InnoDB`` leaves no trace in it.

``running`` is written with the definition of then; the same command resumes by the checkpoint, or
else by :mod:`spirit_py.batch.trial`. ``changed`` is written before the checkpoint is dropped.
"""

from __future__ import annotations

import json
import logging
import re
import shlex
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from spirit_py import points
from spirit_py.checkpoint.codec import UnreadableCheckpoint, from_text
from spirit_py.checkpoint.table import RecordTable
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.command_config import FleetOrders
from spirit_py.errors import Refusal, ServerFault, SpiritError
from spirit_py.mysql.faults import (
    ABSENT_TABLE,
    NO_SUCH_KEY,
    connection_lost,
    excused,
    server_away,
)
from spirit_py.mysql.tables.identity import doubtful, looked_at, marked
from spirit_py.sql import quote_table
from spirit_py.statement.rewrite import FOREIGN_KEY
from spirit_py.table.names import OfTable, digest_of, require_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.table.names import Name

_Row = TypeVar("_Row")
_DIGITS = 12
_DIGEST = re.compile(r"(?:[0-9a-f]{32})?")
_PREFIX = "_spirit_py_batch_"
SUMS: Final = (
    "rows_copied", "chunks", "changes_received", "changes_applied", "checksum_rows",
    "differences_found", "chunks_repaired",
)  # fmt: skip
"""What a batch sums up of its tables' reports."""


class TableState(StrEnum):
    """How far a table of a batch is."""

    PENDING = "pending"
    RUNNING = "running"
    CHANGED = "changed"
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class BatchRecord:
    """What identifies a batch.

    ``home`` is the schema of its table: a copy in another schema is not the batch's. ``asked`` is
    the request, for people; ``started_at`` is ISO 8601, UTC; ``runs`` counts this one too.
    ``fleet`` is the digest of one change for many servers, empty for none.
    """

    home: str
    server_uuid: str
    asked: str
    started_at: str
    runs: int
    parallel: int
    on_failure: str
    program: str
    fleet: str = ""

    def __post_init__(self) -> None:
        """Refuse the row of a fleet that cannot be."""
        if not _DIGEST.fullmatch(self.fleet):
            raise ValueError("a fleet is noted as a digest")


@dataclass(frozen=True, kw_only=True)
class TableRecord(OfTable):
    """One table of a batch.

    ``outcome``, ``error`` and ``report`` (JSON) are of its last migration, empty before the first.
    ``before`` and ``after`` are :func:`form_of` its definition at the start, and of what the
    statement makes of it.
    """

    statement: str
    state: str = TableState.PENDING.value
    outcome: str = ""
    error: str = ""
    before: str = ""
    after: str = ""
    report: str = ""

    def __post_init__(self) -> None:
        """Refuse the row of a table that cannot be."""
        require_names(self.schema, self.table)
        if self.state not in set(TableState):
            raise ValueError(f"there is no state {self.state!r}")
        if not all(map(_DIGEST.fullmatch, (self.before, self.after))):
            raise ValueError("a definition is noted as a digest")
        if self.report and not _is_report(self.report):
            raise ValueError("the report of a table cannot be read")


def _is_report(text: str) -> bool:
    """Return whether a text is a report as far as a batch sums up, and shows, what it says."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    numbers = (*SUMS, "lock_held_ms", "exit_code")
    return isinstance(found, dict) and (
        all(isinstance(found.get(name, 0), (int, float)) for name in numbers)
        and isinstance(found.get("details", []), list)
    )


def form_of(shape: str, foreign_keys: str = "") -> str:
    """Return a digest of a definition without the counter; foreign keys may be those of another."""
    keys = FOREIGN_KEY.findall(foreign_keys or shape)
    return digest_of((FOREIGN_KEY.sub("", shape), keys))


def batch_name(kind: str, parts: Iterable[str]) -> str:
    """Return the name of the table that keeps a batch: the same for the same request."""
    return f"{_PREFIX}{digest_of((kind, sorted(parts)))[:_DIGITS]}"


_log = logging.getLogger(__name__)

#: So many records are read in one query: each locks its table until the end.
_AT_A_TIME: Final = 100
#: Bytes of all rows of a batch together; more are not read.
_LONGEST: Final = 1 << 28
_MARK: Final = "spirit-py batch"
_RECORD_ID: Final = 1
#: Not 0, for which the server would take the next number.
_ORDERS_ID: Final = -1


def marked_tables(session: SqlSession, name: str = "") -> list[Name]:
    """Return the tables with the mark of a batch, of this name or of all names."""
    return marked(session, _MARK, name=name)


def find_batch(session: SqlSession, name: str, schemas: Collection[str]) -> BatchTable | None:
    """Return the table of a batch that is not done yet; None where there is none.

    The record's name can be guessed, so only those in ``schemas`` of the batch count (R26). Refusal
    where it cannot be read, or there are two of it.
    """
    named = marked_tables(session, name)
    for elsewhere in (BatchTable(*one) for one in named if one[0] not in schemas):
        _log.warning(
            "%s has the name of this batch's record and is not read: the batch changes no table in"
            " that schema; see who created it",
            elsewhere,
        )
    tables = [BatchTable(*one) for one in named if one[0] in schemas]
    # Others are copies, or what a run left that was killed before it wrote a row.
    found = [one for one in tables if (kept := _kept(session, one)) and kept.home == one.name[0]]
    if len(found) > 1:
        raise Refusal(
            "the record of this batch exists twice: " + ", ".join(str(one) for one in found),
            hint="see which of them is the older one, and drop it",
            error_code=ErrorCode.BATCH_RECORD,
        )
    return found[0] if found else None


def refuse_others(session: SqlSession, name: str, wanted: Collection[Name]) -> list[str]:
    """Refuse tables of another, unfinished batch; warn where its record may be forged.

    Return what such records say (R26): the operator may know which of them are true.
    """
    schemas = {schema for schema, _ in wanted}
    others = [BatchTable(*one) for one in marked_tables(session) if one[1] != name]
    for table in others:
        if table.name[0] in schemas and (text := _shared(session, table, wanted)):
            record = _kept(session, table)
            if record is not None and record.fleet:
                raise Refusal(
                    f"{text}; it is a part of a change for many servers",
                    hint="finish that with its own command, or give it up: spirit-py ctl --fleet"
                    " LIST forget",
                    error_code=ErrorCode.BATCH_RECORD,
                )
            raise Refusal(
                text,
                hint="finish that one with its own command (with --tables: and --exclude for"
                " tables that cannot be changed); to give it up, as an edited file needs:"
                f" spirit-py cleanup --batch {shlex.quote(str(table))}, then this command without"
                " the tables that it has changed",
                error_code=ErrorCode.BATCH_RECORD,
            )

    claims: list[str] = []

    def says(name: Name) -> str:
        table = BatchTable(*name)
        if not (text := _shared(session, table, wanted)):
            return ""
        claims.append(f"as {table} says, {text}; see who created it")
        return claims[-1]

    def unread(name: Name, error: SpiritError) -> str:
        return f"{BatchTable(*name)} has the mark of a batch and cannot be read: {error}"

    elsewhere = [one.name for one in others if one.name[0] not in schemas]
    with doubtful(session):
        for text in filter(None, looked_at(_naming(session, elsewhere, schemas), says, unread)):
            _log.warning("%s", text)
    return claims


def _naming(session: SqlSession, names: Sequence[Name], schemas: Collection[str]) -> Iterator[Name]:
    """Yield the records that name one of these schemas, or cannot be read, many in a query.

    The servers of a fleet may be hundreds of schemas of one server, each with its record.
    """
    texts = [json.dumps(one, ensure_ascii=False) for one in schemas]
    named = " OR ".join(["LOCATE(%s, record) > 0"] * len(texts))
    for first in range(0, len(names), _AT_A_TIME):
        together = names[first : first + _AT_A_TIME]
        reads = [
            f"(SELECT {number} FROM {quote_table(*name).replace('%', '%%')} FORCE INDEX (PRIMARY)"
            f" WHERE id > {_RECORD_ID} AND ({named}) LIMIT 1)"
            for number, name in enumerate(together)
        ]
        try:
            rows = session.query(" UNION ALL ".join(reads), texts * len(reads))
        except ServerFault as fault:
            if connection_lost(fault) or server_away(fault):
                raise
            yield from together
        else:
            yield from (together[int(number)] for (number,) in rows)


def _kept(session: SqlSession, table: BatchTable) -> BatchRecord | None:
    """Return the row of a batch; None for one that has ended since its table was seen."""
    return excused(lambda: table.read(session), None, ABSENT_TABLE)


def _shared(session: SqlSession, table: BatchTable, wanted: Collection[Name]) -> str:
    record = _kept(session, table)
    if record is None or record.home != table.name[0]:
        return ""
    nothing: dict[Name, TableRecord] = {}
    found = excused(lambda: table.tables(session), nothing, ABSENT_TABLE)
    shared = sorted(set(wanted) & found.keys())
    if not shared:
        return ""
    changed = [one for one in shared if found[one].state == TableState.DONE]
    some = f", and has changed {len(changed)} ({_some(changed)})" if changed else ""
    return (
        f"another, unfinished batch has {len(shared)} of these tables ({_some(shared)}){some}:"
        f" {record.asked} (its record is {table})"
    )


def _some(names: Sequence[Name]) -> str:
    return ", ".join(".".join(one) for one in names[:3]) + (", ..." if len(names) > 3 else "")


class BatchTable(RecordTable):
    """Reads and writes the table of one batch."""

    MARK = _MARK

    def __init__(self, schema: str, name: str) -> None:
        super().__init__(schema, name)
        self._ids: dict[Name, int] = {}

    def create(
        self, session: SqlSession, record: BatchRecord, orders: FleetOrders | None = None
    ) -> None:
        """Create the table and write the row; drop one that a killed run left without a row.

        ``orders``: of the fleet, which hold from the beginning.
        """
        self.drop(session)
        self.make(session)
        if orders is not None:
            self.order(session, orders)
        self.replace(session, _RECORD_ID, record)
        points.reach("batch.created")

    def begin_again(self, session: SqlSession, uuid: str, fleet: str = "") -> int:
        """Note that another run begins on a server, perhaps of a fleet; return which one it is."""
        record = self.read(session)
        if record is None:
            return 1
        fleet, runs = fleet or record.fleet, record.runs + 1
        self.replace(session, _RECORD_ID, replace(record, server_uuid=uuid, runs=runs, fleet=fleet))
        return runs

    def join(self, session: SqlSession, fleet: str) -> None:
        """Note of which fleet the batch is a part, where it is noted otherwise."""
        record = self.read(session)
        if record is not None and record.fleet != fleet:
            self.replace(session, _RECORD_ID, replace(record, fleet=fleet))

    def note(self, session: SqlSession, table: TableRecord) -> None:
        """Replace the row of a table, or add it."""
        number = self._ids.setdefault(table.name, max(self._ids.values(), default=_RECORD_ID) + 1)
        points.reach("batch.noting")
        self.replace(session, number, table)
        points.reach("batch.noted")

    def forget(self, session: SqlSession, tables: Iterable[Name]) -> None:
        """Delete the rows of tables that do not belong to the batch any more."""
        for name in tables:
            session.execute(f"DELETE FROM {self.quoted} WHERE id = {self._ids[name]}")

    def read(self, session: SqlSession) -> BatchRecord | None:
        """Return the row of the batch; None before it is written; Refusal if it is unreadable."""
        try:
            return self._row(session, _RECORD_ID, BatchRecord)
        except ServerFault as fault:
            # A view, or a table without this key: not made by a batch.
            if fault.code != NO_SUCH_KEY:
                raise
            return None

    def order(self, session: SqlSession, orders: FleetOrders) -> None:
        """Replace the orders of a fleet."""
        self.replace(session, _ORDERS_ID, orders)

    def orders(self, session: SqlSession) -> FleetOrders:
        """Return the orders of a fleet; Refusal where they cannot be read."""
        return self._row(session, _ORDERS_ID, FleetOrders) or FleetOrders()

    def _row(self, session: SqlSession, number: int, kind: type[_Row]) -> _Row | None:
        # The hint keeps a view from being read: see CheckpointTable.
        sql = f"SELECT record FROM {self.quoted} FORCE INDEX (PRIMARY) WHERE id = {number}"
        self._require_size(session)
        rows = session.query(sql)
        return self._understood(rows[0][0], kind) if rows else None

    def _understood(self, text: object, kind: type[_Row]) -> _Row:
        try:
            return from_text(str(text), kind)
        except UnreadableCheckpoint as error:
            raise self._unreadable(error) from error

    def require_server(self, session: SqlSession, uuid: str) -> None:
        """Raise Refusal for another server's record, unless this one has taken over from it.

        Then its tables came with the record, by replication. A copy of the schema proves nothing
        about the tables of other schemas (R14).
        """
        record = self.read(session)
        if record is None or record.server_uuid == uuid:
            return
        ((executed,),) = session.query("SELECT @@GLOBAL.gtid_executed")
        if record.server_uuid not in str(executed):
            raise Refusal(
                f"the record {self} was written on server {record.server_uuid}, and this is server"
                f" {uuid}, whose GTIDs do not show that it has taken over from that one",
                hint=f"if {self} is a copy, drop it; otherwise see which tables are changed here,"
                " drop it, and leave these out with --exclude",
                error_code=ErrorCode.BATCH_RECORD,
            )

    def tables(self, session: SqlSession) -> dict[Name, TableRecord]:
        """Return the rows of the tables; Refusal where one cannot be read."""
        self._require_size(session)
        rows = session.query(
            f"SELECT id, record FROM {self.quoted} FORCE INDEX (PRIMARY)"
            f" WHERE id > {_RECORD_ID} ORDER BY id"
        )
        found: dict[Name, TableRecord] = {}
        for number, text in rows:
            record = self._understood(text, TableRecord)
            found[record.name] = record
            self._ids[record.name] = int(number)
        return found

    def _require_size(self, session: SqlSession) -> None:
        ((size,),) = session.query(
            f"SELECT COALESCE(SUM(LENGTH(record)), 0) FROM {self.quoted} FORCE INDEX (PRIMARY)"
        )
        if int(size) > _LONGEST:
            raise self._unreadable(ValueError(f"it has {size} bytes"))

    def _unreadable(self, error: Exception) -> Refusal:
        return Refusal(
            f"the record of a batch in {self} cannot be read: {error}",
            hint="run the version of spirit-py that wrote it, or forget which tables it has"
            f" changed: spirit-py cleanup --batch {shlex.quote(str(self))}",
            error_code=ErrorCode.BATCH_RECORD,
        )
