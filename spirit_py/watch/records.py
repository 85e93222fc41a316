"""The records that ``spirit-py watch`` prints, and each as a line (design section 4; pure)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from spirit_py.binlog.codec.rows import RowChange, RowImage
    from spirit_py.binlog.events import Place, Table
    from spirit_py.table.schema import Column

Record: TypeAlias = dict[str, Any]
"""One event: names of fields to values that JSON can carry."""


def record(kind: str, position: str, place: Place | None = None, **fields: Any) -> Record:
    """Build an event; ``place`` is None for an event of the program's own."""
    made: Record = {"kind": kind, "position": position}
    if place is not None:
        made["gtid"] = place.gtid or None
        made["file"] = place.file
        made["offset"] = place.offset
        made["executed_at"] = utc_time(place.executed_at)
    return made | fields


def utc_time(seconds: int) -> str | None:
    """Return a Unix time as ISO 8601 in UTC; None for 0."""
    if not seconds:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def row_record(position: str, place: Place, table: Table, change: RowChange) -> Record:
    """Build the event of one changed row."""
    before = _values(change.before)
    after = _values(change.after)
    return record(
        change.kind,
        position,
        place,
        schema=table[0],
        table=table[1],
        before=_columns(change.before, before, after),
        after=_columns(change.after, after, before),
    )


def _values(image: RowImage | None) -> dict[str, Any] | None:
    return None if image is None else image.values()


def _columns(
    image: RowImage | None, values: dict[str, Any] | None, other: dict[str, Any] | None
) -> list[Record] | None:
    if image is None or values is None:
        return None
    codec = image.codec
    return [
        {
            "name": column.name,
            "ordinal": column.ordinal,
            "type": column.column_type,
            "is_key": column.name in codec.key_names,
            "is_null": (value := values[column.name]) is None,
            "changed": other is None or not _same(value, other[column.name]),
            **_shown(value, column),
        }
        for column in codec.schema.columns
    ]


def _same(value: Any, other: Any) -> bool:
    """Compare values; 0.0 and -0.0 are two."""
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
    return Line(text, found["position"])


def as_text(found: Record) -> Line:
    """Write a record as one line of text; long values are cut."""
    when = found.get("executed_at") or "-"
    where = ".".join(found[name] for name in ("schema", "table") if found.get(name))
    said = [when, found["kind"], where, _row(found)]
    said += [" ".join(str(found[name]).split()) for name in ("xid", "sql", "note") if name in found]
    if found["kind"] in _WITH_POSITION:
        said.append(f"position {found['position']}")
    elif found.get("gtid"):
        said.append(f"gtid {found['gtid']}")
    elif found.get("file"):
        said.append(f"at {found['file']}:{found['offset']}")
    return Line("  ".join(part for part in said if part), found["position"])


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
        rest = [
            f"{_pair(old)} -> {_value(new)}"
            for old, new in zip(before, after, strict=True)
            if new["changed"]
        ]
    return ", ".join(keys) + (": " if keys and rest else "") + ", ".join(rest)


def _pair(column: Record) -> str:
    return f"{column['name']}={_value(column)}"


def _value(column: Record) -> str:
    if column["is_null"]:
        return "NULL"
    text = column["value"]
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    if column.get("encoding") == "hex":
        return f"X'{text}'"
    return json.dumps(text, ensure_ascii=False)
