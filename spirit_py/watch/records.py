"""Which tables ``spirit-py watch`` follows, from where, and its records as lines (R7, R8; pure)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spirit_py.binlog.position import GtidFrontier, GtidSet, with_log
from spirit_py.binlog.statements import ACCOUNTS, may_name
from spirit_py.units import in_json, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.binlog.codec.rows import RowChange, RowImage
    from spirit_py.binlog.events import Place, Table
    from spirit_py.binlog.position import LogFile, ServerFrontier
    from spirit_py.binlog.statements import Statement
    from spirit_py.table.schema import Column

Record: TypeAlias = dict[str, Any]
"""One event: names of fields to values that JSON can carry."""


def record(kind: str, position: str, place: Place | None = None, **fields: Any) -> Record:
    """Build an event; ``place`` is None for an event of the program's own."""
    made: Record = {"kind": kind, "position": position}
    if place is not None:
        made |= {"gtid": place.gtid or None, "file": place.file, "offset": place.offset}
        made["executed_at"] = utc_time(place.executed_at)
    return made | fields


def utc_time(seconds: int) -> str | None:
    """Return a Unix time as ISO 8601 in UTC; None for 0."""
    if not seconds:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def row_record(position: str, place: Place, table: Table, change: RowChange) -> Record:
    """Build the event of one changed row."""
    before, after = _columns(change.before), _columns(change.after)
    if change.before is not None and change.after is not None:
        stored = change.before.stored(), change.after.stored()
        for columns in (before, after):
            for column in columns or ():
                old, new = (values[column["name"]] for values in stored)
                column["changed"] = not _same(old, new)
    names = {"schema": table[0], "table": table[1]}
    return record(change.kind, position, place, **names, before=before, after=after)


def _columns(image: RowImage | None) -> list[Record] | None:
    if image is None:
        return None
    codec, values = image.codec, image.values()
    return [
        {
            "name": column.name,
            "ordinal": column.ordinal,
            "type": column.column_type,
            "is_key": column.name in codec.key_names,
            "is_null": (value := values[column.name]) is None,
            "changed": True,
            **_shown(value, column),
        }
        for column in codec.schema.columns
    ]


def _same(value: Any, other: Any) -> bool:
    """Compare stored values; 0.0 and -0.0 are two."""
    return bool(value == other) and repr(value) == repr(other)


def _shown(value: Any, column: Column) -> Record:
    match value:
        case None | str():
            return {"value": value}
        case {"hex": digits, "charset": charset}:
            return {"value": digits, "encoding": "hex", "charset": charset}
        case {"hex": digits}:
            return {"value": digits, "encoding": "hex"}
        case float():
            return {"value": repr(value)}
        case int() if column.data_type == "year":
            return {"value": f"{value:04}"}
        case int() if column.data_type == "enum":
            return {"value": str(value), "encoding": "ordinal"}
        case _:
            return {"value": str(value)}


_LONGEST = 200


class Line(NamedTuple):
    """A record's text, without the line's end, and the position that it has."""

    text: str
    position: str


def as_json(found: Record) -> Line:
    """Write a record as one line of JSON."""
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return Line(in_json(text), found["position"])


def as_text(found: Record) -> Line:
    """Write a record as one line of text; long values are cut."""
    when = found.get("executed_at") or "-"
    where = ".".join(found[name] for name in ("schema", "table") if found.get(name))
    said = [when, found["kind"], where, _row(found)]
    said += [" ".join(str(found[name]).split()) for name in ("xid", "sql", "note") if name in found]
    if found.get("doubt"):
        said.append("(in doubt)")
    if found["kind"] in _WITH_POSITION:
        said.append(f"position {found['position']}")
    elif found.get("gtid"):
        said.append(f"gtid {found['gtid']}")
    elif found.get("file"):
        said.append(f"at {found['file']}:{found['offset']}")
    # Names, statements and values are whatever somebody has written.
    return Line(one_line("  ".join(part for part in said if part)), found["position"])


_WITH_POSITION = frozenset({"start", "end", "heartbeat", "restarted"})


def _row(found: Record) -> str:
    before, after = found.get("before"), found.get("after")
    columns = after or before
    if not columns:
        return ""
    keys = [_pair(column) for column in (before or columns) if column["is_key"]]
    if before is None or after is None:
        rest = [_pair(column) for column in columns if not column["is_key"]]
    else:
        pairs = zip(before, after, strict=True)
        rest = [f"{_pair(old)} -> {_value(new)}" for old, new in pairs if new["changed"]]
    return ", ".join(keys) + (": " if keys and rest else "") + ", ".join(rest)


def _pair(column: Record) -> str:
    return f"{column['name']}={_value(column)}"


def _value(column: Record) -> str:
    if column["is_null"]:
        return "NULL"
    text = column["value"]
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return f"X'{text}'" if column.get("encoding") == "hex" else json.dumps(text, ensure_ascii=False)


class Scope:
    """One table, one schema, or everything: an empty name stands for all."""

    def __init__(self, database: str, table: str, *, ignore_case: bool) -> None:
        self._ignore_case = ignore_case
        self._database = self._fold(database)
        self._table = self._fold(table)

    def _fold(self, name: str) -> str:
        return name.lower() if self._ignore_case else name

    def covers(self, schema: str, table: str | None) -> bool:
        """Return whether a table is followed; None for all tables of the schema."""
        if self._database and self._fold(schema) != self._database:
            return False
        return not self._table or table is None or self._fold(table) == self._table

    def touched(self, statement: Statement, schema: str) -> bool:
        """Whether DDL is about what is followed; without a table, about its default schema.

        That of accounts is about none: its text has passwords, or digests of them.
        """
        if statement.names:
            return any(self.covers(name.schema, name.table) for name in statement.names)
        return statement.kind not in ACCOUNTS and not self._table and self.covers(schema, None)

    def may_be_touched(self, sql: str, schema: str) -> bool:
        """Return whether DDL of unknown characters may be about what is followed."""
        if self._table:
            return may_name(sql, self._database, self._table)
        return self.covers(schema, None) or may_name(sql, self._database, self._database)

    def __str__(self) -> str:
        if not self._database:
            return "all schemas"
        return f"{self._database}.{self._table}" if self._table else f"schema {self._database}"


class TableNames(dict[bytes, "Table"]):
    """The followed tables by the names in their table maps, tested by pattern."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self._scope = scope
        self._skipped: set[bytes] = set()

    def __contains__(self, name: object) -> bool:
        """Return whether the table is followed, from the bytes of :func:`wire.table_name`."""
        if super().__contains__(name):
            return True
        if name in self._skipped or not isinstance(name, bytes):
            return False
        table = read_name(name)
        if self._scope.covers(*table):
            self[name] = table
            return True
        self._skipped.add(name)
        return False


def read_name(name: bytes) -> Table:
    """Read schema and table from the names in a table map."""
    size = name[0]
    return name[1 : 1 + size].decode(), name[3 + size : -1].decode()


class Progress:
    """The position after the last complete transaction, never past an undecided XA one."""

    def __init__(
        self, start: ServerFrontier, log: Callable[[], LogFile | None] = lambda: None
    ) -> None:
        self.received: Any = start.copy()
        self._log = log
        self._undecided: dict[str, tuple[Place, str]] = {}
        self._text = ""

    def advance(self, place: Place) -> None:
        """Note that a transaction is complete, or that the stream advanced between two."""
        self.received.advance(place)
        self._text = ""

    def absorb(self, unlogged: ServerFrontier | None) -> None:
        """Note what is executed and was never in the binlog: the stream does not bring it."""
        if unlogged is not None and not self.received.reaches(unlogged):
            self.received.absorb(unlogged)
            self._text = ""

    def prepared(self, xid: str, place: Place) -> None:
        """Note that an XA transaction is prepared and undecided."""
        self._undecided[xid] = (place, self.received.text())
        self.advance(place)

    def decided(self, xid: str, place: Place) -> None:
        """Note that an XA transaction is decided."""
        self._undecided.pop(xid, None)
        self.advance(place)

    def text(self) -> str:
        """Return the opaque position."""
        if not self._text:
            log = self._log()
            self._text = with_log(self._made(), log) if log else self._made()
        return self._text

    def _made(self) -> str:
        if not self._undecided:
            return str(self.received.text())
        held = list(self._undecided.values())
        if not isinstance(self.received, GtidFrontier):
            return held[0][1]
        holes = GtidSet()
        for place, _ in held:
            holes.add(place.tsid, place.number)
        safe = self.received.copy()
        safe.gtids.subtract(holes)
        return safe.text()
